"""``colltool plan``: what a person sees of a step, and what a script takes from it."""

from __future__ import annotations

import re
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
    shown = run(*PLAN, "-n", "16", "--all").out
    assert shown.startswith(
        "mine on 16 ranks of dgx-h100 takes 300 ms per step (as measured; the model alone gives "
    )
    for words in (
        "with a free network",
        "the network takes ",
        "what to change",
        "how long the links of each tier are busy per step",
        "MFU",
        "measured 300 ms: the plan at ",
        "held-out published runs",
    ):
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
    args = (*PLAN, "-n", "16", "--format", "json", "--job-set", "measured.step=null")
    slow = run(*args, "--set", "ib.bandwidth=5GB/s").json
    wide = run(*args, "--job-set", "layout.tp=4").json
    plain = run(*args).json
    assert slow["step_s"] > plain["step_s"]
    assert slow["set"] == {"ib.bandwidth": "5GB/s"}
    assert wide["job_set"] == {"measured.step": "null", "layout.tp": "4"}
    assert wide["step_s"] != plain["step_s"]


def test_all_of_the_fabric_by_default(run: Any, folder: Path) -> None:
    assert run(*PLAN, "--format", "json", "--job-set", "batch.global=256").json["ranks"] == 256


def test_a_shipped_fabric_grows_to_the_ranks_that_are_asked(run: Any, folder: Path) -> None:
    asked = ("-n", "512", "--job-set", "batch.global=512")
    done = run("plan", "mine.yaml", "-f", "dgx-h100", *asked)
    told = "dgx-h100 has 256 ranks and grows to 64 nodes for this: -f dgx-h100:nodes=64"
    assert told in " ".join(done.out.split())
    typed = run("plan", "mine.yaml", "-f", "dgx-h100:nodes=64", *asked, "--format", "json").json
    grown = run("plan", "mine.yaml", "-f", "dgx-h100", *asked, "--format", "json").json
    assert grown["step_s"] == typed["step_s"]
    assert grown["set"] == typed["set"]


def test_the_machine_of_a_device_grows_too(run: Any) -> None:
    assert "grows to 128 nodes" in " ".join(
        run("plan", "llama3-70b", "-f", "h100", "-n", "1024").out.split()
    )


def test_a_size_that_was_given_does_not_grow(run: Any, folder: Path) -> None:
    asked = ("-n", "512", "--job-set", "batch.global=512")
    for fabric in (("dgx-h100:nodes=32",), ("dgx-h100", "--set", "ib.size=32")):
        done = run("plan", "mine.yaml", "-f", *fabric, *asked)
        assert done.code == 2
        assert "--ranks: mine has 512 ranks, and dgx-h100 has 256" in done.err
        assert "-f dgx-h100:nodes=64" in done.err


def test_every_row_of_csv_names_its_job(run: Any, folder: Path) -> None:
    header, *rows = run(*PLAN, "-n", "16", "--format", "csv").out.splitlines()
    assert header.startswith(
        "job,fabric,dimension,phase,primitive,group,ranks,stride,tiers,calls,bytes,"
    )
    assert rows
    assert all(row.startswith("mine,dgx-h100,") for row in rows)


def test_what_a_run_takes_and_what_it_rests_on(run: Any, folder: Path) -> None:
    args = (
        *PLAN,
        "-n",
        "16",
        "--format",
        "json",
        "--set",
        "ib.energy=30pJ/bit",
        "--job-set",
        "energy=true",
        "--job-set",
        "steps=100000",
        "--job-set",
        "compression.scheme=int8",
        "--job-set",
        "compression.extra_steps=5%",
    )
    document = run(*args).json
    found = document["compression"]
    assert found["ratio"] == found["times_fewer"] == 4
    assert document["run_s"] == pytest.approx(1.05e5 * document["step_s"])
    assert found["plain_run_s"] == pytest.approx(1e5 * found["plain_step_s"])
    assert found["gains"] is (found["extra_steps"] < found["break_even_extra_steps"])
    assert document["energy_J"] == pytest.approx(
        sum(one["energy_J"] or 0 for one in document["collectives"])
    )
    assert document["step_s"] == pytest.approx(0.3), "anchored at what the file says was measured"
    assert document["anchor"]["before_s"] == pytest.approx(0.3 * (1 + document["measured_error"]))
    assert (
        "nvlink has no energy figure and counts as 0; set nvlink.energy=30pJ/bit"
        in document["grounds"]
    )
    for part in document["parts"]:  # the collectives of the stages that set the pace are the parts
        paces = [
            one["exposed_s"]
            for one in document["collectives"]
            if one["dimension"] == part["name"] and one["paces"]
        ]
        assert not paces or sum(paces) == pytest.approx(part["exposed_s"])


