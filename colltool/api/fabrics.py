"""The fabrics of a question, loaded and under a library; and several beside each other, under every combination of values."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import colltool.algorithms  # noqa: F401 - fills the registry
from colltool.api.arguments import Options
from colltool.api.values import group_of, is_nothing, primitive_of, text_of, vary_of, wrong
from colltool.base.errors import ColltoolError, clipped, given, nearest, taken_from
from colltool.base.formatting import told_apart
from colltool.base.primitives import Primitive
from colltool.definitions.reader import Overrides, texts_of
from colltool.estimate.assumptions import Readings, checked
from colltool.estimate.placement import GroupSpec
from colltool.fabric.load import load_fabric, shipped_fabrics
from colltool.fabric.model import Fabric

if TYPE_CHECKING:
    from colltool.analysis.compare import CompareColumn
    from colltool.analysis.grid import FabricLoader
    from colltool.analysis.sweep import SweepFabric

AnyFabric = Fabric | str | os.PathLike[str] | Mapping[str, Any]


def list_fabrics() -> list[str]:
    """The names of the shipped fabrics, sorted."""
    return shipped_fabrics()


def fabric_of(fabric: AnyFabric) -> Fabric:
    """A fabric as it is, or loaded by path or shipped name.

    Raises:
        ColltoolError: of another type, or as :func:`colltool.load_fabric`.
    """
    if isinstance(fabric, Fabric):
        return fabric
    if not isinstance(fabric, str | os.PathLike | Mapping):
        fix = 'give a path, the name of a shipped fabric ("nvl72"), or what load_fabric returns'
        raise wrong(fabric, "fabric", "a fabric", fix)
    return load_fabric(fabric)


def under_library(fabric: Fabric, library: str | None) -> Fabric:
    """A fabric with the library that an argument names; the fabric's own where it names none.

    Raises:
        ColltoolError: no text, or no library of that name.
    """
    if library is None:
        return fabric
    from colltool.algorithms.libraries import LibraryName

    known: tuple[LibraryName, ...] = get_args(LibraryName)
    name = text_of(library, "library", "nccl").lower()
    if name not in known:
        fix = f"{nearest(name, list(known))} known: {', '.join(known)}".strip()
        raise ColltoolError(f"no library '{clipped(name)}' is known", argument="library", fix=fix)
    return fabric.under(name)


class Parsed(NamedTuple):
    """:class:`Options` and who is in the group, read."""

    group: GroupSpec
    library: str | None
    readings: Readings


def parsed(ranks: int | None, options: Options) -> Parsed:
    """The options of a public function, read.

    Raises:
        ColltoolError: no argument of that name, or a value that cannot be used.
    """
    rest: dict[str, Any] = dict(options)
    stride, alone, shape = rest.pop("stride", 1), rest.pop("alone", False), rest.pop("shape", None)
    library = rest.pop("library", None)
    readings = checked(rest.pop("readings", None), **rest)
    return Parsed(group_of(ranks, stride, alone, shape), library, readings)


class Question(NamedTuple):
    """What a price is asked for, but for its size; ``asked`` where a library was named that is not the fabric's own."""

    fabric: Fabric
    primitive: Primitive
    group: GroupSpec
    readings: Readings
    asked: bool


def question(fabric: AnyFabric, primitive: Primitive | str, ranks: int | None, options: Options) -> Question:
    """The arguments that most public functions share, read."""
    on, own = parsed(ranks, options), fabric_of(fabric)
    return Question(under_library(own, on.library), primitive_of(primitive), on.group, on.readings, is_other(on.library, own))


def is_other(library: str | None, fabric: Fabric) -> bool:
    """Whether somebody named a library that is not the fabric's own, so that what it needs to know is missed."""
    return library is not None and library.lower() != fabric.library_name


def several_of(fabrics: AnyFabric | Sequence[AnyFabric]) -> list[AnyFabric]:
    """One fabric or several as a list, not yet loaded."""
    if isinstance(fabrics, Fabric | str | os.PathLike | Mapping):
        return [fabrics]
    if not isinstance(fabrics, Sequence) or not fabrics:
        raise wrong(fabrics, "fabrics", "a fabric or several", f"write {given('fabrics', ['dgx-h100', 'nvl72'])}")
    return list(fabrics)


def columns_of(
    fabrics: Sequence[AnyFabric], vary: Sequence[str] | str, overrides: Overrides, library: str | None
) -> list[CompareColumn]:
    """Every fabric under every combination of values, called by what tells it apart.

    Raises:
        ColltoolError: an axis that names nothing or a reading, a fabric or an override that cannot be used.
    """
    from colltool.analysis.compare import CompareColumn
    from colltool.analysis.grid import axes_of

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
