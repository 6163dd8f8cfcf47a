"""``colltool plan --search``: what a person sees of it, what a script takes from it, and what it
says while it works."""

from __future__ import annotations

import csv
import io
import re
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from swept import swept

import colltool
from colltool.commands import output
from colltool.commands.completion import complete_keep
from colltool.training.strategies import RECOMPUTATIONS

TEXT = """\
model: {layers: 8, hidden: 1024, heads: 16, ffn: 4096, vocab: 32000}
sequence: 2048
batch: {global: 64, micro: 1}
layout: {tp: 2, sp: true, pp: 2}
device: h100
stack: megatron
"""
SEARCH = ("plan", "mine.yaml", "-f", "dgx-h100", "-n", "16", "--search")
FEW = (*SEARCH, "--keep", "tp=2", "--keep", "recompute=none")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(TEXT)
    return tmp_path


def test_the_best_ties_and_the_jobs_own(run: Any) -> None:
    done = run(*SEARCH, "--all")
    assert done.code == 0
    assert done.err == ""
    shown = done.out
    assert shown.startswith("mine on 16 ranks of dgx-h100: the fastest layout takes ")
    assert re.search(r"\d+ layouts fill the ranks; \d+ of them fit 85.9 GB", shown)
    assert re.search(
        r"\d+ layouts are within 3%, too close to call\.(?s:.*)within 3% differ in ", shown
    )
    assert re.search(
        r"own layout takes [\d.]+\s+ms \(\+\d(?s:.*)own layout: tp 2, pp 2, dp 4, micro-batch 1, ddp,"
        r" recompute none\n",
        shown,
    )
    assert len(re.findall(r"^\| +\d+ \|", shown, re.MULTILINE)) == 10
    assert " | best |" in shown
    assert " | tie " in shown


def test_the_printed_command_plans_the_best(run: Any) -> None:
    shown, found = run(*SEARCH, "--all").out, run(*SEARCH, "--format", "json").json
    pasted = pasted_from(shown, "full breakdown of this layout:")
    pairs = [word for word in pasted if "=" in word and not word.startswith("-")]
    assert pairs == [f"{key}={value}" for key, value in found["best_job_set"].items()]
    planned = run(*pasted, "--format", "json").json
    assert planned["step_s"] == found["best"]["step_s"]
    assert planned["memory_bytes"] == found["best"]["memory_bytes"]


def pasted_from(shown: str, title: str) -> list[str]:
    """The arguments of the command that stands below a title."""
    below = shown.partition(f"{title}\n")[2].partition("\n\n")[0]
    program, *words = shlex.split(below.replace("\\\n", " "))
    assert program == "colltool"
    return words


def test_a_job_that_has_the_best_already(run: Any) -> None:
    values = [
        f"--job-set={key}={value}"
        for key, value in run(*SEARCH, "--format", "json").json["best_job_set"].items()
    ]
    again = run(*SEARCH, *values)
    assert "The job has that layout already." in " ".join(again.out.split())
    assert run(*SEARCH, *values, "--format", "json").json["own"]["of_best"] == 0


def test_the_document_is_what_python_returns(run: Any) -> None:
    document = run(*FEW, "--top", "all", "--format", "json").json
    found = colltool.search_layouts("mine.yaml", "dgx-h100", 16, {"tp": 2, "recompute": "none"})
    assert document["kept"] == {"tp": "2", "recompute": "none"}
    assert (document["searched"], document["fit"], document["priced"]) == (
        found.valid,
        found.fit,
        found.priced,
    )
    assert [one["step_s"] for one in document["layouts"]] == [one.step_s for one in found.layouts]
    assert document["ties"] == sum(one["tie"] for one in document["layouts"]) == found.ties.layouts
    assert document["best"] == document["layouts"][0]
    rows = list(csv.DictReader(io.StringIO(run(*FEW, "--top", "3", "--format", "csv").out)))
    assert [float(row["step_s"]) for row in rows] == [one.step_s for one in found.layouts[:3]]
    assert rows[0]["job"] == "mine"
    assert [row["rank"] for row in rows] == ["1", "2", "3"]


