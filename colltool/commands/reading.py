"""What the public functions take, read: primitives by any of their names, sizes as text or arrays,
groups, counts, fabrics.

A value of a type that nothing can be made of is refused here, with the name of the argument, before
it travels.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Sized
from functools import partial
from itertools import product
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

import colltool.algorithms  # noqa: F401 - fills the registry
from colltool.base.errors import ColltoolError, clipped, given, naming, nearest, taken_from
from colltool.base.formatting import (
    MAX_SIZE,
    Shape,
    parse_count,
    parse_shape,
    parse_size,
    told_apart,
)
from colltool.base.primitives import Number, Primitive, parse_primitive
from colltool.commands.arguments import ARGUMENTS, Argument, Options
from colltool.definitions.field_types import MAX_DEPTH, MAX_RANKS
from colltool.definitions.reader import Overrides, texts_of
from colltool.estimate.assumptions import Readings, checked
from colltool.estimate.groups import as_read
from colltool.estimate.placement import GroupSpec
from colltool.fabric.load import load_fabric, shipped_fabrics
from colltool.fabric.model import Fabric
from colltool.fabric.own_machine import OwnMachine, on_machine
from colltool.machines.factor import MeasuredMachine

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from colltool.analysis.compare import CompareColumn
    from colltool.analysis.grid import FabricLoader
    from colltool.analysis.sweep import SweepFabric
    from colltool.commands.arguments import AnyShape

    Sizes = str | float | Sequence[str | float] | NDArray[np.float64]
else:
    Sizes = Any

AnyPath = str | os.PathLike[str]
AnyFabric = Fabric | str | os.PathLike[str] | Mapping[str, Any]

_MOST_DIGITS = 15  # of a whole number that an error repeats
_UNBOUNDED = Argument(least=-inf, most=inf)


def readings(readings: Readings | None = None, /, **parts: Any) -> Readings:
    """How to read the model where it leaves a choice: ``readings``, or the defaults, with ``parts``
    (:class:`colltool.Readings`).

    Raises:
        ColltoolError: a reading that does not exist, or a value that it cannot have; names the
            argument.
    """
    return checked(readings, **parts)


def list_fabrics() -> list[str]:
    """The names of the shipped fabrics, sorted."""
    return shipped_fabrics()


def wrong(value: Any, argument: str, expected: str, fix: str) -> ColltoolError:
    """The error for a value of a kind that the argument does not take."""
    if isinstance(value, bool | int | float | complex) and not (
        isinstance(value, int) and abs(value) >= 10**_MOST_DIGITS
    ):
        shown = repr(value)
    elif isinstance(value, str):
        shown = f"'{value[:40]}'" if value else "an empty text"
    else:
        empty = value is None or (isinstance(value, list | tuple) and not value)
        shown = "nothing" if empty else f"a {type(value).__name__}"
    return ColltoolError(f"expected {expected}, got {shown}", argument=argument, fix=fix)


def paths_of(given: Any, argument: str, what: str, example: str) -> Sequence[AnyPath]:
    """One path or several as a list."""
    paths = [given] if isinstance(given, str | os.PathLike) else given
    if (
        not isinstance(paths, list | tuple)
        or not paths
        or not all(isinstance(path, str | os.PathLike) for path in paths)
    ):
        raise wrong(
            given, argument, f"paths of {what}", f'write "{example}", or a list of such paths'
        )
    return paths


def is_nothing(value: Any) -> bool:
    """Whether an argument of several values has none: None or empty, and never an array, whose
    truth is not told."""
    return value is None or (
        isinstance(value, str | Sized) and getattr(value, "ndim", None) is None and not value
    )


def primitive_of(primitive: Primitive | str) -> Primitive:
    """A primitive by any of its names."""
    if isinstance(primitive, Primitive):
        return primitive
    if not isinstance(primitive, str):
        raise wrong(primitive, "primitive", "the name of a primitive", 'write "ar" or "all_reduce"')
    return parse_primitive(primitive)


def names_of(algorithms: Sequence[str] | str) -> list[str]:
    """One name of an algorithm or several as a list."""
    return _texts(algorithms, "algorithms", "names of algorithms", ["ring", "tree"])


def vary_of(vary: Sequence[str] | str) -> list[str]:
    """One key with its values, or several, as a list."""
    return _texts(vary, "vary", "keys with their values", ["ib.bandwidth=50GB/s,100GB/s"])


def _texts(value: Sequence[str] | str, argument: str, noun: str, example: list[str]) -> list[str]:
    several = [value] if isinstance(value, str) else value
    if not isinstance(several, list | tuple) or not all(
        isinstance(text, str) and text.strip() for text in several
    ):
        raise wrong(value, argument, noun, f"write {given(argument, example)}")
    return list(several)


def size_of(size: str | float) -> float:
    """Bytes of one size."""
    if type(size) is float and 1 <= size <= MAX_SIZE:
        return size
    with naming("size"):
        if isinstance(size, int) and not isinstance(size, bool) and abs(size) >= 10**19:
            raise ColltoolError("a number of more than 19 digits", fix="write fewer digits")
        if not (isinstance(size, str) or _is_real(size)):
            raise wrong(size, "size", "a size", "write 16e6, 16MB (10^6 bytes) or 16MiB (2^20)")
        return parse_size(size)


def sizes_of(size: Sizes) -> Number:
    """A float for one size, an array of its own for several."""
    if isinstance(size, str | int | float) or getattr(size, "ndim", 1) == 0:
        return size_of(cast("float", size))
    import numpy as np

    if isinstance(size, list | tuple):
        array = np.array([size_of(one) for one in size], dtype=np.float64)
    elif isinstance(size, np.ndarray) and size.dtype.kind in "iuf":
        array = np.array(size, dtype=np.float64)  # a copy: the caller's own may change later
    else:
        raise wrong(
            size,
            "size",
            "a size or an array of them",
            "write 16e6, 16MB (10^6 bytes) or 16MiB (2^20)",
        )
    if array.ndim != 1 or not array.size:
        what = (
            f"sizes must be a one-dimensional array with at least one size, got shape {array.shape}"
        )
        raise ColltoolError(
            what,
            argument="size",
            fix="give each size once: numpy.ravel makes one dimension of several",
        )
    array.setflags(write=False)  # results share it
    return array


def count_of(
    value: Any, argument: str, least: float | None = None, most: float | None = None
) -> int:
    """A whole number within the bounds of its argument, or within other ones; unlike an option's,
    never a text."""
    row = ARGUMENTS.get(argument, _UNBOUNDED)
    low, high = row.least if least is None else least, row.most if most is None else most
    if type(value) is int and low <= value <= high:
        return value
    if isinstance(value, str):
        raise wrong(value, argument, "a whole number", f"write {given(argument, 8)}")
    return parse_count(value, argument, low, high)


def count_if(
    value: Any, argument: str, least: float | None = None, most: float | None = None
) -> int | None:
    """As :func:`count_of`, where it was given."""
    return None if value is None else count_of(value, argument, least, most)


def each_of(values: Any) -> list[Any]:
    """One value, or several as a list; none of None."""
    several = isinstance(values, list | tuple | range) or getattr(values, "ndim", 0) == 1
    return list(values) if several else [] if values is None else [values]


def number_of(value: Any, argument: str) -> float:
    """A finite real number."""
    if not _is_finite(value):
        raise wrong(value, argument, "a finite number", f"write {given(argument, 1.5)}")
    return float(value)


def fraction_if(value: Any, argument: str) -> float | None:
    """A share of at least 0, finite, where it was given; 0.05 is 5%."""
    if value is None:
        return None
    if not _is_finite(value) or value < 0:
        raise wrong(value, argument, "a fraction", f"write {given(argument, 0.05)}, which is 5%")
    return float(value)


def flag_of(value: Any, argument: str) -> bool:
    """True or False, and nothing that Python takes for either."""
    if isinstance(value, bool) or type(value).__name__ == "bool":  # numpy's too
        return bool(value)
    raise wrong(value, argument, "True or False", f"write {given(argument, True)}")


def text_of(value: Any, argument: str, example: str, noun: str = "text") -> str:
    """Text that is not empty."""
    if isinstance(value, str) and value.strip():
        return value
    raise wrong(value, argument, noun, f"write {given(argument, example)}")


def shape_of(shape: AnyShape | None) -> Shape | None:
    """Ranks along each axis of a slice, where it was given: ``"4x4x4"`` or ``(4, 4, 4)``."""
    if shape is None or isinstance(shape, str):
        return None if shape is None else parse_shape(shape, "shape")
    if not isinstance(shape, list | tuple) or not 1 <= len(shape) <= MAX_DEPTH:
        raise wrong(
            shape,
            "shape",
            f"ranks along each of at most {MAX_DEPTH} axes",
            f"write {given('shape', (4, 4, 4))}",
        )
    return tuple(count_of(size, "shape", 1, MAX_RANKS) for size in shape)


def group_of(
    ranks: int | None, stride: int = 1, alone: bool = False, shape: AnyShape | None = None
) -> GroupSpec:
    """Who is in a group, where that can be said without its fabric: how many ranks it may have is
    the fabric's to say."""
    return GroupSpec(
        count_if(ranks, "ranks"),
        count_of(stride, "stride"),
        flag_of(alone, "alone"),
        shape_of(shape),
    )


