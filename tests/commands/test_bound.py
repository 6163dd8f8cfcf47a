"""The cut bound where people and scripts see it."""

from __future__ import annotations

import json
from typing import Any

import pytest


@pytest.mark.parametrize("command", [("price", "ar"), ("breakdown", "ar")])
def test_every_result_has_its_bound(run: Any, command: tuple[str, ...]) -> None:
    document = json.loads(
        run(
            *command,
            "-f",
            "nvl72",
            "-n",
            "144",
            "-M",
            "1GB",
            "--library",
            "all",
            "--format",
            "json",
        ).out
    )
    found = document["results"]
    assert found
    for row in found:
        if row["status"] == "hypothetical":
            assert row["lower_bound_s"] is row["bound_ratio"] is None
        else:
            assert row["bound_ratio"] == pytest.approx(row["total_s"] / row["lower_bound_s"])
            assert row["bound_ratio"] >= 1
    assert len({row["lower_bound_s"] for row in found if row["lower_bound_s"]}) == 1


def test_explain_says_how_far_a_schedule_is_from_it(run: Any) -> None:
    asked = ("explain", "ring", "ar", "-f", "star512", "-M", "1GB", "--ideal")
    assert (
        "lower bound: no schedule on these links is faster than 1.111 ms; this one takes"
        in run(*asked, "--all").out
    )
    result = json.loads(run(*asked, "--format", "json").out)["primitives"][0]["result"]
    assert result["lower_bound_s"] == pytest.approx(1e9 / 900e9)
