"""From an algorithm to its cost terms: what each of its messages pays on a group, and notes for the
reader."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf, log2, sqrt

from colltool.algorithms.libraries import LIBRARIES
from colltool.algorithms.registry import Algorithm, parse_choice, row_of, selectable
from colltool.algorithms.uneven import STANDS_FOR
from colltool.base.arrays import anywhere, is_array
from colltool.base.formatting import format_bytes, format_time, percent
from colltool.base.primitives import (
    AllPeers,
    Chain,
    Pair,
    Primitive,
    Ring,
    Switch,
    Trees,
    own_share,
)
from colltool.estimate.algorithm_estimate import NO_SOFTWARE_TIME
from colltool.estimate.assumptions import Readings
from colltool.estimate.cost_model import CostModel, CostTerm
from colltool.estimate.cut_bound import cut_bound_of
from colltool.estimate.groups import PlacedGroup, flat_group, machine_factor, running_on
from colltool.estimate.link_cost import LinkCost, link_costs
from colltool.estimate.path_classes import PathClasses
from colltool.estimate.software_time import Knots, SoftwareTime, mixed
from colltool.fabric.library import Efficiency
from colltool.fabric.topology import capabilities_of
from colltool.network.group import SEVERAL_TIERS, Group


def parts_of(
    row: Algorithm, group: Group, reach: PathClasses, readings: Readings, payload: float = 1.0
) -> tuple[CostTerm, ...]:
    return tuple(
        CostTerm(
            primitive=terms.primitive or row.primitive,
            algorithm=row.name,
            ranks=terms.ranks or group.ranks,
            payload=payload * terms.payload,
            cost=one,
            fill=terms.fill,
            label=terms.label,
            route=terms.route,
        )
        for terms in row.schedule(group)
        for one in link_costs(terms, reach, readings)
    )


def cost_flat(
    row: Algorithm,
    group: Group,
    reach: PathClasses,
    readings: Readings,
    placed: PlacedGroup | None = None,
) -> CostModel:
    """An algorithm on the whole group at once; without ``placed``, only its messages."""
    parts = parts_of(row, group, reach, readings)
    notes = [
        *row.notes_on(group),
        *wire_notes(group, parts),
        *share_notes(parts),
        *plane_notes(reach),
    ]
    notes += switch_notes(reach, parts)
    found = CostModel(
        row.primitive,
        group.ranks,
        parts if placed is None else parts + own_part(placed, row.primitive, row.name),
        readings,
        choice=row.chosen(group),
        status=row.status_on(group),
        shipped_by=row.shipped_by if selectable(row.status_on(group)) else (),
        notes=tuple(notes),
    )
    if placed is None:
        return found
    # no stretched fabric, no machines beside the ranks
    on_own_links = row.status != "hypothetical" and not row.counts
    found = replace(
        found,
        below=partial(_below, row, group, placed, readings),
        machine=machine_factor(placed, row.primitive, readings),
        overhead_s=placed.overhead_s,
        protocol=placed.protocol,
        not_selected_reason=row.not_run_by(running_on(placed.fabric), group),
        cut_bound=cut_bound_of(placed, row.primitive, readings) if on_own_links else None,
    )
    return with_efficiency(found, placed)


def _below(
    row: Algorithm, group: Group, placed: PlacedGroup, readings: Readings
) -> tuple[CostModel, CostModel]:
    """The same schedule on wires alone, and with their contention: layers 1 and 2 of its price."""
    bare = placed.bare or placed
    ideal = readings._replace(ideal=True)
    wires = cost_flat(row, group, flat_group(bare, ideal)[1], ideal)
    return wires, cost_flat(row, group, flat_group(bare, readings)[1], readings)


def own_part(placed: PlacedGroup, primitive: Primitive, algorithm: str) -> tuple[CostTerm, ...]:
    """The local copy of the share of M that a rank keeps; only if a protocol states its rate."""
    payload, rate = own_share(primitive, placed.ranks), placed.local_copy_Bps
    if rate is None or not payload:
        return ()
    tier = placed.spans[-1].tier.name
    copied = LinkCost(
        tier,
        tier,
        n_alpha=0,
        n_beta=1,
        alpha_s=0.0,
        eta_alpha=1.0,
        bandwidth_Bps=rate,
        eta_beta=1.0,
    )
    return (CostTerm(primitive, algorithm, placed.ranks, payload, copied, label="own share"),)


def wire_notes(group: Group, parts: tuple[CostTerm, ...]) -> list[str]:
    """Links that a flat schedule leaves idle: of a full mesh, or NICs of a domain."""
    routes = {type(part.route) for part in parts}
    shared_out = any(
        isinstance(part.route, Ring | Chain) and part.route.via == "links" for part in parts
    )
    if group.dedicated and not shared_out and AllPeers not in routes and Pair not in routes:
        return [f"one peer at a time: a rank uses one of its {group.ranks - 1} links"]
    packed = any(
        isinstance(part.route, Chain | Ring) and part.route.via == "packed" for part in parts
    )
    single = packed or any(isinstance(part.route, Trees) and not part.route.rails for part in parts)
    if group.joined_by == "tiers" and single:
        return ["one stream: a single NIC of each domain carries it"]
    return []


def share_notes(parts: tuple[CostTerm, ...]) -> list[str]:
    shares = [part.cost.share for part in parts]
    if not any(part.cost.crosses for part in parts) or any(map(is_array, shares)):
        return []
    if min(shares) < 1:
        return [
            f"oversubscription leaves {min(shares):.3g} of the bandwidth to traffic that crosses it"
        ]
    return ["oversubscription does not bind: too few flows cross the boundary at once (packed)"]


def plane_notes(reach: PathClasses) -> list[str]:
    """Tiers whose planes do not all carry a message."""
    on = {level.tier: level.planes for level in reach.levels if level.planes is not None}
    notes = [
        f"{one.failed} of {one.count} planes of {tier} failed: {percent(one.share)} is left"
        for tier, one in on.items()
        if one.failed
    ]
    for tier, one in on.items():
        if one.spread == "ecmp":
            flows = (
                "a message is one flow"
                if one.flows == 1
                else f"a message is {one.flows} flows, spread evenly at best"
            )
            own = f"{percent(one.share_of(1))} of the bandwidth of {tier}, each flow on one plane"
            notes.append(f"{flows}: {own}")
    return notes


def switch_notes(reach: PathClasses, parts: tuple[CostTerm, ...]) -> list[str]:
    """What the switches cannot compute, as prices do not know the operation."""
    limits = reach.in_switch.limits if reach.in_switch else None
    if limits is None or not any(isinstance(part.route, Switch) for part in parts):
        return []
    what = " of ".join(", ".join(names) for names in (limits.operations, limits.types) if names)
    said = [f"the switches reduce only {what}"] if what else []
    return said + (
        [f"data not aligned to {format_bytes(limits.alignment)} is reduced in software"]
        if limits.alignment
        else []
    )


_GB = 1e9


def with_efficiency(costed: CostModel, placed: PlacedGroup) -> CostModel:
    """Apply the library's measured efficiency and software time, unless ideal: of the whole
    schedule, else of its inner tier."""
    figures = [
        one
        for one in placed.fabric.efficiencies
        if costed.primitive in one.primitives
        and (one.protocols is None or costed.protocol in one.protocols)
    ]
    if not figures or costed.readings.ideal:
        return costed
    library, first = LIBRARIES[placed.fabric.library_name].spoken, placed.spans[0]
    if own := [one for one in figures if _is_of(one, costed, placed)]:
        return _reaching(costed, own, library, placed.nodes, placed.ranks)
    if (
        costed.choice.tiers
        and not placed.one_a_node
        and capabilities_of(first.tier).joins == "accelerators"
    ):
        inside = parse_choice(costed.choice.tiers[0])
        if own := [one for one in figures if inside in map(parse_choice, one.algorithms)]:
            return _reaching(costed, own, library, 1, first.endpoints, first.tier.name)
    return costed


_ON_A_RAIL = {
    "ring": "multi-rail-ring",
    "double-binary-tree": "hierarchical:ring/double-binary-tree",
}
"""A library's ring and tree with one rank per node, and the same algorithms with whole nodes."""


