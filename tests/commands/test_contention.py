"""``colltool contention`` as scripts and terminals see it."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError, ManyErrors
from colltool.commands.contention import contention_command
from colltool.render.blocks import Strip, Strips
from colltool.render.heat_map import ASCII, BLOCKS, heat_map_lines

AXIS = ("-f", "torus512", "--pattern", "axis", "--group", "4", "--stride", "2", "--count", "4")


def out(*args: str) -> str:
    """What the command prints; its errors are raised."""
    from colltool.commands.root import app

    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")
    with redirect_stdout(stream):
        app(["contention", *args], prog_name="colltool", standalone_mode=False)
        stream.flush()
    return stream.buffer.getvalue().decode()  # type: ignore[attr-defined]


def document(*args: str) -> Any:
    return json.loads(out(*args, "--format", "json"))


def test_the_promised_fields() -> None:
    found = document(*AXIS)
    assert list(found)[:3] == ["schema", "colltool", "fabric"]
    assert found["schema"] == "colltool.contention/1"
    assert {
        "name": "g0",
        "ranks": 4,
        "slowdown": 2.0,
        "extra_hops": 1,
        "eta_alpha": 2.0,
        "eta_beta": 0.5,
    }.items() <= found["groups"][0].items()
    assert found["slowdown"] == 2.0
    assert {
        "link": "torus (0, 0, 0) -> (1, 0, 0)",
        "load": 3.0,
        "over_ideal": 2.0,
    }.items() <= found["hottest"][0].items()
    assert "links" not in found
    assert len(document(*AXIS, "--per-link")["links"]) == 16
    assert out(*AXIS, "--format", "json") == out(*AXIS, "--format", "json")


def test_csv_is_groups_or_links() -> None:
    groups = list(
        csv.DictReader(io.StringIO(out("-f", "torus512", "--group", "8", "--format", "csv")))
    )
    assert len(groups) == 64  # all, where the table shows the slowest
    assert groups[0]["slowdown"] == "1.0"
    links = list(csv.DictReader(io.StringIO(out(*AXIS, "--per-link", "--format", "csv"))))
    assert [float(link["load"]) for link in links] == [3.0] * 16
    assert {"fabric", "layout", "link", "load", "over_ideal", "groups", "capacity_Bps"} == set(
        links[0]
    )


def test_a_table_says_what_it_counts_and_where_it_ends() -> None:
    text = out(*AXIS, "-M", "16MB", "--all")
    assert text.isascii()
    assert "With contention the slowest group (g0) takes 2x as long: it waits for" in text
    assert re.search(r"torus axis 1 \+ +@@\.{62} +8 links per character", text)
    assert "26.67 us" in text  # 2 x 3/4 x 16 MB / 900 GB/s
    assert "53.33 us" in text
    for simulator in ("ns-3", "htsim", "SST", "ASTRA-sim"):
        assert simulator in text
    assert "44 more groups" in out("-f", "torus512", "--group", "8", "--all")


def test_as_eta_goes_into_a_price() -> None:
    assert "eta: {alpha: 2, beta: 0.5}  # tier torus" in out(*AXIS, "--as-eta")
    assert "--set torus.eta.alpha=2 --set torus.eta.beta=0.5" in out(*AXIS, "--as-eta")
    assert document(*AXIS, "--as-eta")["eta"] == [
        {"tier": "torus", "alpha": 2.0, "beta": 0.5, "group": "g0"}
    ]
    assert (
        out(*AXIS, "--as-eta", "--format", "csv")
        == "fabric,layout,tier,alpha,beta,group\ntorus512,axis,torus,2.0,0.5,g0\n"
    )


def test_a_skew_is_of_an_all_to_all() -> None:
    hot = document("-f", "star512", "--group", "64", "--count", "1", "--hot", "3@5")
    assert hot["groups"][0]["primitive"] == "all_to_all"
    assert (hot["slowdown"], hot["hottest"][0]["link"]) == (3.0, "star rank 5 in")
    assert (
        document("-f", "star512", "--group", "64", "--count", "1", "--zipf", "1")["slowdown"] > 10
    )


def test_a_layout_file(tmp_path: Path) -> None:
    file = tmp_path / "l.yaml"
    file.write_text(
        "schema: colltool.layout/1\nname: pair\ngroups:\n  - {name: a, ranks: [0, 2]}\n  - {name:"
        " b, ranks: [1, 3]}\n"
    )
    found = document("-f", "torus512", "--layout", str(file))
    assert (found["layout"], found["slowdown"], [group["name"] for group in found["groups"]]) == (
        "pair",
        2.0,
        ["a", "b"],
    )
    assert (
        document("-f", "torus512", "--layout", str(file), "-p", "ag")["groups"][0]["primitive"]
        == "all_gather"
    )


def test_a_primitive_that_no_group_would_take() -> None:
    layout = {"groups": [{"name": "a", "ranks": [0, 1], "primitive": "ar"}]}
    with pytest.raises(ColltoolError, match="every group of the layout names what it runs"):
        colltool.contention("torus512", layout, primitive="ag")


@swept(
    ("args", "what"),
    [
        (("-f", "torus512", "--pattern", "spin"), "--pattern: unknown pattern 'spin'"),
        (("-f", "torus512", "--axis", "2", "--group", "8"), "--axis: 'block' has no axis"),
        (("-f", "torus512", "--layout", "l.yaml", "--group", "8"), "--group and --layout both"),
        (("-f", "torus512", "--group", "1"), "--group: a group has at least 2 ranks, got 1"),
        (
            ("-f", "torus512", "--group", "8", "--count", "65"),
            "--count: 65 groups of 8 ranks do not fit",
        ),
        (("-f", "torus512", "--pattern", "box", "--shape", "4y2"), "--shape: '4y2' is not a shape"),
        (("-f", "star512", "--group", "8", "--hot", "warm"), "--hot: 'warm' is not a hot spot"),
        (
            ("-f", "star512", "--group", "8", "--hot", "9"),
            "--hot: group 'g0': 1 destinations at 9 times",
        ),
        (("-f", "star512", "--group", "8", "--hot", "2", "--zipf", "1"), "exclude each other"),
        (("-f", "star512", "--group", "8", "-a", "rong"), "no algorithm 'rong'"),
        (("-f", "star512", "--group", "6", "-a", "rabenseifner"), "power-of-two"),
        (("-f", "star512", "--group", "8", "--map", "spin"), "--map: unknown map 'spin'"),
        (("-f", "star512", "--group", "8", "-p", "all"), "unknown primitive 'all'"),
    ],
)
def test_unusable_options(args: tuple[str, ...], what: str) -> None:
    with pytest.raises(ColltoolError) as caught:
        out(*args)
    assert what in caught.value.spelled("shell")


def test_a_matrix_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "m.csv"
    file.write_text("0,1\n-1,0\n")
    with pytest.raises(
        ManyErrors, match=re.escape(f"{file}:2:1: bytes cannot be negative, found -1")
    ):
        out("-f", "star512", "--group", "2", "--matrix", str(file))
    file.write_text("0,1\n1,0\n")
    with pytest.raises(
        ColltoolError,
        match=re.escape(f"{file}:1:1: group 'g0': the matrix is 2x2, the group has 3 ranks"),
    ):
        out("-f", "star512", "--group", "3", "--count", "1", "--matrix", str(file))
    assert (
        document("-f", "star512", "--group", "2", "--count", "1", "--matrix", str(file))["slowdown"]
        == 1.0
    )


def test_the_process_exits_2_and_prints_nothing(tmp_path: Path) -> None:
    file = tmp_path / "l.yaml"
    file.write_text("groups:\n  - {name: a, ranks: [0, 0]}\n  - {name: b, ranks: [1, 999]}\n")
    command = [
        sys.executable,
        "-m",
        "colltool",
        "contention",
        "-f",
        "torus512",
        "--layout",
        str(file),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert [
        line.split(": ")[1] for line in done.stderr.splitlines() if line.startswith("error")
    ] == [
        f"{file}:2:26",
        f"{file}:3:26",
    ]


def test_help_loads_nothing_heavy() -> None:
    code = (
        "from colltool.commands.app import run\nimport sys\nrun(['contention',"
        " '--help'])\nsys.exit(bool({'numpy', 'rich', 'yaml', 'colltool.commands.reading',"
        " 'colltool.algorithms'} & set(sys.modules)))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, timeout=60, check=False
        ).returncode
        == 0
    )


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("groups.yaml").write_text("pattern: {kind: block, group: 8}\n")
    examples = re.findall(
        r"^  colltool contention (.*)$", contention_command.examples, re.MULTILINE
    )
    assert len(examples) >= 5
    for example in examples:
        assert out(*example.split())


@pytest.mark.parametrize("shades", [ASCII, BLOCKS])
def test_shades_start_where_there_is_load_and_end_at_the_hottest(shades: str) -> None:
    cells = (0.0, 1e-9, 0.125, 0.126, 0.5, 1.0)
    shown = heat_map_lines(
        Strips("load", "link 7", (Strip("x", cells, 1),)), unicode=shades is BLOCKS
    )
    assert shown.lines[0].split()[1] == "".join(shades[number] for number in (0, 1, 1, 2, 4, 8))
    # said in characters: which is darkest depends on the screen
    assert (
        shown.title
        == f"load, '{shades[0]}' none, '{shades[1]}' to '{shades[-1]}' the hottest (link 7)"
    )


def test_a_strip_that_is_too_long_shares_characters() -> None:
    """64 cells in 26 characters: three share one, and the busiest of them is seen."""
    cells = (1.0, 0.0, 0.0) + (0.0,) * 61
    (strip,) = heat_map_lines(Strips("load", "link 7", (Strip("axis 1 +", cells, 8),)), 40).lines
    assert len(strip) <= 38
    assert strip.split()[-1] == "@" + "." * 21
