"""Choices: many prices beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from colltool.api.arguments import AnyFabric, count_of, fabric_of, group_of, names_of, primitive_of, size_of, under_library, wrong
from colltool.errors import called, given
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.overrides import Overrides
from colltool.pricing.readings import Readings, checked
from colltool.primitives import Primitive

if TYPE_CHECKING:
    from colltool.study.sensitivity import Sensitivity
    from colltool.study.sweep import Sweep, Where


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
        stride, alone: as in :func:`colltool.price`.
        library: whose schedules may win; each fabric's own when None.
        limit: the most cells; 100,000 when None.
        readings: of the model; the defaults when None.
        **parts: single readings by name, in place of those.

    Returns:
        A :class:`colltool.study.sweep.Sweep`; seconds, bytes, bytes/s.

    Raises:
        ColltoolError: an axis that names nothing, a range upside down, too many cells, or as :func:`colltool.price`.
    """
    from colltool.pricing.price import STANDARD_SIZES
    from colltool.study.axes import axes_of
    from colltool.study.grid import Asked
    from colltool.study.sweep import MOST_CELLS
    from colltool.study.sweep import sweep as run

    asked = Asked(primitive_of(primitive), checked(readings, **parts), tuple(names_of(algorithms)))
    counts: list[int | None] = list(ranks) if isinstance(ranks, list | tuple) and ranks else [None]
    groups = [group_of(one, stride, alone) for one in (counts if not isinstance(ranks, int) else [ranks])]
    with called("python", size="sizes"):
        parsed = [size_of(size) for size in sizes] or list(STANDARD_SIZES)
    axes = axes_of([vary] if isinstance(vary, str) else list(vary))
    where = [_where(one, overrides, library) for one in _several(fabrics)]
    return run(asked, where, groups, parsed, axes, limit or MOST_CELLS)


def sensitivity(
    fabric: AnyFabric,
    primitive: Primitive | str,
    *,
    size: str | float,
    ranks: int | None = None,
    stride: int = 1,
    alone: bool = False,
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
        ranks, stride, alone: as in :func:`colltool.price`.
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
    from colltool.fabric.uncertain import USUAL, uncertain
    from colltool.study.grid import Asked
    from colltool.study.sensitivity import sensitivity as run

    loaded = under_library(fabric_of(fabric), library)
    asked = Asked(primitive_of(primitive), checked(readings, **parts), tuple(names_of(algorithms)))
    own = [f"{key}={how}" for key, how in (loaded.uncertainty or {}).items()]
    typed = [vary] if isinstance(vary, str) else list(vary)
    numbers = uncertain(loaded, typed or own or USUAL)
    return run(
        loaded,
        asked,
        group_of(ranks, stride, alone),
        size_of(size),
        numbers,
        samples=count_of(samples, "samples"),
        seed=count_of(seed, "seed"),
        assumed=not (typed or own),
    )


def _several(fabrics: AnyFabric | Sequence[AnyFabric]) -> list[AnyFabric]:
    if isinstance(fabrics, list | tuple):
        if not fabrics:
            raise wrong(fabrics, "fabrics", "a fabric or several", f"write {given('fabrics', ['dgx-h100', 'nvl72'])}")
        return list(fabrics)
    return [fabrics]  # type: ignore[list-item]


def _where(fabric: AnyFabric, overrides: Overrides, library: str | None) -> Where:
    from colltool.study.sweep import Where

    if isinstance(fabric, Fabric) and not overrides:
        return Where(fabric.name, partial(_loaded, fabric, library))
    pairs = list(overrides) if not hasattr(overrides, "items") else [f"{key}={value}" for key, value in overrides.items()]
    return Where(fabric_of(fabric).name, partial(_loading, fabric, pairs, library))


def _loaded(fabric: Fabric, library: str | None, more: Sequence[str]) -> Fabric:
    """One that is loaded, as it is: with other values it would have to be loaded again."""
    return under_library(load_fabric(fabric, more) if more else fabric, library)  # type: ignore[arg-type]


def _loading(fabric: Any, overrides: Sequence[str], library: str | None, more: Sequence[str]) -> Fabric:
    return under_library(load_fabric(fabric, [*overrides, *more]), library)
