"""``--stride`` and ``--alone`` on every command that takes a group: titles, documents, CSV, errors,
completion."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from swept import swept

import colltool

OVER = ("-f", "clos-4to1")
STRIDED = ("-n", "16", "--stride", "8")
ECHO = {"ranks": 16, "stride": 8, "per_domain": [1, 16], "alone": False}
COMMANDS = {
    "price": ("price", "ar", "-f", "dgx-h100", "-M", "16MB"),
    "winners": ("price", "ar", "-f", "dgx-h100"),
    "sizes": ("price", "ar", "-f", "dgx-h100", "-M", "1MB,16MB"),
    "crossover": ("crossover", "ar", "-f", "dgx-h100"),
    "breakdown": ("breakdown", "ar", "-f", "dgx-h100", "-M", "16MB"),
    "explain": ("explain", "ring", "ar", "-f", "dgx-h100", "-M", "16MB"),
}
every_command = pytest.mark.parametrize("args", COMMANDS.values(), ids=list(COMMANDS))


def echoes(document: Any) -> list[Any]:
    """Every ``group`` of a document."""
    if isinstance(document, dict):
        return [value for key, value in document.items() if key == "group"] + [
            one for value in document.values() for one in echoes(value)
        ]
    return [one for item in document for one in echoes(item)] if isinstance(document, list) else []


@every_command
def test_titles_say_which_ranks(args: tuple[str, ...], run: Any) -> None:
    def said(*more: str) -> str:
        return " ".join(run(*args, *more).out.split())

    assert "16 ranks, every 8th, " in said(*STRIDED)
    assert "16 ranks, every 8th, alone, " in said(*STRIDED, "--alone")
    assert "every 8th" not in said("-n", "16", "--stride", "1", "--alone")


@every_command
def test_documents_say_who_is_in_the_group(args: tuple[str, ...], run: Any) -> None:
    found = echoes(run(*args, *STRIDED, "--format", "json").json)
    assert found
    assert all(one == ECHO for one in found)
    assert echoes(run(*args, *STRIDED, "--alone", "--format", "json").json)[0] == ECHO | {
        "alone": True
    }
    plain = echoes(run(*args, "-n", "16", "--format", "json").json)
    assert plain[0] == {"ranks": 16, "stride": 1, "per_domain": [8, 2], "alone": False}


@every_command
def test_csv_tells_groups_of_one_size_apart(args: tuple[str, ...], run: Any) -> None:
    def lines(*more: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(run(*args, *more, "--format", "csv").out)))

    assert {(line["stride"], line["alone"]) for line in lines(*STRIDED)} == {("8", "false")}
    assert {(line["stride"], line["alone"]) for line in lines(*STRIDED, "--alone")} == {
        ("8", "true")
    }
    assert "stride" not in lines("-n", "16")[0]


def test_verify_executes_the_group(run: Any) -> None:
    done = run("verify", "ar", "-f", "dgx-h100", *STRIDED)
    assert done.code == 0
    assert "; every 8th rank" in " ".join(done.out.split())
    found = run("verify", "ar", "-f", "dgx-h100", *STRIDED, "--format", "json").json["results"]
    assert all(one["group"] == ECHO and one["ranks"] == 16 for one in found)
    assert {"ring", "double-binary-tree"} <= {
        one["algorithm"] for one in found if one["verdict"] == "proved"
    }


def test_siblings_cost_what_they_take_of_the_uplinks(run: Any) -> None:
    """Two ranks, a node each, in different pods: every GPU of the nodes between does the same."""
    args = ("price", "ar", *OVER, "-n", "2", "-M", "1GB", "--algorithm", "ring", "--format", "json")
    fabric = colltool.load_fabric("clos-4to1")
    stride = fabric.ranks // 2
    both, alone = (
        run(*args, "--stride", str(stride), *more).json["results"][0]["total_s"]
        for more in ((), ("--alone",))
    )
    assert both > 1.5 * alone


def test_the_library_sees_one_rank_a_node(run: Any) -> None:
    document = run(
        "price",
        "ag",
        "-f",
        "dgx-h100",
        *STRIDED,
        "-M",
        "64KB",
        "--library",
        "nccl",
        "--format",
        "json",
    ).json
    assert "pat" in {row["algorithm"] for row in document["results"]}
    assert "multi-rail-ring" not in {row["algorithm"] for row in document["results"]}
    assert (
        document["library"]["runs"]["algorithm"]
        == document["library"]["pick"]["algorithm"]
        == "pat"
    )


ERRORS = {
    "price ar -f dgx-h100 --stride 0": (
        "error: --stride: must be at least 1 and leave dgx-h100 two ranks, got 0",
        "  take 1 (consecutive ranks) to 128",
    ),
    "price ar -f dgx-h100 --stride -8": (
        "error: --stride: must be at least 1 and leave dgx-h100 two ranks, got -8",
        "  take 1 (consecutive ranks) to 128",
    ),
    "breakdown ar -f dgx-h100 -M 1MB --stride 999": (
        "error: --stride: must be at least 1 and leave dgx-h100 two ranks, got 999",
        "  take 1 (consecutive ranks) to 128",
    ),
    "crossover ar -f dgx-h100 -n 8 --stride 6": (
        "error: --stride: every 6 ranks leaves domains uneven on dgx-h100 (nvlink 8, ib 32)",
        "  the nearest that fit are 4 and 8",
    ),
    "explain ring ar -f dgx-h100 -M 1MB -n 64 --stride 8": (
        "error: --stride: 64 ranks, every 8th, do not fit: dgx-h100 has 256",
        "  take at most 32 ranks, every 8th, or 64 ranks, every 4th",
    ),
    "verify ar -f dgx-h100 -n 6 --stride 2": (
        (
            "error: --ranks: 6 ranks, every 2nd, leave a domain half full on dgx-h100 (nvlink 8,"
            " ib 32)"
        ),
        "  the nearest sizes that fill whole domains are 4 and 8",
    ),
    "price ar -f dgx-h100 --stride eight": (
        "error: --stride: 'eight' is not a whole number",
        "  write digits: --stride 8",
    ),
    "explain ring --stride 8": (
        "error: --ranks, --stride, --library, --set and a choice of algorithms need a fabric",
        "  add -f nvl72 -M 16MB",
    ),
}


@swept("line", ERRORS)
def test_errors_name_the_option_and_what_fits(line: str, run: Any) -> None:
    done = run(*line.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == list(ERRORS[line])


def test_exports_take_a_stride(run: Any, tmp_path: Any) -> None:
    tuner = run("export", "nccl-tuner", "-f", "dgx-h100", "-n", "8,16", "--stride", "8")
    assert tuner.code == 0
    rows = [line.split(",") for line in tuner.out.splitlines() if line and not line.startswith("#")]
    assert {(row[6], row[7]) for row in rows} == {("8", "8"), ("16", "16")}
    astra = run(
        "export", "astra-sim", "-f", "dgx-h100", "-n", "4", "--stride", "8", "-o", str(tmp_path)
    )
    assert "4 ranks, every 8th" in astra.out
    assert "npus_count: [4]" in (tmp_path / "network.yml").read_text()


@pytest.mark.alike(2)
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("colltool price ar -f dgx-h100 --stride ", {"2", "4", "8", "16", "32", "64", "128"}),
        ("colltool price ar -f dgx-h100 -n 32 --stride ", {"2", "4", "8"}),
        ("colltool price ar -f dgx-h100 --stride 8 -n ", {"2", "4", "8", "16", "32"}),
    ],
)
def test_completion_offers_what_fits(typed: str, offered: set[str], spawn: Any) -> None:
    env = {
        "_COLLTOOL_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    assert set(spawn(env=env).out.split()) == offered


@swept(
    ("asked", "note", "same"),
    [
        (("-n", "512"), "64 of the 72 ranks of each rack", ("--per-rack", "64", "-n", "512")),
        # a part that leaves many GPUs idle is offered, not taken
        (("-n", "100"), "--per-rack 50 takes 50", None),
        # what was stated stays
        (("-n", "512", "--set", "nvlink.size=72"), "--per-rack 64 takes 64", None),
    ],
)
def test_most_of_each_rack_takes_part(
    run: Any, asked: tuple[str, ...], note: str, same: tuple[str, ...] | None
) -> None:
    done = run("price", "ar", "-f", "nvl72", *asked, "-M", "16MB", "--format", "json")
    assert note in done.err
    assert done.code == (0 if same else 2)
    if same:
        assert (
            done.json
            == run("price", "ar", "-f", "nvl72", *same, "-M", "16MB", "--format", "json").json
        )
