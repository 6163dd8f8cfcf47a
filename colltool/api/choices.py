"""Choices: many prices beside each other."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from colltool.api.arguments import (
    AnyFabric,
    count_of,
    each_of,
    fabric_of,
    is_nothing,
    names_of,
    primitive_of,
    seed_of,
    several_of,
    size_of,
    under_library,
    vary_of,
)
from colltool.api.groups import AnyShape, group_of, groups_of
from colltool.errors import ColltoolError, called, given, taken_from
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.overrides import Overrides, texts_of
from colltool.inputs import remembering
from colltool.pricing.readings import Readings, checked
from colltool.primitives import Primitive
from colltool.words import told_apart

if TYPE_CHECKING:
    from colltool.study.compare import Comparison, Option
    from colltool.study.grid import Load
    from colltool.study.sensitivity import Sensitivity
    from colltool.study.sweep import Sweep, Where


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
        A :class:`colltool.study.sweep.Sweep`; seconds, bytes, bytes/s.

    Raises:
        ColltoolError: an axis that names nothing, a range upside down, too many cells, or as :func:`colltool.price`.
    """
    from colltool.study.axes import axes_of
    from colltool.study.grid import Asked
    from colltool.study.sweep import MOST_CELLS
    from colltool.study.sweep import sweep as run

    asked = Asked(primitive_of(primitive), checked(readings, **parts), tuple(names_of(algorithms)))
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
        A :class:`colltool.study.compare.Comparison`; seconds, bytes, bytes/s.

    Raises:
        ColltoolError: fewer than two columns, or as :func:`sweep`.
    """
    from colltool.study.compare import compare as run
    from colltool.study.grid import Asked

    several = list(primitives) if isinstance(primitives, list | tuple) and primitives else [primitives]
    reading, names = checked(readings, **parts), tuple(names_of(algorithms))
    asked = [Asked(primitive_of(one), reading, names) for one in several]  # type: ignore[arg-type]
    columns = columns_of(several_of(fabrics), vary, overrides, library)
    if len(columns) < 2:
        fix = f"another {given('fabrics', ...)}, or {given('vary', ['ib.bandwidth=50GB/s,100GB/s'])}"
        raise ColltoolError("one column has nothing to be compared with", argument="fabrics", fix=fix)
    return run(asked, columns, groups_of(ranks, stride, alone=alone, shape=shape), _sizes(sizes))


def _more(load: Load, own: Sequence[str], more: Sequence[str]) -> Fabric:
    with taken_from(overrides="vary"):
        return load([*own, *more])


def _sizes(sizes: Sequence[str | float]) -> list[float]:
    from colltool.pricing.price import STANDARD_SIZES

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
        A :class:`colltool.study.sensitivity.Sensitivity`; seconds and shares.

    Raises:
        ColltoolError: a key that names no number, a range upside down, or as :func:`colltool.price`.
    """
    from colltool.fabric.uncertain import ranges_of
    from colltool.study.grid import Asked
    from colltool.study.sensitivity import MOST_SAMPLES
    from colltool.study.sensitivity import sensitivity as run

    loaded = under_library(fabric_of(fabric), library)
    asked = Asked(primitive_of(primitive), checked(readings, **parts), tuple(names_of(algorithms)))
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


def columns_of(
    fabrics: Sequence[AnyFabric], vary: Sequence[str] | str, overrides: Overrides, library: str | None
) -> list[Option]:
    """Every fabric under every combination of values, called by what tells it apart.

    Raises:
        ColltoolError: an axis that names nothing or a reading, a fabric or an override that cannot be used.
    """
    from colltool.study.axes import axes_of
    from colltool.study.compare import Option

    axes = axes_of(vary_of(vary))
    if other := next((axis for axis in axes if axis.is_reading), None):
        raise ColltoolError(
            f"{other.key} is a reading, no value of a fabric", argument="vary", fix="colltool sweep varies readings"
        )
    found = []
    for where in wheres(fabrics, overrides, library):
        where.load(())  # what is wrong with the overrides of all columns is theirs
        for chosen in product(*(axis.values for axis in axes)):
            pairs = tuple((axis.key, str(value)) for axis, value in zip(axes, chosen, strict=True))
            said = " ".join(f"{key.rsplit('.', 1)[-1] if len(pairs) == 1 else key}={value}" for key, value in pairs)
            name = " ".join(filter(None, (where.name if len(fabrics) > 1 or not pairs else "", said)))
            more = [f"{key}={value}" for key, value in pairs]
            found.append(Option(name, where.name, pairs, partial(_more, where.load, more)))
    return found


def wheres(fabrics: Sequence[AnyFabric], overrides: Overrides, library: str | None) -> list[Where]:
    """The fabrics of a question, each called by its name; where several have one name, by what else tells them apart."""
    found = [_where(one, overrides, library) for one in fabrics]
    names = told_apart([one.name for one in found], [typed_of(one) for one in fabrics])
    return [one._replace(name=name) for one, name in zip(found, names, strict=True)]


def typed_of(fabric: AnyFabric) -> str:
    """A path as somebody wrote it, or what a fabric was loaded with; empty for neither."""
    if isinstance(fabric, Fabric):
        return ", ".join(f"{key}={value}" for key, value in fabric.overrides)
    return os.fspath(fabric) if isinstance(fabric, str | os.PathLike) else ""


def _where(fabric: AnyFabric, overrides: Overrides, library: str | None) -> Where:
    from colltool.study.sweep import Where

    if isinstance(fabric, Fabric) and is_nothing(overrides):
        return Where(fabric.name, partial(_loaded, fabric, library))
    mapped = isinstance(overrides, Mapping)
    pairs = [f"{key}={value}" for key, value in overrides.items()] if mapped else texts_of(overrides)  # type: ignore[union-attr]
    return Where(fabric_of(fabric).name, partial(_loading, fabric, pairs, library))


def _loaded(fabric: Fabric, library: str | None, more: Sequence[str]) -> Fabric:
    """One that is loaded, as it is: with other values it would have to be loaded again."""
    _given_once(library, more)
    return under_library(load_fabric(fabric, more) if more else fabric, library)  # type: ignore[arg-type]


def _loading(fabric: Any, overrides: Sequence[str], library: str | None, more: Sequence[str]) -> Fabric:
    _given_once(library, more)
    return under_library(load_fabric(fabric, [*overrides, *more]), library)


def _given_once(library: str | None, more: Sequence[str]) -> None:
    """Refuse a library for all fabrics where it is varied: every column would be of the same."""
    if library is not None and any(text.partition("=")[0].strip() in ("library", "library.name") for text in more):
        what = f"the library is varied, and {given('library', library)} would take the place of every value"
        raise ColltoolError(what, argument="vary", fix=f"leave {given('library')} out")
