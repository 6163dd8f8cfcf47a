"""What the public functions take, read: primitives by any of their names, sizes as text or arrays, groups, counts.

A value of a type that nothing can be made of is refused here, with the name of the argument, before it travels.
"""

from __future__ import annotations

import os
from collections.abc import Sequence, Sized
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, cast

from colltool.api.arguments import ARGUMENTS, Argument
from colltool.base.errors import ColltoolError, given, naming
from colltool.base.formatting import MAX_SIZE, Shape, parse_count, parse_shape, parse_size
from colltool.base.primitives import Number, Primitive, parse_primitive
from colltool.definitions.field_types import MAX_DEPTH, MAX_RANKS
from colltool.estimate.assumptions import Readings, checked
from colltool.estimate.placement import GroupSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from colltool.api.arguments import AnyShape

    Sizes = str | float | Sequence[str | float] | NDArray[np.float64]
else:
    Sizes = Any

AnyPath = str | os.PathLike[str]

_MOST_DIGITS = 15  # of a whole number that an error repeats
_UNBOUNDED = Argument(least=-inf, most=inf)


def readings(readings: Readings | None = None, /, **parts: Any) -> Readings:
    """How to read the model where it leaves a choice: ``readings``, or the defaults, with ``parts`` (:class:`colltool.Readings`).

    Raises:
        ColltoolError: a reading that does not exist, or a value that it cannot have; names the argument.
    """
    return checked(readings, **parts)


def paths_of(given: Any, argument: str, what: str, example: str) -> Sequence[AnyPath]:
    """One path or several as a list."""
    paths = [given] if isinstance(given, str | os.PathLike) else given
    if not isinstance(paths, list | tuple) or not paths or not all(isinstance(path, str | os.PathLike) for path in paths):
        raise wrong(given, argument, f"paths of {what}", f'write "{example}", or a list of such paths')
    return paths


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
    """One name of an algorithm or several as a list."""
    return _texts(algorithms, "algorithms", "names of algorithms", ["ring", "tree"])


def vary_of(vary: Sequence[str] | str) -> list[str]:
    """One key with its values, or several, as a list."""
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
    if type(size) is float and 1 <= size <= MAX_SIZE:
        return size
    with naming("size"):
        if isinstance(size, int) and not isinstance(size, bool) and abs(size) >= 10**19:
            raise ColltoolError("a number of more than 19 digits", fix="write fewer digits")
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


def count_of(value: Any, argument: str, least: float | None = None, most: float | None = None) -> int:
    """A whole number within the bounds of its argument, or within other ones; unlike an option's, never a text.

    Raises:
        ColltoolError: another type, or outside.
    """
    row = ARGUMENTS.get(argument, _UNBOUNDED)
    low, high = row.least if least is None else least, row.most if most is None else most
    if type(value) is int and low <= value <= high:
        return value
    if isinstance(value, str):
        raise wrong(value, argument, "a whole number", f"write {given(argument, 8)}")
    return parse_count(value, argument, low, high)


def each_of(values: Any) -> list[Any]:
    """One value, or several as a list; none of None."""
    several = isinstance(values, list | tuple | range) or getattr(values, "ndim", 0) == 1
    return list(values) if several else [] if values is None else [values]


def number_of(value: Any, argument: str) -> float:
    """A finite real number."""
    if not _is_finite(value):
        raise wrong(value, argument, "a finite number", f"write {given(argument, 1.5)}")
    return float(value)


def fraction_of(value: Any, argument: str) -> float:
    """A share of at least 0, finite; 0.05 is 5%."""
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


def ranks_of(ranks: int | None, least: float | None = None) -> int | None:
    """N, where it was given: what a group may have is the fabric's to say, a job has one rank at ``least``."""
    return None if ranks is None else count_of(ranks, "ranks", least)


def shape_of(shape: AnyShape | None) -> Shape | None:
    """Ranks along each axis of a slice, where it was given: ``"4x4x4"`` or ``(4, 4, 4)``.

    Raises:
        ColltoolError: neither, or an axis below 1.
    """
    if shape is None:
        return None
    if isinstance(shape, str):
        return parse_shape(shape, "shape")
    if not isinstance(shape, list | tuple) or not 1 <= len(shape) <= MAX_DEPTH:
        raise wrong(shape, "shape", f"ranks along each of at most {MAX_DEPTH} axes", f"write {given('shape', (4, 4, 4))}")
    return tuple(count_of(size, "shape", 1, MAX_RANKS) for size in shape)


def group_of(ranks: int | None, stride: int = 1, alone: bool = False, shape: AnyShape | None = None) -> GroupSpec:
    """GroupSpec is in a group, where that can be said without its fabric.

    Raises:
        ColltoolError: ranks or stride that are no whole number, ``alone`` that is neither True nor False, or no shape.
    """
    return GroupSpec(ranks_of(ranks), count_of(stride, "stride"), flag_of(alone, "alone"), shape_of(shape))


def groups_of(ranks: Sequence[int] | int | None, group: GroupSpec) -> list[GroupSpec]:
    """A group for each number of ranks; the one without a number where none is given."""
    return [group._replace(ranks=count_of(one, "ranks")) for one in each_of(ranks)] or [group]


def wrong(value: Any, argument: str, expected: str, fix: str) -> ColltoolError:
    """The error for a value of a kind that the argument does not take."""
    return ColltoolError(f"expected {expected}, got {_shown(value)}", argument=argument, fix=fix)


def _shown(value: Any) -> str:
    if isinstance(value, bool | int | float | complex) and not (isinstance(value, int) and abs(value) >= 10**_MOST_DIGITS):
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
