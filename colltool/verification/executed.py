"""One schedule, executed: what was counted, and what that says of its formula."""

from collections.abc import Sequence
from typing import NamedTuple

from colltool.algorithms.composed import NATURAL_ORDER
from colltool.algorithms.group import Group
from colltool.algorithms.registry import Algorithm, Status
from colltool.base.cost import Pipeline, total_n_alpha, total_n_beta
from colltool.base.primitives import A2A
from colltool.estimate.assumptions import Readings
from colltool.estimate.cost_model import CostModel, CostTerm
from colltool.estimate.groups import PlacedGroup, tier_group
from colltool.fabric.capabilities import DistanceClass
from colltool.fabric.topology import capabilities_of
from colltool.schedules.composed import compose
from colltool.schedules.executor import Outcome, run
from colltool.schedules.lattice_links import LatticeLinks
from colltool.schedules.links import Floats
from colltool.schedules.network import Network, Tiers, links_of
from colltool.schedules.program import Program, Step, maker
from colltool.schedules.trace import Trace, Vectors, traced, traced_by_hops
from colltool.verification.on_links import TimedLinks
from colltool.verification.results import COUNTS_ONLY, Verdict

_SAME, _SAME_TIME, _CLOSE = 1e-9, 1e-6, 0.01
Timed = tuple[Verdict, str, tuple[float, float] | None]  # verdict, remark, (price, executed) seconds


class Counts(NamedTuple):
    n_alpha: float
    n_beta: float


class Seconds(NamedTuple):
    """An execution in seconds."""

    alpha_s: float  # of the farthest message of each step, added up
    carried_s: float  # bytes, every step waiting for its busiest port, link or uplink; of streams the busiest of all
    busiest_s: float  # bytes of the busiest, whoever waits: no order of the same messages undercuts it

    @property
    def total_s(self) -> float:
        return self.alpha_s + self.carried_s


class Execution(NamedTuple):
    outcome: Outcome
    counts: Counts
    busiest: float  # the largest total on one port or link, in units of M
    streamed: bool


def flat(row: Algorithm, group: Group, segments: int) -> Execution:
    """Run a registered algorithm's schedule on ports, or on the links of its lattice or full mesh."""
    program, network = _ready(row, group, segments)
    outcome = run(program, network.carry)
    hops = float(network.hops * (group.switch_levels if row.in_switch else 1))
    load = network.busiest if program.streamed else network.peak
    return Execution(outcome, Counts(hops, load), network.busiest, program.streamed)


def flat_trace(row: Algorithm, group: Group, segments: int, vectors: Vectors = ()) -> Trace:
    program, network = _ready(row, group, segments)
    if isinstance(network.links, LatticeLinks) and program.primitive is A2A:
        return traced_by_hops(program, network.links, vectors)
    return traced(program, network, vectors)


def _ready(row: Algorithm, group: Group, segments: int) -> tuple[Program, Network]:
    make = maker(row.primitive, row.name)
    assert make is not None  # the caller asked first
    program = make(group, segments)
    return program, network_for(group, program.servers)


def network_for(group: Group, servers: int = 0) -> Network:
    """The links of a lattice or full mesh, else a port for every rank and server."""
    return Network(links_of(group.joined_by, group.ranks + servers, group.axes))


def seconds(row: Algorithm, group: Group, placed: PlacedGroup, costed: CostModel, execution: Execution, *, size: float,
            segments: int) -> Seconds | str:  # fmt: skip
    """Seconds of the execution without contention, or why there are none.

    Where all pairs are alike they follow from the counts; else every message is put on its links.
    """
    alone = len(placed.spans) == 1
    met = _met(placed) if alone else ()
    if row.in_switch and any(one.oversubscription > 1 for one in met):
        return "seconds are not compared: traffic between reducing switches over oversubscribed uplinks is not executed"
    if alone and (row.in_switch or len(met) == 1):
        first = costed.parts[0].cost
        carried = execution.counts.n_beta * size / first.bandwidth_Bps
        return Seconds(execution.counts.n_alpha * first.alpha_s, carried, execution.busiest * size / first.bandwidth_Bps)
    if not alone and any(capabilities_of(span.tier).axes for span in placed.spans):
        return "seconds are not compared: a flat schedule's links on the lattice are not known"
    make = maker(row.primitive, row.name)
    assert make is not None
    program = make(group, segments)
    timed_links = TimedLinks(placed, [], program.nodes)
    run(program, timed_links.carry)
    return _seconds(timed_links, program, size)


def _met(placed: PlacedGroup) -> tuple[DistanceClass, ...]:
    """The distance classes that the group's pairs fall in."""
    (span,) = placed.spans
    classes = capabilities_of(span.tier).classes
    return classes[: 1 + sum(span.occupancy.members(one.group) < span.endpoints for one in classes[:-1])]


def _seconds(timed_links: TimedLinks, program: Program, size: float) -> Seconds:
    carried = timed_links.busiest if program.streamed else timed_links.peak
    return Seconds(timed_links.alpha_s, carried * size, timed_links.busiest * size)


