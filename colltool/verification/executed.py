"""Executes a schedule and compares it with its formula and its price.

:func:`execute_flat` and :func:`execute_composed` run a schedule and count its α and bytes.
:func:`judge` compares these counts with the formula's. :class:`TimedLinks` puts the messages on the
links of a fabric; :func:`judge_time` compares the seconds that follow with the price.

A ``Network`` adds up what the steps load its ports and links with, in units of M over their capacity:
``hops`` has the longest path of each step, ``peak`` the busiest port or link of each step, and
``busiest`` the largest total of one port or link. A verdict is:

    proved        the execution agrees with formula and price
    counts only   it agrees with the formula; its time is not known
    idealised     it differs in a way that is known and stated
    mismatch      it differs otherwise
"""

from typing import Literal, NamedTuple, get_args

from colltool.algorithms.composed import NATURAL_ORDER
from colltool.algorithms.composed_program import compose
from colltool.algorithms.executor import (
    Network,
    Outcome,
    TierNetworks,
    concatenated,
    group_links,
    run,
)
from colltool.algorithms.program import Program, Step, program_maker
from colltool.algorithms.registry import Algorithm, Status
from colltool.algorithms.trace import Trace, Vectors, traced, traced_by_hops
from colltool.base.primitives import A2A, Pipeline, Terms
from colltool.custom.schedule import CustomSchedule
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.cost_model import CostModel
from colltool.estimate.groups import PlacedGroup, Span, tier_group
from colltool.estimate.wired import between_places, links_on, places_of
from colltool.fabric.capabilities import DistanceClass
from colltool.fabric.topology import capabilities_of
from colltool.network.arrays import Floats
from colltool.network.group import Group
from colltool.network.lattice_links import LatticeLinks
from colltool.network.links import tier_of
from colltool.network.twisted_links import TwistedLinks

Verdict = Literal["proved", "counts only", "idealised", "mismatch"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)  # from the best to the worst
COUNTS_ONLY: Verdict = "counts only"
# Relative differences that count as equal, for rounding errors of sums.
_SAME = 1e-9  # of counts
_SAME_TIME = 1e-6  # of times, which add up over more terms
# Over several tiers a price is idealised if the execution differs by more than this part of it.
_CLOSE = 0.01


class Counts(NamedTuple):
    """Coefficients of α and of M/BW: messages one after the other, and bytes in units of M."""

    n_alpha: float
    n_beta: float


class Seconds(NamedTuple):
    """The time of an execution."""

    alpha_s: float  # latency of the farthest message of each step, added up
    # Transfer time with every step waiting for its busiest port, link or uplink; of streamed
    # schedules ``busiest_s``.
    carried_s: float
    # Transfer time of the port, link or uplink with the largest total: a lower bound for any order
    # of the same messages.
    busiest_s: float

    @property
    def total_s(self) -> float:
        """Latency and transfer time."""
        return self.alpha_s + self.carried_s


