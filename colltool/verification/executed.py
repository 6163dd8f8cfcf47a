"""Executes schedules: their counts of α and bytes, their time on the links of a fabric, and their
traces.

:func:`execute_flat`, :func:`execute_composed` and :func:`execute_custom` run a schedule and count its α
and bytes; :func:`formula_counts` and :func:`costed_counts` have the counts to compare them with, as
:mod:`colltool.verification.verdicts` does. :class:`TimedLinks` puts the messages on the links of a fabric,
from which seconds follow.

A ``Network`` adds up what the steps load its ports and links with, in units of M over their capacity:
``hops`` has the longest path of each step, ``peak`` the busiest port or link of each step, and
``busiest`` the largest total of one port or link.
"""

from typing import NamedTuple

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
from colltool.algorithms.registry import Algorithm
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
from colltool.verification.verdicts import Counts, Seconds


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
            # on one level all messages have one α and bandwidth
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
