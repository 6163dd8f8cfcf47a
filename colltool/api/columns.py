"""Columns of fabrics: each called by what tells it from the others, under every combination of values."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from colltool.api.arguments import AnyFabric, fabric_of, is_nothing, under_library, vary_of
from colltool.base.errors import ColltoolError, given, taken_from
from colltool.base.formatting import told_apart
from colltool.definitions.overrides import Overrides, texts_of
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric

if TYPE_CHECKING:
    from colltool.analysis.compare import CompareColumn
    from colltool.analysis.grid import FabricLoader
    from colltool.analysis.sweep import SweepFabric


def columns_of(
    fabrics: Sequence[AnyFabric], vary: Sequence[str] | str, overrides: Overrides, library: str | None
) -> list[CompareColumn]:
    """Every fabric under every combination of values, called by what tells it apart.

    Raises:
        ColltoolError: an axis that names nothing or a reading, a fabric or an override that cannot be used.
    """
    from colltool.analysis.axes import axes_of
    from colltool.analysis.compare import CompareColumn

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
            found.append(CompareColumn(name, where.name, pairs, partial(_more, where.load, more)))
    return found


def wheres(fabrics: Sequence[AnyFabric], overrides: Overrides, library: str | None) -> list[SweepFabric]:
    """The fabrics of a question, each called by its name; where several have one name, by what else tells them apart."""
    found = [_where(one, overrides, library) for one in fabrics]
    names = told_apart([one.name for one in found], [typed_of(one) for one in fabrics])
    return [one._replace(name=name) for one, name in zip(found, names, strict=True)]


def typed_of(fabric: AnyFabric) -> str:
    """A path as somebody wrote it, or what a fabric was loaded with; empty for neither."""
    if isinstance(fabric, Fabric):
        return ", ".join(f"{key}={value}" for key, value in fabric.overrides)
    return os.fspath(fabric) if isinstance(fabric, str | os.PathLike) else ""


def _where(fabric: AnyFabric, overrides: Overrides, library: str | None) -> SweepFabric:
    from colltool.analysis.sweep import SweepFabric

    if isinstance(fabric, Fabric) and is_nothing(overrides):
        return SweepFabric(fabric.name, partial(_loaded, fabric, library))
    mapped = isinstance(overrides, Mapping)
    pairs = [f"{key}={value}" for key, value in overrides.items()] if mapped else texts_of(overrides)  # type: ignore[union-attr]
    return SweepFabric(fabric_of(fabric).name, partial(_loading, fabric, pairs, library))


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


def _more(load: FabricLoader, own: Sequence[str], more: Sequence[str]) -> Fabric:
    with taken_from(overrides="vary"):
        return load([*own, *more])
