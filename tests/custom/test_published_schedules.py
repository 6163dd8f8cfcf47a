"""Bine trees by their definition, and a tree that ForestColl published: proved, and as near as
their papers say."""

from __future__ import annotations

import re
from typing import Any

import pytest
from swept import swept

import colltool
from colltool import guides
from colltool.algorithms.executor import run
from colltool.custom.file import custom_schedule
from colltool.custom.schedule import CustomSchedule
from colltool.fabric.routed_tiers import GraphTier

SIZES = (2, 4, 8, 16, 32, 64)


def ahead(k: int) -> int:
    """The sum of (-2)^0 .. (-2)^k: 1, -1, 3, -5, 11."""
    return sum((-2) ** j for j in range(k + 1))


def butterfly(primitive: str, ranks: int) -> dict[str, Any]:
    """De Sensi et al., SC 2025, section 3: partners swap all that they hold; a reduce-scatter is
    that backwards."""
    held, gather = {rank: [rank] for rank in range(ranks)}, []
    for k in range(ranks.bit_length() - 1):
        partner = {
            rank: (rank + (ahead(k) if rank % 2 == 0 else -ahead(k))) % ranks
            for rank in range(ranks)
        }
        assert all(partner[partner[rank]] == rank for rank in partner)
        gather.append(
            [{"src": rank, "dst": partner[rank], "chunks": held[rank]} for rank in range(ranks)]
        )
        held = {rank: held[rank] + held[partner[rank]] for rank in range(ranks)}
    back = [
        [one | {"src": one["dst"], "dst": one["src"], "reduce": True} for one in step]
        for step in reversed(gather)
    ]
    steps = {"all_gather": gather, "reduce_scatter": back, "all_reduce": back + gather}[primitive]
    return {"name": "bine", "primitive": primitive, "ranks": ranks, "steps": steps}


def tree(ranks: int) -> dict[str, Any]:
    """The distance-halving broadcast: a rank that has the vector sends it to the one with its last
    bits in base -2 flipped."""
    bits = ranks.bit_length() - 1
    rank_of = [
        sum((number >> j & 1) * (-2) ** j for j in range(bits)) % ranks for number in range(ranks)
    ]
    number_of = {rank: number for number, rank in enumerate(rank_of)}
    have, steps = [0], []
    for k in range(bits, 0, -1):
        sends = [(rank, rank_of[number_of[rank] ^ ((1 << k) - 1)]) for rank in have]
        steps.append(" ".join(f"{src}>{dst}:0" for src, dst in sends))
        have += [dst for _, dst in sends]
    return {"name": "bine", "primitive": "broadcast", "ranks": ranks, "chunks": 1, "steps": steps}


def way(schedule: CustomSchedule) -> int:
    """Distances on a ring that pairs of ranks are apart, added up over the messages between
    them."""
    pairs = {
        (at, src, dst)
        for at, batch in enumerate(schedule.batches)
        for one in batch
        for src, dst in zip(one.src.tolist(), one.dst.tolist(), strict=True)
    }
    return sum(
        min((dst - src) % schedule.ranks, (src - dst) % schedule.ranks) for _, src, dst in pairs
    )


@swept("ranks", SIZES)
@swept("primitive", ["all_gather", "reduce_scatter", "all_reduce"])
def test_bine_butterflies_are_proved(primitive: str, ranks: int) -> None:
    found = custom_schedule(butterfly(primitive, ranks))
    assert len(found.batches) == (ranks.bit_length() - 1) * (2 if primitive == "all_reduce" else 1)
    assert run(found.program()).holds


@swept("ranks", SIZES)
def test_bine_trees_are_proved(ranks: int) -> None:
    found = custom_schedule(tree(ranks))
    assert (len(found.batches), found.messages) == (ranks.bit_length() - 1, ranks - 1)


def test_the_tree_of_eight_is_the_paper_s() -> None:
    assert tree(8)["steps"] == ["0>3:0", "0>7:0 3>4:0", "0>1:0 3>2:0 7>6:0 4>5:0"]


@swept("ranks", SIZES[2:])
def test_bine_goes_a_third_less_way(ranks: int) -> None:
    """The paper's bound: distances add up to 2/3 of a binomial tree's or butterfly's, the nearer
    the more ranks."""
    halvings = range(ranks.bit_length() - 1)
    binomial = sum((1 << k) * (ranks >> (k + 1)) for k in halvings)
    doubling = sum(ranks * min(1 << k, ranks - (1 << k)) for k in halvings)
    assert way(custom_schedule(tree(ranks))) / binomial == pytest.approx(2 / 3, abs=0.2)
    assert way(custom_schedule(butterfly("all_gather", ranks))) / doubling == pytest.approx(
        2 / 3, abs=1 / ranks + 0.02
    )


def of_the_guide(name: str) -> CustomSchedule:
    return custom_schedule(
        next(
            one
            for one in re.findall(r"```yaml\n(.*?)```", guides.read_guide("algorithms"), re.DOTALL)
            if name in one
        )
    )


def test_two_steps_on_a_dgx_1() -> None:
    """SCCL's point of one chunk, two steps and two rounds: only along NVLinks, on each at most one
    chunk a step."""
    found = of_the_guide("two-steps")
    (tier,) = colltool.load_fabric("dgx-1v").tiers
    assert isinstance(tier, GraphTier)
    concatenated = {
        pair for link in tier.links for pair in (tuple(link.between), tuple(reversed(link.between)))
    }
    assert len(found.batches) == 2
    for batch in found.batches:
        sent = [
            pair for one in batch for pair in zip(one.src.tolist(), one.dst.tolist(), strict=True)
        ]
        assert len(sent) == len(set(sent))
        assert set(sent) <= concatenated


def test_the_tree_of_forestcoll_reaches_everybody_once() -> None:
    found = of_the_guide("forestcoll")
    assert (found.ranks, found.messages, len(found.batches)) == (32, 31, 5)  # its height is 5 there
    crossing = [
        sum(int((one.src // 16 != one.dst // 16).sum()) for one in batch) for batch in found.batches
    ]  # between the machines
    assert crossing == [1, 0, 0, 0, 0]
