"""One schedule, executed: what was counted, and what that says of its formula."""

from collections.abc import Sequence
from typing import NamedTuple

from colltool.algorithms.composed import natural_order
from colltool.algorithms.group import Group
from colltool.algorithms.registry import Algorithm, Status
from colltool.cost import Pipeline, total_n_alpha, total_n_beta
from colltool.pricing.costed import Costed, Part
from colltool.pricing.distances import Reach
from colltool.pricing.groups import Placed, tier_group
from colltool.pricing.readings import Readings
from colltool.primitives import A2A
from colltool.schedules.composed import compose
from colltool.schedules.library import maker
from colltool.schedules.machine import Outcome, run
from colltool.schedules.network import Clos, Lattice, Network, network_of
from colltool.schedules.network_tiers import Tiers
from colltool.schedules.relayed import traced_by_hops
from colltool.schedules.step import Program
from colltool.schedules.trace import Trace, traced

_SAME = 1e-9


class Counts(NamedTuple):
    """n_α and n_β, of a formula or of an execution."""

    n_alpha: float
    n_beta: float


class Execution(NamedTuple):
    """What a run showed; ``busiest`` is the largest total on one port or link, in units of M."""

    outcome: Outcome
    counts: Counts
    busiest: float
    streamed: bool


def flat(row: Algorithm, group: Group, segments: int) -> Execution:
    """Run the schedule of a registered algorithm on ports, or on the links of its lattice or full mesh."""
    program, network = _on_wires(row, group, segments)
    outcome = run(program, network.carry)
    hops = float(network.hops * (group.switch_levels if row.in_switch else 1))
    load = network.busiest if program.streamed else network.peak
    return Execution(outcome, Counts(hops, load), network.busiest, program.streamed)


def flat_trace(row: Algorithm, group: Group, segments: int) -> Trace:
    """The same run, step by step; of an all-to-all that a lattice relays, each hop a step."""
    program, network = _on_wires(row, group, segments)
    if isinstance(network, Lattice) and program.primitive is A2A:
        return traced_by_hops(program, network)
    return traced(program, network)


def _on_wires(row: Algorithm, group: Group, segments: int) -> tuple[Program, Network]:
    make = maker(row.primitive, row.name)
    assert make is not None  # the caller asked first
    program = make(group, segments)
    return program, network_for(group, program.servers)


def network_for(group: Group, servers: int = 0) -> Network:
    """What carries the messages of a group: links of a lattice or full mesh, else a port for every rank and server."""
    return network_of(group.joined_by, group.ranks + servers, group.axes)


def lock_step_seconds(row: Algorithm, group: Group, reach: Reach, costed: Costed, execution: Execution, *, size: float,
                      segments: int) -> float:  # fmt: skip
    """Seconds of the execution without contention, every step waiting for its slowest message and busiest resource.

    On a Clos of several levels each message pays its class's α and each domain's uplinks drain g/s ports' worth, and those of
    idle siblings beside.
    """
    used = reach.used()
    bandwidth = used[-1].bandwidth_Bps
    if len(used) == 1 or execution.streamed:
        return execution.counts.n_alpha * costed.parts[0].charge.alpha_s + execution.counts.n_beta * size / bandwidth
    make = maker(row.primitive, row.name)
    assert make is not None
    ratios = [boundary.oversubscription * boundary.endpoints / boundary.ports for boundary in used[-1].boundaries]
    program = make(group, segments)
    network = Clos(program.nodes, [level.span for level in used], [level.alpha_s for level in used], ratios)
    run(program, network.carry)
    return network.alpha_s + network.peak * size / bandwidth


def formula(row: Algorithm, group: Group, segments: int) -> Counts:
    """n_α and n_β by the registered formula, a pipelined one at P segments."""
    schedule = row.schedule(group)
    if all(terms.fill is None for terms in schedule):
        return Counts(total_n_alpha(schedule), total_n_beta(schedule))
    (terms,) = schedule
    return _cut(Pipeline(terms.n_alpha, terms.fill or 0, terms.n_beta), segments)


def composed(placed: Placed, costed: Costed, segments: int, readings: Readings) -> tuple[Outcome, list[tuple[Counts, Counts]]]:
    """Run a composition; for each tier, innermost first, the counts (of its formulas, executed).

    Raises:
        ValueError: a phase that has no schedule over endpoints alone.
    """
    program, network = _on_tiers(placed, costed, segments, readings)
    outcome = run(program, network.carry)
    formulas = [_sum(parts, segments) for parts in _of_tiers(placed, costed)]
    executed = [Counts(float(tier.hops), tier.peak) for tier in network.tiers]
    return outcome, list(zip(formulas, executed, strict=True))


def composed_trace(placed: Placed, costed: Costed, segments: int, readings: Readings) -> Trace:
    """The same run, step by step."""
    return traced(*_on_tiers(placed, costed, segments, readings))


def _of_tiers(placed: Placed, costed: Costed) -> list[list[Part]]:
    return [[part for part in costed.parts if part.charge.tier == span.tier.name] for span in placed.spans]


def _on_tiers(placed: Placed, costed: Costed, segments: int, readings: Readings) -> tuple[Program, Tiers]:
    groups = [tier_group(span, readings, scale_out=k > 0 or placed.one_a_node)[0] for k, span in enumerate(placed.spans)]
    choices = [parts[0].algorithm for parts in _of_tiers(placed, costed)]  # by the name in the tier's first phase
    order = natural_order(costed.primitive) or "inner-first"
    return compose(costed.primitive, costed.choice.base, groups, choices, segments, order), Tiers(groups)


def _sum(parts: Sequence[Part], segments: int) -> Counts:
    n_alpha = n_beta = 0.0
    for part in parts:
        alpha, beta = part.charge.n_alpha, part.charge.n_beta
        if part.pipeline:
            alpha, beta = _cut(part.pipeline, segments)
        n_alpha, n_beta = n_alpha + alpha, n_beta + beta * part.payload
    return Counts(n_alpha, n_beta)


def _cut(pipeline: Pipeline, segments: int) -> Counts:
    return Counts(*map(float, pipeline.counts(segments)))


def judge(status: Status, wanted: Counts, counted: Counts, busiest: float, *, streamed: bool = False) -> tuple[str, str]:
    """The verdict on counts, and in words what the formula idealises where they differ."""
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
        return "idealised", f"holds where messages wait only between phases; in strict lock step {ratio}"
    return ("idealised", f"on real wiring {ratio}") if status == "idealised" else ("mismatch", ratio)
