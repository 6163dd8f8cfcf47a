"""The time of a collective when all ports and links of one rank run at a share of their bandwidth.

Schedules are executed as in ``verify``, with each rank in turn as the slow one; the worst counts. A
step takes as long as its busiest port or link, or as the busiest of the slow rank at its share,
whichever is longer; of streamed schedules the sums over all steps count. Schedules in which all
ranks do the same (rings, exchanges of all with all) need no execution. Latency is unchanged, and a
slow port does not matter where uplinks remain the bottleneck.

:func:`with_slow_rank` is the entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from math import prod
from typing import Any, NamedTuple

from colltool.algorithms.composed import NATURAL_ORDER, composition_names, find_composition
from colltool.algorithms.executor import concatenated
from colltool.algorithms.program import estimated_messages, program_maker
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
from colltool.verification.executed import network_for

SEGMENTS = 16  # of pipelined algorithms that are executed
MOST_WORK = 20_000_000  # messages of the largest schedule that is executed: seconds of work
# Routes on which all ranks that take part send the same amount in each step.
_UNIFORM = (Ring, Peers, AllPeers, Pair)
# Algorithms with the same schedule as another, over more links.
_SAME_SCHEDULE = {"multi-rail-chain": "chain"}


# A factor on a time: a number, or an array over the slow rank, shape (N,), where it matters which rank
# is slow.
_Factor = Any


class _PhaseRun(NamedTuple):
    """A phase of a schedule on its tier; a flat schedule has one."""

    algorithm: Algorithm
    group: Group
    paths: PathClasses
    inside: int  # ranks behind each endpoint
    leaders: bool  # only the first rank behind each endpoint takes part
    parts: tuple[CostTerm, ...]  # of the price


class UnknownCost(Exception):
    """The cost of a slow rank is not known; the message is the reason."""


def with_slow_rank(
    rows: Sequence[AlgorithmEstimate],
    share: float,
    fabric: Fabric,
    primitive: Primitive,
    group: AnyGroup,
    options: ModelOptions,
) -> tuple[AlgorithmEstimate, ...]:
    """The rows, each with its time when one rank runs at ``share`` of its bandwidth, above 0 and at
    most 1. All rows are of one size."""
    candidates = candidates_for(fabric, group, primitive, options)
    return tuple(replace(row, slow=_slow_rank_of(row, share, candidates)) for row in rows)


def _slow_rank_of(estimate: AlgorithmEstimate, share: float, candidates: Candidates) -> SlowRank:
    """The time of a row with a slow rank, or the reason why it is not known."""
    size = float(estimate.bytes)
    if estimate.status == "own":
        return SlowRank(share, reason="a schedule of your own")
    # the price of the row: a name may have one for each protocol
    cost_model = None
    for candidate in candidates.named([estimate.spec], [size]):
        if (candidate.title, candidate.protocol) == (estimate.title, estimate.protocol):
            cost_model = candidate
            break
    if cost_model is None:
        return SlowRank(share, reason="not priced on its own")
    # the group under the protocol of the price, which is one of them
    placed = next(
        group
        for group in under_protocols(candidates.placed, cost_model.primitive)
        if group.protocol == cost_model.protocol
    )
    try:
        factors = list(_factors(cost_model, share, placed))
    except UnknownCost as error:
        return SlowRank(share, reason=str(error))
    parts = []
    for part, factor in zip(cost_model.parts, factors, strict=True):
        cost = part.cost._replace(eta_beta=part.cost.eta_beta / factor)
        parts.append(part._replace(cost=cost))
    seconds: _Factor = replace(cost_model, parts=tuple(parts)).at(size).total_s
    worst_rank = None
    if is_array(seconds):
        if seconds.min() != seconds.max():
            worst_rank = int(seconds.argmax()) * placed.placement.stride
        seconds = seconds.max()
    total_s = float(seconds)
    return SlowRank(share, total_s, total_s / float(estimate.total_s), worst_rank)


def _factors(cost_model: CostModel, share: float, placed: PlacedGroup) -> Iterator[_Factor]:
    """The factor by which the transfer time of each part of a price grows. Raises
    :class:`UnknownCost`."""
    # a price lists the parts of its phases in their order
    remaining = iter(cost_model.parts)
    for run in _phase_runs(cost_model, placed):
        parts = list(islice(remaining, len(run.parts)))
        if all(isinstance(part.route, _UNIFORM) for part in parts):
            factors = _repriced(run, share, cost_model.readings)
        else:
            streamed = any(part.fill is not None for part in parts)
            factors = _capped_by_uplinks(
                run, _port_factors(run.algorithm, run.group, share, streamed=streamed)
            )
        for factor in factors:
            yield _over_ranks(factor, run, cost_model.ranks)
    # The remaining parts are local copies and the like, which use no port.
    for part in remaining:
        if part.route is not None:
            raise UnknownCost("its phases cannot be told apart")
        yield 1.0


def _repriced(run: _PhaseRun, share: float, options: ModelOptions) -> list[float]:
    """The factors of a phase in which all ranks do the same, and so wait for the slow one: its price
    with every port at the share, uplinks unchanged, over the price without."""
    if run.paths.wired is not None:
        raise UnknownCost("its messages are put on links one by one, all of one speed")
    slow_paths = replace(
        run.paths,
        levels=_at_share(run.paths.levels, share),
        peer_levels=_at_share(run.paths.peer_levels, share),
    )
    usual_s = _per_byte_s(run.parts)
    slow_s = _per_byte_s(parts_of(run.algorithm, run.group, slow_paths, options))
    # at the share a phase may fall into other parts: then all grow alike
    if len(usual_s) != len(slow_s):
        return [sum(slow_s) / sum(usual_s)] * len(usual_s)
    return [slow / usual if usual else 1.0 for usual, slow in zip(usual_s, slow_s, strict=True)]


def _at_share(levels: tuple[PathClass, ...], share: float) -> tuple[PathClass, ...]:
    """The levels with the bandwidth of their ports times ``share``."""
    return tuple(level._replace(eta_beta=level.eta_beta * share) for level in levels)


def _per_byte_s(parts: Sequence[CostTerm]) -> list[float]:
    """Seconds per byte of each part's payload."""
    return [part.cost.n_beta / part.cost.effective_Bps for part in parts]


