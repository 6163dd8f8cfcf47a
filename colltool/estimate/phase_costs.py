"""The cost model of a flat schedule: what its messages pay on a group, the library's measured
efficiency, and notes for the reader.

:func:`cost_flat` is the entry; compositions (:mod:`colltool.estimate.hierarchical`) share
:func:`parts_of`, the notes and :func:`with_efficiency`. A *figure* is a measured efficiency of the
fabric's library (:class:`~colltool.fabric.library.Efficiency`): the share of the bandwidth that it
reaches, or the time that it takes besides. That time is seconds a call (``startup``, and
``startup_per_rank``), seconds by size on the ranks measured (``measured_times``), and a rise with sqrt(M),
stated as seconds a rank at 1 GB (``rise_per_rank``); ``measured`` has the ranks and sizes it holds for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf, log2, sqrt

from colltool.algorithms.libraries import LIBRARIES
from colltool.algorithms.mixed_sizes import SAME_SIZE_COMPOSITIONS
from colltool.algorithms.registry import Algorithm, Choice, parse_choice, row_of, selectable
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
    local_share,
)
from colltool.estimate.algorithm_estimate import NO_SOFTWARE_TIME
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.cost_model import CostModel, CostTerm
from colltool.estimate.cut_bound import cut_bound_of
from colltool.estimate.groups import PlacedGroup, flat_group
from colltool.estimate.library_names import library_name
from colltool.estimate.link_cost import LinkCost, link_costs
from colltool.estimate.machine_factor import machine_factor
from colltool.estimate.path_classes import PathClasses
from colltool.estimate.route_cache import route_cache
from colltool.estimate.running import running_on
from colltool.estimate.software_time import Knots, SoftwareTime, mixed
from colltool.fabric.library import Efficiency
from colltool.network.group import SEVERAL_TIERS, Group

# The cost of a term that sends nothing, such as a local copy, or whose messages are still to be priced.
_NO_MESSAGES = LinkCost(
    "", "", n_alpha=0, n_beta=0, alpha_s=0.0, eta_alpha=1.0, bandwidth_Bps=1.0, eta_beta=1.0
)


def parts_of(
    algorithm: Algorithm,
    group: Group,
    paths: PathClasses,
    readings: ModelOptions,
    payload: float = 1.0,
) -> tuple[CostTerm, ...]:
    """The cost terms of an algorithm's messages, at least one for each of its terms; ``payload``: bytes
    of its vector, in units of the collective's M."""
    cost_terms = []
    for terms in algorithm.schedule(group):
        blank = CostTerm(
            primitive=terms.primitive or algorithm.primitive,
            algorithm=algorithm.name,
            ranks=terms.ranks or group.ranks,
            payload=payload * terms.payload,
            cost=_NO_MESSAGES,
            fill=terms.fill,
            label=terms.label,
            route=terms.route,
        )
        cost_terms += [blank._replace(cost=cost) for cost in link_costs(terms, paths, readings)]
    return tuple(cost_terms)


def cost_flat(
    algorithm: Algorithm,
    group: Group,
    paths: PathClasses,
    readings: ModelOptions,
    placed: PlacedGroup | None = None,
) -> CostModel:
    """An algorithm on the whole group at once; without ``placed``, only its messages: no launch,
    local copy, library or machine."""
    parts = parts_of(algorithm, group, paths, readings)
    notes = [*algorithm.notes_on(group), *wire_notes(group, parts), *share_notes(parts)]
    notes += plane_notes(paths)
    notes += switch_notes(paths, parts)
    status = algorithm.status_on(group)
    cost_model = CostModel(
        algorithm.primitive,
        group.ranks,
        parts,
        readings,
        choice=algorithm.chosen(group),
        status=status,
        shipped_by=algorithm.shipped_by if selectable(status) else (),
        notes=tuple(notes),
    )
    if placed is None:
        return cost_model
    # a hypothetical schedule has a stretched fabric, one with counts machines beside the ranks
    on_own_links = algorithm.status != "hypothetical" and not algorithm.counts
    cost_model = replace(
        cost_model,
        parts=parts + own_part(placed, algorithm.primitive, algorithm.name),
        below=partial(_below, algorithm, group, placed, readings),
        machine=machine_factor(placed, algorithm.primitive, readings),
        overhead_s=placed.overhead_s,
        protocol=placed.protocol,
        not_selected_reason=algorithm.not_run_by(running_on(placed.fabric), group),
        library_name=library_name(
            placed, algorithm.primitive, cost_model.choice.spec, cost_model.shipped_by
        ),
        cut_bound=cut_bound_of(placed, algorithm.primitive, readings) if on_own_links else None,
    )
    return with_efficiency(cost_model, placed)


def _below(
    algorithm: Algorithm, group: Group, placed: PlacedGroup, readings: ModelOptions
) -> tuple[CostModel, CostModel]:
    """The same schedule on wires alone, and with their contention: layers 1 and 2 of its price."""
    origin = placed.origin or placed
    ideal = readings._replace(ideal=True)
    # worked out when it is shown, after the price
    with route_cache(placed.fabric):
        wires = cost_flat(algorithm, group, flat_group(origin, ideal)[1], ideal)
        return wires, cost_flat(algorithm, group, flat_group(origin, readings)[1], readings)


