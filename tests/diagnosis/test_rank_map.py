"""Where ranks sit that are not in the fabric's order: words, files, lists, and what is no such
thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small import clos, fabric, star
from swept import swept
from tracing import call, write

import colltool
from colltool.base.errors import ColltoolError, problems_of
from colltool.diagnosis.rank_map import load_map

WHERE = fabric(star(4, 1.0, 400.0), clos(4, alpha=3.0))  # four hosts of four
RACK = fabric(star(32, 1.0, 400.0), clos(4, alpha=3.0))


def places(placed: Any, world: int | None = 8, on: Any = WHERE) -> tuple[int, ...]:
    return load_map(placed, on).of(on, world).places


def test_words_are_slurms() -> None:
    assert places("block") == places(None) == ()
    assert places("cyclic") == (0, 4, 1, 5, 2, 6, 3, 7)
    assert places("cyclic", 4) == (0, 1, 2, 3)
    assert places("cyclic", 16)[:5] == (0, 4, 8, 12, 1)


@swept(
    "lines",
    [
        "4\n0\n5\n1\n",
        "# of Monday\n 4 # the second host\n\n0\n5\n1",
        "3: 1\n1: 0\n0: 4\n2: 5\n",
        "schema: colltool.layout/1\npattern: {kind: block, group: 4}\nmap: [4, 0, 5, 1]\n",
        "map: [4, 0, 5, 1]\n",
    ],
)
def test_files_of_ranks(lines: str, tmp_path: Path) -> None:
    (tmp_path / "ranks").write_text(lines)
    assert places(tmp_path / "ranks", 4) == places([4, 0, 5, 1], 4) == (4, 0, 5, 1)


@swept(
    "lines",
    ["b\na\nb\na\n", "1: a\n0: b\n3: a\n2: b\n", "b:0\na:0\nb:1\na:1\n", "b\na:0\nb:1\na\n"],
)
def test_files_of_hosts(lines: str, tmp_path: Path) -> None:
    """The host of the first rank is the fabric's first."""
    (tmp_path / "hosts").write_text(lines)
    assert places(tmp_path / "hosts", 4) == (0, 4, 1, 5)


@swept(
    ("lines", "place", "what"),
    [
        ("", "", "is empty"),
        ("0\n1\n1\n", ":3", "rank 1 of the fabric is also that of line 2"),
        ("0\n16\n", ":2", "16 is not a rank of"),
        ("a:1\nb\na:1\n", ":3", "a:1 is also that of line 1"),
        ("a:4\n", ":1", "a has one rank too many"),
        ("a\na\na\na\na\n", ":5", "a has one rank too many"),
        ("a\n1\n", ":2", "some are hosts"),
        ("0: a\nb\n", ":2", "begin with a rank"),
        ("0: a\n0: b\n", ":2", "a line for rank 0"),
        ("0: a\n2: b\n", ":2", "a line for rank 2, and those before it are not 0 to 1"),
        ("rank 0=a slot=1\n", ":1", "is neither a rank nor a host"),
        ("node[1-4]\n", ":1", "is neither a rank nor a host"),
        ("0:1\n", ":1", "is neither a rank nor a host"),
        ("-1\n", ":1", "is neither a rank nor a host"),
        ("a\nb\nc\nd\ne\n", ":5", "16 is not a rank of"),
        ("map: [0, 1,\n 1]\n", ":2:2", "endpoint 1 is given to rank 2 and to rank 1"),
    ],
)
def test_what_is_no_map(lines: str, place: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "map.txt"
    path.write_text(lines)
    with pytest.raises(ColltoolError) as caught:
        places(path)
    (error,) = problems_of(caught.value)
    assert what in error.what
    assert error.fix
    assert error.where.startswith(f"{path}{place}")


@swept(
    ("placed", "world", "what"),
    [
        ("cyclic", None, "do not say how many ranks"),
        ("cyclic", 6, "do not fill hosts of 4"),
        ("cyclic", 64, "the job has 64 ranks"),
        ("cylic", 8, "'cylic' is neither a rank map nor a file"),
        ([0, 1], 8, "lists 2 ranks, and the job has 8"),
        ([0, 0], 2, "rank 1: rank 0 of the fabric is also that of rank 0"),
    ],
)
def test_what_a_job_cannot_have(placed: Any, world: int | None, what: str) -> None:
    with pytest.raises(ColltoolError, match=what):
        places(placed, world)


def test_racks_are_no_hosts(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("a\n")
    for placed in ("cyclic", tmp_path / "hosts"):
        with pytest.raises(ColltoolError, match="joins 32 ranks, more than a host has"):
            places(placed, 64, RACK)


def test_groups_sit_where_their_ranks_do(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", [call(0, 900, [0, 2, 4, 6], Seq=1)], 0, 8)
    (plain,), (dealt,) = (
        colltool.trace(WHERE, file, placed=placed).calls for placed in (None, "cyclic")
    )
    assert (plain.places, plain.axes) == ((0, 2, 4, 6), ((4, 2),))
    assert (dealt.ranks, dealt.places, dealt.axes) == ((0, 2, 4, 6), (0, 1, 2, 3), ((4, 1),))
    assert dealt.expected_s == pytest.approx(
        colltool.price(WHERE, "ar", ranks=4, size=dealt.bytes).best.total_s
    )
    with pytest.raises(ColltoolError, match="whole number"):
        colltool.trace(WHERE, file, placed=["a"])
    with pytest.raises(ColltoolError, match="a map of ranks"):
        colltool.trace(WHERE, file, placed=5)
