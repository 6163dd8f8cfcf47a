"""Choices: many prices beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from colltool.api.arguments import (
    AnyFabric,
    count_of,
    each_of,
    fabric_of,
    names_of,
    primitive_of,
    seed_of,
    several_of,
    size_of,
    under_library,
    vary_of,
)
from colltool.api.columns import columns_of, wheres
from colltool.api.groups import AnyShape, group_of, groups_of
from colltool.base.errors import ColltoolError, called, given
from colltool.base.inputs import remembering
from colltool.base.primitives import Primitive
from colltool.definitions.overrides import Overrides
from colltool.estimate.assumptions import Readings, checked

if TYPE_CHECKING:
    from colltool.analysis.compare import Comparison
    from colltool.analysis.contest import Contest
    from colltool.analysis.sensitivity import Sensitivity
    from colltool.analysis.sweep import Sweep


@remembering()
def sweep(
    fabrics: AnyFabric | Sequence[AnyFabric],
    primitive: Primitive | str,
    *,
    ranks: Sequence[int] | int | None = None,
    sizes: Sequence[str | float] = (),
    vary: Sequence[str] | str = (),
    overrides: Overrides = (),
    algorithms: Sequence[str] | str = (),
    stride: int = 1,
    alone: bool = False,
    shape: AnyShape | None = None,
    library: str | None = None,
    limit: int | None = None,
    readings: Readings | None = None,
    **parts: Any,
) -> Sweep:
    """The fastest schedule at every point of a grid, and where the winner changes.

    Args:
        fabrics: one or several, each a path, shipped name or mapping; one that is loaded where nothing of it is varied.
        primitive: by short or long name.
        ranks: one number or several; all of each fabric when None.
        sizes: bytes per rank by nccl-tests' convention; six from 1 KB to 1 GB when empty.
        vary: further axes, ``"ib.bandwidth=50GB/s,100GB/s"``, ``"alpha=0.1us:10us:5log"``, ``"ideal=true,false"``.
        overrides: as of :func:`colltool.load_fabric`, on every fabric.
        algorithms: only these.
        stride, alone, shape: as in :func:`colltool.price`.
        library: whose schedules may win; each fabric's own when None.
        limit: the most cells; 100,000 when None.
        readings: of the model; the defaults when None.
        **parts: single readings by name, in place of those.

    Returns:
        A :class:`colltool.analysis.sweep.Sweep`; seconds, bytes, bytes/s.

    Raises:
        ColltoolError: an axis that names nothing, a range upside down, too many cells, or as :func:`colltool.price`.
    """
    from colltool.analysis.axes import axes_of
    from colltool.analysis.grid import PriceRequest
    from colltool.analysis.sweep import MOST_CELLS
    from colltool.analysis.sweep import sweep as run

    asked = PriceRequest(primitive_of(primitive), checked(readings, **parts), tuple(names_of(algorithms)))
    groups = groups_of(ranks, stride, alone=alone, shape=shape)
    axes = axes_of(vary_of(vary))
    where = wheres(several_of(fabrics), overrides, library)
    most = MOST_CELLS if limit is None else count_of(limit, "limit", 1)
    return run(asked, where, groups, _sizes(sizes), axes, most)


@remembering()
def compare(
    fabrics: AnyFabric | Sequence[AnyFabric],
    primitives: Primitive | str | Sequence[Primitive | str],
    *,
    ranks: Sequence[int] | int | None = None,
    sizes: Sequence[str | float] = (),
    vary: Sequence[str] | str = (),
    overrides: Overrides = (),
    algorithms: Sequence[str] | str = (),
    stride: int = 1,
    alone: bool = False,
    shape: AnyShape | None = None,
    library: str | None = None,
    readings: Readings | None = None,
    **parts: Any,
) -> Comparison:
    """Fabrics, or values of one, side by side, and what follows in sentences.

    Args:
        fabrics: one or several; each is a column for every combination of ``vary``.
        primitives: one or several, by short or long name.
        ranks: one number or several; all of the smallest fabric when None.
        sizes: bytes per rank by nccl-tests' convention; six from 1 KB to 1 GB when empty.
        vary: keys of the fabric with their values, ``"ib.levels.spine.oversubscription=1,2,4"``.
        overrides: as of :func:`colltool.load_fabric`, on every fabric.
        algorithms, stride, alone, shape, library, readings, **parts: as in :func:`sweep`.

    Returns:
        A :class:`colltool.analysis.compare.Comparison`; seconds, bytes, bytes/s.

    Raises:
        ColltoolError: fewer than two columns, or as :func:`sweep`.
    """
    from colltool.analysis.compare import compare as run
    from colltool.analysis.grid import PriceRequest

    several = list(primitives) if isinstance(primitives, list | tuple) and primitives else [primitives]
    reading, names = checked(readings, **parts), tuple(names_of(algorithms))
    asked = [PriceRequest(primitive_of(one), reading, names) for one in several]  # type: ignore[arg-type]
    columns = columns_of(several_of(fabrics), vary, overrides, library)
    if len(columns) < 2:
        fix = f"another {given('fabrics', ...)}, or {given('vary', ['ib.bandwidth=50GB/s,100GB/s'])}"
        raise ColltoolError("one column has nothing to be compared with", argument="fabrics", fix=fix)
    return run(asked, columns, groups_of(ranks, stride, alone=alone, shape=shape), _sizes(sizes))


def _sizes(sizes: Sequence[str | float]) -> list[float]:
    from colltool.estimate.price import STANDARD_SIZES

    with called("python", size="sizes"):
        return [size_of(size) for size in each_of(sizes)] or list(STANDARD_SIZES)


def sensitivity(
    fabric: AnyFabric,
    primitive: Primitive | str,
    *,
    size: str | float,
    ranks: int | None = None,
    stride: int = 1,
    alone: bool = False,
    shape: AnyShape | None = None,
    vary: Sequence[str] | str = (),
    samples: int = 100_000,
    seed: int = 1,
    algorithms: Sequence[str] | str = (),
    library: str | None = None,
    readings: Readings | None = None,
    **parts: Any,
) -> Sensitivity:
    """Whether the winner holds where numbers of the fabric may be other than the file says.

    Args:
        fabric: a fabric, or a path or shipped name to load.
        primitive: by short or long name.
        size: bytes per rank by nccl-tests' convention.
        ranks, stride, alone, shape: as in :func:`colltool.price`.
        vary: ranges, ``"alpha=2x"``, ``"eta.beta=0.6:0.9"``, ``"ib.bandwidth=10%"``; those of the fabric's ``uncertainty`` when
            empty, and where it has none alpha to a factor of 2, eta.beta to 20% and bandwidth to 10%.
        samples: draws of all numbers at once.
        seed: of the draws.
        algorithms: only these.
        library: whose schedules may win; the fabric's own when None.
        readings: of the model; the defaults when None.
        **parts: single readings by name, in place of those.

    Returns:
        A :class:`colltool.analysis.sensitivity.Sensitivity`; seconds and shares.

    Raises:
        ColltoolError: a key that names no number, a range upside down, or as :func:`colltool.price`.
    """
    from colltool.analysis.grid import PriceRequest
    from colltool.analysis.sensitivity import MOST_SAMPLES
    from colltool.analysis.sensitivity import sensitivity as run
    from colltool.fabric.parameter_ranges import ranges_of

    loaded = under_library(fabric_of(fabric), library)
    asked = PriceRequest(primitive_of(primitive), checked(readings, **parts), tuple(names_of(algorithms)))
    numbers, assumed = ranges_of(loaded, vary_of(vary), asked.primitive)
    return run(
        loaded,
        asked,
        group_of(ranks, stride, alone, shape),
        size_of(size),
        numbers,
        samples=count_of(samples, "samples", 1, MOST_SAMPLES),
        seed=seed_of(seed),
        assumed=assumed,
    )


def compare_sensitivity(
    fabrics: Sequence[AnyFabric],
    primitive: Primitive | str,
    *,
    size: str | float,
    ranks: int | None = None,
    stride: int = 1,
    alone: bool = False,
    shape: AnyShape | None = None,
    vary: Sequence[str] | str = (),
    overrides: Overrides = (),
    samples: int = 100_000,
    seed: int = 1,
    algorithms: Sequence[str] | str = (),
    library: str | None = None,
    readings: Readings | None = None,
    **parts: Any,
) -> Contest:
    """How often each of several fabrics is faster than the first, where numbers of all may be other than the files say.

    A number that two fabrics have under one key is drawn once for both, at the same place between the ends that each has for it;
    all others are drawn for each by itself. In every sample each fabric runs what is its fastest there.

    Args:
        fabrics: at least two, each a fabric, or a path, shipped name or mapping to load.
        primitive, size, ranks, stride, alone, shape, samples, seed, algorithms, library, readings, **parts: as of
            :func:`sensitivity`;
            ranks: all of the smallest fabric when None.
        vary: ranges as of :func:`sensitivity`, each on every fabric that has such a number.
        overrides: as of :func:`colltool.load_fabric`, on every fabric.

    Returns:
        A :class:`colltool.analysis.contest.Contest`; seconds and shares.

    Raises:
        ColltoolError: fewer than two fabrics, a key that names a number of none, or as :func:`sensitivity`.
    """
    from colltool.analysis.contest import ContestEntry, contest
    from colltool.analysis.grid import PriceRequest
    from colltool.analysis.sensitivity import MOST_SAMPLES
    from colltool.fabric.parameter_ranges import names_a_number, parameter_ranges, ranges_of

    asked = PriceRequest(primitive_of(primitive), checked(readings, **parts), tuple(names_of(algorithms)))
    where = wheres(several_of(fabrics), overrides, library)
    if len(where) < 2:
        raise ColltoolError(
            "one fabric has nothing to be held against", argument="fabrics", fix=f"another {given('fabrics', ...)}"
        )
    typed, loaded = vary_of(vary), [one.load(()) for one in where]
    for text in typed:
        if not any(names_a_number(fabric, text) for fabric in loaded):
            parameter_ranges(loaded[0], [text])
    entries = []
    for one, fabric in zip(where, loaded, strict=True):
        mine = [text for text in typed if names_a_number(fabric, text)]
        numbers, assumed = ranges_of(fabric, mine, asked.primitive) if mine or not typed else ((), False)
        entries.append(ContestEntry(one.name, fabric, numbers, assumed))
    return contest(
        entries,
        asked,
        group_of(ranks, stride, alone, shape),
        size_of(size),
        samples=count_of(samples, "samples", 1, MOST_SAMPLES),
        seed=seed_of(seed),
    )
