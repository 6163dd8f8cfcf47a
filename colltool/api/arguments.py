"""What the public functions take: fabrics by path or name, primitives by any of their names, sizes as text or arrays.

A value of a type that nothing can be made of is refused here, with the name of the argument, before it travels.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, cast, get_args

from colltool.base.cost import Number
from colltool.base.errors import ColltoolError, given, nearest
from colltool.base.primitives import Primitive, parse_primitive
from colltool.base.quoting import clipped
from colltool.base.units import parse_count, parse_size
from colltool.estimate.readings import Readings, checked
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Sizes = str | float | Sequence[str | float] | NDArray[np.float64]
else:
    Sizes = Any

AnyPath = str | os.PathLike[str]
AnyFabric = Fabric | str | os.PathLike[str] | Mapping[str, Any]

_MOST_DIGITS = 15  # of a whole number that anything here counts


def readings(readings: Readings | None = None, /, **parts: Any) -> Readings:
    """How to read the model where it leaves a choice: ``readings``, or the defaults, with ``parts`` (:class:`colltool.Readings`).

    Raises:
        ColltoolError: a reading that does not exist, or a value that it cannot have; names the argument.
    """
    return checked(readings, **parts)


def fabric_of(fabric: AnyFabric) -> Fabric:
    """A fabric as it is, or loaded by path or shipped name.

    Raises:
        ColltoolError: of another type, or as :func:`colltool.load_fabric`.
    """
    if isinstance(fabric, Fabric):
        return fabric
    if not isinstance(fabric, str | os.PathLike | Mapping):
        raise wrong(
            fabric, "fabric", "a fabric", 'give a path, the name of a shipped fabric ("nvl72"), or what load_fabric returns'
        )
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


def fabrics_of(fabrics: AnyFabric | Sequence[AnyFabric]) -> list[Fabric]:
    """One fabric or several, loaded."""
    return [fabric_of(one) for one in several_of(fabrics)]


def paths_of(given: Any, argument: str, what: str, example: str) -> Sequence[AnyPath]:
    """One path or several as a list."""
    paths = [given] if isinstance(given, str | os.PathLike) else given
    if not isinstance(paths, list | tuple) or not paths or not all(isinstance(path, str | os.PathLike) for path in paths):
        raise wrong(given, argument, f"paths of {what}", f'write "{example}", or a list of such paths')
    return paths


def several_of(fabrics: AnyFabric | Sequence[AnyFabric]) -> list[AnyFabric]:
    """One fabric or several as a list, not yet loaded."""
    if isinstance(fabrics, Fabric | str | os.PathLike | Mapping):
        return [fabrics]
    if not isinstance(fabrics, Sequence) or not fabrics:
        raise wrong(fabrics, "fabrics", "a fabric or several", f"write {given('fabrics', ['dgx-h100', 'nvl72'])}")
    return list(fabrics)


def is_nothing(value: Any) -> bool:
    """Whether an argument of several values has none: None or empty, and never an array, whose truth is not told."""
    return value is None or (isinstance(value, str | Sized) and getattr(value, "ndim", None) is None and not value)


def primitive_of(primitive: Primitive | str) -> Primitive:
    """A primitive by any of its names.

    Raises:
        ColltoolError: no such primitive.
    """
    if isinstance(primitive, Primitive):
        return primitive
    if not isinstance(primitive, str):
        raise wrong(primitive, "primitive", "the name of a primitive", 'write "ar" or "all_reduce"')
    return parse_primitive(primitive)


def names_of(algorithms: Sequence[str] | str) -> list[str]:
    """One name or several as a list.

    Raises:
        ColltoolError: something that is no name.
    """
    return _texts(algorithms, "algorithms", "names of algorithms", ["ring", "tree"])


def vary_of(vary: Sequence[str] | str) -> list[str]:
    """One key with its values, or several, as a list.

    Raises:
        ColltoolError: something that is no text.
    """
    return _texts(vary, "vary", "keys with their values", ["ib.bandwidth=50GB/s,100GB/s"])


def _texts(value: Sequence[str] | str, argument: str, noun: str, example: list[str]) -> list[str]:
    several = [value] if isinstance(value, str) else value
    if not isinstance(several, list | tuple) or not all(isinstance(text, str) and text.strip() for text in several):
        raise wrong(value, argument, noun, f"write {given(argument, example)}")
    return list(several)


def size_of(size: str | float) -> float:
    """Bytes of one size.

    Raises:
        ColltoolError: no size, or out of range.
    """
    with _naming("size"):
        if isinstance(size, int) and not isinstance(size, bool):
            size = _short(size, "size")
        if not (isinstance(size, str) or _is_real(size)):
            raise wrong(size, "size", "a size", "write 16e6, 16MB (10^6 bytes) or 16MiB (2^20)")
        return parse_size(size)


def sizes_of(size: Sizes) -> Number:
    """A float for one size, an array of its own for several.

    Raises:
        ColltoolError: no size, or out of range.
    """
    if isinstance(size, str | int | float) or getattr(size, "ndim", 1) == 0:
        return size_of(cast("float", size))
    import numpy as np

    if isinstance(size, list | tuple):
        array = np.array([size_of(one) for one in size], dtype=np.float64)
    elif isinstance(size, np.ndarray) and size.dtype.kind in "iuf":
        array = np.array(size, dtype=np.float64)  # a copy: the caller's own may change later
    else:
        raise wrong(size, "size", "a size or an array of them", "write 16e6, 16MB (10^6 bytes) or 16MiB (2^20)")
    if array.ndim != 1 or not array.size:
        what = f"sizes must be a one-dimensional array with at least one size, got shape {array.shape}"
        raise ColltoolError(what, argument="size", fix="give each size once: numpy.ravel makes one dimension of several")
    array.setflags(write=False)  # results share it
    return array


def whole_of(value: Any, argument: str) -> int:
    """A whole number.

    Raises:
        ColltoolError: another type, or more digits than anything here counts.
    """
    return _short(count_of(value, argument), argument)


def count_of(value: Any, argument: str, least: float = -inf, most: float = inf) -> int:
    """A whole number within bounds; unlike an option's, never a text.

    Raises:
        ColltoolError: another type, or outside.
    """
    if isinstance(value, str):
        raise wrong(value, argument, "a whole number", f"write {given(argument, 8)}")
    return parse_count(value, argument, least, most)


def seed_of(seed: int) -> int:
    """Of what is drawn: any whole number that the command line takes too."""
    return count_of(seed, "seed", 0, 10**9)


def each_of(values: Any) -> list[Any]:
    """One value, or several as a list; none of None."""
    several = isinstance(values, list | tuple | range) or getattr(values, "ndim", 0) == 1
    return list(values) if several else [] if values is None else [values]


def number_of(value: Any, argument: str) -> float:
    """A finite real number.

    Raises:
        ColltoolError: another type, infinite, or not a number.
    """
    if not _is_finite(value):
        raise wrong(value, argument, "a finite number", f"write {given(argument, 1.5)}")
    return float(value)


def fraction_of(value: Any, argument: str) -> float:
    """A share of at least 0, finite; 0.05 is 5%.

    Raises:
        ColltoolError: another type, negative, infinite, or not a number.
    """
    if not _is_finite(value) or value < 0:
        raise wrong(value, argument, "a fraction", f"write {given(argument, 0.05)}, which is 5%")
    return float(value)


def flag_of(value: Any, argument: str) -> bool:
    """True or False, and nothing that Python takes for either.

    Raises:
        ColltoolError: another type.
    """
    if isinstance(value, bool) or type(value).__name__ == "bool":  # numpy's too
        return bool(value)
    raise wrong(value, argument, "True or False", f"write {given(argument, True)}")


def text_of(value: Any, argument: str, example: str, noun: str = "text") -> str:
    """Text that is not empty.

    Raises:
        ColltoolError: another type, or nothing.
    """
    if isinstance(value, str) and value.strip():
        return value
    raise wrong(value, argument, noun, f"write {given(argument, example)}")


def wrong(value: Any, argument: str, expected: str, fix: str) -> ColltoolError:
    """The error for a value of a kind that the argument does not take."""
    shown = {True: "True", False: "False"}[value] if isinstance(value, bool) else _shown(value)
    return ColltoolError(f"expected {expected}, got {shown}", argument=argument, fix=fix)


def _shown(value: Any) -> str:
    if isinstance(value, int | float | complex) and not (isinstance(value, int) and abs(value) >= 10**_MOST_DIGITS):
        return repr(value)
    if isinstance(value, str):
        return f"'{value[:40]}'" if value else "an empty text"
    if isinstance(value, list | tuple) and not value:
        return "nothing"
    return "nothing" if value is None else f"a {type(value).__name__}"


def _is_real(value: Any) -> bool:
    """A number of Python or a scalar of numpy, never a boolean or a complex one."""
    plain = value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value
    return isinstance(plain, int | float) and not isinstance(plain, bool)


def _is_finite(value: Any) -> bool:
    """A real number that a float can hold."""
    try:
        return _is_real(value) and isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def _short(number: int, argument: str) -> int:
    if abs(number) >= 10 ** (_MOST_DIGITS + 4):
        raise ColltoolError(f"a number of more than {_MOST_DIGITS + 4} digits", argument=argument, fix="write fewer digits")
    return number


@contextmanager
def _naming(argument: str) -> Iterator[None]:
    """Within it an error belongs to this argument, unless it says another."""
    try:
        yield
    except ColltoolError as error:
        error.argument = error.argument or ("" if error.where else argument)
        raise
