"""Many prices beside each other: grids, columns, uncertain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from colltool.analysis.axes import axes_of
from colltool.analysis.compare import Comparison
from colltool.analysis.compare import compare as compare_columns
from colltool.analysis.contest import Contest, ContestEntry, contest
from colltool.analysis.grid import PriceRequest
from colltool.analysis.sensitivity import Sensitivity
from colltool.analysis.sensitivity import sensitivity as sensitivity_of
from colltool.analysis.sweep import MOST_CELLS, Sweep
from colltool.analysis.sweep import sweep as sweep_grid
from colltool.api import values as v
from colltool.api.arguments import Options, with_options
from colltool.api.values import AnyFabric
from colltool.base.errors import ColltoolError, called, given
from colltool.base.files import remembering
from colltool.base.primitives import Primitive
from colltool.definitions.reader import Overrides
from colltool.estimate.price import STANDARD_SIZES
from colltool.fabric.variants import names_a_number, parameter_ranges, ranges_of


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
        fabrics: one or several, each a path, shipped name or mapping; one that is loaded where
            nothing of it is varied.
        ranks: one number or several; default: all of each fabric.
        sizes: bytes per rank, as in nccl-tests; default: six from 1 KB to 1 GB.
        vary: further axes, ``"ib.bandwidth=50GB/s,100GB/s"``, ``"alpha=0.1us:10us:5log"``,
            ``"ideal=true,false"``.
        overrides: as in :func:`colltool.load_fabric`, on every fabric.
        limit: the most cells; default: 100,000.
        library: whose schedules may win; default: each fabric's own.

    All else is as in :func:`colltool.price`.

    Returns:
        A :class:`colltool.analysis.sweep.Sweep`; seconds, bytes, bytes/s.

    Raises:
        ColltoolError: an axis that names nothing, a range upside down, too many cells, or as
            :func:`colltool.price`.
    """
    on = v.parsed(None, options)
    asked = PriceRequest(v.primitive_of(primitive), on.readings, tuple(v.names_of(algorithms)))
    groups, axes = v.groups_of(ranks, on.group), axes_of(v.vary_of(vary))
    where = v.wheres(v.several_of(fabrics), overrides, on.library, on.machine)
    return sweep_grid(
        asked, where, groups, _sizes(sizes), axes, v.count_if(limit, "limit") or MOST_CELLS
    )


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
        vary: keys of the fabric with their values, ``"ib.levels.spine.oversubscription=1,2,4"``.

    All else is as in :func:`sweep`.

    Returns:
        A :class:`colltool.analysis.compare.Comparison`; seconds, bytes, bytes/s.

    Raises:
        ColltoolError: fewer than two columns, or as :func:`sweep`.
    """
    several = (
        list(primitives) if isinstance(primitives, list | tuple) and primitives else [primitives]
    )
    on, names = v.parsed(None, options), tuple(v.names_of(algorithms))
    asked = [PriceRequest(v.primitive_of(one), on.readings, names) for one in several]  # type: ignore[arg-type]
    columns = v.columns_of(v.several_of(fabrics), vary, overrides, on.library, on.machine)
    if len(columns) < 2:
        fix = (
            f"another {given('fabrics', ...)}, or {given('vary', ['ib.bandwidth=50GB/s,100GB/s'])}"
        )
        raise ColltoolError(
            "one column has nothing to be compared with", argument="fabrics", fix=fix
        )
    return compare_columns(asked, columns, v.groups_of(ranks, on.group), _sizes(sizes))


def _sizes(sizes: Sequence[str | float]) -> list[float]:
    with called("python", size="sizes"):
        return [v.size_of(size) for size in v.each_of(sizes)] or list(STANDARD_SIZES)


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
        vary: ranges, ``"alpha=2x"``, ``"eta.beta=0.6:0.9"``, ``"ib.bandwidth=10%"``; default: the
            fabric's ``uncertainty``, and where it has none alpha to a factor of 2, eta.beta to 20%
            and bandwidth to 10%.
        samples, seed: how many draws of all numbers at once, and their seed.

    All else is as in :func:`colltool.price`.

    Returns:
        A :class:`colltool.analysis.sensitivity.Sensitivity`; seconds and shares.

    Raises:
        ColltoolError: a key that names no number, a range upside down, or as
            :func:`colltool.price`.
    """
    on = v.question(fabric, primitive, ranks, options)
    asked = PriceRequest(on.primitive, on.readings, tuple(v.names_of(algorithms)))
    numbers, assumed = ranges_of(on.fabric, v.vary_of(vary), on.primitive)
    draws = {"samples": v.count_of(samples, "samples"), "seed": v.count_of(seed, "seed")}
    return sensitivity_of(
        on.fabric, asked, on.group, v.size_of(size), numbers, assumed=assumed, **draws
    )


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
    """How often each of several fabrics is faster than the first, where numbers of all may be other
    than the files say.

    A number that two fabrics have under one key is drawn once for both, at the same place between
    the ends that each has for it; all others are drawn for each by itself. In every sample each
    fabric runs what is its fastest there.

    Args:
        fabrics: at least two, each a fabric, or a path, shipped name or mapping to load.
        ranks: default: all of the smallest fabric.
        vary: ranges as in :func:`sensitivity`, each on every fabric that has such a number.
        overrides: as in :func:`colltool.load_fabric`, on every fabric.

    All else is as in :func:`sensitivity`.

    Returns:
        A :class:`colltool.analysis.contest.Contest`; seconds and shares.

    Raises:
        ColltoolError: fewer than two fabrics, a key that names a number of none, or as
            :func:`sensitivity`.
    """
    on = v.parsed(ranks, options)
    asked = PriceRequest(v.primitive_of(primitive), on.readings, tuple(v.names_of(algorithms)))
    where = v.wheres(v.several_of(fabrics), overrides, on.library, on.machine)
    if len(where) < 2:
        what = "one fabric has nothing to be compared with"
        raise ColltoolError(what, argument="fabrics", fix=f"another {given('fabrics', ...)}")
    typed, loaded = v.vary_of(vary), [one.load(()) for one in where]
    for text in typed:
        if not any(names_a_number(fabric, text) for fabric in loaded):
            parameter_ranges(loaded[0], [text])
    entries = []
    for one, fabric in zip(where, loaded, strict=True):
        mine = [text for text in typed if names_a_number(fabric, text)]
        numbers, assumed = (
            ranges_of(fabric, mine, asked.primitive) if mine or not typed else ((), False)
        )
        entries.append(ContestEntry(one.name, fabric, numbers, assumed))
    draws = {"samples": v.count_of(samples, "samples"), "seed": v.count_of(seed, "seed")}
    return contest(entries, asked, on.group, v.size_of(size), **draws)