def _capped_by_uplinks(run: _PhaseRun, port_factor: _Factor) -> list[_Factor]:
    """The factor of each part of a phase whose ports take ``port_factor`` times as long. It is less
    where oversubscribed uplinks, which are unchanged, are the bottleneck."""
    factors = []
    paths = run.paths
    for part in run.parts:
        cost = part.cost
        # η_β of a port on the part's tier, without the limit of uplinks.
        port = next((level.eta_beta for level in paths.levels if level.tier == cost.tier), 1.0)
        # that of a switch, by what it does, where the switches reduce
        if isinstance(part.route, Switch) and paths.in_switch:
            port = paths.in_switch.switch_eta_beta.get(part.route.does, port)
        # cost.share: what the uplinks leave of the port's bandwidth
        factors.append(least(port, cost.share) / least(port / port_factor, cost.share))
    return factors


def _phase_runs(cost_model: CostModel, placed: PlacedGroup) -> Iterator[_PhaseRun]:
    """The phases of a price's schedule, in order."""
    primitive = cost_model.primitive
    choice = cost_model.choice
    options = cost_model.readings
    if choice.base not in composition_names(primitive):
        flat, paths = flat_group(placed, options)
        algorithm = find(primitive, choice.base)
        group = algorithm.on(flat, choice)
        parts = parts_of(algorithm, group, paths, options)
        yield _PhaseRun(algorithm, group, paths, inside=1, leaders=False, parts=parts)
        return
    order = options.order
    if order == "auto":
        order = NATURAL_ORDER.get(primitive, "inner-first")
    first_primitives: dict[int, Primitive] = {}  # of each tier
    for phase in find_composition(primitive, choice.base).steps(placed.sizes, order):
        tier = phase.tier
        span = placed.spans[tier]
        phase_primitive = phase.primitive
        first = first_primitives.setdefault(tier, phase_primitive)
        # as in the price: a switch streams both phases of a tier as one call of the whole primitive
        if _is_one_call(cost_model, span.tier.name):
            if first is not phase_primitive:
                continue
            phase_primitive = primitive
        # a choice names the algorithm of a tier's first phase, later ones take its counterpart
        of_phase = counterpart(find(first, choice.tiers[tier]), phase_primitive)
        assert of_phase is not None  # it was priced
        scale_out = tier > 0 or placed.one_a_node
        group, paths = tier_group(span, options, scale_out=scale_out, leaders=phase.leaders)
        parts = parts_of(of_phase, group, paths, options)
        inside = prod(placed.sizes[:tier])
        yield _PhaseRun(of_phase, group, paths, inside, phase.leaders, parts)