class TimedLinks(Network):
    """Loads in seconds per byte of M on the ports, links and uplinks of every tier that a group
    spans.

    Oversubscription of the group's own uplinks counts, contention with others does not. It is
    derived from the fabric and not from the model of prices, which it verifies.

    Args:
        placed: the group, packed, so that its ranks are its members.
        nodes: its members and, on a single tier, the servers or padding after them.
    """

    def __init__(self, placed: PlacedGroup, nodes: int) -> None:
        self.alpha_s = 0.0
        self.domains = placed.domains
        self.nodes = nodes
        places = places_of(self.domains, nodes)
        outermost = placed.spans[-1]
        super().__init__(
            *(links_on(span.position, places, last=span is outermost) for span in placed.spans)
        )

    def carry(self, batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        """Carry a batch of steps, and add its longest latency to ``alpha_s``."""
        batch = between_places(batch, self.domains, self.nodes)
        super().carry(batch, chunk_bytes)
        src, dst, _ = concatenated(batch)
        travels_on = tier_of(self.tiers, src, dst)
        longest_s = 0.0
        for number, tier in enumerate(self.tiers):
            here = travels_on == number
            if here.any():
                alpha_s, links = tier.latency(src[here], dst[here])
                longest_s = max(longest_s, float(alpha_s[links.argmax()]))
        self.alpha_s += longest_s

    def seconds(self, program: Program, size: float) -> Seconds:
        """The time of all steps so far for M of ``size`` bytes."""
        carried = self.busiest if program.streamed else self.peak
        return Seconds(self.alpha_s, carried * size, self.busiest * size)


def model_options(segments: int, *, ideal: bool) -> ModelOptions:
    """The model options of prices that are compared with executions, where every step waits for its
    slowest pair."""
    return ModelOptions(ideal=ideal, pipelining=segments, ring_alpha="worst", phases="sequential")


class Execution(NamedTuple):
    """An executed flat schedule."""

    outcome: Outcome  # whether the collective's result is right
    counts: Counts
    busiest: float  # the largest total on one port or link, in units of M
    streamed: bool  # whether steps overlap


def flat_program(algorithm: Algorithm, group: Group, segments: int) -> Program:
    """The schedule of an algorithm, which must have one (see ``why_not_executed``)."""
    make = program_maker(algorithm.primitive, algorithm.name)
    assert make is not None
    return make(group, segments)


def network_for(group: Group, places: int = 0) -> Network:
    """A network of capacity 1: the links of a lattice, full mesh or graph, elsewhere a port for each
    rank and server.

    ``places`` is the number of ranks and servers; 0: that of the ranks.
    """
    return Network(group_links(group, places or group.ranks))


def execute_flat(algorithm: Algorithm, group: Group, segments: int) -> Execution:
    """Execute an algorithm's schedule on the links of its group (:func:`network_for`)."""
    program = flat_program(algorithm, group, segments)
    network = network_for(group, program.places)
    outcome = run(program, network.carry)
    # A schedule in switches goes through one; each of its hops is as many as the tree has levels.
    levels = group.switch_levels if algorithm.in_switch else 1
    carried = network.busiest if program.streamed else network.peak
    counts = Counts(float(network.hops * levels), carried)
    return Execution(outcome, counts, network.busiest, program.streamed)


def flat_trace(algorithm: Algorithm, group: Group, segments: int, vectors: Vectors = ()) -> Trace:
    """Every step of an algorithm's schedule."""
    program = flat_program(algorithm, group, segments)
    network = network_for(group, program.places)
    (links,) = network.tiers
    # A trace cuts chunks in halves where two paths tie; on a twisted torus more than two can.
    twisted = isinstance(links, TwistedLinks)
    if isinstance(links, LatticeLinks) and not twisted and program.primitive is A2A:
        return traced_by_hops(program, links, vectors)
    return traced(program, network, vectors)


def flat_seconds(
    algorithm: Algorithm,
    group: Group,
    placed: PlacedGroup,
    cost_model: CostModel,
    execution: Execution,
    *,
    size: float,
    segments: int,
) -> Seconds | str:
    """The time of a flat schedule's execution without contention, or the reason why it is not known.

    Where the cost is the same for all pairs it follows from the counts; elsewhere every message is
    put on its links.

    Args:
        size: M in bytes.
        segments: P of pipelined algorithms.
    """
    unknown = _unknown_planes(placed)
    if unknown:
        return unknown
    inner, *outer = placed.spans
    if not outer:
        levels = _levels_in_use(inner)
        if algorithm.in_switch and any(level.oversubscription > 1 for level in levels):
            return (
                "seconds are not compared: traffic between reducing switches over oversubscribed"
                " uplinks is not executed"
            )
        if algorithm.in_switch or len(levels) == 1:
            # all parts have one α and bandwidth
            cost = cost_model.parts[0].cost
            return Seconds(
                alpha_s=execution.counts.n_alpha * cost.alpha_s,
                carried_s=execution.counts.n_beta * size / cost.bandwidth_Bps,
                busiest_s=execution.busiest * size / cost.bandwidth_Bps,
            )
    elif any(capabilities_of(span.tier).axes for span in placed.spans):
        return "seconds are not compared: a flat schedule's links on the lattice are not known"
    program = flat_program(algorithm, group, segments)
    timed_links = TimedLinks(
        placed, program.nodes if program.node_places is None else program.places
    )
    run(program, timed_links.carry)
    return timed_links.seconds(program, size)


def _levels_in_use(span: Span) -> tuple[DistanceClass, ...]:
    """The levels of a tier, the nearest first, up to the one that joins all members."""
    levels = capabilities_of(span.tier).classes
    # levels whose switches join fewer members than the group has
    too_small = 0
    for level in levels[:-1]:
        too_small += span.occupancy.members(level.group) < span.endpoints
    return levels[: 1 + too_small]


def _unknown_planes(placed: PlacedGroup) -> str:
    """The reason why times are unknown where flows are hashed to planes. Empty where they are not."""
    for span in placed.spans:
        planes = capabilities_of(span.tier).planes
        if planes and planes.spread == "ecmp":
            return "seconds are not compared: which plane a flow is hashed to is not known"
    return ""


def formula_counts(algorithm: Algorithm, group: Group, segments: int) -> Counts:
    """The counts of an algorithm's formula, with P segments if it is pipelined."""
    n_alpha = n_beta = 0.0
    for terms in algorithm.schedule(group):
        cost: Counts | Terms = terms
        if terms.fill is not None:
            cost = _at_segments(Pipeline(terms.n_alpha, terms.fill, terms.n_beta), segments)
        n_alpha += cost.n_alpha
        n_beta += cost.n_beta * terms.payload
    return Counts(n_alpha, n_beta)


def costed_counts(cost_model: CostModel, segments: int, tier: str = "") -> Counts:
    """The counts of all parts of a price, or of those on one tier. Where messages are routed these
    count links, which the formula does not know."""
    n_alpha = n_beta = 0.0
    for part in cost_model.parts:
        if tier in ("", part.cost.tier):
            cost = _at_segments(part.pipeline, segments) if part.pipeline else part.cost
            n_alpha += cost.n_alpha
            n_beta += cost.n_beta * part.payload
    return Counts(n_alpha, n_beta)


def _at_segments(pipeline: Pipeline, segments: int) -> Counts:
    """The counts of a pipeline with P segments."""
    return Counts(*map(float, pipeline.counts(segments)))


def execute_composed(
    placed: PlacedGroup, cost_model: CostModel, segments: int, options: ModelOptions, size: float
) -> tuple[Outcome, list[tuple[Counts, Counts]], Seconds | str]:
    """Execute a composition for M of ``size`` bytes.

    Returns:
        Its outcome; for each tier, innermost first, the counts of its formulas and those of the
        execution; and its time, or the reason why that is not known.

    Raises:
        ValueError: a phase has no schedule without switches.
    """
    program, network = composed_program(placed, cost_model, segments, options)
    timed_links = TimedLinks(placed, program.nodes)

    def carry(batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        network.carry(batch, chunk_bytes)
        timed_links.carry(batch, chunk_bytes)

    outcome = run(program, carry)
    counts = []
    for span, on_tier in zip(placed.spans, network.networks, strict=True):
        expected = costed_counts(cost_model, segments, span.tier.name)
        counts.append((expected, Counts(float(on_tier.hops), on_tier.peak)))
    return outcome, counts, _unknown_planes(placed) or timed_links.seconds(program, size)


def composed_trace(
    placed: PlacedGroup,
    cost_model: CostModel,
    segments: int,
    options: ModelOptions,
    vectors: Vectors,
) -> Trace:
    """Every step of a composition."""
    return traced(*composed_program(placed, cost_model, segments, options), vectors)


def composed_program(
    placed: PlacedGroup, cost_model: CostModel, segments: int, options: ModelOptions
) -> tuple[Program, TierNetworks]:
    """The schedule of a composition, and the network of its tiers; ValueError as for
    :func:`execute_composed`."""
    groups = []
    choices = []
    for number, span in enumerate(placed.spans):
        scale_out = number > 0 or placed.one_a_node
        groups.append(tier_group(span, options, scale_out=scale_out)[0])
        # A tier's algorithm is named by its first phase.
        names = (part.algorithm for part in cost_model.parts if part.cost.tier == span.tier.name)
        choices.append(next(names))
    primitive = cost_model.primitive
    order = NATURAL_ORDER.get(primitive, "inner-first")
    program = compose(primitive, cost_model.choice.base, groups, choices, segments, order)
    return program, TierNetworks(groups)


def execute_custom(
    placed: PlacedGroup, group: Group, program: Program, size: float
) -> tuple[Counts, Seconds]:
    """The counts and time of a custom schedule; its result was checked when it was read."""
    network = network_for(group)
    timed_links = TimedLinks(placed, program.nodes)
    for batch in program.batches:
        network.carry(batch, program.chunk_bytes)
        timed_links.carry(batch, program.chunk_bytes)
    return Counts(float(network.hops), network.peak), timed_links.seconds(program, size)


def custom_trace(group: Group, schedule: CustomSchedule, vectors: Vectors) -> Trace | None:
    """Every step of a custom schedule. None where it uses scratch buffers, which a trace cannot
    show."""
    if not run(schedule.program()).holds:
        return None
    return traced(schedule.program(), network_for(group), vectors)


def judge(
    status: Status, expected: Counts, counted: Counts, busiest: float, *, streamed: bool = False
) -> tuple[Verdict, str]:
    """The verdict on the counts of an execution, and where they differ a note on how, else an empty one.

    Args:
        status: of the algorithm; ``idealised`` if its formula is known to leave something out.
        expected: the counts of the formula.
        counted: those of the execution.
        busiest: the largest total on one port or link, in units of M.
        streamed: whether the steps of the schedule overlap.
    """
    more_counted = []  # of α and of β: whether the execution counts more than the formula
    ratios = []
    for field_name, formula, execution in zip(Counts._fields, expected, counted, strict=True):
        margin = _SAME * max(1.0, formula)
        more_counted.append(execution > formula + margin)
        # what differs, in either direction
        if more_counted[-1] or execution < formula - margin:
            ratios.append(f"{field_name} {execution / formula:.4g}")
    if not ratios:
        return "proved", ""
    more_alpha, more_beta = more_counted
    ratio = f"executed/formula: {', '.join(ratios)}"
    if not any(more_counted):
        return "idealised", f"the formula is an upper bound here, {ratio}"
    if streamed and not more_beta:
        return "idealised", f"up to the switch and down again is priced as one pass, {ratio}"
    if not more_alpha and busiest <= expected.n_beta * (1 + _SAME):
        waits = "holds when messages wait only between phases; in strict lock step"
        return "idealised", f"{waits} {ratio}"
    if status == "idealised":
        return "idealised", f"on real wiring {ratio}"
    return "mismatch", ratio


class CountPair(NamedTuple):
    """What the formula counts, None where there is no formula, and what the execution counted."""

    formula: float | None
    executed: float


class TimePair(NamedTuple):
    """Seconds by the price and by the execution, both without launch and library overhead."""

    price_s: float
    executed_s: float


def price_s(cost_model: CostModel, size: float) -> float:
    """The latency and transfer time of a price in seconds, without launch and library overhead."""
    estimate = cost_model.at(size)
    return float(estimate.steps_s) + float(estimate.moved_s)


def judge_time(
    verdict: Verdict,
    placed: PlacedGroup,
    cost_model: CostModel,
    executed: Seconds | str,
    size: float,
) -> tuple[Verdict, str, TimePair | None]:
    """The verdict that takes the time into account, a note on it (empty without one), and both times
    (None where the execution's is not known).

    Where the time is not known (``executed`` is the reason) the verdict is on counts only. A price
    below the transfer time of the busiest port, link or uplink is a mismatch, even if the counts
    agree. A price that differs because steps wait for their slowest pair gets a note, and over
    several tiers, if it differs by more than a percent, the verdict idealised.
    """
    if isinstance(executed, str):
        return COUNTS_ONLY if verdict == "proved" else verdict, executed, None
    price = price_s(cost_model, size)
    time_s = TimePair(price, executed.total_s)
    if verdict != "proved":
        return verdict, "", time_s
    moved_s = float(cost_model.at(size).moved_s)
    if executed.busiest_s > moved_s * (1 + _SAME_TIME):
        times = f"{executed.busiest_s / moved_s:.4g} times their price"
        return "mismatch", f"bytes on the busiest port, link or uplink take {times}", time_s
    ratio = executed.total_s / price
    if abs(ratio - 1) <= _SAME_TIME:
        return verdict, "", time_s
    if len(placed.spans) > 1 and abs(ratio - 1) > _CLOSE:
        verdict = "idealised"
    note = f"with every step waiting for its slowest pair it takes {ratio:.4g} times the price"
    return verdict, note, time_s