def groups_of(ranks: Sequence[int] | int | None, group: GroupSpec) -> list[GroupSpec]:
    """A group for each number of ranks; the one without a number where none is given."""
    return [group._replace(ranks=count_of(one, "ranks")) for one in each_of(ranks)] or [group]


def _is_real(value: Any) -> bool:
    """A number of Python or a scalar of numpy, never a boolean or a complex one."""
    plain = value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value
    return isinstance(plain, int | float) and not isinstance(plain, bool)


def _is_finite(value: Any) -> bool:
    try:
        return _is_real(value) and isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def fabric_of(
    fabric: AnyFabric, library: str | None = None, machine: OwnMachine | None = None
) -> Fabric:
    """A fabric as it is, or loaded by path or shipped name; with the library and the machine that
    arguments name."""
    own = machine_if(machine)
    if isinstance(fabric, Fabric):
        return under_library(fabric if own is None else on_machine(fabric, own), library)
    if not isinstance(fabric, str | os.PathLike | Mapping):
        fix = 'give a path, the name of a shipped fabric ("nvl72"), or what load_fabric returns'
        raise wrong(fabric, "fabric", "a fabric", fix)
    return under_library(load_fabric(fabric, machine=own), library)


def machine_if(machine: Any) -> OwnMachine | None:
    """A machine file's path, or a machine, where it was given."""
    if machine is None or isinstance(machine, MeasuredMachine | str | os.PathLike):
        return machine
    raise wrong(
        machine, "machine", "a machine file", f"write {given('machine', 'cluster.machine.yaml')}"
    )


