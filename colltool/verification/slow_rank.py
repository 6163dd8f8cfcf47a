"""One slow rank: what a schedule loses when all ports and links of one rank run at a share of their
bandwidth.

Schedules are executed as ``verify`` does: a step takes as long as its busiest port or link, or the
slow rank's busiest at its share if that is longer; of a stream of segments the sums over all steps
count. The slow rank is the worst that there is: a leaf of a tree slows only its own steps. What
every rank does alike (rings, exchanges of all with all) needs no execution. Latency stays, and
where uplinks are the bottleneck the port hides behind them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from colltool.algorithms.composed import NATURAL_ORDER, compositions, find_composition
from colltool.algorithms.executor import joined
from colltool.algorithms.program import effort, maker
from colltool.algorithms.registry import Algorithm, find
from colltool.base.arrays import is_array, least
from colltool.base.primitives import AllPeers, Pair, Peers, Primitive, Ring, Switch
from colltool.estimate.algorithm_estimate import AlgorithmEstimate, SlowRank
from colltool.estimate.assumptions import Readings
from colltool.estimate.candidates import Candidates, candidates_for
from colltool.estimate.cost_model import CostModel, CostTerm
from colltool.estimate.groups import PlacedGroup, flat_group, tier_group
from colltool.estimate.hierarchical import counterpart
from colltool.estimate.path_classes import PathClasses
from colltool.estimate.phase_costs import parts_of
from colltool.estimate.placement import AnyGroup
from colltool.estimate.protocols import under_protocols
from colltool.fabric.model import Fabric
from colltool.network.group import Group
from colltool.verification.executed import network_for

SEGMENTS = 16
MOST_WORK = 20_000_000  # messages of a schedule that are followed: seconds of work
# routes on which all ranks that take part send as much in each step
_ALIKE = (Ring, Peers, AllPeers, Pair)
_STANDS_FOR = {"multi-rail-chain": "chain"}  # runs the schedule of another over more links


class _PhaseRun(NamedTuple):
    """One phase of a schedule."""

    row: Algorithm
    group: Group
    reach: PathClasses
    inside: int  # ranks behind each endpoint
    leaders: bool  # only the first rank behind each endpoint takes part
    parts: tuple[CostTerm, ...]


class UnknownCost(Exception):
    """Nothing says what a slow rank costs; the text is why."""


def with_slow_rank(
    rows: Sequence[AlgorithmEstimate],
    share: float,
    fabric: Fabric,
    primitive: Primitive,
    group: AnyGroup,
    readings: Readings,
) -> tuple[AlgorithmEstimate, ...]:
    """Rows of one size, each with what it takes when one rank runs at ``share`` of its bandwidth,
    above 0 and at most 1."""
    listed = candidates_for(fabric, group, primitive, readings)
    return tuple(replace(row, slow=_slowed(row, float(row.bytes), share, listed)) for row in rows)


def _slowed(row: AlgorithmEstimate, size: float, share: float, listed: Candidates) -> SlowRank:
    if row.status == "own":
        return SlowRank(share, reason="a schedule of your own")
    placed, same = listed.placed, listed.named([row.spec], [size])
    costed = next(
        (one for one in same if (one.title, one.protocol) == (row.title, row.protocol)), None
    )
    if costed is None:
        return SlowRank(share, reason="not priced on its own")
    under = next(
        one for one in under_protocols(placed, costed.primitive) if one.protocol == costed.protocol
    )
    try:
        factors = list(_factors(costed, share, under))
    except UnknownCost as error:
        return SlowRank(share, reason=str(error))
    parts = tuple(
        part._replace(cost=part.cost._replace(eta_beta=part.cost.eta_beta / factor))
        for part, factor in zip(costed.parts, factors, strict=True)
    )
    seconds: Any = replace(costed, parts=parts).at(size).total_s
    total = float(seconds.max() if is_array(seconds) else seconds)
    alike = not is_array(seconds) or bool(seconds.min() == seconds.max())
    return SlowRank(
        share,
        total,
        total / float(row.total_s),
        None if alike else int(seconds.argmax()) * placed.placement.stride,
    )


def _factors(costed: CostModel, share: float, placed: PlacedGroup) -> Iterator[Any]:
    """How many times longer each part's bytes take: a number, or an array over the slow rank, shape
    (N,)."""
    left = list(costed.parts)
    for run in _runs(costed, placed):
        mine, left = left[: len(run.parts)], left[len(run.parts) :]
        if all(isinstance(part.route, _ALIKE) for part in mine):
            each = _charged_again(run, share, costed.readings)
        else:
            each = _bounded(
                run,
                _executed(
                    run.row, run.group, share, streamed=any(part.fill is not None for part in mine)
                ),
            )
        yield from (_spread(factor, run, costed.ranks) for factor in each)
    if any(part.route is not None for part in left):
        raise UnknownCost("its phases cannot be told apart")
    yield from (1.0 for _ in left)


def _charged_again(run: _PhaseRun, share: float, readings: Readings) -> list[float]:
    """Where all ranks do alike and so wait for the slow one: as if every port had its share.
    Uplinks keep theirs."""
    if run.reach.wired is not None:
        raise UnknownCost("its messages are put on links one by one, all of one speed")
    levels, peers = (
        tuple(level._replace(eta_beta=level.eta_beta * share) for level in several)
        for several in (run.reach.levels, run.reach.peer_levels)
    )
    slow = parts_of(
        run.row, run.group, replace(run.reach, levels=levels, peer_levels=peers), readings
    )
    before, after = (
        [part.cost.n_beta / part.cost.effective_Bps for part in parts]
        for parts in (run.parts, slow)
    )
    if len(before) != len(after):
        return [sum(after) / sum(before)] * len(before)
    return [late / soon if soon else 1.0 for soon, late in zip(before, after, strict=True)]


def _bounded(run: _PhaseRun, ports: Any) -> list[Any]:
    """How much longer each part takes when its ports take ``ports`` times as long; oversubscribed
    uplinks stay as they are."""
    found, reach = [], run.reach
    for part in run.parts:
        own = part.cost
        # η_β of a port on the part's tier, whatever its uplinks leave of it
        port = next((level.eta_beta for level in reach.levels if level.tier == own.tier), 1.0)
        if isinstance(part.route, Switch) and reach.in_switch:
            port = reach.in_switch.own_eta.get(part.route.does, port)
        found.append(least(port, own.share) / least(port / ports, own.share))
    return found


def _runs(costed: CostModel, placed: PlacedGroup) -> Iterator[_PhaseRun]:
    """The phases of a schedule in order; a flat one has one."""
    primitive, choice, readings = costed.primitive, costed.choice, costed.readings
    if choice.base not in [row.name for row in compositions(primitive)]:
        group, reach = flat_group(placed, readings)
        row = find(primitive, choice.base)
        seen = row.on(group, choice)
        yield _PhaseRun(row, seen, reach, 1, False, parts_of(row, seen, reach, readings))
        return
    order = (
        (NATURAL_ORDER.get(primitive) or "inner-first")
        if readings.order == "auto"
        else readings.order
    )
    begun: dict[int, Primitive] = {}
    for step in find_composition(primitive, choice.base).steps(placed.sizes, order):
        first = find(begun.setdefault(step.tier, step.primitive), choice.tiers[step.tier])
        partner = counterpart(first, step.primitive)
        if _is_one_call(costed, placed.spans[step.tier].tier.name):
            if begun[step.tier] is not step.primitive:
                continue
            partner = counterpart(first, primitive)
        assert partner is not None  # it was priced
        scale_out = step.tier > 0 or placed.one_a_node
        group, reach = tier_group(
            placed.spans[step.tier], readings, scale_out=scale_out, leaders=step.leaders
        )
        parts = parts_of(partner, group, reach, readings)
        yield _PhaseRun(partner, group, reach, prod(placed.sizes[: step.tier]), step.leaders, parts)


def _is_one_call(costed: CostModel, tier: str) -> bool:
    """A switch that both phases of a tier stream through at once."""
    return any(
        isinstance(p.route, Switch) and p.primitive is costed.primitive and p.cost.tier == tier
        for p in costed.parts
    )


def _spread(ratios: Any, run: _PhaseRun, ranks: int) -> Any:
    """For every rank of the whole group what its place in the phase's group says; 1 for those that
    it does not need."""
    if not is_array(ratios) and not run.leaders:
        return ratios
    import numpy as np

    rank = np.arange(ranks)
    place = rank // run.inside % run.group.ranks
    own = ratios[place] if is_array(ratios) else np.full(ranks, ratios)
    return np.where(rank % run.inside == 0, own, 1.0) if run.leaders else own


@lru_cache(maxsize=64)
def _executed(row: Algorithm, group: Group, share: float, *, streamed: bool) -> Any:
    """Time of the ports with each rank slow over that with none, shape (N,); raises
    :class:`UnknownCost`."""
    import numpy as np

    name = _STANDS_FOR.get(row.name, row.name)
    make = maker(row.primitive, name)
    if make is None:
        raise UnknownCost(f"no schedule of {row.name} is executed")
    if effort(row.primitive, name, group.ranks, SEGMENTS if streamed else None) > MOST_WORK:
        raise UnknownCost(f"{group.ranks} ranks are too many to execute {row.name}")
    program = make(group, SEGMENTS)
    network = network_for(group, program.places)
    peak, slow, total = 0.0, np.zeros(group.ranks), np.zeros(1)
    for batch in program.batches:
        src, dst, chunk = joined(program.standing(batch))
        loads = network.loads(src, dst, program.chunk_bytes[chunk])
        peak += float(loads.max())
        slow += np.maximum(loads.max(), network.of_ranks(loads)[: group.ranks] / share)
        total = total + loads
    if streamed or program.streamed:
        return np.maximum(total.max(), network.of_ranks(total)[: group.ranks] / share) / total.max()
    return slow / peak