def formula(row: Algorithm, group: Group, segments: int) -> Counts:
    """By the registered formula, a pipelined one at P segments."""
    schedule = row.schedule(group)
    if all(terms.fill is None for terms in schedule):
        return Counts(total_n_alpha(schedule), total_n_beta(schedule))
    (terms,) = schedule
    return _cut(Pipeline(terms.n_alpha, terms.fill or 0, terms.n_beta), segments)


class Composed(NamedTuple):
    """A composition, executed."""

    outcome: Outcome
    tiers: list[tuple[Counts, Counts]]  # of each, innermost first: (by formula, executed)
    seconds: Seconds


def composed(placed: PlacedGroup, costed: CostModel, segments: int, readings: Readings, size: float) -> Composed:
    """Run a composition; ValueError where a phase has no schedule over endpoints alone."""
    program, network = _on_tiers(placed, costed, segments, readings)
    timed_links = TimedLinks(placed, network.groups, program.nodes)

    def carry(batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        network.carry(batch, chunk_bytes)
        timed_links.carry(batch, chunk_bytes)

    outcome = run(program, carry)
    formulas = [_sum(parts, segments) for parts in _of_tiers(placed, costed)]
    executed = [Counts(float(tier.hops), tier.peak) for tier in network.tiers]
    return Composed(outcome, list(zip(formulas, executed, strict=True)), _seconds(timed_links, program, size))


def composed_trace(placed: PlacedGroup, costed: CostModel, segments: int, readings: Readings, vectors: Vectors = ()) -> Trace:
    return traced(*_on_tiers(placed, costed, segments, readings), vectors)


def _of_tiers(placed: PlacedGroup, costed: CostModel) -> list[list[CostTerm]]:
    return [[part for part in costed.parts if part.cost.tier == span.tier.name] for span in placed.spans]


def _on_tiers(placed: PlacedGroup, costed: CostModel, segments: int, readings: Readings) -> tuple[Program, Tiers]:
    groups = [tier_group(span, readings, scale_out=k > 0 or placed.one_a_node)[0] for k, span in enumerate(placed.spans)]
    choices = [parts[0].algorithm for parts in _of_tiers(placed, costed)]  # by the name in the tier's first phase
    order = NATURAL_ORDER.get(costed.primitive) or "inner-first"
    return compose(costed.primitive, costed.choice.base, groups, choices, segments, order), Tiers(groups)


def _sum(parts: Sequence[CostTerm], segments: int) -> Counts:
    n_alpha = n_beta = 0.0
    for part in parts:
        alpha, beta = part.cost.n_alpha, part.cost.n_beta
        if part.pipeline:
            alpha, beta = _cut(part.pipeline, segments)
        n_alpha, n_beta = n_alpha + alpha, n_beta + beta * part.payload
    return Counts(n_alpha, n_beta)


def _cut(pipeline: Pipeline, segments: int) -> Counts:
    return Counts(*map(float, pipeline.counts(segments)))


def judge(status: Status, wanted: Counts, counted: Counts, busiest: float, *, streamed: bool = False) -> tuple[Verdict, str]:
    """The verdict on counts, and what the formula idealises where they differ."""
    over = [c > f + _SAME * max(1.0, f) for f, c in zip(wanted, counted, strict=True)]
    under = [c < f - _SAME * max(1.0, f) for f, c in zip(wanted, counted, strict=True)]
    if not any(over) and not any(under):
        return "proved", ""
    apart = [name for name, o, u in zip(("n_alpha", "n_beta"), over, under, strict=True) if o or u]
    ratio = "executed/formula: " + ", ".join(f"{name} {getattr(counted, name) / getattr(wanted, name):.4g}" for name in apart)
    if not any(over):
        return "idealised", f"the formula is an upper bound here, {ratio}"
    if streamed and not over[1]:
        return "idealised", f"up to the switch and down again is priced as one pass, {ratio}"
    if not over[0] and busiest <= wanted.n_beta * (1 + _SAME):
        return "idealised", f"holds when messages wait only between phases; in strict lock step {ratio}"
    return ("idealised", f"on real wiring {ratio}") if status == "idealised" else ("mismatch", ratio)


def timed(verdict: Verdict, placed: PlacedGroup, costed: CostModel, took: Seconds | str, size: float) -> Timed:
    """The verdict with the seconds in view, a remark on them, and (price, executed).

    Counts alone prove no price. A price below what the busiest port, link or uplink takes is a mismatch, whatever the counts;
    steps that wait for their slowest pair are a remark, but over several tiers more than a percent leaves the price idealised.
    """
    if isinstance(took, str):
        return COUNTS_ONLY if verdict == "proved" else verdict, took, None
    row = costed.at(size)
    moved = float(row.bandwidth_s)
    price = float(row.alpha_s) + moved  # without launches and what a library adds
    time = price, took.total_s
    if verdict == "proved" and took.busiest_s > moved * (1 + _SAME_TIME):
        ratio = took.busiest_s / moved
        return "mismatch", f"bytes on the busiest port, link or uplink take {ratio:.4g} times their price", time
    if verdict == "proved" and abs(took.total_s / price - 1) > _SAME_TIME:
        apart = len(placed.spans) > 1 and abs(took.total_s / price - 1) > _CLOSE
        note = f"with every step waiting for its slowest pair it takes {took.total_s / price:.4g} times the price"
        return "idealised" if apart else verdict, note, time
    return verdict, "", time
