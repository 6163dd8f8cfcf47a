"""One schedule, executed: what was counted, what that takes in seconds, and what it says of its
formula."""

from typing import Literal, NamedTuple, get_args

from colltool.algorithms.composed import NATURAL_ORDER, compose
from colltool.algorithms.executor import Network, Outcome, Tiers, joined, links_for, run
from colltool.algorithms.program import Program, Step, maker
from colltool.algorithms.registry import Algorithm, Status
from colltool.algorithms.trace import Trace, Vectors, traced, traced_by_hops
from colltool.base.primitives import A2A, Pipeline
from colltool.custom.schedule import OwnSchedule
from colltool.estimate.assumptions import Readings
from colltool.estimate.cost_model import CostModel
from colltool.estimate.groups import PlacedGroup, tier_group
from colltool.estimate.wired import links_on, places_of, seated
from colltool.fabric.topology import capabilities_of
from colltool.network.arrays import Floats
from colltool.network.group import Group
from colltool.network.lattice_links import LatticeLinks
from colltool.network.links import tier_of
from colltool.network.twisted_links import TwistedLinks

Verdict = Literal["proved", "counts only", "idealised", "mismatch"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)  # from the best to the worst
COUNTS_ONLY: Verdict = "counts only"
_SAME, _SAME_TIME, _CLOSE = 1e-9, 1e-6, 0.01


class Counts(NamedTuple):
    n_alpha: float
    n_beta: float


class Seconds(NamedTuple):
    """An execution in seconds."""

    alpha_s: float  # of the farthest message of each step, added up
    # bytes, every step waiting for its busiest port, link or uplink; of streams the busiest of all
    carried_s: float
    # bytes of the busiest, whoever waits: no order of the same messages undercuts it
    busiest_s: float

    @property
    def total_s(self) -> float:
        return self.alpha_s + self.carried_s


