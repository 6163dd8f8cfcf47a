"""The candidates of a group: every schedule that can run, or the named ones, under every protocol; and why the others cannot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from colltool.algorithms.composed import compositions
from colltool.algorithms.registry import Algorithm, Group, algorithms, every_algorithm, find
from colltool.errors import ColltoolError
from colltool.pricing.compose import Workbench, why_not_composed, workbenches
from colltool.pricing.costed import Costed, cost_flat
from colltool.pricing.groups import Placed, flat_group
from colltool.pricing.protocols import under_protocols
from colltool.pricing.readings import Readings
from colltool.pricing.results import Infeasible
from colltool.primitives import Primitive


def all_candidates(placed: Placed, primitive: Primitive, readings: Readings, sizes: Sequence[float]) -> list[Costed]:
    """Every flat schedule, and of each composition the fastest at any of the sizes and the textbook one.

    Where the fabric says what its library runs, these alone. Under several protocols each schedule has a costed for each.

    Raises:
        ColltoolError: nothing runs here.
    """
    runs = library_runs(placed, primitive)
    if runs:
        candidates = named_candidates(placed, primitive, readings, _feasible(placed, primitive, readings, runs), sizes)
    else:
        candidates = [
            costed for under in under_protocols(placed, primitive) for costed in _flat_candidates(under, primitive, readings)
        ]
        candidates += [
            costed for benches in _benches(placed, primitive, readings, listed=True) for costed in _shown(benches, sizes)
        ]
    if not candidates:
        listed = f": the fabric's algorithms list only {', '.join(runs)}" if runs else ""
        raise ColltoolError(f"no algorithm for {primitive.spoken} runs on {placed.fabric.name}{listed}")
    return candidates


def named_candidates(
    placed: Placed, primitive: Primitive, readings: Readings, names: Sequence[str], sizes: Sequence[float] = ()
) -> list[Costed]:
    """The candidates of exactly these algorithms.

    A composition without choices is the fastest at each of ``sizes`` and the textbook one, as in the full list.

    Raises:
        ColltoolError: unknown, or cannot run on this group; with the reason.
    """
    return [costed for name in names for costed in _named(placed, primitive, readings, _typed(name), sizes)]


def library_runs(placed: Placed, primitive: Primitive) -> tuple[str, ...]:
    """What the library runs on this group, where its outermost tier lists it; empty: anything."""
    return (placed.spans[-1].tier.algorithms or {}).get(primitive, ())


def by_title(candidates: Iterable[Costed]) -> dict[str, list[Costed]]:
    """The candidates of each schedule, one under each protocol, in the order given."""
    grouped: dict[str, list[Costed]] = {}
    for costed in candidates:
        grouped.setdefault(costed.title, []).append(costed)
    return grouped


def every_bench(placed: Placed, primitive: Primitive, readings: Readings, names: Collection[str] = ()) -> list[Workbench]:
    """The compositions that may choose what runs on each tier, under every protocol: of those named, or that the library runs."""
    free = names or library_runs(placed, primitive)  # a name with choices is no free one
    found = _benches(placed, primitive, readings, listed=not free)
    return [bench for benches in found for bench in benches if not free or bench.row.name in free]


def infeasible(placed: Placed, primitive: Primitive, priced: Collection[str]) -> tuple[Infeasible, ...]:
    """Every algorithm and composition without a price here, with the reason, in registry order; ``priced`` are the others."""
    groups = _groups(placed, primitive, Readings())
    runs = library_runs(placed, primitive)
    reasons = {row.name: _why_not(row, groups) for row in algorithms(primitive)}
    bases = {name.partition(":")[0] for name in runs}
    tried = (row.name for row in compositions(primitive) if len(placed.spans) == 1 or not runs or row.name in bases)
    reasons |= {row.name: None for row in compositions(primitive)} | dict.fromkeys(tried, why_not_composed(placed))
    listing = [span.tier.name for span in placed.spans if primitive in (span.tier.algorithms or {})]
    tier = listing[-1] if listing else ""
    listed = f"not what the library runs by the algorithms of {tier} for {primitive.spoken}; --algorithm prices it all the same"
    return tuple(
        Infeasible(name, reason or listed) for name, reason in reasons.items() if name not in priced and (reason or listing)
    )


def _groups(placed: Placed, primitive: Primitive, readings: Readings) -> list[Group]:
    """The whole group seen flat under each protocol."""
    return [flat_group(under, readings)[0] for under in under_protocols(placed, primitive)]


def _why_not(row: Algorithm, groups: Sequence[Group]) -> str | None:
    """Why an algorithm runs under none of the protocols: the reason under the last; None where it runs under any."""
    reasons = [row.why_not(group) for group in groups]
    return None if None in reasons else reasons[-1]


def _flat_candidates(placed: Placed, primitive: Primitive, readings: Readings) -> list[Costed]:
    """A candidate for every registered algorithm that runs on the whole group at once."""
    group, reach = flat_group(placed, readings)
    foreign = _foreign(placed, primitive)
    rows = [row for row in algorithms(primitive) if row.name not in foreign and row.why_not(group) is None]
    return [cost_flat(row, group, reach, readings, placed) for row in rows]


def _foreign(placed: Placed, primitive: Primitive) -> frozenset[str]:
    """Schedules that only other libraries ship than those of a tier's list: a group beyond that tier runs the same library."""
    listed = {name for span in placed.spans for name in (span.tier.algorithms or {}).get(primitive, ())}
    rows = algorithms(primitive)
    libraries = {library for row in rows if row.name in listed for library in row.shipped_by}
    if not libraries:
        return frozenset()
    return frozenset(row.name for row in rows if row.name not in listed and not libraries & set(row.shipped_by))


