"""Layout files and traffic matrices: what they mean, and where exactly they are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from swept import swept

from colltool.base.errors import ColltoolError, ManyErrors
from colltool.base.primitives import A2A, AG, AR
from colltool.congestion.layout import Layout, load_layout, pattern_layout, read_layout
from colltool.congestion.matrix_file import load_matrix, read_matrix
from colltool.congestion.patterns import MapPattern, Pattern, expand_map
from colltool.definitions.source import MAX_ERRORS
from colltool.fabric.load import load_fabric, read_fabric

TORUS = read_fabric(
    "name: t\ntiers:\n - {name: t, topology: torus, shape: [4, 4], alpha: 1us, bandwidth:"
    " 100GB/s}\n",
    "t.yaml",
)
NODES = read_fabric(
    """
name: nodes
tiers:
  - {name: in, topology: star, size: 4, alpha: 1us, bandwidth: 100GB/s}
  - {name: out, topology: star, size: 3, alpha: 5us, bandwidth: 10GB/s}
""",
    "nodes.yaml",
)


def read(text: str) -> Layout:
    return read_layout(text, "l.yaml", TORUS)


def errors(text: str) -> list[str]:
    with pytest.raises(ManyErrors) as caught:
        read(text)
    return [str(problem) for problem in caught.value.problems]


def ranks(pattern: Pattern, fabric: object = TORUS) -> list[tuple[int, ...]]:
    return [group.ranks for group in pattern_layout(pattern, fabric).groups]  # type: ignore[arg-type]


def test_groups_with_what_they_run() -> None:
    layout = read("""
schema: colltool.layout/1
name: mixed
primitive: ar
size: 16MB
groups:
  - {name: tp, ranks: [0, 1, 2, 3], algorithm: ring}
  - {name: ep, pattern: {kind: block, group: 4, start: 4, count: 2}, primitive: a2a, size: 1MB}
