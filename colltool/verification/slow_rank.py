"""One slow rank: the loss when all ports and links of one rank run at a share of their bandwidth.

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

from colltool.algorithms.composed import NATURAL_ORDER, find_composition
from colltool.algorithms.executor import joined
from colltool.algorithms.program import effort, maker
from colltool.algorithms.registry import Algorithm, find
from colltool.base.arrays import is_array, least
from colltool.base.primitives import AllPeers, Pair, Peers, Primitive, Ring, Switch
from colltool.estimate.algorithm_estimate import AlgorithmEstimate, SlowRank
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import Candidates, candidates_for
from colltool.estimate.cost_model import CostModel, CostTerm
from colltool.estimate.groups import PlacedGroup, flat_group, tier_group
from colltool.estimate.hierarchical import counterpart
from colltool.estimate.path_classes import PathClass, PathClasses
from colltool.estimate.phase_costs import parts_of
from colltool.estimate.placement import AnyGroup
from colltool.estimate.protocols import under_protocols
from colltool.fabric.model import Fabric
from colltool.network.arrays import Floats, np
from colltool.network.group import Group
from colltool.verification.executed import composition_names, network_for

SEGMENTS = 16
MOST_WORK = 20_000_000  # messages of a schedule that are followed: seconds of work
# Routes on which all ranks that take part send as much in each step.
_ALIKE = (Ring, Peers, AllPeers, Pair)
# Algorithms that run the schedule of another over more links.
_SAME_SCHEDULE = {"multi-rail-chain": "chain"}


class _PhaseRun(NamedTuple):
    """One phase of a schedule."""

    row: Algorithm
    group: Group
    reach: PathClasses
    inside: int  # ranks behind each endpoint
    leaders: bool  # only the first rank behind each endpoint takes part
    parts: tuple[CostTerm, ...]


class UnknownCost(Exception):
    """The cost of a slow rank is not known; the text is why."""


def with_slow_rank(
    rows: Sequence[AlgorithmEstimate],
    share: float,
    fabric: Fabric,
    primitive: Primitive,
    group: AnyGroup,
    readings: ModelOptions,
) -> tuple[AlgorithmEstimate, ...]:
    """Rows of one size, each with its time when one rank runs at ``share`` of its bandwidth, above
    0 and at most 1."""
    listed = candidates_for(fabric, group, primitive, readings)
    return tuple(replace(row, slow=_slowed(row, float(row.bytes), share, listed)) for row in rows)


def _slowed(row: AlgorithmEstimate, size: float, share: float, listed: Candidates) -> SlowRank:
    if row.status == "own":
        return SlowRank(share, reason="a schedule of your own")
    costed = None
    for candidate in listed.named([row.spec], [size]):
        if (candidate.title, candidate.protocol) == (row.title, row.protocol):
            costed = candidate
            break
    if costed is None:
        return SlowRank(share, reason="not priced on its own")
    placed = next(
        under
        for under in under_protocols(listed.placed, costed.primitive)
        if under.protocol == costed.protocol
    )
    try:
        factors = list(_factors(costed, share, placed))
    except UnknownCost as error:
        return SlowRank(share, reason=str(error))
    parts = []
    for part, factor in zip(costed.parts, factors, strict=True):
        cost = part.cost._replace(eta_beta=part.cost.eta_beta / factor)
        parts.append(part._replace(cost=cost))
    # An array over the slow rank where it matters which one it is.
    seconds: Any = replace(costed, parts=tuple(parts)).at(size).total_s
    worst = None
    if is_array(seconds):
        if seconds.min() != seconds.max():
            worst = int(seconds.argmax()) * placed.placement.stride
        seconds = seconds.max()
    total_s = float(seconds)
    return SlowRank(share, total_s, total_s / float(row.total_s), worst)


def _factors(costed: CostModel, share: float, placed: PlacedGroup) -> Iterator[Any]:
    """How many times longer each part's bytes take: a number, or an array over the slow rank, shape
    (N,)."""
    left = list(costed.parts)
    for run in _phase_runs(costed, placed):
        count = len(run.parts)
        mine = left[:count]
        left = left[count:]
        if all(isinstance(part.route, _ALIKE) for part in mine):
            factors = _charged_again(run, share, costed.readings)
        else:
            streamed = any(part.fill is not None for part in mine)
            factors = _bounded(run, _executed(run.row, run.group, share, streamed=streamed))
        for factor in factors:
            yield _over_ranks(factor, run, costed.ranks)
    # What is left are local copies and the like, which use no port.
    for part in left:
        if part.route is not None:
            raise UnknownCost("its phases cannot be told apart")
        yield 1.0


def _charged_again(run: _PhaseRun, share: float, readings: ModelOptions) -> list[float]:
    """Factors where all ranks do alike and so wait for the slow one: as if every port had its
    share. Uplinks keep theirs."""
    if run.reach.wired is not None:
        raise UnknownCost("its messages are put on links one by one, all of one speed")
    slow_reach = replace(
        run.reach,
        levels=_at_share(run.reach.levels, share),
        peer_levels=_at_share(run.reach.peer_levels, share),
    )
    before = _per_byte_s(run.parts)
    after = _per_byte_s(parts_of(run.row, run.group, slow_reach, readings))
    if len(before) != len(after):
        return [sum(after) / sum(before)] * len(before)
    return [late / soon if soon else 1.0 for soon, late in zip(before, after, strict=True)]


def _at_share(levels: tuple[PathClass, ...], share: float) -> tuple[PathClass, ...]:
    return tuple(level._replace(eta_beta=level.eta_beta * share) for level in levels)


def _per_byte_s(parts: Sequence[CostTerm]) -> list[float]:
    return [part.cost.n_beta / part.cost.effective_Bps for part in parts]


def _bounded(run: _PhaseRun, ports: Any) -> list[Any]:
    """How much longer each part takes when its ports take ``ports`` times as long; oversubscribed
    uplinks stay as they are."""
    factors = []
    reach = run.reach
    for part in run.parts:
        cost = part.cost
        # η_β of a port on the part's tier, whatever its uplinks leave of it
        port = next((level.eta_beta for level in reach.levels if level.tier == cost.tier), 1.0)
        if isinstance(part.route, Switch) and reach.in_switch:
            port = reach.in_switch.switch_eta_beta.get(part.route.does, port)
        factors.append(least(port, cost.share) / least(port / ports, cost.share))
    return factors


def _phase_runs(costed: CostModel, placed: PlacedGroup) -> Iterator[_PhaseRun]:
    """The phases of a schedule in order; a flat one has one."""
    primitive = costed.primitive
    choice = costed.choice
    readings = costed.readings
    if choice.base not in composition_names(primitive):
        whole, reach = flat_group(placed, readings)
        row = find(primitive, choice.base)
        group = row.on(whole, choice)
        yield _PhaseRun(row, group, reach, 1, False, parts_of(row, group, reach, readings))
        return
    order = readings.order
    if order == "auto":
        order = NATURAL_ORDER.get(primitive) or "inner-first"
    begun: dict[int, Primitive] = {}  # the primitive of each tier's first phase
    for phase in find_composition(primitive, choice.base).steps(placed.sizes, order):
        tier = phase.tier
        span = placed.spans[tier]
        does = phase.primitive
        first = begun.setdefault(tier, does)
        if _is_one_call(costed, span.tier.name):
            if first is not does:
                continue
            does = primitive
        partner = counterpart(find(first, choice.tiers[tier]), does)
        assert partner is not None  # it was priced
        scale_out = tier > 0 or placed.one_a_node
        group, reach = tier_group(span, readings, scale_out=scale_out, leaders=phase.leaders)
        parts = parts_of(partner, group, reach, readings)
        inside = prod(placed.sizes[:tier])
        yield _PhaseRun(partner, group, reach, inside, phase.leaders, parts)


def _is_one_call(costed: CostModel, tier: str) -> bool:
    """Whether a switch streams both phases of a tier at once."""
    in_switch = [part for part in costed.parts if isinstance(part.route, Switch)]
    return (costed.primitive, tier) in [(part.primitive, part.cost.tier) for part in in_switch]


def _over_ranks(factor: Any, run: _PhaseRun, ranks: int) -> Any:
    """The factor of every rank of the whole group, by its place in the phase's group; 1 for those
    that the phase does not need."""
    if not is_array(factor) and not run.leaders:
        return factor
    rank = np.arange(ranks)
    if is_array(factor):
        factor = factor[rank // run.inside % run.group.ranks]
    return np.where(rank % run.inside == 0, factor, 1.0) if run.leaders else factor


@lru_cache(maxsize=64)
def _executed(row: Algorithm, group: Group, share: float, *, streamed: bool) -> Floats:
    """Time of the ports with each rank slow over that with none, shape (N,); raises
    :class:`UnknownCost`."""
    name = _SAME_SCHEDULE.get(row.name, row.name)
    make = maker(row.primitive, name)
    if make is None:
        raise UnknownCost(f"no schedule of {row.name} is executed")
    if effort(row.primitive, name, group.ranks, SEGMENTS if streamed else None) > MOST_WORK:
        raise UnknownCost(f"{group.ranks} ranks are too many to execute {row.name}")
    program = make(group, SEGMENTS)
    network = network_for(group, program.places)

    def with_slow(loads: Floats) -> Floats:
        """Load of the busiest port, with each rank slow in turn."""
        own = network.of_ranks(loads)[: group.ranks]
        slowest: Floats = np.maximum(loads.max(), own / share)
        return slowest

    peak = 0.0
    slow = np.zeros(group.ranks)
    total = np.zeros(1)
    for batch in program.batches:
        src, dst, chunk = joined(program.standing(batch))
        loads = network.loads(src, dst, program.chunk_bytes[chunk])
        peak += float(loads.max())
        slow += with_slow(loads)
        total = total + loads
    # Steps that overlap do not wait for each other: only the sums over all of them count.
    if streamed or program.streamed:
        slow = with_slow(total)
        peak = float(total.max())
    factors: Floats = slow / peak
    return factors
