"""The default view: the answer in a sentence, one table of 80 columns, and the rest behind
``--all``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

DATASHEET = Path(__file__).parent.parent / "data" / "datasheet"
NODE = DATASHEET.parent / "nccl-graph" / "vm80-pair.xml"
NVL = ("price", "ar", "-f", "nvl72", "-M", "16MB")
COMMANDS: dict[str, tuple[str, ...]] = {
    "price": NVL,
    "price winners": ("price", "ar", "-f", "dgx-h100"),
    "price sizes": ("price", "ar", "-f", "dgx-h100", "-n", "64", "-M", "1MB,1GB"),
    "breakdown": ("breakdown", "ar", "-f", "nvl72", "-n", "144", "-M", "16MB"),
    "crossover": ("crossover",),
    "expect": ("expect", "-f", "dgx-h100", "-n", "32"),
    "score": ("score",),
    "expect tests": ("expect", "-f", "nvl72", "-n", "144", "--test", "all"),
    "sweep": ("sweep", "ar", "-f", "dgx-h100", "-n", "8,64", "-M", "1MB,1GB"),
    "compare": ("compare", "ar", "-f", "dgx-h100", "-f", "nvl72", "-n", "64"),
    "sensitivity": (
        "sensitivity",
        "ar",
        "-f",
        "dgx-h100",
        "-n",
        "64",
        "-M",
        "16MB",
        "--samples",
        "500",
    ),
    "contention": ("contention", "-f", "torus512", "--axis", "1"),
    "verify": ("verify", "ar", "-f", "star512", "-n", "8"),
    "explain": ("explain", "ring", "ar", "-f", "dgx-h100", "-n", "64", "-M", "16MB"),
    "ladder": ("ladder",),
    "fabric show": ("fabric", "show", "dgx-h100"),
    "job show": ("job", "show", "llama3-70b", "-n", "256"),
    "price kernels": (
        "price",
        "ar",
        "-f",
        "hgx-h200",
        "-n",
        "4",
        "-M",
        "64KB",
        "--library",
        "vllm@0.24.0",
    ),
    "crossover kernels": ("crossover", "ar", "-f", "dgx-b200", "-n", "8", "--library", "vllm"),
    "reshard": (
        "reshard",
        "llama3-8b",
        "-f",
        "dgx-h100",
        "--from",
        "16",
        "--to",
        "16",
        "--replica",
        "8",
    ),
    "serve": (
        "serve",
        "llama3-70b",
        "-f",
        "hgx-h200",
        "--tp",
        "8",
        "--batch",
        "64",
        "--engine",
        "vllm@0.24.0",
    ),
    "library list": ("library", "list"),
    "library show": ("library", "show", "deepep"),
    "fabric size": ("fabric", "size", "--endpoints", "1024", "--radix", "64"),
    "fabric channels": ("fabric", "channels", str(NODE), "--nodes", "2"),
}


# what reads files, and plan: beside their other tests
ELSEWHERE = {"plan", "doctor", "trace", "calibrate", "validate", "diff"}
WRITES = {"report", "export", "guide", "schema", "mcp"}  # files, texts and a protocol


def test_every_command_answers_somewhere() -> None:
    from colltool.commands import app

    assert {args[0] for args in COMMANDS.values()} | ELSEWHERE | WRITES == set(app.COMMANDS)


@pytest.mark.alike(12)
@pytest.mark.parametrize("name", COMMANDS)
def test_opens_with_a_sentence_and_fits_80_columns(
    name: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = run(*COMMANDS[name])
    assert done.code == 0
    opening = done.out.partition("\n\n")[0]
    assert opening.endswith(".")
    assert not opening.startswith(("+", "|", " "))
    assert max(map(len, done.out.splitlines())) <= 80


def test_a_row_of_a_piped_table_is_a_line(run: Any) -> None:
    """As wide as it is, unless COLUMNS states a width."""
    lines = run(*NVL).out.splitlines()
    [tree] = [line for line in lines if line.startswith("| Tree ")]
    assert "556.3 us" in tree


def test_a_price_fits_one_screen(run: Any) -> None:
    out = run(*NVL).out
    assert len(out.splitlines()) <= 24
    assert out.startswith("NVLSTree (NCCL's pick): ")
    assert "few racks were measured" in " ".join(out.split())  # nobody published 32 of them
    assert "SHARP (NCCL_COLLNET_ENABLE=1): " in out


def test_what_the_answer_names_is_what_the_options_give(run: Any) -> None:
    """The times of the two lines under the ranking are those of the prices that they name."""
    plain = ("price", "ar", "-f", str(DATASHEET / "nvl72.yaml"), "-M", "16MB")
    for asked, option in ((NVL, ("--set", "library.collnet=true")), (plain, ("--library", "all"))):
        lines = run(*asked, "--all").out.splitlines()
        line = next(line for line in lines if line.endswith("; add " + " ".join(option)))
        assert f", {run(*asked, *option).out.split(': ')[1].split(' (')[0]}; add " in line
    assert not any(
        line.endswith("; add --library all") for line in run(*NVL, "--all").out.splitlines()
    )


def test_columns_and_documents_do_not_depend_on_all(run: Any) -> None:
    for form in ("json", "csv"):
        assert run(*NVL, "--format", form).out == run(*NVL, "--format", form, "--all").out


def test_a_trace_on_numbers(run: Any) -> None:
    """1 5 3 7, 2 6 4 8, 3 7 5 9 and 4 8 6 10 add up to 10 26 18 34."""
    ring = (
        "verify",
        "ar",
        "-f",
        "star512",
        "-n",
        "4",
        "--algorithm",
        "ring",
        "--trace",
        "--values",
    )
    last = [line for line in run(*ring, "--all").out.splitlines() if line.startswith("|    6 |")]
    assert last[0].count("0(10) 1(26) 2(18) 3(34)") == 4
    steps = run(*ring, "--format", "json").json["results"][0]["trace"]["steps"]
    assert [one["values"] for one in steps[-1]["holds"][0]] == [[10.0], [26.0], [18.0], [34.0]]
    assert run(*ring[:-2], "--values").code == 2


def test_a_rung_has_a_size_of_its_own(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rungs = "".join(
        f"  - {{primitive: ar, fabric: star512, algorithm: ring{size}}}\n"
        for size in ("", ", size: 1GB")
    )
    Path("two.yaml").write_text(
        f"schema: colltool.ladder-file/1\nname: two\nsize: 16MB\nrungs:\n{rungs}"
    )
    usual, large = run("ladder", "two.yaml", "--format", "json").json["rows"]
    assert "bytes" not in usual
    assert large["bytes"] == 1e9
    assert large["gap_realistic"] == usual["gap_realistic"] == 1
    price = run("price", "ar", "-f", "star512", "-M", "1GB", "-a", "ring", "--format", "json").json[
        "results"
    ][0]
    assert large["realistic"]["total_s"] == price["total_s"]
    assert "| 16MB |" in run("ladder", "two.yaml", "--all").out


def test_diff_says_what_moved_and_how_to_accept_it(run: Any, tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    asked = ("price", "ar", "-f", "star512", "-n", "64", "-M", "16MB", "--format", "json")
    old.write_text(json.dumps(run(*asked).json))
    new.write_text(json.dumps(run(*asked, "--set", "star.eta.beta=0.5").json))
    done = run("diff", str(old), str(new))
    assert done.code == 1
    opening = " ".join(done.out.partition("\n\n")[0].split())
    assert "contention (eta) of the fabric" in opening
    assert "most of all total_s of " in opening
    assert "To accept it, write the new document over the old one" in opening
    assert run("diff", str(old), str(old)).out == "Nothing changed by more than 0.0001%.\n"


def test_a_ladder_says_how_to_check_it_and_what_moved(run: Any, tmp_path: Path) -> None:
    kept = str(tmp_path / "kept.json")
    done = run("ladder", "star512", "--format", "json", "-o", kept)
    assert done.out == ""
    typed = f"colltool ladder star512 --check {kept} --rtol 2%"
    assert typed in done.err
    assert run(*typed.split()[1:]).out == "Nothing changed by more than 2%.\n"
    slower = run("fabric", "show", "star512", "--set", "star.bandwidth=40GB/s", "--format", "yaml")
    (tmp_path / "star512.yaml").write_text(slower.out)
    moved = run("ladder", str(tmp_path / "star512.yaml"), "--check", kept, "--rtol", "2%")
    assert moved.code == 1
    opening = " ".join(moved.out.partition("\n\n")[0].split())
    assert "changed (bandwidth of the fabric), most of all total_s" in opening


def test_what_is_named_is_shown_whoever_runs_it(run: Any) -> None:
    """A schedule that no library runs is no row of --all alone if it was asked for."""
    shown = run("price", "ag", "-f", "mesh512", "-n", "8", "-M", "1GB", "-a", "ring,tacos").out
    assert "| tacos" in shown
    assert "compared because you named them:\n  tacos: for reference only" in shown
    assert "| tacos" not in run("price", "ag", "-f", "mesh512", "-n", "8", "-M", "1GB").out