def under_library(fabric: Fabric, library: str | None) -> Fabric:
    """A fabric with the library that an argument names; the fabric's own where it names none."""
    if library is None:
        _check_version(fabric)
        return fabric
    from colltool.algorithms.libraries import LibraryName
    from colltool.fabric.ground import under_library as with_library_of

    known: tuple[LibraryName, ...] = get_args(LibraryName)
    name, at, version = text_of(library, "library", "nccl").lower().partition("@")
    if name not in known:
        from colltool.kernels.files import is_library

        if is_library(name):
            fix = f"{name}'s kernels are for price, crossover and serve; here: {', '.join(known)}"
            raise ColltoolError(
                f"{clipped(name)} is a library of kernels, not of algorithms",
                argument="library",
                fix=fix,
            )
        fix = (
            f"{nearest(name, list(known))} known: {', '.join(known)}, and those of colltool library"
            " list".strip()
        )
        raise ColltoolError(f"no library '{clipped(name)}' is known", argument="library", fix=fix)
    if at and name != "nccl":
        raise ColltoolError(
            f"{name} has no versions here",
            argument="library",
            fix=f"write {given('library', name)}",
        )
    return with_library_of(fabric, name, version)


def _check_version(fabric: Fabric) -> None:
    """Refuse a version of NCCL that somebody asked for and that there is no data of; a file's own
    only costs it the pick."""
    asked = any(key.partition(".")[0] == "library" for key, _ in fabric.overrides)
    facts = fabric.library_facts
    if asked and fabric.library_name == "nccl" and facts is not None and facts.version:
        from colltool.nccl.hardware import constants

        constants(facts.version)


class Parsed(NamedTuple):
    """:class:`Options` and who is in the group, read."""

    group: GroupSpec
    library: str | None
    readings: Readings
    machine: OwnMachine | None = None

    def is_other(self, fabric: Fabric) -> bool:
        """Whether somebody named a library that is not the fabric's own, so that what it needs to
        know is missed."""
        return self.library is not None and self.library.lower() != fabric.library_name


def parsed(ranks: int | None, options: Options) -> Parsed:
    """The options of a public function, read."""
    rest: dict[str, Any] = dict(options)
    stride, alone, shape = rest.pop("stride", 1), rest.pop("alone", False), rest.pop("shape", None)
    library, machine = rest.pop("library", None), rest.pop("machine", None)
    readings = checked(rest.pop("readings", None), **rest)
    return Parsed(group_of(ranks, stride, alone, shape), library, readings, machine)


class Question(NamedTuple):
    """What a price is asked for, but for its size; ``asked`` where a library was named that is not
    the fabric's own."""

    fabric: Fabric
    primitive: Primitive
    group: GroupSpec
    readings: Readings
    asked: bool