class TimedLinks(Network):
    """Seconds per byte of M on the ports, links and uplinks of every tier that a group spans;
    uplinks are those of its members.

    Contention is left out, oversubscription counts. Written from the fabric, not from prices: it is
    what prices are held against.
    ``placed`` is packed, its ranks are its members; ``nodes``: members and, on a single tier, the
    servers or padding after them.
    """

    def __init__(self, placed: PlacedGroup, nodes: int) -> None:
        self.alpha_s, self.domains, self.nodes = 0.0, placed.domains, nodes
        places = places_of(self.domains, nodes)
        super().__init__(
            *(links_on(span.seat, places, last=span is placed.spans[-1]) for span in placed.spans)
        )

    def carry(self, batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        """Adds the longest latency of every step to ``alpha_s``."""
        batch = seated(batch, self.domains, self.nodes)
        super().carry(batch, chunk_bytes)
        src, dst, _ = joined(batch)
        on, latest = tier_of(self.tiers, src, dst), 0.0
        for number, tier in enumerate(self.tiers):
            if (here := on == number).any():
                alpha_s, links = tier.latency(src[here], dst[here])
                latest = max(latest, float(alpha_s[links.argmax()]))
        self.alpha_s += latest

    def seconds(self, program: Program, size: float) -> Seconds:
        return Seconds(
            self.alpha_s,
            (self.busiest if program.streamed else self.peak) * size,
            self.busiest * size,
        )


class Execution(NamedTuple):
    outcome: Outcome
    counts: Counts
    busiest: float  # the largest total on one port or link, in units of M
    streamed: bool


def flat_program(row: Algorithm, group: Group, segments: int) -> Program:
    make = maker(row.primitive, row.name)
    assert make is not None  # the caller asked first
    return make(group, segments)


def network_for(group: Group, places: int = 0) -> Network:
    """The links of a lattice, full mesh or graph, else a port for every rank and server;
    ``places``: of all these."""
    return Network(links_for(group, places or group.ranks))


def flat(row: Algorithm, group: Group, segments: int) -> Execution:
    """Run a registered algorithm's schedule on ports, or on the links of its lattice or full
    mesh."""
    program = flat_program(row, group, segments)
    network = network_for(group, program.places)
    outcome = run(program, network.carry)
    hops = float(network.hops * (group.switch_levels if row.in_switch else 1))
    counts = Counts(hops, network.busiest if program.streamed else network.peak)
    return Execution(outcome, counts, network.busiest, program.streamed)


def flat_trace(row: Algorithm, group: Group, segments: int, vectors: Vectors = ()) -> Trace:
    program = flat_program(row, group, segments)
    network = network_for(group, program.places)
    (links,) = network.tiers
    halved = not isinstance(links, TwistedLinks)  # whose ways tie in more than two
    if isinstance(links, LatticeLinks) and halved and program.primitive is A2A:
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
    if why := _unknown_planes(placed):
        return why
    inner, *outer = placed.spans
    classes = capabilities_of(inner.tier).classes
    # by some pair
    met = classes[
        : 1 + sum(inner.occupancy.members(one.group) < inner.endpoints for one in classes[:-1])
    ]
    if not outer and row.in_switch and any(one.oversubscription > 1 for one in met):
        return (
            "seconds are not compared: traffic between reducing switches over oversubscribed"
            " uplinks is not executed"
        )
    if not outer and (row.in_switch or len(met) == 1):
        first = costed.parts[0].cost
        carried = execution.counts.n_beta * size / first.bandwidth_Bps
        return Seconds(
            execution.counts.n_alpha * first.alpha_s,
            carried,
            execution.busiest * size / first.bandwidth_Bps,
        )
    if outer and any(capabilities_of(span.tier).axes for span in placed.spans):
        return "seconds are not compared: a flat schedule's links on the lattice are not known"
    program = flat_program(row, group, segments)
    timed_links = TimedLinks(placed, program.nodes if program.stands is None else program.places)
    run(program, timed_links.carry)
    return timed_links.seconds(program, size)


def _unknown_planes(placed: PlacedGroup) -> str:
    hashed = [
        planes
        for span in placed.spans
        if (planes := capabilities_of(span.tier).planes) and planes.spread == "ecmp"
    ]
    return (
        "seconds are not compared: which plane a flow is hashed to is not known" if hashed else ""
    )


def formula(row: Algorithm, group: Group, segments: int) -> Counts:
    """By the registered formula, a pipelined one at P segments."""
    n_alpha, n_beta = 0.0, 0.0
    for terms in row.schedule(group):
        one = (
            terms
            if terms.fill is None
            else _cut(Pipeline(terms.n_alpha, terms.fill, terms.n_beta), segments)
        )
        n_alpha, n_beta = n_alpha + one.n_alpha, n_beta + one.n_beta * terms.payload
    return Counts(n_alpha, n_beta)


def costed_counts(costed: CostModel, segments: int, tier: str = "") -> Counts:
    """Of all parts, or those of a tier: the formula's, or, where messages are routed, what its
    pattern costs on the links."""
    n_alpha = n_beta = 0.0
    for part in (part for part in costed.parts if tier in ("", part.cost.tier)):
        own = _cut(part.pipeline, segments) if part.pipeline else part.cost
        n_alpha, n_beta = n_alpha + own.n_alpha, n_beta + own.n_beta * part.payload
    return Counts(n_alpha, n_beta)


def _cut(pipeline: Pipeline, segments: int) -> Counts:
    return Counts(*map(float, pipeline.counts(segments)))


def composed(
    placed: PlacedGroup, costed: CostModel, segments: int, readings: Readings, size: float
) -> tuple[Outcome, list[tuple[Counts, Counts]], Seconds | str]:
    """Run a composition; for each tier, innermost first, what its formulas say and what was
    counted.

    ValueError: a phase has no schedule over endpoints alone.
    """
    program, network = on_tiers(placed, costed, segments, readings)
    timed_links = TimedLinks(placed, program.nodes)

    def carry(batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        network.carry(batch, chunk_bytes)
        timed_links.carry(batch, chunk_bytes)

    outcome, counts = run(program, carry), []
    for span, one in zip(placed.spans, network.networks, strict=True):
        counts.append(
            (costed_counts(costed, segments, span.tier.name), Counts(float(one.hops), one.peak))
        )
    return outcome, counts, _unknown_planes(placed) or timed_links.seconds(program, size)


def composed_trace(
    placed: PlacedGroup, costed: CostModel, segments: int, readings: Readings, vectors: Vectors = ()
) -> Trace:
    return traced(*on_tiers(placed, costed, segments, readings), vectors)


def on_tiers(
    placed: PlacedGroup, costed: CostModel, segments: int, readings: Readings
) -> tuple[Program, Tiers]:
    """A composition's messages, and its tiers' ports and links to count them on; ValueError as
    :func:`composed`."""
    groups = [
        tier_group(span, readings, scale_out=k > 0 or placed.one_a_node)[0]
        for k, span in enumerate(placed.spans)
    ]
    # by the name in the tier's first phase
    first = {part.cost.tier: part.algorithm for part in reversed(costed.parts)}
    choices = [first[span.tier.name] for span in placed.spans]
    order = NATURAL_ORDER.get(costed.primitive) or "inner-first"
    return compose(costed.primitive, costed.choice.base, groups, choices, segments, order), Tiers(
        groups
    )


def own(placed: PlacedGroup, group: Group, program: Program, size: float) -> tuple[Counts, Seconds]:
    """What an algorithm of one's own loads, step by step; its result was proved on its own
    buffers."""
    network, timed_links = network_for(group), TimedLinks(placed, program.nodes)
    for batch in program.batches:
        network.carry(batch, program.chunk_bytes)
        timed_links.carry(batch, program.chunk_bytes)
    return Counts(float(network.hops), network.peak), timed_links.seconds(program, size)


def own_trace(group: Group, schedule: OwnSchedule, vectors: Vectors) -> Trace | None:
    """Its steps; None where chunks wait in scratch, which a trace has no place for."""
    if not run(schedule.program()).holds:
        return None
    return traced(schedule.program(), network_for(group), vectors)


def judge(
    status: Status, wanted: Counts, counted: Counts, busiest: float, *, streamed: bool = False
) -> tuple[Verdict, str]:
    """The verdict on counts, and what the formula idealises where they differ."""
    over = [c > f + _SAME * max(1.0, f) for f, c in zip(wanted, counted, strict=True)]
    under = [c < f - _SAME * max(1.0, f) for f, c in zip(wanted, counted, strict=True)]
    if not any(over) and not any(under):
        return "proved", ""
    apart = [name for name, o, u in zip(("n_alpha", "n_beta"), over, under, strict=True) if o or u]
    ratio = "executed/formula: " + ", ".join(
        f"{name} {getattr(counted, name) / getattr(wanted, name):.4g}" for name in apart
    )
    if not any(over):
        return "idealised", f"the formula is an upper bound here, {ratio}"
    if streamed and not over[1]:
        return "idealised", f"up to the switch and down again is priced as one pass, {ratio}"
    if not over[0] and busiest <= wanted.n_beta * (1 + _SAME):
        return (
            "idealised",
            f"holds when messages wait only between phases; in strict lock step {ratio}",
        )
    return (
        ("idealised", f"on real wiring {ratio}") if status == "idealised" else ("mismatch", ratio)
    )


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
    row = costed.at(size)
    moved = float(row.moved_s)
    price = float(row.steps_s) + moved  # without launches and what a library adds
    time = price, took.total_s
    if verdict == "proved" and took.busiest_s > moved * (1 + _SAME_TIME):
        ratio = took.busiest_s / moved
        return (
            "mismatch",
            f"bytes on the busiest port, link or uplink take {ratio:.4g} times their price",
            time,
        )
    if verdict == "proved" and abs(took.total_s / price - 1) > _SAME_TIME:
        apart = len(placed.spans) > 1 and abs(took.total_s / price - 1) > _CLOSE
        note = (
            f"with every step waiting for its slowest pair it takes {took.total_s / price:.4g}"
            " times the price"
        )
        return "idealised" if apart else verdict, note, time
    return verdict, "", time