""")
    tp, first, second = layout.groups
    assert layout.name == "mixed"
    assert (tp.name, tp.ranks, tp.endpoints, tp.primitive, tp.algorithm, tp.size) == (
        "tp",
        (0, 1, 2, 3),
        (0, 1, 2, 3),
        AR,
        "ring",
        16e6,
    )
    assert (first.name, first.ranks, first.primitive, first.size) == (
        "ep.0",
        (4, 5, 6, 7),
        A2A,
        1e6,
    )
    assert (second.name, second.ranks, second.where) == ("ep.1", (8, 9, 10, 11), "l.yaml:8:25")


def test_a_map_says_where_ranks_sit() -> None:
    layout = read(
        "map: [3, 1, 2, 0]\ngroups:\n - {name: a, ranks: [0, 1]}\n - {name: b, ranks: [2, 3],"
        " primitive: ag}\n"
    )
    assert [group.endpoints for group in layout.groups] == [(3, 1), (2, 0)]
    assert layout.groups[1].primitive is AG
    assert read("map: {kind: reverse}\npattern: {group: 2, count: 1}\n").groups[0].endpoints == (
        15,
        14,
    )


def test_patterns() -> None:
    assert ranks(Pattern("block", 4, 2, stride=8)) == [(0, 1, 2, 3), (8, 9, 10, 11)]
    assert ranks(Pattern("block", 6)) == [tuple(range(6)), tuple(range(6, 12))]
    assert ranks(Pattern("cyclic", 4, 2)) == [(0, 4, 8, 12), (1, 5, 9, 13)]
    assert ranks(Pattern("cyclic", 2, stride=2)) == [
        (0, 2),
        (1, 3),
        (4, 6),
        (5, 7),
        (8, 10),
        (9, 11),
        (12, 14),
        (13, 15),
    ]
    assert ranks(Pattern("axis", axis=2, count=2)) == [(0, 4, 8, 12), (1, 5, 9, 13)]
    assert ranks(Pattern("axis", 2, 3, stride=2)) == [(0, 2), (1, 3), (4, 6)]
    assert ranks(Pattern("box", count=2, shape=(2, 2))) == [(0, 1, 4, 5), (2, 3, 6, 7)]
    shuffled = ranks(Pattern("random", 4, seed=1))
    assert sorted(rank for group in shuffled for rank in group) == list(range(16))
    assert shuffled == ranks(Pattern("random", 4, seed=1)) != ranks(Pattern("random", 4, seed=2))


def test_maps_of_launchers() -> None:
    assert expand_map(MapPattern("cyclic"), NODES) == (0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11)
    assert expand_map(MapPattern("rotate"), NODES) == (0, 1, 2, 3, 5, 6, 7, 4, 10, 11, 8, 9)
    for kind in ("identity", "reverse", "cyclic", "rotate", "random"):
        assert sorted(expand_map(MapPattern(kind), NODES)) == list(range(12))


@swept(
    ("text", "expected"),
    [
        (
            "groups:\n  - {name: a, ranks: [0, 1, 0]}\n",
            (
                "l.yaml:2:29: groups.0.ranks.2: rank 0 is named twice in group 'a', first at"
                " l.yaml:2:23\n  name it once"
            ),
        ),
        (
            "groups:\n  - {name: a, ranks: [0, 1]}\n  - {name: b, ranks: [2, 1]}\n",
            (
                "l.yaml:3:26: groups.1.ranks.1: rank 1 is in group 'b' and in 'a', at l.yaml:2:26\n"
                "  one group each; or overlap: true at the top, where its collectives run at the"
                " same time"
            ),
        ),
        (
            "groups:\n  - {name: a, ranks: [0, 16]}\n",
            "l.yaml:2:26: groups.0.ranks.1: rank 16 is outside the fabric\n  t has ranks 0 .. 15",
        ),
        (
            "groups:\n  - {name: a, ranks: [0, -1]}\n",
            "l.yaml:2:26: groups.0.ranks.1: rank -1 is outside the fabric\n  t has ranks 0 .. 15",
        ),
        (
            "groups:\n  - {name: a, ranks: [0, x]}\n",
            "l.yaml:2:26: groups.0.ranks.1: expected a whole number, got 'x'",
        ),
        (
            "groups:\n  - {name: a, ranks: [0]}\n",
            (
                "l.yaml:2:22: groups.0.ranks: expected a list of at least 2 ranks, such as [0, 1,"
                " 2, 3], got a list"
            ),
        ),
        (
            "groups: 3\n",
            (
                "l.yaml:1:9: groups: expected a list of groups, such as - {name: a, ranks: [0, 1,"
                " 2, 3]}, got 3"
            ),
        ),
        (
            "groups:\n  - 7\n",
            "l.yaml:2:5: groups.0: expected a group, such as {name: a, ranks: [0, 1, 2, 3]}, got 7",
        ),
        (
            "groups:\n  - {name: a}\n",
            (
                "l.yaml:2:5: groups.0: group 'a' needs either 'ranks' or 'pattern', and not both\n"
                "  ranks: [0, 1, 2, 3], or pattern: {kind: block, group: 8}"
            ),
        ),
        (
            "name: x\n",
            (
                "l.yaml:1:1: expected either 'groups' or 'pattern', and not both\n  pattern: {kind:"
                " block, group: 8}"
            ),
        ),
        (
            "pattern: {kind: blok}\n",
            (
                "l.yaml:1:17: pattern.kind: expected one of block, cyclic, random, axis, box, got"
                " 'blok'\n  did you mean 'block'?"
            ),
        ),
        (
            "pattern: {kind: axis, axis: 3}\n",
            "l.yaml:1:29: pattern.axis: axis 3 does not exist: the torus or mesh has 2 axes\n  from 1 to 2",
        ),
        (
            "pattern: {kind: block, axis: 2}\n",
            "l.yaml:1:30: pattern.axis: 'block' has no axis\n  it belongs to axis",
        ),
        (
            "pattern: {group: 8, count: 3}\n",
            (
                "l.yaml:1:28: pattern.count: 3 groups of 8 ranks do not fit: there is room for 2\n "
                " at most 2"
            ),
        ),
        (
            "pattern: {group: 1}\n",
            "l.yaml:1:18: pattern.group: expected a whole number from 2 to 1048576, got 1",
        ),
        (
            "pattern: {group: 4.5}\n",
            "l.yaml:1:18: pattern.group: expected a whole number from 2 to 1048576, got 4.5",
        ),
        (
            "pattern: {group: 8, stride: 4}\n",
            "l.yaml:1:29: pattern.stride: blocks of 8 ranks overlap at a stride of 4\n  at least 8",
        ),
        (
            "pattern: {kind: box, shape: [2, 8]}\n",
            ("l.yaml:1:29: pattern.shape: a box of 2x8 does not fit in 4x4\n  at most 4x4"),
        ),
        (
            "map: [0, 0]\npattern: {group: 2}\n",
            "l.yaml:1:10: map.1: endpoint 0 is given to rank 1 and to rank 0\n  one rank each",
        ),
        (
            "map: [0, 99]\npattern: {group: 2}\n",
            "l.yaml:1:10: map.1: endpoint 99 is outside the fabric\n  t has endpoints 0 .. 15",
        ),
        (
            "map: [5, 4]\ngroups:\n - {name: a, ranks: [0, 2]}\n",
            (
                "l.yaml:3:25: groups.0.ranks.1: rank 2 is outside the fabric\n  the map places"
                " ranks 0 .. 1"
            ),
        ),
        (
            "map: {kind: rotate, domain: 3}\npattern: {group: 2}\n",
            (
                "l.yaml:1:29: map.domain: domains of 3 endpoints do not fill the 16 of t\n  a"
                " divisor of 16"
            ),
        ),
        (
            "schema: colltool.layout/2\npattern: {group: 2}\n",
            (
                "l.yaml:1:9: schema: expected colltool.layout/1, got 'colltool.layout/2'\n  write"
                " schema: colltool.layout/1"
            ),
        ),
        (
            "size: 16Mb\npattern: {group: 2}\n",
            (
                "l.yaml:1:7: size: 'Mb' is not a unit of size in '16Mb'\n"
                "  a size is in bytes, not bits: write 16MB if that is what you mean"
            ),
        ),
        (
            "overlap: maybe\npattern: {group: 2}\n",
            "l.yaml:1:10: overlap: expected true or false, got 'maybe'",
        ),
    ],
)
def test_a_wrong_layout_is_refused_at_its_place(text: str, expected: str) -> None:
    assert errors(text) == [expected]


def test_all_errors_are_told_in_the_order_of_the_file() -> None:
    found = errors(
        "groups:\n  - {nam: a, ranks: [0, 0]}\n  - {name: b, ranks: [1, 77], primitive: all}\nmap:"
        " {kind: spin}\n"
    )
    assert [one.split(": ")[0] for one in found] == [
        "l.yaml:2:6",
        "l.yaml:2:25",
        "l.yaml:3:26",
        "l.yaml:3:42",
        "l.yaml:4:13",
    ]
    assert "did you mean 'name'?" in found[0]


def test_not_every_error_of_a_long_list_is_told() -> None:
    found = errors(f"groups:\n  - {{name: a, ranks: [{', '.join(['99'] * 90_000)}]}}\n")
    assert len(found) == MAX_ERRORS + 1
    assert found[-1] == "l.yaml: more errors follow these"


def test_overlap_lets_a_rank_be_in_two_groups_but_not_twice_in_one() -> None:
    head = "overlap: true\ngroups:\n  - {name: a, ranks: [0, 1]}\n"
    assert len(read(f"{head}  - {{name: b, ranks: [0, 2]}}\n").groups) == 2
    assert "named twice in group 'b'" in errors(f"{head}  - {{name: b, ranks: [0, 0]}}\n")[0]


def test_an_option_is_named_where_a_pattern_does_not_fit() -> None:
    for pattern, option in (
        (Pattern("spin"), "--pattern"),
        (Pattern(group=99), "--group"),
        (Pattern("axis", axis=7), "--axis"),
    ):
        with pytest.raises(ColltoolError) as caught:
            pattern_layout(pattern, TORUS)
        assert caught.value.spelled("shell").startswith(f"{option}: ")
    with pytest.raises(ColltoolError, match="needs a torus or mesh"):
        pattern_layout(Pattern("axis"), NODES)


def test_a_fabric_that_is_too_large_to_follow() -> None:
    large = load_fabric("star512", ["star.size=2000000"])
    with pytest.raises(ColltoolError, match="too many to follow"):
        pattern_layout(Pattern("block", 2), large)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for load in (lambda file: load_layout(file, TORUS), load_matrix):
        with pytest.raises(ColltoolError, match="cannot be read"):
            load(str(tmp_path / "none"))


def test_a_matrix() -> None:
    assert read_matrix("# from, to\n0, 1.5\n\n2e3 ,0\n", "m.csv") == ((0.0, 1.5), (2000.0, 0.0))


@swept(
    ("text", "expected"),
    [
        ("0,1\n-2,0\n", ["m.csv:2:1: bytes cannot be negative, found -2"]),
        (
            "0, x\n1,\n",
            [
                "m.csv:1:4: expected a number of bytes, found 'x'",
                "m.csv:2:3: expected a number of bytes, found nothing",
            ],
        ),
        (
            "0,nan\n1,inf\n",
            [
                "m.csv:1:3: expected a finite number, found nan",
                "m.csv:2:3: expected a finite number, found inf",
            ],
        ),
        ("0,1\n1\n", ["m.csv:2:1: a row of 1 numbers, the first row (line 1) has 2"]),
        (
            "0,1,1\n1,0,1\n",
            [
                "m.csv:2:1: the matrix has 2 rows and 3 columns\n  one row per sender, one column"
                " per receiver"
            ],
        ),
        ("\n", ["m.csv:1:1: the file has no rows\n  one row per sender, one column per receiver"]),
        ("1,0\n0,1\n", ["m.csv:1:1: no bytes to move: all is zero off the diagonal"]),
    ],
)
def test_a_wrong_matrix_is_refused_at_its_place(text: str, expected: list[str]) -> None:
    with pytest.raises(ColltoolError) as caught:
        read_matrix(text, "m.csv")
    assert [
        str(problem) for problem in getattr(caught.value, "problems", [caught.value])
    ] == expected