def question(
    fabric: AnyFabric, primitive: Primitive | str, ranks: int | None, options: Options
) -> Question:
    """The arguments that most public functions share, read."""
    on = parsed(ranks, options)
    own = fabric_of(fabric, machine=on.machine)
    asked = as_read(under_library(own, on.library), on.readings)
    return Question(asked, primitive_of(primitive), on.group, on.readings, on.is_other(own))


def several_of(fabrics: AnyFabric | Sequence[AnyFabric]) -> list[AnyFabric]:
    """One fabric or several as a list, not yet loaded."""
    if isinstance(fabrics, Fabric | str | os.PathLike | Mapping):
        return [fabrics]
    if not isinstance(fabrics, Sequence) or not fabrics:
        raise wrong(
            fabrics,
            "fabrics",
            "a fabric or several",
            f"write {given('fabrics', ['dgx-h100', 'nvl72'])}",
        )
    return list(fabrics)


def columns_of(
    fabrics: Sequence[AnyFabric],
    vary: Sequence[str] | str,
    overrides: Overrides,
    library: str | None,
    machine: OwnMachine | None = None,
) -> list[CompareColumn]:
    """Every fabric under every combination of values, called by what tells it apart."""
    from colltool.analysis.compare import CompareColumn
    from colltool.analysis.grid import axes_of

    axes = axes_of(vary_of(vary))
    if other := next((axis for axis in axes if axis.is_reading), None):
        what = f"{other.key} is a reading, no value of a fabric"
        raise ColltoolError(what, argument="vary", fix="colltool sweep varies readings")
    found = []
    for where in wheres(fabrics, overrides, library, machine):
        where.load(())  # what is wrong with the overrides of all columns is theirs
        for chosen in product(*(axis.values for axis in axes)):
            pairs = tuple((axis.key, str(value)) for axis, value in zip(axes, chosen, strict=True))
            said = " ".join(
                f"{key.rsplit('.', 1)[-1] if len(pairs) == 1 else key}={value}"
                for key, value in pairs
            )
            name = " ".join(
                filter(None, (where.name if len(fabrics) > 1 or not pairs else "", said))
            )
            more = [f"{key}={value}" for key, value in pairs]
            found.append(CompareColumn(name, where.name, pairs, partial(_varied, where.load, more)))
    return found


def wheres(
    fabrics: Sequence[AnyFabric],
    overrides: Overrides,
    library: str | None,
    machine: OwnMachine | None = None,
) -> list[SweepFabric]:
    """The fabrics of a question, each called by its name; where several have one name, by what else
    tells them apart."""
    from colltool.analysis.sweep import SweepFabric

    found, own = [], machine_if(machine)
    for one in fabrics:
        if isinstance(one, Fabric) and is_nothing(overrides):
            found.append(SweepFabric(one.name, partial(_loaded, one, None, library, own)))
        else:
            if isinstance(overrides, Mapping):
                pairs = [f"{key}={value}" for key, value in overrides.items()]
            else:
                pairs = texts_of(overrides)
            found.append(
                SweepFabric(fabric_of(one).name, partial(_loaded, one, pairs, library, own))
            )
    names = told_apart([one.name for one in found], [typed_of(one) for one in fabrics])
    return [one._replace(name=name) for one, name in zip(found, names, strict=True)]


def typed_of(fabric: AnyFabric) -> str:
    """A path as somebody wrote it, or what a fabric was loaded with; empty for neither."""
    if isinstance(fabric, Fabric):
        return ", ".join(f"{key}={value}" for key, value in fabric.overrides)
    return os.fspath(fabric) if isinstance(fabric, str | os.PathLike) else ""


def _loaded(
    fabric: Any,
    overrides: Sequence[str] | None,
    library: str | None,
    machine: OwnMachine | None,
    more: Sequence[str],
) -> Fabric:
    """With more values in place of its own; one that is loaded (without overrides) only where there
    are more."""
    if library is not None and any(
        text.partition("=")[0].strip() in ("library", "library.name") for text in more
    ):
        what = (
            f"the library is varied, and {given('library', library)} would take the place of every"
            " value"
        )
        raise ColltoolError(what, argument="vary", fix=f"leave {given('library')} out")
    if overrides is None and not more:
        return fabric_of(fabric, library, machine)
    return under_library(load_fabric(fabric, [*(overrides or ()), *more], machine), library)


def _varied(load: FabricLoader, own: Sequence[str], more: Sequence[str]) -> Fabric:
    with taken_from(overrides="vary"):
        return load([*own, *more])
