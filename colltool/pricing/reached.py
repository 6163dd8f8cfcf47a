"""What a library reaches of a schedule's bandwidth, where the fabric has published or measured figures of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

from colltool.algorithms.choice import parse_choice
from colltool.algorithms.group import SEVERAL_TIERS
from colltool.algorithms.libraries import LIBRARIES
from colltool.algorithms.registry import row_of
from colltool.elementwise import first_by
from colltool.fabric.library import Library, Reached
from colltool.pricing.costed import Costed, Part
from colltool.pricing.groups import Placed
from colltool.pricing.readings import Readings
from colltool.words import format_time, percent

_GB = 1e9


def as_reached(costed: Costed, placed: Placed) -> Costed:
    """A schedule with the share of its bandwidth, and the time to get going, that the fabric's library is known for."""
    facts = placed.fabric.library_facts
    if facts is None or facts.name == "all" or not facts.reached or costed.readings.ideal:
        return costed
    known = next((one for one in facts.reached if _is_of(one, costed, placed)), None)
    return costed if known is None else _reaching(costed, placed, facts, known)


_ON_A_RAIL = {"ring": "multi-rail-ring", "double-binary-tree": "hierarchical:ring/double-binary-tree"}
"""What a library's ring and tree are called with a rank on each node, and with all ranks of each: one rail, or all."""


def _is_of(one: Reached, costed: Costed, placed: Placed) -> bool:
    """Whether a figure is of a schedule. Of a group with one rank a node, figures from inside a node say nothing."""
    if costed.primitive not in one.primitives:
        return False
    if not placed.one_a_node:
        return parse_choice(one.algorithm) == costed.choice
    row = row_of(costed.primitive, one.algorithm)
    across = row is None or bool(row.topologies & SEVERAL_TIERS)
    wanted = _ON_A_RAIL.get(costed.choice.spec, costed.choice.spec)
    return across and parse_choice(one.algorithm) == parse_choice(wanted)


def _reaching(costed: Costed, placed: Placed, facts: Library, known: Reached) -> Costed:
    share = known.share_on(placed.nodes)
    startup = (known.startup or 0.0) + (known.startup_per_rank or 0.0) * placed.ranks
    rise = (known.rise_per_rank or 0.0) * placed.ranks
    parts = [part._replace(charge=part.charge._replace(eta_beta=part.charge.eta_beta * share)) for part in costed.parts]
    if rise:
        parts = _rising(parts, rise / sqrt(_GB), costed.readings)
    said = [f"reaches {percent(share)} of the bandwidth"] if share < 1 else []
    said += [f"takes {format_time(startup)} to get going"] if startup else []
    said += [f"takes {format_time(rise)} times sqrt(M / 1 GB) to get up to speed"] if rise else []
    name = LIBRARIES[facts.name].spoken
    note = (f"{name} {' and '.join(said)}, by the figures of the fabric file",) if said else ()
    return replace(costed, parts=tuple(parts), overhead_s=costed.overhead_s + startup, notes=(*costed.notes, *note))


def _rising(parts: Sequence[Part], rise: float, readings: Readings) -> list[Part]:
    """The rise on the first part of the busiest tier: whatever streams beside it, it is what the call waits for."""
    slopes: dict[str, float] = {}
    for part in parts:
        slopes[part.charge.tier] = slopes.get(part.charge.tier, 0.0) + part.curve(readings).b
    tiers = list(slopes)
    busiest = first_by(list(slopes.values()), most=True)
    firsts = {tier: next(index for index, part in enumerate(parts) if part.charge.tier == tier) for tier in tiers}
    return [
        part._replace(rise=(busiest == tiers.index(part.charge.tier)) * rise) if firsts[part.charge.tier] == index else part
        for index, part in enumerate(parts)
    ]
