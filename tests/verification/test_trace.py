"""``verify --trace``: the steps of small schedules, as the chapters' tables have them."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from swept import swept

import colltool
from colltool.algorithms.trace import Trace
from colltool.base.errors import ColltoolError
from colltool.base.primitives import parse_primitive
from colltool.fabric.topology import capabilities_of
from colltool.render.dispatch import blocks, document, rendered
from colltool.render.text import Screen, to_text
from colltool.verification.verify import verify
from tests import small
from tests.wiring import LatticeNetwork


def trace_of(primitive: str, algorithm: str, ranks: int, **more: Any) -> Trace:
    where = small.fabric(small.star(8, in_network=small.switch()))
    (one,) = colltool.verify(
        where, primitive, ranks=ranks, algorithms=algorithm, trace=True, **more
    ).results
    assert one.trace is not None
    return one.trace


def holds(trace: Trace, step: int) -> list[dict[int, tuple[int, ...]]]:
    """What each rank holds after a step."""
    at = trace.steps[step - 1].holds if step else trace.start
    return [{one.chunk: one.ranks for one in node} for node in at]


def test_the_ring_of_four() -> None:
    """Step by step: a chunk of M/4 to the next rank; after three steps each rank has one sum, after
    six all four."""
    trace = trace_of("ar", "ring", 4)
    assert trace.chunk_bytes == (0.25,) * 4
    assert [(step.n_alpha, step.n_beta) for step in trace.steps] == [(1, 0.25)] * 6
    assert all(
        {(one.src, one.dst) for one in step.messages} == {(0, 1), (1, 2), (2, 3), (3, 0)}
        for step in trace.steps
    )
    assert [[one.add for one in step.messages] for step in trace.steps] == [[True] * 4] * 3 + [
        [False] * 4
    ] * 3
    assert holds(trace, 0) == [dict.fromkeys(range(4), (rank,)) for rank in range(4)]
    assert [sorted(map(len, node.values())) for node in holds(trace, 1)] == [[1, 1, 1, 2]] * 4
    assert [sorted(map(len, node.values())) for node in holds(trace, 2)] == [[1, 1, 2, 3]] * 4
    assert [node[rank] for rank, node in enumerate(holds(trace, 3))] == [(0, 1, 2, 3)] * 4
    assert [sum(ranks == (0, 1, 2, 3) for ranks in node.values()) for node in holds(trace, 5)] == [
        3
    ] * 4
    assert holds(trace, 6) == [dict.fromkeys(range(4), (0, 1, 2, 3))] * 4


def values_at(trace: Trace, step: int) -> list[list[float]]:
    at = trace.steps[step - 1].holds if step else trace.start
    return [[value for one in node for value in one.values] for node in at]


def run_on_values(
    primitive: str, algorithm: str, ranks: int, vectors: Any = "example", where: Any = None
) -> Trace:
    fabric = small.fabric(where or small.star(8, in_network=small.switch()))
    (one,) = verify(
        fabric,
        [parse_primitive(primitive)],
        1e6,
        ranks,
        names=[algorithm],
        trace=True,
        vectors=vectors,
    ).results
    assert one.trace is not None
    return one.trace


@swept(
    "algorithm",
    ["ring", "tree", "double-binary-tree", "rabenseifner", "one-shot", "two-shot", "in-network"],
)
def test_the_example_of_four_ranks_adds_up(algorithm: str) -> None:
    """1 5 3 7, 2 6 4 8, 3 7 5 9 and 4 8 6 10 on four ranks: 10 26 18 34 on each of them in the
    end."""
    trace = run_on_values("ar", algorithm, 4)
    assert trace.vectors == ((1, 5, 3, 7), (2, 6, 4, 8), (3, 7, 5, 9), (4, 8, 6, 10))
    assert values_at(trace, 0)[:4] == [list(one) for one in trace.vectors]
    assert values_at(trace, len(trace.steps))[:4] == [[10, 26, 18, 34]] * 4


def test_the_ring_hands_on_partial_sums() -> None:
    """As textbooks have it: every step one value a rank; after three steps each rank has one
    complete sum."""
    trace = run_on_values("ar", "ring", 4)
    assert [one.values for one in trace.steps[0].messages] == [(7,), (2,), (7,), (6,)]
    assert [one.values for one in trace.steps[1].messages] == [(9,), (15,), (5,), (15,)]
    assert sorted(one.values for one in trace.steps[3].messages) == [(10,), (18,), (26,), (34,)]


def test_other_collectives_on_values() -> None:
    mine = [(1, 2), (30, 40), (500, 600)]
    everything = [1, 2, 30, 40, 500, 600]
    assert values_at(run_on_values("ag", "ring", 3, mine), 2) == [everything] * 3
    assert [
        node[0].values for node in run_on_values("bc", "binomial", 3, mine).steps[-1].holds
    ] == [(1, 2)] * 3
    three = [(1, 2, 3), (4, 5, 6), (7, 8, 9)]
    assert values_at(run_on_values("a2a", "pairwise", 3, three), 2) == [
        [1, 4, 7],
        [2, 5, 8],
        [3, 6, 9],
    ]
    scattered = run_on_values("rs", "ring", 3, three).steps[-1].holds
    assert [node[rank].values for rank, node in enumerate(scattered)] == [(12,), (15,), (18,)]
    relayed = run_on_values("a2a", "shortest-path", 4, where=small.torus(4))
    assert list(map(sorted, values_at(relayed, len(relayed.steps)))) == [
        sorted(value for vector in relayed.vectors for value in vector[2 * rank : 2 * rank + 2])
        for rank in range(4)
    ]


@pytest.mark.parametrize("vectors", [[(1, 2)] * 3, [(1, 2), (1, 2), (1, 2), (1,)]])
def test_one_vector_of_the_same_length_for_each_rank(vectors: Any) -> None:
    with pytest.raises(ColltoolError, match=r"vectors of .* for 4 ranks"):
        run_on_values("ar", "ring", 4, vectors)


def test_rabenseifner_of_eight_row_by_row() -> None:
    """Half, a quarter, an eighth to partners 4, 2, 1 away; and back."""
    trace = trace_of("ar", "rabenseifner", 8)
    assert [step.n_beta for step in trace.steps] == [1 / 2, 1 / 4, 1 / 8, 1 / 8, 1 / 4, 1 / 2]
    assert [{one.src ^ one.dst for one in step.messages} for step in trace.steps] == [
        {4},
        {2},
        {1},
        {1},
        {2},
        {4},
    ]
    assert holds(trace, 3)[5][5] == tuple(range(8))


def test_an_all_gather_keeps_and_an_all_to_all_moves() -> None:
    gathered = holds(trace_of("ag", "recursive-doubling", 4), 1)
    assert [set(node) for node in gathered] == [{0, 1}, {0, 1}, {2, 3}, {2, 3}]
    moved = holds(trace_of("a2a", "pairwise", 3), 2)
    assert [set(node) for node in moved] == [{0, 3, 6}, {1, 4, 7}, {2, 5, 8}]


def test_a_switch_and_ranks_beside_the_group_are_nodes_of_their_own() -> None:
    assert [len(step.holds) for step in trace_of("ar", "in-network", 4).steps] == [5, 5]
    padded = trace_of("ar", "rabenseifner-padded", 6)
    assert [bool(node) for node in padded.start] == [True] * 6 + [False] * 2
    assert all(dict.fromkeys(range(8), tuple(range(6))) == node for node in holds(padded, 6)[:6])


@pytest.mark.ci
def test_steps_add_up_to_the_counts_of_every_schedule() -> None:
    for fabric in (
        small.fabric(small.torus(4, 2)),
        small.fabric(small.star(3), small.star(2)),
    ):
        for one in colltool.verify(fabric, trace=True).results:
            assert one.trace is not None
            assert sum(step.n_alpha for step in one.trace.steps) == pytest.approx(one.n_alpha[1]), (
                one.algorithm
            )
            assert sum(step.n_beta for step in one.trace.steps) >= one.n_beta[1] * (1 - 1e-9), (
                one.algorithm
            )


def test_pipelined_schedules_are_cut_in_two_unless_told() -> None:
    assert len(trace_of("bc", "chain", 4).chunk_bytes) == 2
    assert len(trace_of("bc", "chain", 4, segments=3).chunk_bytes) == 3


def test_the_table_and_the_document() -> None:
    where = small.fabric(small.star(4))
    result = colltool.verify(where, "ar", algorithms="recursive-doubling", trace=True)
    text = rendered(result, "table", everything=True)
    assert "recursive-doubling, all-reduce on small, 4 ranks: one chunk of M" in text
    assert (
        "|    1 |       1 |      1 | 0>1:0+ 1>0:0+ 2>3:0+ 3>2:0+ | 0:01   | 0:01   | 0:23   |"
        " 0:23   |" in text
    )
    assert "0>1:2+ is chunk 2 from rank 0, which rank 1 adds to its own" in text
    (one,) = json.loads(json.dumps(document(result)))["results"]
    assert one["trace"]["chunks"] == [1.0]
    second = one["trace"]["steps"][1]
    assert (second["step"], second["n_alpha"], second["n_beta"]) == (2, 1, 1.0)
    assert second["messages"][0] == {"src": 0, "dst": 2, "chunk": 0, "add": True}
    assert second["holds"][3] == [{"chunk": 0, "ranks": [0, 1, 2, 3]}]
    assert "trace" not in document(colltool.verify(where, "ar", algorithms="ring"))["results"][0]


def test_more_ranks_than_a_page_holds_are_refused() -> None:
    with pytest.raises(
        ColltoolError, match="the steps of 17 ranks are too many to read"
    ) as refused:
        colltool.verify(small.fabric(small.star(17)), "ar", trace=True)
    assert "take -n 16 or fewer" in refused.value.spelled("shell")


def test_numbers_in_a_row_are_cut_rank_by_rank() -> None:
    """1 to 16 on four ranks add up to 28, 32, 36 and 40, however they are given."""
    where = small.fabric(small.star(4))
    rows = [[4 * rank + place for place in range(1, 5)] for rank in range(4)]
    for values in (
        "1..16",
        ",".join(map(str, range(1, 17))),
        "1..8, 9,10,11..16",
        list(range(1, 17)),
        np.arange(1, 17),
        rows,
    ):
        (found,) = colltool.verify(
            where, "ar", algorithms="ring", trace=True, values=values
        ).results
        assert found.trace is not None
        for held in found.trace.steps[-1].holds:
            assert [chunk.values for chunk in held] == [(28,), (32,), (36,), (40,)]


@swept(
    ("values", "words"),
    [
        ("1,2,3", "3 numbers for 4 ranks"),
        ("1..x", "expected numbers"),
        ("1..99999", "expected numbers"),
        ("", "expected numbers"),
        ("1,nan", "expected numbers"),
        ([[1], [2]], "2 vectors of 1 values for 4 ranks"),
        (["1,2"], "expected numbers"),
    ],
)
def test_numbers_that_do_not_go_round_are_refused(values: Any, words: str) -> None:
    with pytest.raises(ColltoolError, match=words):
        colltool.verify(
            small.fabric(small.star(4)), "ar", algorithms="ring", trace=True, values=values
        )


@swept("ranks", [4, 5, 8, 9, 16])
def test_every_rank_of_a_trace_is_shown(ranks: int) -> None:
    found = colltool.verify(small.fabric(small.star(ranks)), "ar", algorithms="ring", trace=True)
    for width in (80, 100, 200):
        text = to_text(blocks(found), Screen(width))
        heads = re.findall(r"\brank (\d+) +[|]", text)
        assert sorted(map(int, heads)) == list(range(ranks)), width


@swept("algorithm", ["shortest-path", "dim-by-dim"])
@swept(
    "where",
    [
        small.torus(4),
        small.torus(5),
        small.torus(2, 4),
        small.mesh(4),
        small.mesh(3, 2),
        small.torus(2, 2, 2),
    ],
)
def test_what_a_lattice_relays_goes_hop_by_hop(where: Any, algorithm: str) -> None:
    """Every message joins neighbours, every step is one hop, and the sums are the formula's."""
    fabric = small.fabric(where)
    (one,) = colltool.verify(fabric, "a2a", algorithms=algorithm, trace=True).results
    assert one.trace is not None
    network = LatticeNetwork(capabilities_of(fabric.tiers[0]).axes)
    for step in one.trace.steps:
        ends = np.array([(message.src, message.dst) for message in step.messages])
        assert network.distance(ends[:, 0], ends[:, 1]) == step.n_alpha == 1
    assert len(one.trace.steps) == one.n_alpha[0]
    assert sum(step.n_beta for step in one.trace.steps) == pytest.approx(one.n_beta[0])
    chunks = len(one.trace.chunk_bytes)
    assert sorted(
        chunk for node in holds(one.trace, len(one.trace.steps)) for chunk in node
    ) == list(range(chunks))
    at_home = fabric.ranks**2
    for rank, node in enumerate(holds(one.trace, len(one.trace.steps))):
        assert {chunk % fabric.ranks for chunk in node if chunk < at_home} == {rank}