def _benches(
    placed: Placed, primitive: Primitive, readings: Readings, only: str | None = None, *, listed: bool = False
) -> list[tuple[Workbench, ...]]:
    """Each composition's workbenches, one under each protocol."""
    found: dict[tuple[str, str], list[Workbench]] = {}
    for under in under_protocols(placed, primitive):
        for bench in workbenches(under, primitive, readings, only=only, listed=listed):
            found.setdefault((bench.row.name, bench.phases), []).append(bench)
    return [tuple(benches) for benches in found.values()]


def _feasible(placed: Placed, primitive: Primitive, readings: Readings, names: Sequence[str]) -> list[str]:
    """The names among these that can run on the group: a library has several because not each runs everywhere."""
    groups = _groups(placed, primitive, readings)
    flat = {row.name for row in algorithms(primitive) if _why_not(row, groups) is None}
    benches = [bench for several in _benches(placed, primitive, readings) for bench in several]

    def can_run(name: str) -> bool:
        base, _, choice = name.partition(":")
        return name in flat or any(bench.row.name == base and _offers(bench, choice) for bench in benches)

    return [name for name in names if can_run(name)]


def _offers(bench: Workbench, choice: str) -> bool:
    """Whether each tier can run its part of a choice; a name that nothing has is left for pricing to refuse."""
    names, known = choice.split("/"), {row.name for row in every_algorithm()}
    offered = [{option.name for option in options} for options in bench.options]
    fits = len(names) == len(offered)
    return not choice or (fits and all(name in own or name not in known for name, own in zip(names, offered, strict=True)))


def _typed(name: str) -> str:
    """``hierarchical (ring / ring)``, as tables print it, in the form that options take: ``hierarchical:ring/ring``."""
    base, paren, choice = name.partition(" (")
    return f"{base}:{choice.rstrip(')').split(',')[0].replace(' ', '')}" if paren else name


def _named(placed: Placed, primitive: Primitive, readings: Readings, name: str, sizes: Sequence[float]) -> list[Costed]:
    base, colon, choice = name.partition(":")
    if colon and not choice:
        fix = f"name one algorithm per tier: {base}:ring/ring"
        raise ColltoolError(f"'{name}' ends where a choice is due", where="--algorithm", fix=fix)
    composed = [row for row in compositions(primitive) if row.name == base]
    if composed:
        found = _benches(placed, primitive, readings, only=base)
        if not found:
            raise ColltoolError(f"{base} cannot run here: {why_not_composed(placed)}", where="--algorithm")
        candidates = (_chosen(benches, choice) if choice else _shown(benches, sizes) for benches in found)
        return [costed for several in candidates for costed in several]
    row = find(primitive, base, [row.name for row in compositions(primitive)])
    if choice:
        raise ColltoolError(f"'{base}' takes no choice of algorithms, got ':{choice}'", where="--algorithm")
    grouped = [(under, *flat_group(under, readings)) for under in under_protocols(placed, primitive)]
    able = [(under, group, reach) for under, group, reach in grouped if row.why_not(group) is None]
    if not able:
        reason = row.why_not(grouped[-1][1])
        raise ColltoolError(f"{base} cannot run here: {reason}", where="--algorithm", fix="price without --algorithm lists all")
    return [cost_flat(row, group, reach, readings, under) for under, group, reach in able]


def _shown(benches: Sequence[Workbench], sizes: Sequence[float]) -> list[Costed]:
    """Of a composition: the fastest at any of the sizes, then the textbook one; each under every protocol."""
    candidates = [bench.fastest(size) for bench in benches for size in sizes] + [bench.usual() for bench in benches]
    distinct = {costed.detail: costed for costed in candidates}
    if len(benches) == 1:
        return list(distinct.values())
    choices = [_typed(costed.title).partition(":")[2] for costed in distinct.values()]
    return [costed for choice in choices for costed in _chosen(benches, choice)]


def _chosen(benches: Sequence[Workbench], choice: str) -> list[Costed]:
    """A composition with one algorithm per tier, under every protocol that can run these.

    Raises:
        ColltoolError: none can.
    """
    candidates, refused = [], []
    for bench in benches:
        try:
            candidates.append(bench.named(choice))
        except ColltoolError as error:
            refused.append(error)
    if not candidates:
        raise refused[0]
    return candidates
