"""Checks arguments of public functions and converts them: primitives by any name, sizes as text or
arrays, groups, counts, paths.

``X_of`` returns a value of the type X or raises ColltoolError with the argument's name; ``X_if``
also takes None and returns it. Bounds are those of the argument's row in
:data:`colltool.commands.arguments.ARGUMENTS`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence, Sized
from math import inf, isfinite, log
from typing import TYPE_CHECKING, Any, TypeVar

from colltool.base.errors import ColltoolError, argument_text, clipped, error_argument
from colltool.base.formatting import (
    MAX_SIZE,
    Shape,
    format_size,
    parse_count,
    parse_shape,
    parse_size,
)
from colltool.base.primitives import Number, Primitive, parse_primitive
from colltool.commands.arguments import ARGUMENTS, Argument
from colltool.definitions.field_types import MAX_DEPTH, MAX_RANKS
from colltool.estimate.assumptions import ModelOptions, checked
from colltool.estimate.placement import GroupSpec
from colltool.fabric.custom_machine import CustomMachine
from colltool.fabric.model import Fabric
from colltool.machines.factor import MeasuredMachine

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from colltool.commands.public_options import AnyShape

    Sizes = str | float | Sequence[str | float] | NDArray[np.float64]

Word = TypeVar("Word", bound=str)
AnyPath = str | os.PathLike[str]
AnyFabric = Fabric | str | os.PathLike[str] | Mapping[str, Any]

# digits of a whole number that an error repeats
_MOST_DIGITS = 15
# the row of names that have none in ARGUMENTS: the caller gives bounds
_UNBOUNDED = Argument(least=-inf, most=inf)
_SIZE_FIX = "write 16e6, 16MB (10^6 bytes) or 16M (2^20, as in nccl-tests)"


def readings(readings: ModelOptions | None = None, /, **parts: Any) -> ModelOptions:
    """Options of the model: ``readings``, or the defaults, with ``parts`` changed
    (:class:`colltool.Readings`).

    Raises:
        ColltoolError: an option that does not exist, or a value that it cannot have; names the
            argument.
    """
    return checked(readings, **parts)


def wrong(value: Any, argument: str, expected: str, fix: str) -> ColltoolError:
    """The error for a value that the argument does not take: "expected ..., got ..."."""
    return ColltoolError(
        f"expected {expected}, got {_described(value)}", argument=argument, fix=fix
    )


def _described(value: Any) -> str:
    """A value as an error repeats it: short text and numbers themselves, else the type."""
    if isinstance(value, str):
        return f"'{value[:40]}'" if value else "an empty text"
    if value is None or (isinstance(value, list | tuple) and not value):
        return "nothing"
    is_long = isinstance(value, int) and abs(value) >= 10**_MOST_DIGITS
    if isinstance(value, bool | int | float | complex) and not is_long:
        return repr(value)
    return f"a {type(value).__name__}"


def is_nothing(value: Any) -> bool:
    """Whether an argument that takes several values has none: None or empty.

    Arrays are never nothing: they have no truth value.
    """
    if value is None:
        return True
    return isinstance(value, Sized) and getattr(value, "ndim", None) is None and not value


def paths_of(value: Any, argument: str, what: str, example: str) -> Sequence[AnyPath]:
    """One path or several, as a list of at least one; errors name ``what`` they are paths of."""
    paths = [value] if _is_path(value) else value
    if isinstance(paths, list | tuple) and paths and all(map(_is_path, paths)):
        return paths
    raise wrong(value, argument, f"paths of {what}", f'write "{example}", or a list of such paths')


def path_of(value: Any, argument: str, what: str, example: str) -> AnyPath:
    """A path as it is; errors say ``what`` was expected."""
    if isinstance(value, str | os.PathLike):
        return value
    raise wrong(value, argument, what, f"write {argument_text(argument, example)}")


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def primitive_of(primitive: Primitive | str) -> Primitive:
    """A primitive by any of its names."""
    if isinstance(primitive, Primitive):
        return primitive
    if not isinstance(primitive, str):
        raise wrong(primitive, "primitive", "the name of a primitive", 'write "ar" or "all_reduce"')
    return parse_primitive(primitive)


def primitive_if(primitive: Primitive | str | None) -> Primitive | None:
    """:func:`primitive_of`, or None."""
    return None if primitive is None else primitive_of(primitive)


def names_of(algorithms: Sequence[str] | str) -> list[str]:
    """One name of an algorithm or several, as a list."""
    return _texts(algorithms, "algorithms", "names of algorithms", ["ring", "tree"])


def tests_of(test: Sequence[str] | str) -> list[str]:
    """One test of nccl-tests or several, as a list."""
    return _texts(test, "test", "names of tests", ["all_reduce", "alltoall"])


def vary_of(vary: Sequence[str] | str) -> list[str]:
    """One key with its values, or several, as a list."""
    return _texts(vary, "vary", "keys with their values", ["ib.bandwidth=50GB/s,100GB/s"])


def _texts(value: Sequence[str] | str, argument: str, noun: str, example: list[str]) -> list[str]:
    """One text or several, as a list; errors say that ``noun`` was expected, and show the example."""
    several = [value] if isinstance(value, str) else value
    if isinstance(several, list | tuple) and all(map(_is_text, several)):
        return list(several)
    raise wrong(value, argument, noun, f"write {argument_text(argument, example)}")


def _is_text(value: Any) -> bool:
    """Whether a value is text other than blanks."""
    return isinstance(value, str) and bool(value.strip())


def size_of(size: str | float) -> float:
    """One size in bytes."""
    # the short way: a sweep calls this a million times
    if type(size) is float and 1 <= size <= MAX_SIZE:
        return size
    with error_argument("size"):
        # a mistake, and too long to repeat in an error
        if isinstance(size, int) and not isinstance(size, bool) and abs(size) >= 10**19:
            raise ColltoolError("a number of more than 19 digits", fix="write fewer digits")
        if not (isinstance(size, str) or _is_real(size)):
            raise wrong(size, "size", "a size", _SIZE_FIX)
        return parse_size(size)


# 1K-1G or 1K..1G: low, to; 1K:1G or 1K:1G:4: low, high, factor
_RANGE = re.compile(
    r"\s*(?P<low>[^:\-]+?)\s*(?:(?:-|\.\.+)\s*(?P<to>[^:\-]+?)"
    r"|:\s*(?P<high>[^:]+?)\s*(?::\s*(?P<factor>[^:]+?))?)\s*"
)
# sizes of one range: more is a slip of its factor or step
MOST_SIZES = 10_000


def each_size(sizes: Any) -> list[float]:
    """Bytes of each of several sizes, and of the ranges among them: ``1K-1G`` and
    ``1K..1G`` double, ``1K:1G:4`` goes up by a factor of 4."""
    all_bytes: list[float] = []
    for size in each_of(sizes):
        ends = _RANGE.fullmatch(size) if isinstance(size, str) else None
        if ends is None:
            all_bytes.append(size_of(size))
            continue
        with error_argument("size"):
            factor = number_text(ends["factor"], "2")
            high = size_of(ends["to"] or ends["high"])
            low = size_of(ends["low"])
            all_bytes += sizes_between(low, high, factor)
    return all_bytes


def number_text(text: str | None, default: str) -> float:
    """The factor of a range, a plain number, from its text; from the default where it has none (None
    or empty)."""
    try:
        return float(text or default)
    except ValueError:
        raise ColltoolError(
            f"'{text}' is not a factor", argument="size", fix="write 1K:1G:4, or 1K-1G to double"
        ) from None


def sizes_between(low: float, high: float, factor: float = 2.0, step: float = 0.0) -> list[float]:
    """Sizes from ``low`` to ``high`` bytes, each ``factor`` times the one before or, if ``step`` is
    not 0, so many bytes more, as nccl-tests' ``-b``, ``-e``, ``-f`` and ``-i``. ``high`` itself is one
    only where a step meets it.

    Raises:
        ColltoolError: a range upside down, a factor that does not go up, or too many sizes.
    """
    if low > high:
        raise ColltoolError(
            f"the range ends at {format_size(high)}, below its start of {format_size(low)}",
            fix=f"write {format_size(high)}-{format_size(low)}",
        )
    if not step and not 1 < factor < inf:
        raise ColltoolError(
            f"a range goes up by a factor above 1, got {factor:g}", fix="write 2 to double"
        )
    count = (high - low) / step if step else log(high / low) / log(factor)
    if count > MOST_SIZES:
        raise ColltoolError(f"a range of {count:.0f} sizes", fix=f"at most {MOST_SIZES}")
    sizes = [low]
    while True:
        size = sizes[-1] + step if step else sizes[-1] * factor
        # powers such as 1.1**10 are a last digit off: what is above high by that is high
        if size > high * (1 + 1e-12):
            return sizes
        sizes.append(min(size, high))


def sizes_of(size: Sizes) -> Number:
    """Bytes: a float for one size, a new read-only array of shape (sizes,) for several."""
    if isinstance(size, str | int | float):
        return size_of(size)
    import numpy as np

    if isinstance(size, list | tuple):
        array = np.array([size_of(value) for value in size], dtype=np.float64)
    elif isinstance(size, np.ndarray | np.generic) and size.dtype.kind in "iuf":
        if size.ndim == 0:
            return size_of(size.item())
        # a copy: the caller's own may change later
        array = np.array(size, dtype=np.float64)
    else:
        raise wrong(size, "size", "a size or an array of them", _SIZE_FIX)
    if array.ndim != 1 or not array.size:
        raise ColltoolError(
            f"sizes must be a one-dimensional array with at least one size, got shape {array.shape}",
            argument="size",
            fix="give each size once: numpy.ravel makes one dimension of several",
        )
    # results share it
    array.setflags(write=False)
    return array


def count_of(
    value: Any, argument: str, least: float | None = None, most: float | None = None
) -> int:
    """A whole number within the bounds of its argument, or within ``least`` and ``most``.

    Unlike an option's, the value may not be text.
    """
    row = ARGUMENTS.get(argument, _UNBOUNDED)
    low = row.least if least is None else least
    high = row.most if most is None else most
    # parse_count also takes integers of numpy
    if type(value) is int and low <= value <= high:
        return value
    if isinstance(value, str):
        raise wrong(value, argument, "a whole number", f"write {argument_text(argument, 8)}")
    return parse_count(value, argument, low, high)


def count_if(
    value: Any, argument: str, least: float | None = None, most: float | None = None
) -> int | None:
    """:func:`count_of`, or None."""
    return None if value is None else count_of(value, argument, least, most)


def each_of(values: Any) -> list[Any]:
    """One value or several, as a list; empty for None."""
    if values is None:
        return []
    if isinstance(values, list | tuple | range) or getattr(values, "ndim", 0) == 1:
        return list(values)
    return [values]


def number_of(value: Any, argument: str) -> float:
    """A finite real number."""
    if not _is_finite(value):
        raise wrong(value, argument, "a finite number", f"write {argument_text(argument, 1.5)}")
    return float(value)


def fraction_if(value: Any, argument: str) -> float | None:
    """A finite share of at least 0, or None; 0.05 is 5%."""
    if value is None:
        return None
    if not _is_finite(value) or value < 0:
        raise wrong(
            value, argument, "a fraction", f"write {argument_text(argument, 0.05)}, which is 5%"
        )
    return float(value)


def flag_of(value: Any, argument: str) -> bool:
    """True or False; no other value, however truthy."""
    # numpy's is recognised by name, without importing it
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return bool(value)
    raise wrong(value, argument, "True or False", f"write {argument_text(argument, True)}")


def text_of(value: Any, argument: str, example: str, noun: str = "text") -> str:
    """Text that is not empty."""
    if isinstance(value, str) and value.strip():
        return value
    raise wrong(value, argument, noun, f"write {argument_text(argument, example)}")


def choice_of(value: Any, argument: str, words: Sequence[Word], noun: str) -> Word:
    """The one of several words, in small letters, that was given in any case.

    Args:
        noun: what the words are, for the error: ``format of numbers``.
    """
    lowered = text_of(value, argument, words[0]).lower()
    for word in words:
        if lowered == word:
            return word
    known = ", ".join(words)
    raise ColltoolError(
        f"'{clipped(lowered)}' is no {noun}", argument=argument, fix=f"one of {known}"
    )


def shape_of(shape: AnyShape | None) -> Shape | None:
    """Ranks along each axis of a slice, ``"4x4x4"`` or ``(4, 4, 4)``, or None."""
    if shape is None:
        return None
    if isinstance(shape, str):
        return parse_shape(shape, "shape")
    if not isinstance(shape, list | tuple) or not 1 <= len(shape) <= MAX_DEPTH:
        raise wrong(
            shape,
            "shape",
            f"ranks along each of at most {MAX_DEPTH} axes",
            f"write {argument_text('shape', (4, 4, 4))}",
        )
    return tuple(count_of(size, "shape", least=1, most=MAX_RANKS) for size in shape)


def group_of(
    ranks: int | None, stride: int = 1, alone: bool = False, shape: AnyShape | None = None
) -> GroupSpec:
    """The members of a group; whether they fit is checked when it is placed on a fabric."""
    return GroupSpec(
        count_if(ranks, "ranks"),
        count_of(stride, "stride"),
        flag_of(alone, "alone"),
        shape_of(shape),
    )


def groups_of(ranks: Sequence[int] | int | None, group: GroupSpec) -> list[GroupSpec]:
    """``group`` with each number of ranks; only ``group`` itself if none is given."""
    groups = [group._replace(ranks=count_of(count, "ranks")) for count in each_of(ranks)]
    return groups or [group]


def machine_if(machine: Any) -> CustomMachine | None:
    """A machine file's path, or a machine, or None."""
    if machine is None or isinstance(machine, MeasuredMachine | str | os.PathLike):
        return machine
    raise wrong(
        machine,
        "machine",
        "a machine file",
        f"write {argument_text('machine', 'cluster.machine.yaml')}",
    )


def _is_real(value: Any) -> bool:
    """Whether a value is an int or float of Python or numpy; booleans are not."""
    # recognises scalars of numpy without importing it
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    """Whether a value is a real number that is finite as a float."""
    try:
        return _is_real(value) and isfinite(value)
    except OverflowError:
        # a whole number of hundreds of digits
        return False