def _is_of(one: Efficiency, costed: CostModel, placed: PlacedGroup) -> bool:
    choices = {name: parse_choice(name) for name in one.algorithms}
    if not placed.one_a_node:
        spec = costed.choice.spec
        return parse_choice(STANDS_FOR.get(spec, spec)) in choices.values()
    wanted = parse_choice(_ON_A_RAIL.get(costed.choice.spec, costed.choice.spec))
    rows = {
        name: row_of(costed.primitive, name) for name, choice in choices.items() if choice == wanted
    }
    return any(row is None or bool(row.topologies & SEVERAL_TIERS) for row in rows.values())


def _reaching(
    costed: CostModel,
    figures: Sequence[Efficiency],
    library: str,
    nodes: int,
    ranks: int,
    tier: str = "",
) -> CostModel:
    """With the figures for so many nodes and ranks, on one tier or (empty) on all: the first share,
    and the first times."""
    share = next((one.share_on(nodes) for one in figures if one.share != 1.0), 1.0)
    timed = next((one for one in figures if one.takes_time), None)
    fitted = _fitted(timed, costed.choice.spec, library, ranks) if timed else NO_SOFTWARE_TIME
    parts = [
        part._replace(reached=share) if tier in ("", part.cost.tier) else part
        for part in costed.parts
    ]
    times = [format_time(float(seconds)) for _, seconds in fitted.knots]
    said = [f"reaches {percent(share)} of the bandwidth"] if share < 1 else []
    said += [f"takes {times[0]} to start"] if len(set(times)) == 1 else []
    said += (
        [f"takes {times[0]} to {times[-1]} beside its bytes, by size"]
        if len(set(times)) > 1
        else []
    )
    if anywhere(fitted.rise != 0):
        said.append(
            f"takes {format_time(float(fitted.rise) * sqrt(_GB))} times sqrt(M / 1 GB) to get up to"
            " speed"
        )
    where = f" on {tier}" if tier else ""
    note = (f"{library} {' and '.join(said)}{where}, according to the fabric file",) if said else ()
    return replace(costed, parts=tuple(parts), software_time=fitted, notes=(*costed.notes, *note))


