"""``colltool job``: what a person sees of a job, and what a script takes from it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import colltool
from colltool.commands.completion import complete_job, complete_model
from colltool.training.calls import DIMENSIONS
from colltool.training.files.presets import preset_names
from colltool.training.job import load_job
from colltool.training.job_results import JobList, check_job, show_job

TEXT = """\
model: {layers: 8, hidden: 1024, heads: 16, ffn: 4096, vocab: 32000}
sequence: 2048
batch: {global: 64, micro: 1}
layout: {tp: 2, sp: true, pp: 2}
device: h100
stack: megatron
calls:
  - {primitive: ar, group: dp, size: 1MB, count: 10, time: 26.4ms}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(TEXT)
    return tmp_path


def test_a_job_is_shown_with_what_it_computes_sends_and_keeps(run: Any, folder: Path) -> None:
    shown = run("job", "show", "mine.yaml", "-n", "16", "--all").out
    assert "16 ranks: tp 2 (sp) x pp 2 x dp 4" in shown
    assert "16 micro-batches of 1 sequence" in shown
    assert "stage 0 (4 layers, embedding): forward" in shown
    assert "stage 1 (4 layers, head): forward" in shown
    assert "plain calls" in shown
    assert "26.4 ms" in shown
    assert "It fits: " in shown


def test_stages_of_one_kind_are_one_line(run: Any, folder: Path) -> None:
    shown = run(
        "job",
        "show",
        "mine.yaml",
        "-n",
        "16",
        "--set",
        "layout.pp=8",
        "--set",
        "layout.tp=1",
        "--all",
    ).out
    assert "stages 1-6 (1 layer): forward" in shown
    assert "mine with layout.pp=8, layout.tp=1" in shown


def test_a_job_that_does_not_fit_says_what_would(run: Any, folder: Path) -> None:
    args = (
        "job",
        "show",
        "mine.yaml",
        "-n",
        "32",
        "--set",
        "model=llama3-70b",
        "--set",
        "shard.mode=zero1",
    )
    done = run(*args)
    assert done.code == 0
    said = " ".join(done.out.split())
    assert "It does not fit: " in said
    assert re.search(r"mostly (weights|gradients); --job-set \S+.* makes it fit \(", said)
    document = run(*args, "--format", "json").json
    assert document["fits"] is False
    assert document["memory_bytes"] > document["capacity_bytes"]
    assert document["set"] == {"model": "llama3-70b", "shard.mode": "zero1"}


def test_a_job_that_never_fits_says_so(run: Any, folder: Path) -> None:
    done = run(
        "job",
        "show",
        "mine.yaml",
        "-n",
        "8",
        "--set",
        "model=llama3-405b",
        "--set",
        "layout.pp=2",
        "--all",
    )
    assert "take more ranks" in done.out


def test_the_document_sums_up(run: Any, folder: Path) -> None:
    document = run("job", "show", "mine.yaml", "-n", "16", "--format", "json").json
    worst = [
        part["bytes"] for part in document["memory"] if part["stage"] == document["worst_stage"]
    ]
    assert sum(worst) == document["memory_bytes"]
    assert [one["dimension"] for one in document["collectives"]] == sorted(
        (one["dimension"] for one in document["collectives"]), key=DIMENSIONS.index
    )
    assert document["calls"] == [
        {
            "primitive": "all_reduce",
            "dimension": "dp",
            "group": {"ranks": 4, "stride": 2, "axes": [[4, 2]]},
            "bytes": 1000000,
            "calls": 10,
            "time_s": 0.0264,
        }
    ]


def test_two_jobs_are_checked_and_all_their_errors_told(run: Any, folder: Path) -> None:
    Path("bad.yaml").write_text(TEXT.replace("tp: 2", "tp: 3"))
    Path("worse.yaml").write_text("modle: x\n")
    done = run("job", "check", "mine.yaml", "bad.yaml", "worse.yaml")
    assert (done.code, done.out) == (2, "")
    assert "bad.yaml:4:14: layout.tp: tp 3 does not divide heads 16" in done.err
    assert (
        "worse.yaml:1:1: unknown key 'modle'" in done.err
        or "worse.yaml:1:1: modle: unknown key 'modle'" in done.err
    )
    assert run("job", "check", "mine.yaml").out.startswith("mine.yaml: ok")


def test_what_is_odd_is_a_warning(run: Any, folder: Path) -> None:
    Path("odd.yaml").write_text(TEXT.replace("hidden: 1024", "hidden: 1040"))
    done = run("job", "check", "odd.yaml")
    assert done.code == 0
    assert "warning: odd.yaml:1:8: hidden is 1040, which is not a multiple of 64" in done.out
    assert (
        run("job", "check", "odd.yaml", "--format", "json").json["warnings"][0]["where"]
        == "odd.yaml:1:8"
    )


def test_nothing_is_written_over_what_is_read(run: Any, folder: Path) -> None:
    before = Path("mine.yaml").read_text()
    Path("model.yaml").write_text("{layers: 8, hidden: 1024, heads: 16, ffn: 4096, vocab: 32000}\n")
    Path("names.yaml").write_text("model: model.yaml\n" + TEXT.split("\n", 1)[1])
    for target in ("names.yaml", "model.yaml"):
        done = run("job", "show", "names.yaml", "-n", "16", "-o", target, "--format", "json")
        assert done.code == 2
        assert "is read by this command" in done.err
    assert Path("mine.yaml").read_text() == before


def test_results_in_python() -> None:
    shown = show_job(load_job("llama3-70b"), 512)
    columns = shown.to_columns()
    assert len({len(values) for values in columns.values()}) == 1
    assert set(columns["dimension"]) == {"tp", "vocab", "pp", "dp", "norm"}
    assert "llama3-70b on 512 ranks: tp 8 (sp) x pp 4 x dp 16, virtual 5" in shown.summary()
    assert "<table" in shown._repr_html_()
    assert repr(shown).startswith("<JobShown: llama3-70b on 512 ranks")
    assert JobList((colltool.load_job("llama3-70b"),)).summary() == "1 job: llama3-70b"
    assert check_job("gpt3-175b").warnings == ()


def test_completion_knows_the_shipped_jobs() -> None:
    assert complete_job("ll") == ["llama3-70b", "llama3-405b", "llama3-8b"]
    # as the files are listed where jobs are read
    assert complete_model("") == list(preset_names("models"))
    assert complete_job("") == list(dict.fromkeys([*preset_names("jobs"), *preset_names("models")]))