def test_the_relay_of_four_forwards_what_came() -> None:
    """On a ring of four: to both neighbours, and half of the opposite rank's chunk with each; then
    the halves go on."""
    (one,) = colltool.verify(
        small.fabric(small.torus(4)), "a2a", algorithms="shortest-path", trace=True
    ).results
    assert one.trace is not None
    first, second = one.trace.steps
    assert (first.n_beta, second.n_beta) == (3 / 8, 1 / 8)
    assert [(m.src, m.dst) for m in first.messages if m.chunk in (2, 16)] == [(0, 1), (0, 3)]
    assert [(m.src, m.dst) for m in second.messages if m.chunk in (2, 16)] == [(1, 2), (3, 2)]


def test_the_rounds_of_pat_carry_more_and_more() -> None:
    """Not M/N each, as a description has it: then only lg N chunks would arrive."""
    (one,) = colltool.verify(
        "dgx-h100", "ag", ranks=8, stride=8, algorithms="pat", trace=True
    ).results
    assert one.trace is not None
    assert [step.n_beta for step in one.trace.steps] == [1 / 8, 2 / 8, 4 / 8]
    assert "1/8, 2/8 and 4/8" in colltool.explain("pat", "ag").entries[0].text


def test_sums_of_many_ranks_can_be_told_apart() -> None:
    """With two digits 0:111 might be ranks 1 and 11, or 11 and 1."""
    found = colltool.verify(small.fabric(small.star(12)), "ar", algorithms="ring", trace=True)
    text = to_text(blocks(found), Screen(200))
    assert "0:0-11" in text
    assert "2:0-3+12 is chunk 2 summed over ranks 0 to 3 and 12" in text
    assert "0:012" not in text