def own_part(placed: PlacedGroup, primitive: Primitive, algorithm: str) -> tuple[CostTerm, ...]:
    """The local copy of the share of M that a rank keeps; only if a protocol states its rate."""
    payload = local_share(primitive, placed.ranks)
    rate_Bps = placed.local_copy_Bps
    if rate_Bps is None or not payload:
        return ()
    tier = placed.spans[-1].tier.name
    copied = _NO_MESSAGES._replace(tier=tier, level=tier, n_beta=1, bandwidth_Bps=rate_Bps)
    return (CostTerm(primitive, algorithm, placed.ranks, payload, copied, label="own share"),)


def wire_notes(group: Group, parts: tuple[CostTerm, ...]) -> list[str]:
    """A note on links that a flat schedule leaves idle: of a full mesh, or NICs of a domain."""
    walks = {part.route.via for part in parts if isinstance(part.route, Ring | Chain)}
    to_others = any(isinstance(part.route, AllPeers | Pair) for part in parts)
    if group.dedicated and "links" not in walks and not to_others:
        return [f"one peer at a time: a rank uses one of its {group.ranks - 1} links"]
    single_tree = any(isinstance(part.route, Trees) and not part.route.rails for part in parts)
    if group.joined_by == "tiers" and ("packed" in walks or single_tree):
        return ["one stream: a single NIC of each domain carries it"]
    return []


def share_notes(parts: tuple[CostTerm, ...]) -> list[str]:
    """A note on what oversubscription leaves; none for arrays of fabrics."""
    shares = [part.cost.share for part in parts]
    if not any(part.cost.crosses for part in parts) or any(map(is_array, shares)):
        return []
    smallest_share = min(shares)
    if smallest_share < 1:
        return [
            f"oversubscription leaves {smallest_share:.3g} of the bandwidth to traffic that crosses it"
        ]
    return ["oversubscription does not bind: too few flows cross the boundary at once (packed)"]


def plane_notes(paths: PathClasses) -> Iterator[str]:
    """Notes on tiers whose planes do not all carry a message."""
    planes_of = {level.tier: level.planes for level in paths.levels if level.planes is not None}
    for tier, planes in planes_of.items():
        if planes.failed:
            left = percent(planes.share)
            yield f"{planes.failed} of {planes.count} planes of {tier} failed: {left} is left"
    for tier, planes in planes_of.items():
        if planes.spread != "ecmp":
            continue
        flows = "a message is one flow"
        if planes.flows != 1:
            flows = f"a message is {planes.flows} flows, spread evenly at best"
        share = percent(planes.share_of(1))
        yield f"{flows}: {share} of the bandwidth of {tier}, each flow on one plane"


def switch_notes(paths: PathClasses, parts: tuple[CostTerm, ...]) -> Iterator[str]:
    """Notes on what the switches cannot compute, as prices do not know the operation."""
    limits = paths.in_switch.limits if paths.in_switch else None
    if limits is None or not any(isinstance(part.route, Switch) for part in parts):
        return
    # such as "sum, max of float16, bfloat16"
    reducible = " of ".join(
        ", ".join(names) for names in (limits.operations, limits.types) if names
    )
    if reducible:
        yield f"the switches reduce only {reducible}"
    if limits.alignment:
        aligned = format_bytes(limits.alignment)
        yield f"data not aligned to {aligned} is reduced in software"


# bytes at which fabric files state the seconds of a rise over sqrt(M)
_GB = 1e9


def with_efficiency(cost_model: CostModel, placed: PlacedGroup) -> CostModel:
    """The schedule with the library's measured efficiency and software time: of the whole schedule,
    else, of a composition, of its inner tier. Unchanged if ideal, or if nothing was measured."""
    if cost_model.readings.ideal:
        return cost_model
    primitive = cost_model.primitive
    figures = placed.once(("efficiencies", primitive), lambda: _efficiencies(placed, primitive))
    if not figures:
        return cost_model
    library = LIBRARIES[placed.fabric.library_name].label
    spec = cost_model.choice.spec
    measured = [
        figure for figure, choices in figures if _was_measured_of(choices, spec, primitive, placed)
    ]
    if measured:
        return _reaching(cost_model, measured, library, nodes=placed.nodes, ranks=placed.ranks)
    if cost_model.choice.tiers and placed.ranks_per_node > 1:
        # what was measured inside a node is the composition's inner algorithm there
        innermost = placed.spans[0]
        inner = parse_choice(cost_model.choice.tiers[0])
        measured = [figure for figure, choices in figures if inner in choices]
        if measured:
            return _reaching(
                cost_model,
                measured,
                library,
                nodes=1,
                ranks=innermost.endpoints,
                tier=innermost.tier.name,
            )
    return cost_model