def _is_one_call(cost_model: CostModel, tier: str) -> bool:
    """Whether both phases of a tier are a single reduction in its switches."""
    in_switch = [part for part in cost_model.parts if isinstance(part.route, Switch)]
    return (cost_model.primitive, tier) in [(part.primitive, part.cost.tier) for part in in_switch]


def _over_ranks(factor: _Factor, run: _PhaseRun, ranks: int) -> _Factor:
    """A phase's factor over the ranks of the whole group, shape (N,); 1 for ranks that do not take
    part. A factor that is the same for all ranks stays a number.
    """
    # 16 ranks in domains of 4: outside, domains 0 to 3 are the members, rank 9 is behind the third
    if not is_array(factor) and not run.leaders:
        return factor
    rank = np.arange(ranks)
    if is_array(factor):
        factor = factor[rank // run.inside % run.group.ranks]
    return np.where(rank % run.inside == 0, factor, 1.0) if run.leaders else factor


@lru_cache(maxsize=64)
def _port_factors(algorithm: Algorithm, group: Group, share: float, *, streamed: bool) -> Floats:
    """The transfer time of a schedule with each rank slow in turn, over that without a slow rank,
    shape (N,). Raises :class:`UnknownCost`."""
    name = _SAME_SCHEDULE.get(algorithm.name, algorithm.name)
    make = program_maker(algorithm.primitive, name)
    if make is None:
        raise UnknownCost(f"no schedule of {algorithm.name} is executed")
    segments = SEGMENTS if streamed else None
    if estimated_messages(algorithm.primitive, name, group.ranks, segments) > MOST_WORK:
        raise UnknownCost(f"{group.ranks} ranks are too many to execute {algorithm.name}")
    program = make(group, SEGMENTS)
    network = network_for(group, program.places)

    def largest_if_slow(loads: Floats) -> Floats:
        """The largest load when each rank in turn is slow, in units of a usual port's, shape (N,)."""
        of_rank = network.busiest_of_ranks(loads)[: group.ranks]
        largest: Floats = np.maximum(loads.max(), of_rank / share)
        return largest

    peak = 0.0  # the busiest load of each step, added up
    slow_peaks = np.zeros(group.ranks)
    total = np.zeros(1)  # the load of each resource over all steps
    for batch in program.batches:
        src, dst, chunk = concatenated(program.at_places(batch))
        loads = network.loads(src, dst, program.chunk_bytes[chunk])
        peak += float(loads.max())
        slow_peaks += largest_if_slow(loads)
        total = total + loads
    # Steps that overlap do not wait for each other: the sums over all steps count.
    if streamed or program.streamed:
        slow_peaks = largest_if_slow(total)
        peak = float(total.max())
    factors: Floats = slow_peaks / peak
    return factors