def _fitted(figure: Efficiency, spec: str, library: str, ranks: int) -> SoftwareTime:
    limits, took = figure.measured, figure.took()
    counts = sorted(limits.ranks) if limits and limits.ranks else []
    within = min(max(ranks, counts[0]), counts[-1]) if counts else ranks
    fixed = (figure.startup or 0.0) + (figure.startup_per_rank or 0.0) * within
    rise = (figure.rise_per_rank or 0.0) * within
    knots = _between(took, ranks)
    if fixed:
        knots = tuple((size, fixed + seconds) for size, seconds in knots) or ((0.0, fixed),)
    if not knots and not rise:
        return NO_SOFTWARE_TIME
    measured = sorted({*counts, *took})
    out = bool(measured) and not measured[0] <= ranks <= measured[-1]
    return SoftwareTime(
        knots=knots,
        rise=rise / sqrt(_GB),
        smallest=limits.smallest if limits else 0.0,
        largest=limits.largest if limits else inf,
        what=f"what {library} takes beside the bytes of {spec}",
        beyond=f"on {ranks} ranks (but on {', '.join(map(str, measured))})" if out else "",
    )


def _between(took: dict[int, Knots], ranks: int) -> Knots:
    counts = list(took)
    if not counts:
        return ()
    at = bisect_right(counts, ranks)
    if at in (0, len(counts)):
        return took[counts[max(at - 1, 0)]]
    low, high = counts[at - 1], counts[at]
    return mixed(took[low], took[high], log2(ranks / low) / log2(high / low))
