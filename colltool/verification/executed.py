"""One schedule, executed: its counts, its seconds, and the verdict on its formula."""

from typing import Literal, NamedTuple, get_args

from colltool.algorithms.composed import NATURAL_ORDER, compose, compositions
from colltool.algorithms.executor import Network, Outcome, Tiers, joined, links_for, run
from colltool.algorithms.program import Program, Step, maker
from colltool.algorithms.registry import Algorithm, Status
from colltool.algorithms.trace import Trace, Vectors, traced, traced_by_hops
from colltool.base.primitives import A2A, Pipeline, Primitive, Terms
from colltool.custom.schedule import CustomSchedule
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.cost_model import CostModel
from colltool.estimate.groups import PlacedGroup, Span, tier_group
from colltool.estimate.wired import links_on, places_of, seated
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
# Relative differences up to which counts and times are the same, and times are close.
_SAME = 1e-9
_SAME_TIME = 1e-6
_CLOSE = 0.01


class Counts(NamedTuple):
    """Coefficients of α and of M/BW."""

    n_alpha: float
    n_beta: float


class Seconds(NamedTuple):
    """An execution in seconds."""

    alpha_s: float  # of the farthest message of each step, added up
    # Bytes, every step waiting for its busiest port, link or uplink; of streams the busiest of all.
    carried_s: float
    # Bytes of the busiest, whoever waits: no order of the same messages undercuts it.
    busiest_s: float

    @property
    def total_s(self) -> float:
        return self.alpha_s + self.carried_s


