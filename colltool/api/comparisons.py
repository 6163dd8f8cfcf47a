"""Many prices beside each other: grids, columns, uncertain numbers, ladders, and two outputs of a command."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from colltool.api.arguments import Options, with_options
from colltool.api.fabrics import AnyFabric, columns_of, parsed, question, several_of, wheres
from colltool.api.values import AnyPath, count_of, each_of, groups_of, names_of, number_of, primitive_of, size_of, vary_of, wrong
from colltool.base.errors import ColltoolError, called, given
from colltool.base.files import remembering
from colltool.base.primitives import Primitive
from colltool.definitions.reader import Overrides
from colltool.estimate.assumptions import Readings, checked

if TYPE_CHECKING:
    from colltool.analysis.compare import Comparison
    from colltool.analysis.contest import Contest
    from colltool.analysis.diff import Diff
    from colltool.analysis.sensitivity import Sensitivity
    from colltool.analysis.sweep import Sweep
    from colltool.estimate.results import Ladder
    from colltool.fabric.ladder import LadderDefinition


@remembering()
@with_options
def sweep(
    fabrics: AnyFabric | Sequence[AnyFabric],
    primitive: Primitive | str,
    *,
    ranks: Sequence[int] | int | None = None,
    sizes: Sequence[str | float] = (),
    vary: Sequence[str] | str = (),
    overrides: Overrides = (),
    algorithms: Sequence[str] | str = (),
    limit: int | None = None,
    **options: Unpack[Options],
) -> Sweep:
    """The fastest schedule at every point of a grid, and where the winner changes.

    Args:
        fabrics: one or several, each a path, shipped name or mapping; one that is loaded where nothing of it is varied.
        primitive: by short or long name.
        ranks: one number or several; default: all of each fabric.
        sizes: bytes per rank, as in nccl-tests; default: six from 1 KB to 1 GB.
        vary: further axes, ``"ib.bandwidth=50GB/s,100GB/s"``, ``"alpha=0.1us:10us:5log"``, ``"ideal=true,false"``.
        overrides: as in :func:`colltool.load_fabric`, on every fabric.
        algorithms: only these; default: all.
        limit: the most cells; default: 100,000.
        stride, alone, shape, readings: as in :func:`colltool.price`.
        library: whose schedules may win; default: each fabric's own.

    Returns:
        A :class:`colltool.analysis.sweep.Sweep`; seconds, bytes, bytes/s.

    Raises:
        ColltoolError: an axis that names nothing, a range upside down, too many cells, or as :func:`colltool.price`.
    """
    from colltool.analysis.grid import PriceRequest, axes_of
    from colltool.analysis.sweep import MOST_CELLS
    from colltool.analysis.sweep import sweep as run

    on = parsed(None, options)
    asked = PriceRequest(primitive_of(primitive), on.readings, tuple(names_of(algorithms)))
    groups, axes = groups_of(ranks, on.group), axes_of(vary_of(vary))
    where = wheres(several_of(fabrics), overrides, on.library)
    return run(asked, where, groups, _sizes(sizes), axes, MOST_CELLS if limit is None else count_of(limit, "limit"))


@remembering()
@with_options
def compare(
    fabrics: AnyFabric | Sequence[AnyFabric],
    primitives: Primitive | str | Sequence[Primitive | str],
    *,
    ranks: Sequence[int] | int | None = None,
    sizes: Sequence[str | float] = (),
    vary: Sequence[str] | str = (),
    overrides: Overrides = (),
    algorithms: Sequence[str] | str = (),
    **options: Unpack[Options],
) -> Comparison:
    """Fabrics, or values of one, side by side, and what follows in sentences.

    Args:
        fabrics: one or several; each is a column for every combination of ``vary``.
        primitives: one or several, by short or long name.
        ranks: one number or several; default: all of the smallest fabric.
        sizes: bytes per rank, as in nccl-tests; default: six from 1 KB to 1 GB.
        vary: keys of the fabric with their values, ``"ib.levels.spine.oversubscription=1,2,4"``.
        overrides: as in :func:`colltool.load_fabric`, on every fabric.
        algorithms, stride, alone, shape, library, readings: as in :func:`sweep`.

    Returns:
        A :class:`colltool.analysis.compare.Comparison`; seconds, bytes, bytes/s.

    Raises:
        ColltoolError: fewer than two columns, or as :func:`sweep`.
    """
    from colltool.analysis.compare import compare as run
    from colltool.analysis.grid import PriceRequest

    several = list(primitives) if isinstance(primitives, list | tuple) and primitives else [primitives]
    on, names = parsed(None, options), tuple(names_of(algorithms))
    asked = [PriceRequest(primitive_of(one), on.readings, names) for one in several]  # type: ignore[arg-type]
    columns = columns_of(several_of(fabrics), vary, overrides, on.library)
    if len(columns) < 2:
        fix = f"another {given('fabrics', ...)}, or {given('vary', ['ib.bandwidth=50GB/s,100GB/s'])}"
        raise ColltoolError("one column has nothing to be compared with", argument="fabrics", fix=fix)
    return run(asked, columns, groups_of(ranks, on.group), _sizes(sizes))


def _sizes(sizes: Sequence[str | float]) -> list[float]:
    from colltool.estimate.price import STANDARD_SIZES

    with called("python", size="sizes"):
        return [size_of(size) for size in each_of(sizes)] or list(STANDARD_SIZES)


@with_options
def sensitivity(
    fabric: AnyFabric,
    primitive: Primitive | str,
    *,
    size: str | float,
    ranks: int | None = None,
    vary: Sequence[str] | str = (),
    samples: int = 100_000,
    seed: int = 1,
    algorithms: Sequence[str] | str = (),
    **options: Unpack[Options],
) -> Sensitivity:
    """Whether the winner holds where numbers of the fabric may be other than the file says.

    Args:
        fabric: a fabric, or a path or shipped name to load.
        primitive: by short or long name.
        size: bytes per rank, as in nccl-tests.
        vary: ranges, ``"alpha=2x"``, ``"eta.beta=0.6:0.9"``, ``"ib.bandwidth=10%"``; default: the fabric's ``uncertainty``, and
            where it has none alpha to a factor of 2, eta.beta to 20% and bandwidth to 10%.
        samples: draws of all numbers at once.
        seed: of the draws.
        algorithms: only these; default: all.
        ranks, stride, alone, shape, readings: as in :func:`colltool.price`.
        library: whose schedules may win; default: the fabric's own.

    Returns:
        A :class:`colltool.analysis.sensitivity.Sensitivity`; seconds and shares.

    Raises:
        ColltoolError: a key that names no number, a range upside down, or as :func:`colltool.price`.
    """
    from colltool.analysis.grid import PriceRequest
    from colltool.analysis.sensitivity import sensitivity as run
    from colltool.fabric.variants import ranges_of

    on = question(fabric, primitive, ranks, options)
    asked = PriceRequest(on.primitive, on.readings, tuple(names_of(algorithms)))
    numbers, assumed = ranges_of(on.fabric, vary_of(vary), on.primitive)
    draws = {"samples": count_of(samples, "samples"), "seed": count_of(seed, "seed")}
    return run(on.fabric, asked, on.group, size_of(size), numbers, assumed=assumed, **draws)


@with_options
def compare_sensitivity(
    fabrics: Sequence[AnyFabric],
    primitive: Primitive | str,
    *,
    size: str | float,
    ranks: int | None = None,
    vary: Sequence[str] | str = (),
    overrides: Overrides = (),
    samples: int = 100_000,
    seed: int = 1,
    algorithms: Sequence[str] | str = (),
    **options: Unpack[Options],
) -> Contest:
    """How often each of several fabrics is faster than the first, where numbers of all may be other than the files say.

    A number that two fabrics have under one key is drawn once for both, at the same place between the ends that each has for it;
    all others are drawn for each by itself. In every sample each fabric runs what is its fastest there.

    Args:
        fabrics: at least two, each a fabric, or a path, shipped name or mapping to load.
        ranks: default: all of the smallest fabric.
        vary: ranges as in :func:`sensitivity`, each on every fabric that has such a number.
        overrides: as in :func:`colltool.load_fabric`, on every fabric.
        primitive, size, samples, seed, algorithms, stride, alone, shape, library, readings: as in :func:`sensitivity`.

    Returns:
        A :class:`colltool.analysis.contest.Contest`; seconds and shares.

    Raises:
        ColltoolError: fewer than two fabrics, a key that names a number of none, or as :func:`sensitivity`.
    """
    from colltool.analysis.contest import ContestEntry, contest
    from colltool.analysis.grid import PriceRequest
    from colltool.fabric.variants import names_a_number, parameter_ranges, ranges_of

    on = parsed(ranks, options)
    asked = PriceRequest(primitive_of(primitive), on.readings, tuple(names_of(algorithms)))
    where = wheres(several_of(fabrics), overrides, on.library)
    if len(where) < 2:
        fix = f"another {given('fabrics', ...)}"
        raise ColltoolError("one fabric has nothing to be compared with", argument="fabrics", fix=fix)
    typed, loaded = vary_of(vary), [one.load(()) for one in where]
    for text in typed:
        if not any(names_a_number(fabric, text) for fabric in loaded):
            parameter_ranges(loaded[0], [text])
    entries = []
    for one, fabric in zip(where, loaded, strict=True):
        mine = [text for text in typed if names_a_number(fabric, text)]
        numbers, assumed = ranges_of(fabric, mine, asked.primitive) if mine or not typed else ((), False)
        entries.append(ContestEntry(one.name, fabric, numbers, assumed))
    draws = {"samples": count_of(samples, "samples"), "seed": count_of(seed, "seed")}
    return contest(entries, asked, on.group, size_of(size), **draws)


def ladder(definition: LadderDefinition | AnyPath = "n512", *, readings: Readings | None = None, **parts: Any) -> Ladder:
    """Price a ladder: a definition, a path, or the name of a shipped one.

    Raises:
        ColltoolError: no such ladder, or a rung that cannot be priced.
    """
    from colltool.estimate.price import climb
    from colltool.fabric.ladder import LadderDefinition, load_ladder

    reading = checked(readings, **parts)
    if not isinstance(definition, str | os.PathLike | LadderDefinition):
        raise wrong(definition, "definition", "a ladder", 'give a path, or the name of a shipped ladder ("n512")')
    loaded = definition if isinstance(definition, LadderDefinition) else load_ladder(definition)
    return climb(loaded, reading)


def diff(old: Mapping[str, Any], new: Mapping[str, Any], rtol: float = 1e-6) -> Diff:
    """What moved between two JSON documents of the same command, past a relative tolerance.

    Args:
        old, new: what ``json.load`` made of two outputs; NaN and infinite numbers in them are refused.
        rtol: numbers that differ by at most this fraction of the old one are the same.

    Raises:
        ColltoolError: not documents of colltool, or of different commands.
    """
    from colltool.analysis.diff import diff as run

    for argument, document in (("old", old), ("new", new)):
        if not isinstance(document, Mapping):
            raise wrong(document, argument, "a JSON document as a mapping", "give what json.load returns")
    return run(old, new, number_of(rtol, "rtol"))
