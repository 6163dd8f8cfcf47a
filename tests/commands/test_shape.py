"""``--shape`` and the slice that ``-n`` takes, on every command that takes a group; shapes as
``--set`` takes them."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from swept import swept

import colltool
from tests.commands.test_group import echoes

ON = ("-f", "tpu-v5p")
COMMANDS = {
    "price": ("price", "ar", "-M", "16MB"),
    "winners": ("price", "ar"),
    "crossover": ("crossover", "ar"),
    "breakdown": ("breakdown", "ar", "-M", "16MB"),
    "explain": ("explain", "dim-ring", "ar", "-M", "16MB"),
    "sensitivity": ("sensitivity", "ar", "-M", "16MB"),
    "verify": ("verify", "ag"),
}
every_command = pytest.mark.parametrize("args", COMMANDS.values(), ids=list(COMMANDS))


@every_command
def test_documents_say_the_shape(args: tuple[str, ...], run: Any) -> None:
    for more, shape in (
        (("-n", "16"), [2, 2, 4]),
        (("--shape", "4x4"), [4, 4, 1]),
        (("-n", "16", "--shape", "1x2x8"), [1, 2, 8]),
    ):
        document = run(*(*args, *ON, *more, "--format", "json")).json
        assert {tuple(one["shape"]) for one in echoes(document)} == {tuple(shape)}
        assert {one["ranks"] for one in echoes(document)} == {16}


@every_command
def test_titles_name_the_slice(args: tuple[str, ...], run: Any) -> None:
    if args[0] != "verify":
        assert "16 ranks (2x2x4, open along 4)" in " ".join(run(*args, *ON, "-n", "16").out.split())


@every_command
def test_a_shape_that_cannot_be_says_what_to_type(args: tuple[str, ...], run: Any) -> None:
    refused = run(*args, *ON, "-n", "16", "--shape", "4x4x4")
    assert (refused.code, refused.out) == (2, "")
    assert "4x4x4 holds 64 ranks, not 16" in refused.err
    assert "write -n 64, or --shape 2x2x4" in refused.err
    assert run(*args, *ON, "-n", "64", "--shape", "4x4x4").code == 0


@swept("text", ["4x", "x", "0x4", "4x-4", "a", "4*4", "1" * 30, "2x" * 20 + "2", "4x4.5"])
def test_what_is_no_shape_is_refused(text: str, run: Any) -> None:
    refused = run("price", "ar", *ON, "--shape", text)
    assert (refused.code, refused.out) == (2, "")
    assert "write --shape 4x4x2" in refused.err


def test_choices_take_it_too(run: Any) -> None:
    swept = run("sweep", "ar", *ON, "--shape", "4x4x4", "-M", "1GB", "--format", "json").json
    assert swept["axes"]["ranks"] == [64]
    assert (
        swept["cells"][0]["total_s"]
        == colltool.price("tpu-v5p", "ar", size=1e9, shape="4x4x4").best.total_s
    )
    compared = run(
        "compare",
        "ar",
        "-f",
        "tpu-v5p,tpu-v4-512",
        "--shape",
        "4x4x4",
        "-M",
        "1GB",
        "--format",
        "json",
    ).json
    assert compared["rows"][0]["ranks"] == 64
    for command in (("sweep", "ar", *ON), ("compare", "ar", "-f", "tpu-v5p,tpu-v4-512")):
        refused = run(*command, "--shape", "4x4", "-n", "8")
        assert (refused.code, refused.out) == (2, "")
        assert "write -n 16, or --shape 2x2x2" in refused.err


def test_a_report_looks_closely_at_the_slice(run: Any) -> None:
    done = run("report", *ON, "-p", "bc", "--shape", "2x2x4", "--format", "json")
    assert done.json["ranks"] == 16, done.err
    lines = [
        line
        for one in done.json["sections"]
        for exhibit in one["exhibits"]
        for line in exhibit["commands"]
    ]
    asked = [line for line in lines if "--shape" in line]
    assert [line.split()[1] for line in asked] == ["crossover", "breakdown", "sensitivity"]
    assert all("-n 16 --shape 2x2x4" in line for line in asked)
    assert run("report", *ON, "-p", "bc", "--shape", "2x2x4", "-n", "8").code == 2


def test_two_pods_of_one_kind_differ_by_their_links_alone() -> None:
    """From 16 MB on a chip with links of twice the rate is faster at every number of ranks that is
    rented."""
    for ranks in (64, 128, 256, 512):
        old, new = (
            colltool.price(name, "ar", size=1e9, ranks=ranks).best
            for name in ("tpu-v4-512", "tpu-v5p")
        )
        assert new.total_s == pytest.approx(old.total_s / 2, rel=0.01)


def test_csv_tells_slices_apart(run: Any) -> None:
    printed = run("price", "ar", *ON, "-n", "16", "-M", "1MB", "--format", "csv").out
    assert {row["shape"] for row in csv.DictReader(io.StringIO(printed))} == {"2x2x4"}
    assert (
        "shape"
        not in run(
            "price", "ar", "-f", "nvl72", "-n", "16", "-M", "1MB", "--format", "csv"
        ).out.splitlines()[0]
    )


@pytest.mark.parametrize("shape", ["8x8x8", "[8, 8, 8]"])
def test_set_takes_a_shape_as_vary_does(shape: str, run: Any) -> None:
    done = run("price", "ar", *ON, "-M", "1MB", "--set", f"ici.shape={shape}", "--format", "json")
    assert done.json["ranks"] == 512, done.err


def test_python_takes_text_and_numbers() -> None:
    shapes = ["4x4x4", (4, 4, 4), [4, 4, 4]]
    assert (
        len(
            {
                colltool.price("tpu-v5p", "ar", size=1e6, shape=shape).best.total_s
                for shape in shapes
            }
        )
        == 1
    )
    for wrong in (True, 64, (), (4, True), (4.0, 4), "4*4", [0, 4]):
        with pytest.raises(colltool.ColltoolError) as refused:
            colltool.price("tpu-v5p", "ar", size=1e6, shape=wrong)  # type: ignore[arg-type]
        assert refused.value.argument == "shape"


@pytest.mark.parametrize("size", [1e6, [1e3, 1e9]])
def test_a_frame_says_what_leads_and_has_it_first(size: Any) -> None:
    columns = colltool.price("nvl72", "ar", size=size, ranks=144).to_columns()
    rows = list(
        zip(
            columns["bytes"],
            columns["leads"],
            columns["status"],
            columns["total_s"],
            columns["why_not"],
            strict=True,
        )
    )
    assert {type(leads) for leads in columns["leads"]} == {bool}
    for one in set(columns["bytes"]):
        mine = [row for row in rows if row[0] == one]
        assert [row[1] for row in mine] == sorted((row[1] for row in mine), reverse=True)
        leading = [row[3] for row in mine if row[1]]
        # the library runs the first
        assert leading[1:] == sorted(leading[1:])
        assert len(leading) < len(mine)
        assert all(bool(row[4]) != row[1] for row in mine)
