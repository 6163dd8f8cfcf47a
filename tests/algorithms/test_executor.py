"""The machine on programs small enough to check by hand: it accepts what is right and names what is
wrong."""

from __future__ import annotations

import numpy as np
import pytest

from colltool.algorithms.executor import run
from colltool.algorithms.program import Program, Step, step
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive
from tests.wiring import Ports


def program(
    primitive: Primitive,
    ranks: int,
    home: list[int],
    *batches: tuple[Step, ...],
    target: list[int] | None = None,
    nodes: int = 0,
) -> Program:
    chunks = len(home)
    where = np.array(home), np.array(target or home)
    return Program(
        primitive, ranks, nodes or ranks, np.full(chunks, 1 / chunks), *where, iter(batches)
    )


def test_two_ranks_swap_and_add() -> None:
    outcome = run(program(AR, 2, [0], (step([0, 1], [1, 0], 0, add=True),)))
    assert outcome == (True, "", 1)


def test_a_step_reads_what_was_there_before_it() -> None:
    """Three ranks in a circle, all at once: each gets its neighbour's own vector, not a sum that
    grows on the way."""
    circle = step([0, 1, 2], [1, 2, 0], 0, add=True)
    assert (
        run(program(AR, 3, [0], (circle,))).problem == "rank 0 does not end with the right chunk 0"
    )
    onward = step([0, 1], [1, 2], 0)
    assert "before it has it" in run(program(BC, 3, [0], (onward,))).problem
    assert run(program(BC, 3, [0], (step(0, 1, 0),), (step(1, 2, 0),))).holds


def test_an_add_and_a_copy_may_leave_together() -> None:
    """Chunk 0 is already complete at rank 0 when chunk 1 is still on its way up."""
    up = [step(1, 0, c, add=True) for c in (0, 1)]
    down = [step(0, 1, c) for c in (0, 1)]
    assert run(program(AR, 2, [0, 0], (up[0],), (up[1], down[0]), (down[1],))).holds
    assert not run(program(AR, 2, [0, 0], (up[0], down[0]), (up[1],), (down[1],))).holds


@pytest.mark.parametrize("primitive", [REDUCE, RS])
def test_a_sum_needs_every_rank_once(primitive: Primitive) -> None:
    one, two = step(1, 0, 0, add=True), step(2, 0, 0, add=True)
    assert run(program(primitive, 3, [0], (one, two))).holds
    assert run(program(primitive, 3, [0], (one,), (two,))).holds
    for wrong in [
        ((one,),),
        ((one, two), (two,)),
        ((one, two, two),),
        ((one, two._replace(add=False)),),
    ]:
        assert (
            run(program(primitive, 3, [0], *wrong)).problem
            == "chunk 0 is not the sum over all ranks at rank 0"
        )


def test_only_the_home_of_a_sum_is_judged() -> None:
    assert run(program(REDUCE, 2, [1], (step(0, 1, 0, add=True),))).holds
    assert not run(program(REDUCE, 2, [0], (step(0, 1, 0, add=True),))).holds


def test_all_gather_needs_every_chunk_everywhere() -> None:
    swap = step([0, 1], [1, 0], [0, 1])
    assert run(program(AG, 2, [0, 1], (swap,))).holds
    assert (
        run(program(AG, 2, [0, 1], (step(0, 1, 0),))).problem
        == "rank 0 does not end with the right chunk 1"
    )
    assert run(program(AG, 2, [0, 1], (step([0, 1], [1, 0], [1, 0]),))).problem.startswith(
        "step 1: rank 0 sends chunk 1 before"
    )


def test_nothing_done_is_not_a_collective() -> None:
    for primitive in (AR, AG, RS, BC, REDUCE):
        assert not run(program(primitive, 2, [0, 1])).holds
    assert not run(program(P2P, 2, [0], target=[1])).holds


def test_chunks_of_all_to_all_are_moved_not_copied() -> None:
    home, target = [0, 0, 1, 1], [0, 1, 0, 1]
    swap = step([0, 1], [1, 0], [1, 2])
    assert run(program(A2A, 2, home, (swap,), target=target)).holds
    again = run(program(A2A, 2, home, (swap,), (swap,), target=target))
    assert again == (False, "step 2: rank 0 sends chunk 1 that it does not hold", 1)
    twice = program(A2A, 2, home, (swap, step(0, 1, 1)), target=target)
    assert run(twice).problem == "step 1: a chunk is sent twice in one step"
    astray = run(program(A2A, 2, home, (step(0, 1, [0, 1]),), target=target))
    assert astray.problem == "chunk 0 ends at rank 1, not 0"


def test_a_message_over_a_relay() -> None:
    assert run(program(P2P, 3, [0], (step(0, 1, 0),), (step(1, 2, 0),), target=[2])).holds
    assert (
        run(program(P2P, 3, [0], (step(0, 1, 0),), target=[2])).problem
        == "chunk 0 ends at rank 1, not 2"
    )


def test_a_switch_starts_with_nothing_and_is_not_judged() -> None:
    up, down = step([0, 1], 2, 0, add=True), step(2, [0, 1], 0)
    assert run(program(AR, 2, [0], (up,), (down,), nodes=3)).holds
    assert (
        "rank 2 sends chunk 0 before it has it"
        in run(program(AR, 2, [0], (down,), nodes=3)).problem
    )


def test_every_batch_is_carried_with_its_chunk_sizes() -> None:
    net = Ports(2)
    up, down = step(1, 0, [0, 1], add=True), step(0, 1, [0, 1])
    outcome = run(program(AR, 2, [0, 0], (up,), (down,)), net.carry)
    assert (outcome.holds, outcome.steps) == (True, 2)
    assert (net.hops, net.peak, net.busiest) == (2, 2.0, 1.0)


def test_step_stretches_scalars() -> None:
    one = step([0, 1], 2, 5, add=True)
    assert [list(one.src), list(one.dst), list(one.chunk), one.add] == [
        [0, 1],
        [2, 2],
        [5, 5],
        True,
    ]
