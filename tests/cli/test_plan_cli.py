"""``colltool plan``: what a person sees of a step, and what a script takes from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import colltool

TEXT = """\
model: {layers: 8, hidden: 1024, heads: 16, ffn: 4096, vocab: 32000}
sequence: 2048
batch: {global: 64, micro: 1}
layout: {tp: 2, sp: true, pp: 2}
device: h100
stack: megatron
measured: {step: 300ms}
"""
PLAN = ("plan", "mine.yaml", "-f", "dgx-h100")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(TEXT)
    return tmp_path


def test_a_step_with_its_control_and_what_to_change(run: Any, folder: Path) -> None:
    shown = run(*PLAN, "-n", "16").out
    assert shown.startswith("mine on 16 ranks of dgx-h100:\n  step ")
    for words in ("with a free network", "of the step is network", "what to change", "the busiest wire of each tier", "MFU",
                  "measured 300 ms: the plan is off by", "published runs of dense models"):  # fmt: skip
        assert words in shown


def test_the_document_adds_up_and_is_what_python_returns(run: Any, folder: Path) -> None:
    document = run(*PLAN, "-n", "16", "--format", "json").json
    assert sum(part["exposed_s"] for part in document["parts"]) == pytest.approx(document["step_s"])
    found = colltool.plan("mine.yaml", "dgx-h100", 16)
    assert document["step_s"] == found.step_s
    assert document["control_step_s"] == found.control_step_s
    assert document["memory_bytes"] == found.memory_bytes
    assert [one["change"] for one in document["changes"]] == [one.change for one in found.changes]


def test_values_of_the_job_and_of_the_fabric_are_overridden(run: Any, folder: Path) -> None:
    args = (*PLAN, "-n", "16", "--format", "json")
    slow = run(*args, "--set", "ib.bandwidth=5GB/s").json
    wide = run(*args, "--job-set", "layout.tp=4").json
    plain = run(*args).json
    assert slow["step_s"] > plain["step_s"]
    assert slow["set"] == {"ib.bandwidth": "5GB/s"}
    assert wide["job_set"] == {"layout.tp": "4"}
    assert wide["step_s"] != plain["step_s"]


def test_all_of_the_fabric_by_default(run: Any, folder: Path) -> None:
    assert run(*PLAN, "--format", "json", "--job-set", "batch.global=256").json["ranks"] == 256


def test_more_ranks_than_the_fabric_has(run: Any, folder: Path) -> None:
    done = run(*PLAN, "-n", "512", "--job-set", "batch.global=512")
    assert done.code == 2
    assert "--ranks: mine has 512 ranks, and dgx-h100 has 256" in done.err
    assert "--set ib.size=64" in done.err


def test_every_row_of_csv_names_its_job(run: Any, folder: Path) -> None:
    header, *rows = run(*PLAN, "-n", "16", "--format", "csv").out.splitlines()
    assert header.startswith("job,fabric,dimension,phase,primitive,group,ranks,stride,tiers,calls,bytes,")
    assert rows
    assert all(row.startswith("mine,dgx-h100,") for row in rows)
