"""What a library reaches of a schedule's bandwidth and takes beside it, where the fabric has published or measured figures."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from math import inf, log2, sqrt
from typing import NamedTuple

from colltool.algorithms.group import SEVERAL_TIERS
from colltool.algorithms.libraries import LIBRARIES
from colltool.algorithms.registry import parse_choice, row_of
from colltool.base.arrays import anywhere
from colltool.base.formatting import format_time, percent
from colltool.estimate.costed import Costed
from colltool.estimate.fitted import NOTHING, Fitted, Knots, mixed
from colltool.estimate.groups import Placed
from colltool.fabric.library import Efficiency
from colltool.fabric.topology import capabilities_of

_GB = 1e9


class _Known(NamedTuple):
    """A figure that counts for a schedule: on how many nodes and ranks, and on which tier; on all of them where it is empty."""

    figure: Efficiency
    nodes: int
    ranks: int
    tier: str = ""


def as_reached(costed: Costed, placed: Placed) -> Costed:
    """A schedule with the share of its bandwidth, and the time beside it, that the fabric's library is known for."""
    facts = placed.fabric.library_facts
    if facts is None or facts.name == "all" or not facts.reached or costed.readings.ideal:
        return costed
    known = _known(facts.reached, costed, placed)
    return costed if known is None else _reaching(costed, known, LIBRARIES[facts.name].spoken)


def _known(figures: tuple[Efficiency, ...], costed: Costed, placed: Placed) -> _Known | None:
    """The figure of a schedule, else that of the part of it that runs on the innermost tier."""
    own = next((one for one in figures if _is_of(one, costed, placed)), None)
    if own is not None:
        return _Known(own, placed.nodes, placed.ranks)
    first = placed.spans[0]
    if not costed.choice.tiers or placed.one_a_node or capabilities_of(first.tier).joins != "accelerators":
        return None
    inside = parse_choice(costed.choice.tiers[0])
    part = next((one for one in figures if costed.primitive in one.primitives and parse_choice(one.algorithm) == inside), None)
    return None if part is None else _Known(part, 1, first.endpoints, first.tier.name)


_ON_A_RAIL = {"ring": "multi-rail-ring", "double-binary-tree": "hierarchical:ring/double-binary-tree"}
"""What a library's ring and tree are called with a rank on each node, and with all ranks of each: one rail, or all."""


def _is_of(one: Efficiency, costed: Costed, placed: Placed) -> bool:
    """Whether a figure is of a schedule. Of a group with one rank a node, figures from inside a node say nothing."""
    if costed.primitive not in one.primitives:
        return False
    if not placed.one_a_node:
        return parse_choice(one.algorithm) == costed.choice
    row = row_of(costed.primitive, one.algorithm)
    across = row is None or bool(row.topologies & SEVERAL_TIERS)
    wanted = _ON_A_RAIL.get(costed.choice.spec, costed.choice.spec)
    return across and parse_choice(one.algorithm) == parse_choice(wanted)


def _reaching(costed: Costed, known: _Known, library: str) -> Costed:
    share, fitted = known.figure.share_on(known.nodes), _fitted(known, library)
    parts = [part._replace(reached=share) if known.tier in ("", part.charge.tier) else part for part in costed.parts]
    said = [f"reaches {percent(share)} of the bandwidth"] if share < 1 else []
    said += _takes(fitted)
    where = f" on {known.tier}" if said and known.tier else ""
    note = (f"{library} {' and '.join(said)}{where}, by the figures of the fabric file",) if said else ()
    return replace(costed, parts=tuple(parts), fitted=fitted, notes=(*costed.notes, *note))


def _takes(fitted: Fitted) -> list[str]:
    """What a term is, in words."""
    times = [format_time(float(seconds)) for _, seconds in fitted.knots]
    said = [f"takes {times[0]} to get going"] if len(set(times)) == 1 else []
    said += [f"takes {times[0]} to {times[-1]} beside its bytes, by size"] if len(set(times)) > 1 else []
    rise = format_time(float(fitted.rise) * sqrt(_GB)) if anywhere(fitted.rise != 0) else ""
    return said + ([f"takes {rise} times sqrt(M / 1 GB) to get up to speed"] if rise else [])


def _fitted(known: _Known, library: str) -> Fitted:
    """What a call takes beside its bytes on so many ranks."""
    figure, limits = known.figure, known.figure.measured
    counts = sorted(limits.ranks) if limits and limits.ranks else []
    ranks = min(max(known.ranks, counts[0]), counts[-1]) if counts else known.ranks
    fixed = (figure.startup or 0.0) + (figure.startup_per_rank or 0.0) * ranks
    rise = (figure.rise_per_rank or 0.0) * ranks
    knots = _between(figure.took(), known.ranks)
    if fixed:
        knots = tuple((size, fixed + seconds) for size, seconds in knots) or ((0.0, fixed),)
    if not knots and not rise:
        return NOTHING
    measured = sorted({*counts, *figure.took()})
    out = bool(measured) and not measured[0] <= known.ranks <= measured[-1]
    return Fitted(
        knots=knots,
        rise=rise / sqrt(_GB),
        smallest=limits.smallest if limits else 0.0,
        largest=limits.largest if limits else inf,
        what=f"what {library} takes beside the bytes of {figure.algorithm}",
        beyond=f"on {known.ranks} ranks (but on {', '.join(map(str, measured))})" if out else "",
    )


def _between(took: dict[int, Knots], ranks: int) -> Knots:
    """The measured times for a rank count: by the logarithm between two counts, the nearest beyond them."""
    counts = list(took)
    if not counts:
        return ()
    at = bisect_right(counts, ranks)
    if at in (0, len(counts)):
        return took[counts[max(at - 1, 0)]]
    low, high = counts[at - 1], counts[at]
    return mixed(took[low], took[high], log2(ranks / low) / log2(high / low))
