"""The order of rows, on curves made up for it."""

from __future__ import annotations

from swept import swept

from colltool.extras.interop.nccl_tuner_rows import MAX_BYTES, TunerRow, needs, tuner_rows
from colltool.libraries.nccl.model import Combination, Piece


def way(algorithm: str, protocol: str, *pieces: tuple[float, float, float]) -> Combination:
    return Combination(algorithm, protocol, tuple(Piece(*piece) for piece in pieces))


RING_LL = way("ring", "ll", (1, 10, 2))
RING_SIMPLE = way("ring", "simple", (1, 110, 1))


@swept(
    ("algorithm", "protocol", "nodes", "expected"),
    [
        ("ring", "ll", 2, set()),
        ("tree", "simple", 2, set()),
        ("tree", "ll128", 2, {"LL128"}),
        ("nvls", "simple", 1, {"NVLS"}),
        ("nvls", "simple", 2, {"NVLS", "SHARP"}),
        ("nvls_tree", "simple", 2, {"NVLS"}),
        ("collnet_direct", "simple", 2, {"SHARP"}),
        ("collnet_chain", "simple", 2, {"SHARP"}),
        ("pat", "simple", 2, {"PAT"}),
    ],
)
def test_what_may_be_switched_off(
    algorithm: str, protocol: str, nodes: int, expected: set[str]
) -> None:
    assert needs(algorithm, protocol, nodes) == expected


def test_rings_alone_are_one_lower_envelope() -> None:
    assert tuner_rows([RING_LL, RING_SIMPLE], 1) == (
        TunerRow(0, 0, 99, "ring", "ll"),
        TunerRow(0, 100, MAX_BYTES, "ring", "simple"),
    )


def test_borders_between_two_bytes_belong_to_the_larger_one() -> None:
    later = way("ring", "simple", (1, 110.5, 1))
    assert [row.min_bytes for row in tuner_rows([RING_LL, later], 1)] == [0, 101]


def test_behind_what_may_be_missing_stands_the_next_best_only_where_it_is_needed() -> None:
    nvls = way("nvls", "simple", (1, 50, 1))
    assert tuner_rows([RING_LL, RING_SIMPLE, nvls], 1) == (
        TunerRow(0, 0, 39, "ring", "ll"),
        TunerRow(0, 40, MAX_BYTES, "nvls", "simple"),
        TunerRow(1, 40, 99, "ring", "ll"),
        TunerRow(1, 100, MAX_BYTES, "ring", "simple"),
    )


def test_a_way_that_needs_more_than_a_faster_one_has_no_row() -> None:
    """NVLS across nodes needs SHARP too, so where NVLSTree is faster it is of no use."""
    ways = [RING_LL, way("nvls", "simple", (1, 6, 1.5)), way("nvls_tree", "simple", (1, 5, 1))]
    assert {row.algorithm for row in tuner_rows(ways, 2)} == {"ring", "nvls_tree"}
    swapped = [RING_LL, way("nvls", "simple", (1, 5, 1)), way("nvls_tree", "simple", (1, 6, 1.5))]
    assert [row.algorithm for row in tuner_rows(swapped, 2)] == ["nvls", "nvls_tree", "ring"]


def test_behind_trees_stand_rings_for_all_sizes() -> None:
    rows = tuner_rows([way("tree", "ll", (1, 1, 1)), RING_LL, RING_SIMPLE], 2)
    assert rows[0] == TunerRow(0, 0, MAX_BYTES, "tree", "ll")
    assert [row[1:] for row in rows[1:]] == [
        (0, 99, "ring", "ll"),
        (100, MAX_BYTES, "ring", "simple"),
    ]


def test_where_no_ring_is_known_the_spare_ones_stand_behind() -> None:
    nvls = way("nvls", "simple", (1, 50, 1))
    rows = tuner_rows([nvls], 1, [RING_LL, RING_SIMPLE, way("ring", "ll128", (1, 0, 0))])
    assert [row[1:] for row in rows] == [
        (0, MAX_BYTES, "nvls", "simple"),
        (0, 99, "ring", "ll"),
        (100, MAX_BYTES, "ring", "simple"),
    ]
    alone = way("ring", "ll128", (1, 1, 1))
    assert [row.protocol for row in tuner_rows([alone], 1, [RING_LL])] == ["ll128", "ll"]


def test_a_correction_that_starts_at_a_size_makes_an_island() -> None:
    tree = way("tree", "ll", (1, 0, 2), (64, 0, 4), (128, 0, 2))
    found = [
        (row.min_bytes, row.max_bytes, row.algorithm)
        for row in tuner_rows([tree, RING_LL], 2)
        if row.depth == 0
    ]
    assert found == [(0, 63, "tree"), (64, 127, "ring"), (128, MAX_BYTES, "tree")]


def test_of_equals_the_first_as_nccl_has_it() -> None:
    assert tuner_rows([way("tree", "ll", (1, 10, 2)), RING_LL], 2)[0].algorithm == "tree"
