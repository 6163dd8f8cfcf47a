"""Messages between pipeline stages, against the schedules played out operation by operation."""

from __future__ import annotations

from typing import Any

import pytest
from swept import swept

import colltool
from colltool.base.primitives import P2P
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.parallel_config import RankGroup

FORWARD, BACKWARD = 4e-3, 8e-3  # of a layer
Op = tuple[str, int, int]  # a pass, its micro-batch and its chunk


def interleaved(p: int, m: int, v: int, stage: int) -> list[Op]:
    """What a stage of Megatron-Core's interleaved schedule does, in order: p micro-batches a chunk,
    1F1B after the warm-up."""

    def forward(k: int) -> Op:
        turn, inside = divmod(k, p * v)
        return "forward", turn * p + inside % p, inside // p

    def backward(k: int) -> Op:
        _, micro_batch, chunk = forward(k)
        return "backward", micro_batch, v - 1 - chunk

    warm = min(m * v, (p - stage - 1) * 2 + (v - 1) * p)
    steady = [one for k in range(m * v - warm) for one in (forward(warm + k), backward(k))]
    return (
        [forward(k) for k in range(warm)]
        + steady
        + [backward(k) for k in range(m * v - warm, m * v)]
    )


def played(p: int, m: int, v: int, hop_s: float) -> float:
    """When the last operation ends; a message takes ``hop_s`` and costs the sender nothing."""
    takes = {"forward": FORWARD, "backward": BACKWARD}
    orders = [interleaved(p, m, v, stage) for stage in range(p)]
    done: dict[tuple[Op, int], float] = {}
    clock = [0.0] * p

    def waits_for(op: Op, stage: int) -> tuple[Op, int] | None:
        kind, micro_batch, chunk = op
        if kind == "forward":
            return (
                None
                if (stage, chunk) == (0, 0)
                else ((kind, micro_batch, chunk - (stage == 0)), (stage - 1) % p)
            )
        if (stage, chunk) == (p - 1, v - 1):
            return ("forward", micro_batch, chunk), stage
        return (kind, micro_batch, chunk + (stage == p - 1)), (stage + 1) % p

    while any(orders):
        for stage, order in enumerate(orders):
            while order:
                before = waits_for(order[0], stage)
                if before is not None and before not in done:
                    break
                ready = (
                    0.0 if before is None else done[before] + (hop_s if before[1] != stage else 0.0)
                )
                clock[stage] = max(clock[stage], ready) + takes[order[0][0]]
                done[order.pop(0), stage] = clock[stage]
    return max(clock)


def job(p: int, m: int, v: int) -> dict[str, Any]:
    """A layer a chunk."""
    return {
        "model": {"layers": p * v, "hidden": 4096, "heads": 32, "ffn": 16384, "vocab": 32000},
        "sequence": 2048,
        "batch": {"global": m},
        "layout": {"pp": p, "virtual": v, "dp": 1},
        "compute": {"forward_per_layer": f"{FORWARD}s", "backward_per_layer": f"{BACKWARD}s"},
    }


STAR = {
    "schema": "colltool.fabric/1",
    "name": "star",
    "tiers": [
        {"name": "switch", "topology": "star", "size": 16, "alpha": "2us", "bandwidth": "50GB/s"}
    ],
}


@swept(("p", "m", "v"), [(2, 8, 2), (4, 4, 2), (4, 16, 2), (4, 16, 4), (8, 32, 2)])
def test_interleaved_borders_show_as_often_as_the_schedule_waits(p: int, m: int, v: int) -> None:
    found = colltool.plan(job(p, m, v), STAR)
    hop_s = colltool.price(STAR, "p2p", ranks=2, size=2048 * 4096 * 2).best.total_s
    waits = played(p, m, v, hop_s) - played(p, m, v, 0.0)
    assert waits == pytest.approx(2 * (p * v - 1) * hop_s)
    exposed = {part.name: part.exposed_s for part in found.parts}
    assert exposed["pp"] == pytest.approx(waits)
    assert found.step_s - exposed["norm"] == pytest.approx(played(p, m, v, hop_s))


@pytest.mark.parametrize("m", [1, 2])
def test_fewer_micro_batches_than_stages_wait_at_every_border(m: int) -> None:
    """One micro-batch through 4 stages: three borders forward and three back, though a stage sends
    one message each way."""
    exposed = {part.name: part.exposed_s for part in colltool.plan(job(4, m, 1), STAR).parts}
    hop_s = colltool.price(STAR, "p2p", ranks=2, size=2048 * 4096 * 2).best.total_s
    assert exposed["pp"] == pytest.approx(2 * 3 * hop_s)
    assert exposed["pp"] == pytest.approx(played(4, m, 1, hop_s) - played(4, m, 1, 0.0))


def test_zero_bubble_v_turns_round_on_the_last_stage() -> None:
    """Down and up again: six borders each way, two messages a micro-batch and stage."""
    found = colltool.plan(
        job(4, 16, 1) | {"schedule": "zbv", "model": job(4, 16, 2)["model"]}, STAR
    )
    hop_s = colltool.price(STAR, "p2p", ranks=2, size=2048 * 4096 * 2).best.total_s
    assert {part.name: part.exposed_s for part in found.parts}["pp"] == pytest.approx(2 * 6 * hop_s)
    sent = [one.sent for one in found.collectives if one.sent.call.dimension == "pp"]
    assert [(one.call.calls, one.call.closed) for one in sent] == [(32, False), (32, False)]


def test_the_way_back_of_a_ring() -> None:
    """On a mesh from the last rank of a line to the first, on a torus that it closes a hop; among
    switches no border more."""
    ring = RankGroup(((8, 8),))
    for name, hops in (("mesh512", 7), ("torus512", 1)):
        costs = CollectiveCostCache(colltool.load_fabric(name))
        near, closed = (
            costs.of(P2P, ring, 1.0, closed=closed).latency_s for closed in (False, True)
        )
        assert closed == pytest.approx(hops * near)
    half = CollectiveCostCache(colltool.load_fabric("torus512"))
    assert half.of(P2P, RankGroup(((4, 8),)), 1.0, closed=True).latency_s == pytest.approx(
        3 * half.of(P2P, RankGroup(((4, 8),)), 1.0).latency_s
    )
    switched = CollectiveCostCache(colltool.load_fabric("dgx-h100"))
    assert switched.of(P2P, ring, 1e6, closed=True).each_s == switched.of(P2P, ring, 1e6).each_s