BAD = {
    "layout.tp=3": "--job-set layout.tp=3: tp 3 does not divide heads 16",
    "layout.pp=9": "--job-set layout.pp=9: pipeline 9 is longer than the model's 8 layers",
    "layout.virtual=9": "--job-set layout.virtual=9: virtual 9",
    "layout.dp=8": "--job-set layout.dp=8: tp x cp x pp x dp = 32 does not fill 16 ranks",
    "layout.ep=2": "--job-set layout.ep=2: ep 2, and the model has no experts",
    "batch.global=63": (
        "--job-set batch.global=63: 63 sequences are not a multiple of micro 1 x dp 4 = 4"
    ),
    "batch.micro=48": "mine.yaml:3:17: batch.global: 64 sequences are not a multiple of micro 48",
    "overlap.cp=true": "--job-set overlap.cp=true: cp is 1: there is nothing to hide",
    "overlap.ep=true": "--job-set overlap.ep=true: ep is 1: there is nothing to hide",
    "model={parameters: 1.0e+9, layers: 8}": (
        "mine.yaml:4:14: layout.tp: tp 2 needs the size of activations"
    ),
    "measured.step=1us": (
        "--job-set measured.step=1us: a step of 1 us, and network and fixed time alone"
    ),
}


@pytest.mark.parametrize("value", BAD)
def test_what_does_not_fit_is_refused_where_it_was_said(run: Any, folder: Path, value: str) -> None:
    done = run(*PLAN, "-n", "16", "--job-set", value)
    assert done.code == 2
    assert not done.out
    assert f"error: {BAD[value]}" in done.err, done.err
    cure = done.err.split(BAD[value])[1].splitlines()[1]
    assert cure.startswith("  "), "and what fits"


@pytest.mark.parametrize(
    ("ranks", "says", "cure"),
    [
        (
            "18",
            "mine.yaml:4:9: layout: tp x cp x pp = 4 does not divide 18 ranks",
            "-n 16 or -n 32",
        ),
        (
            "12",
            "mine.yaml:3:17: batch.global: 64 sequences are not a multiple of micro 1 x dp 3 = 3",
            "global: 63",
        ),
    ],
)
def test_ranks_that_do_not_fit(run: Any, folder: Path, ranks: str, says: str, cure: str) -> None:
    done = run(*PLAN, "-n", ranks)
    assert done.code == 2
    assert says in done.err
    assert cure in done.err


def test_hiding_where_nothing_can_stands_in_its_line(run: Any, folder: Path) -> None:
    Path("mine.yaml").write_text(TEXT + "overlap: {dp: true, pp: true}\n")
    done = run(*PLAN, "-n", "4")
    assert (
        "mine.yaml:8:15: overlap.dp: dp x cp is 1: there are no gradient collectives to hide"
        in done.err
    )
    assert done.code == 2


@pytest.mark.parametrize("typed", ["layout.tp=4", "batch.global=128", "shard.mode=fsdp"])
def test_a_value_of_the_job_is_not_one_of_the_fabric(run: Any, folder: Path, typed: str) -> None:
    done = run(*PLAN, "--set", typed)
    assert (done.code, done.out) == (2, "")
    assert (
        done.err
        == f"error: --set: {typed.partition('.')[0]} belongs to the job, not to the fabric\n  write"
        f" --job-set {typed}\n"
    )
    # as of a tier of that name
    assert "unknown tier 'layout'" in run(*PLAN, "--set", "layout.alpha=1us").err


@pytest.mark.alike(2)
@pytest.mark.parametrize(
    "more",
    [
        (),
        ("--links",),
        ("--search", "--top", "5"),
        ("--vary", "alpha=2x"),
        (
            "--job-set",
            "model=llama3-70b",
            "--job-set",
            "batch.global=32",
            "--job-set",
            "measured.step=null",
        ),
    ],
)
def test_the_first_screen_is_one_of_80_columns_and_24_lines(
    run: Any, folder: Path, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = run(*PLAN, "-n", "16", *more)
    assert done.code == 0
    lines = done.out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("mine ")
    assert lines[-1].startswith("--all adds ") or lines[-2].startswith("--all adds ")


def test_a_step_that_does_not_fit_is_not_what_comes_first(run: Any, folder: Path) -> None:
    bigger = ("--job-set", "model=llama3-70b", "--job-set", "measured.step=null")
    said = " ".join(run(*PLAN, "-n", "16", *bigger).out.split())
    before, _, after = said.partition(" does not fit: stage ")
    assert " s " not in before
    assert re.match(r"\d needs \d+ GB of 85.9 GB per GPU; try ", after)
    assert "If it did fit, a step would take " in after


def test_the_bottleneck_is_named_only_where_it_is_sure() -> None:
    from colltool.render.views.plan_answer import slow_tier

    inside = {
        "layout": {"tp": 8, "dp": 8},
        "calls": [{"primitive": "ar", "group": "tp", "size": "64MB"}],
    }
    assert slow_tier(colltool.plan(inside, "dgx-h100", 64)) == "nvlink"
    over_both = {"layout": {"dp": 64}, "calls": [{"primitive": "ar", "group": "dp", "size": "1GB"}]}
    found = colltool.plan(over_both, "dgx-h100", 64)
    (sent,) = (one.sent for one in found.collectives)
    sure = len(sent.cost.busy) >= sum(count > 1 for count in sent.cost.per_domain)
    assert (slow_tier(found) is not None) == sure