class TimedLinks(Network):
    """Seconds per byte of M on the ports, links and uplinks of every tier that a group spans;
    uplinks are those of its members.

    Contention is left out, oversubscription counts. Written from the fabric, not from prices: it is
    what prices are held against.

    Args:
        placed: packed, so that its ranks are its members.
        nodes: members and, on a single tier, the servers or padding after them.
    """

    def __init__(self, placed: PlacedGroup, nodes: int) -> None:
        self.alpha_s = 0.0
        self.domains = placed.domains
        self.nodes = nodes
        places = places_of(self.domains, nodes)
        last = placed.spans[-1]
        super().__init__(
            *(links_on(span.position, places, last=span is last) for span in placed.spans)
        )

    def carry(self, batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        """Carry a batch of steps, and add its longest latency to ``alpha_s``."""
        batch = seated(batch, self.domains, self.nodes)
        super().carry(batch, chunk_bytes)
        src, dst, _ = joined(batch)
        on = tier_of(self.tiers, src, dst)
        latest_s = 0.0
        for number, tier in enumerate(self.tiers):
            here = on == number
            if here.any():
                alpha_s, links = tier.latency(src[here], dst[here])
                latest_s = max(latest_s, float(alpha_s[links.argmax()]))
        self.alpha_s += latest_s

    def seconds(self, program: Program, size: float) -> Seconds:
        carried = self.busiest if program.streamed else self.peak
        return Seconds(self.alpha_s, carried * size, self.busiest * size)


def readings(segments: int, *, ideal: bool) -> ModelOptions:
    """How prices are read that executions are held against: steps wait for their slowest pair."""
    return ModelOptions(ideal=ideal, pipelining=segments, ring_alpha="worst", phases="sequential")


def composition_names(primitive: Primitive) -> list[str]:
    return [row.name for row in compositions(primitive)]


class Execution(NamedTuple):
    outcome: Outcome
    counts: Counts
    busiest: float  # the largest total on one port or link, in units of M
    streamed: bool


def flat_program(row: Algorithm, group: Group, segments: int) -> Program:
    """The schedule of a registered algorithm that has one."""
    make = maker(row.primitive, row.name)
    assert make is not None  # see why_not_executed
    return make(group, segments)


def network_for(group: Group, places: int = 0) -> Network:
    """The links of a lattice, full mesh or graph, else a port for every rank and server.

    ``places``: how many ranks and servers; by default the ranks alone.
    """
    return Network(links_for(group, places or group.ranks))


def flat(row: Algorithm, group: Group, segments: int) -> Execution:
    """Run a registered algorithm's schedule on ports, or on the links of its lattice or full
    mesh."""
    program = flat_program(row, group, segments)
    network = network_for(group, program.places)
    outcome = run(program, network.carry)
    levels = group.switch_levels if row.in_switch else 1
    carried = network.busiest if program.streamed else network.peak
    counts = Counts(float(network.hops * levels), carried)
    return Execution(outcome, counts, network.busiest, program.streamed)


def flat_trace(row: Algorithm, group: Group, segments: int, vectors: Vectors = ()) -> Trace:
    program = flat_program(row, group, segments)
    network = network_for(group, program.places)
    (links,) = network.tiers
    # Hops are followed where at most two ways tie: on a twisted torus it can be more.
    twisted = isinstance(links, TwistedLinks)
    if isinstance(links, LatticeLinks) and not twisted and program.primitive is A2A:
        return traced_by_hops(program, links, vectors)
    return traced(program, network, vectors)


def seconds(
    row: Algorithm,
    group: Group,
    placed: PlacedGroup,
    costed: CostModel,
    execution: Execution,
    *,
    size: float,
    segments: int,
) -> Seconds | str:
    """Seconds of the execution without contention, or why there are none.

    Where all pairs are alike they follow from the counts; else every message is put on its links.
    """
    unknown = _unknown_planes(placed)
    if unknown:
        return unknown
    inner, *outer = placed.spans
    if not outer:
        levels = _levels_in_use(inner)
        if row.in_switch and any(level.oversubscription > 1 for level in levels):
            return (
                "seconds are not compared: traffic between reducing switches over oversubscribed"
                " uplinks is not executed"
            )
        if row.in_switch or len(levels) == 1:
            first = costed.parts[0].cost
            return Seconds(
                execution.counts.n_alpha * first.alpha_s,
                execution.counts.n_beta * size / first.bandwidth_Bps,
                execution.busiest * size / first.bandwidth_Bps,
            )
    elif any(capabilities_of(span.tier).axes for span in placed.spans):
        return "seconds are not compared: a flat schedule's links on the lattice are not known"
    program = flat_program(row, group, segments)
    timed_links = TimedLinks(placed, program.nodes if program.stands is None else program.places)
    run(program, timed_links.carry)
    return timed_links.seconds(program, size)


def _levels_in_use(span: Span) -> tuple[DistanceClass, ...]:
    """The levels of a tier on which some pair of members meets."""
    levels = capabilities_of(span.tier).classes
    outgrown = 0
    for level in levels[:-1]:
        outgrown += span.occupancy.members(level.group) < span.endpoints
    return levels[: 1 + outgrown]


def _unknown_planes(placed: PlacedGroup) -> str:
    """Why a flow's plane is not known, which leaves no seconds to compare; empty if it is."""
    for span in placed.spans:
        planes = capabilities_of(span.tier).planes
        if planes and planes.spread == "ecmp":
            return "seconds are not compared: which plane a flow is hashed to is not known"
    return ""


def formula(row: Algorithm, group: Group, segments: int) -> Counts:
    """The counts of the registered formula, a pipelined one at P segments."""
    n_alpha = n_beta = 0.0
    for terms in row.schedule(group):
        cost: Counts | Terms = terms
        if terms.fill is not None:
            cost = _cut(Pipeline(terms.n_alpha, terms.fill, terms.n_beta), segments)
        n_alpha += cost.n_alpha
        n_beta += cost.n_beta * terms.payload
    return Counts(n_alpha, n_beta)


def costed_counts(costed: CostModel, segments: int, tier: str = "") -> Counts:
    """The counts of all parts of a price, or of those on one tier: the formula's, or, where
    messages are routed, what its pattern costs on the links."""
    n_alpha = n_beta = 0.0
    for part in costed.parts:
        if tier in ("", part.cost.tier):
            cost = _cut(part.pipeline, segments) if part.pipeline else part.cost
            n_alpha += cost.n_alpha
            n_beta += cost.n_beta * part.payload
    return Counts(n_alpha, n_beta)


def _cut(pipeline: Pipeline, segments: int) -> Counts:
    return Counts(*map(float, pipeline.counts(segments)))


def composed(
    placed: PlacedGroup, costed: CostModel, segments: int, readings: ModelOptions, size: float
) -> tuple[Outcome, list[tuple[Counts, Counts]], Seconds | str]:
    """Run a composition; for each tier, innermost first, return the counts of its formulas and
    those of the execution.

    ValueError: a phase has no schedule over endpoints alone.
    """
    program, network = on_tiers(placed, costed, segments, readings)
    timed_links = TimedLinks(placed, program.nodes)

    def carry(batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        network.carry(batch, chunk_bytes)
        timed_links.carry(batch, chunk_bytes)

    outcome = run(program, carry)
    counts = []
    for span, on_tier in zip(placed.spans, network.networks, strict=True):
        wanted = costed_counts(costed, segments, span.tier.name)
        counts.append((wanted, Counts(float(on_tier.hops), on_tier.peak)))
    return outcome, counts, _unknown_planes(placed) or timed_links.seconds(program, size)


def composed_trace(
    placed: PlacedGroup,
    costed: CostModel,
    segments: int,
    readings: ModelOptions,
    vectors: Vectors = (),
) -> Trace:
    return traced(*on_tiers(placed, costed, segments, readings), vectors)


def on_tiers(
    placed: PlacedGroup, costed: CostModel, segments: int, readings: ModelOptions
) -> tuple[Program, Tiers]:
    """A composition's messages, and the ports and links of its tiers to count them on; ValueError
    as :func:`composed`."""
    groups = []
    choices = []
    for number, span in enumerate(placed.spans):
        scale_out = number > 0 or placed.one_a_node
        groups.append(tier_group(span, readings, scale_out=scale_out)[0])
        # A tier's algorithm is named by its first phase.
        on_tier = (part.algorithm for part in costed.parts if part.cost.tier == span.tier.name)
        choices.append(next(on_tier))
    primitive = costed.primitive
    order = NATURAL_ORDER.get(primitive) or "inner-first"
    program = compose(primitive, costed.choice.base, groups, choices, segments, order)
    return program, Tiers(groups)


def own(placed: PlacedGroup, group: Group, program: Program, size: float) -> tuple[Counts, Seconds]:
    """The loads of a custom schedule, step by step; its result was proved on its own buffers."""
    network = network_for(group)
    timed_links = TimedLinks(placed, program.nodes)
    for batch in program.batches:
        network.carry(batch, program.chunk_bytes)
        timed_links.carry(batch, program.chunk_bytes)
    return Counts(float(network.hops), network.peak), timed_links.seconds(program, size)


def own_trace(group: Group, schedule: CustomSchedule, vectors: Vectors) -> Trace | None:
    """The steps of a custom schedule; None where chunks wait in scratch, which a trace has no place
    for."""
    if not run(schedule.program()).holds:
        return None
    return traced(schedule.program(), network_for(group), vectors)


def judge(
    status: Status, wanted: Counts, counted: Counts, busiest: float, *, streamed: bool = False
) -> tuple[Verdict, str]:
    """The verdict on counts, and what the formula idealises where they differ."""
    over = []  # whether more was counted, of α and of β
    ratios = []
    for name, expected, found in zip(Counts._fields, wanted, counted, strict=True):
        margin = _SAME * max(1.0, expected)
        over.append(found > expected + margin)
        if over[-1] or found < expected - margin:
            ratios.append(f"{name} {found / expected:.4g}")
    if not ratios:
        return "proved", ""
    more_alpha, more_beta = over
    ratio = f"executed/formula: {', '.join(ratios)}"
    if not any(over):
        return "idealised", f"the formula is an upper bound here, {ratio}"
    if streamed and not more_beta:
        return "idealised", f"up to the switch and down again is priced as one pass, {ratio}"
    if not more_alpha and busiest <= wanted.n_beta * (1 + _SAME):
        waits = "holds when messages wait only between phases; in strict lock step"
        return "idealised", f"{waits} {ratio}"
    if status == "idealised":
        return "idealised", f"on real wiring {ratio}"
    return "mismatch", ratio


def price_s(costed: CostModel, size: float) -> float:
    """The price of α and bytes, without launches and what a library adds."""
    row = costed.at(size)
    return float(row.steps_s) + float(row.moved_s)


def timed(
    verdict: Verdict, placed: PlacedGroup, costed: CostModel, took: Seconds | str, size: float
) -> tuple[Verdict, str, tuple[float, float] | None]:
    """The verdict with the seconds in view, a remark on them, and (price, executed).

    Counts alone prove no price. A price below what the busiest port, link or uplink takes is a
    mismatch, whatever the counts; steps that wait for their slowest pair are a remark, but over
    several tiers more than a percent leaves the price idealised.
    """
    if isinstance(took, str):
        return COUNTS_ONLY if verdict == "proved" else verdict, took, None
    price = price_s(costed, size)
    time_s = (price, took.total_s)
    if verdict != "proved":
        return verdict, "", time_s
    moved_s = float(costed.at(size).moved_s)
    if took.busiest_s > moved_s * (1 + _SAME_TIME):
        times = f"{took.busiest_s / moved_s:.4g} times their price"
        return "mismatch", f"bytes on the busiest port, link or uplink take {times}", time_s
    ratio = took.total_s / price
    if abs(ratio - 1) <= _SAME_TIME:
        return verdict, "", time_s
    if len(placed.spans) > 1 and abs(ratio - 1) > _CLOSE:
        verdict = "idealised"
    note = f"with every step waiting for its slowest pair it takes {ratio:.4g} times the price"
    return verdict, note, time_s