def test_columns_that_say_nothing_are_left_out(run: Any) -> None:
    shown = run(*FEW, "--keep", "virtual=1").out
    header = next(
        line for line in shown.splitlines() if line.startswith("|  #") or line.startswith("| #")
    )
    assert "ep" not in header.replace("step", "")
    assert "virtual" not in header
    assert "recompute" not in header


@swept(
    ("args", "what", "fix"),
    [
        (
            ("--search", "--keep", "dp=4"),
            "--keep: no constraint is called 'dp'",
            "constraints: tp, sp,",
        ),
        (
            ("--search", "--keep", "shard=zero"),
            "--keep: shard cannot be 'zero'",
            "one of ddp, zero1",
        ),
        (("--search", "--keep", "tp"), "--keep: 'tp' is not NAME=VALUE", "write --keep tp=8"),
        (
            ("--search", "--keep", "pp=3"),
            "--keep: pp=3: tp x cp x pp = 3 does not divide 16 ranks",
            "sizes whose product",
        ),
        (
            ("--search", "--keep", "ep=2"),
            "--keep: no layout of mine on 16 ranks with ep=2",
            "the model has no experts",
        ),
        (("--search", "--top", "0"), "--top", ""),
        (("--search", "--top", "1,2"), "--top: takes one number here", "one number, or all"),
        (("--keep", "tp=2"), "--keep: acts only with --search", "add --search"),
        (("--top", "3"), "--top: acts only with --search", "add --search"),
    ],
)
def test_what_cannot_be_searched(run: Any, args: tuple[str, ...], what: str, fix: str) -> None:
    done = run("plan", "mine.yaml", "-f", "dgx-h100", "-n", "16", *args)
    assert (done.code, done.out) == (2, "")
    assert what in done.err
    assert fix in done.err


def test_a_shell_offers_what_can_be_kept() -> None:
    assert complete_keep("re") == [
        f"recompute={name}" for name, row in RECOMPUTATIONS.items() if row.whole
    ]
    assert complete_keep("tp") == ["tp="]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_for_terminals_and_for_what_takes_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said, piped, soon = Terminal(), io.StringIO(), Terminal()
    monkeypatch.setattr(sys, "stderr", soon)
    with output.ProgressLine("pricing layouts") as watch:
        watch(1, 4)
    monkeypatch.setattr(output, "FIRST_PROGRESS_S", 0.0)
    monkeypatch.setattr(output, "PROGRESS_INTERVAL_S", 0.001)
    monkeypatch.setattr(sys, "stderr", piped)
    with output.ProgressLine("pricing layouts") as watch:
        watch(1, 4)
        time.sleep(0.02)
    monkeypatch.setattr(sys, "stderr", said)
    with output.ProgressLine("plan"):
        # work that tells nothing of itself
        wait_for(lambda: "plan ... 0 s" in said.getvalue())
        with output.ProgressLine("pricing layouts") as watch:
            for done in (1, 3):
                watch(done, 4)
                wait_for(lambda done=done: f"{25 * done}%" in said.getvalue())
    assert soon.getvalue() == ""
    assert piped.getvalue() == ""
    lines = [line.rstrip() for line in said.getvalue().split("\r")]
    shown = list(dict.fromkeys(filter(None, lines)))
    assert shown[0] == "plan ... 0 s"
    assert "pricing layouts ... 25%, 0 s" in shown
    assert "pricing layouts ... 75%, 0 s" in shown
    assert lines[-1] == "", "what was written is gone"


def wait_for(holds: Callable[[], bool]) -> None:
    for _ in range(5000):
        if holds():
            return
        time.sleep(0.001)
    raise AssertionError("nothing was shown in five seconds")