def _efficiencies(
    placed: PlacedGroup, primitive: Primitive
) -> list[tuple[Efficiency, dict[Choice, str]]]:
    """The figures for a primitive under the group's protocol, each with the algorithms that it was
    measured of, by their names in the file."""
    figures = []
    for figure in placed.fabric.efficiencies:
        protocols = figure.protocols or (placed.protocol,)
        if primitive in figure.primitives and placed.protocol in protocols:
            choices = {parse_choice(algorithm): algorithm for algorithm in figure.algorithms}
            figures.append((figure, choices))
    return figures


_ON_A_RAIL = {
    "ring": "multi-rail-ring",
    "double-binary-tree": "hierarchical:ring/double-binary-tree",
}
"""A library's ring and tree with one rank per node, and the same algorithms with whole nodes."""


def _was_measured_of(
    choices: Mapping[Choice, str], spec: str, primitive: Primitive, placed: PlacedGroup
) -> bool:
    """Whether a figure, by the names of its algorithms in the file, was measured of a schedule
    (``spec``). With one rank a node a schedule is flat, and counts as the one that whole nodes run."""
    if not placed.one_a_node:
        return parse_choice(SAME_SIZE_COMPOSITIONS.get(spec, spec)) in choices
    name = choices.get(parse_choice(_ON_A_RAIL.get(spec, spec)))
    if name is None:
        return False
    row = row_of(primitive, name)
    return row is None or bool(row.topologies & SEVERAL_TIERS)


def _reaching(
    cost_model: CostModel,
    figures: Sequence[Efficiency],
    library: str,
    *,
    nodes: int,
    ranks: int,
    tier: str = "",
) -> CostModel:
    """A schedule with the figures for a number of nodes and ranks, on one tier or (empty) on all: of
    several figures the first that states a share, and the first that states times."""
    # a share of 1 is not stated
    reached = next((figure.share_on(nodes) for figure in figures if figure.share != 1.0), 1.0)
    timed = next((figure for figure in figures if figure.takes_time), None)
    fitted = _fitted(timed, cost_model.choice.spec, library, ranks) if timed else NO_SOFTWARE_TIME
    parts = []
    for part in cost_model.parts:
        if tier in ("", part.cost.tier):
            part = part._replace(reached=reached)
        parts.append(part)
    notes = cost_model.notes
    phrases = list(_figure_words(reached, fitted))
    if phrases:
        where = f" on {tier}" if tier else ""
        words = " and ".join(phrases)
        notes = (*notes, f"{library} {words}{where}, according to the fabric file")
    return replace(cost_model, parts=tuple(parts), software_time=fitted, notes=notes)


def _figure_words(reached: float, fitted: SoftwareTime) -> Iterator[str]:
    """What figures say, each as a phrase after the library's name."""
    if reached < 1:
        yield f"reaches {percent(reached)} of the bandwidth"
    times = [format_time(float(seconds)) for _, seconds in fitted.knots]
    if len(set(times)) == 1:
        yield f"takes {times[0]} to start"
    elif times:
        yield f"takes {times[0]} to {times[-1]} beside its bytes, by size"
    if anywhere(fitted.rise != 0):
        rise = format_time(float(fitted.rise) * sqrt(_GB))
        yield f"takes {rise} times sqrt(M / 1 GB) to get up to speed"


def _fitted(figure: Efficiency, spec: str, library: str, ranks: int) -> SoftwareTime:
    """The time of a figure on a number of ranks; beyond the measured counts that of the nearest, which
    ``beyond`` of the result then says. No software time where all of it is 0."""
    limits = figure.measured
    times = figure.measured_times()
    counts = sorted(limits.ranks) if limits and limits.ranks else []
    within = min(max(ranks, counts[0]), counts[-1]) if counts else ranks
    fixed = (figure.startup or 0.0) + (figure.startup_per_rank or 0.0) * within
    rise = (figure.rise_per_rank or 0.0) * within
    knots = _between(times, ranks)
    if fixed:
        # added to the times by size, or alone where the file states none
        knots = tuple((size, fixed + seconds) for size, seconds in knots) or ((0.0, fixed),)
    if not knots and not rise:
        return NO_SOFTWARE_TIME
    measured = sorted({*counts, *times})
    beyond = ""
    if measured and not measured[0] <= ranks <= measured[-1]:
        beyond = f"on {ranks} ranks (but on {', '.join(map(str, measured))})"
    return SoftwareTime(
        knots=knots,
        rise=rise / sqrt(_GB),
        smallest=limits.smallest if limits else 0.0,
        largest=limits.largest if limits else inf,
        what=f"{library} overhead of {spec}",
        beyond=beyond,
    )


def _between(times_on: dict[int, Knots], ranks: int) -> Knots:
    """Times by size on a number of ranks, from those by ranks in ascending order: linear in the
    logarithm between the measured counts, on 32 half way from those on 16 to those on 64."""
    counts = list(times_on)
    if not counts:
        return ()
    above = bisect_right(counts, ranks)
    if above in (0, len(counts)):
        # beyond the measured counts the nearest
        return times_on[counts[max(above - 1, 0)]]
    low, high = counts[above - 1], counts[above]
    return mixed(times_on[low], times_on[high], log2(ranks / low) / log2(high / low))
