"""``colltool plan --links``: the table and the document, and nothing of them unasked."""

from __future__ import annotations

from typing import Any

import pytest

ASKED = ("plan", "mixtral-8x7b", "-f", "dgx-h100", "-n", "128")


def test_the_busiest_links_of_a_job(run: Any) -> None:
    shown = run(*ASKED, "--links").out
    assert "busiest link of each kind: all groups send at once, links at full rate" in shown
    document = run(*ASKED, "--links", "--format", "json").json
    links = document["busiest_links"]
    assert [(one["tier"], one["kind"]) for one in links][:2] == [
        ("nvlink", "ports"),
        ("ib", "ports"),
    ]
    for one in links:
        assert one["link"] in shown
        assert sum(one["by"].values()) == pytest.approx(one["bytes"])
        assert one["busy_s"] == pytest.approx(one["bytes"] / one["rate_Bps"])
        assert one["share"] == pytest.approx(one["busy_s"] / document["step_s"])
        assert one["over_mean"] >= 1
    assert isinstance(document["link_notes"], list)


def test_nothing_of_them_unasked(run: Any) -> None:
    assert "busiest_links" not in run(*ASKED, "--format", "json").json
    assert "busiest link of" not in run(*ASKED).out


def test_a_time_that_is_given_is_named(run: Any, tmp_path: Any) -> None:
    file = tmp_path / "calls.yaml"
    file.write_text(
        "layout: {dp: 16}\ncalls:\n  - {primitive: ar, group: dp, size: 1GB, time: 5ms}\n"
    )
    shown = run("plan", str(file), "-f", "dgx-h100", "--links").out
    assert "not counted: dp, because their time is given and their links are unknown" in shown
