"""The few operations on arrays that a price of several sizes takes, in plain Python: what stands for
numpy in a page that has none (:mod:`colltool.commands.in_page` puts it in numpy's place).

Every public name is numpy's, and what prices ask of it comes out as numpy's, with numbers that are the
same to the last digit. A name that is not here is not approximated: asking for it raises AttributeError
and is noted in :data:`NOTED`, so that the page can load numpy and ask again. Different from numpy, where
prices do not ask:

- Nothing is a view: slices and ``reshape`` copy, so only ``array[key] = ...`` itself changes an array.
  ``asarray`` of an array is that array, and ``tolist`` of one axis the list that it holds.
- ``flat`` is a list. Elements are Python's int, float and bool; integers to a power are floats, other
  than to the power of 2.
- ``argmax`` and ``unique`` have no rule for nan; ``choose`` takes negative numbers, from the end.
- Parameters are fewer: what a signature lacks raises TypeError, which nobody notes.

An :class:`ndarray` is a list of values and a shape. Functions that go element by element end in
:func:`_by_element`, those along an axis in :meth:`ndarray._reduce`; the operators of arrays are made
in a loop below their tables.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, product, zip_longest
from math import inf as inf
from math import nan as nan
from math import prod
from typing import Any

Shape = tuple[int, ...]

# numpy's types of elements: Python's own hold as many digits
float64 = float
int64 = intp = uint8 = signedinteger = int
bool_ = bool


class Noted:
    """What was asked of the arrays since the last ``clear``.

    Attributes:
        made: an array was made.
        missing: the name of what was asked for last and is not here; empty if all was.
    """

    made = False
    missing = ""

    def clear(self) -> None:
        self.made = False
        self.missing = ""


NOTED = Noted()


def __getattr__(name: str) -> Any:
    """Note a name of numpy's that is not here, and raise AttributeError."""
    if name.startswith("__"):  # Python itself asks for __path__ and the like
        raise AttributeError(name)
    raise _missing(name)


def _missing(name: str) -> AttributeError:
    """The error of what is not here, which is noted."""
    NOTED.missing = name
    return AttributeError(name)


class NDArray:
    """``numpy.typing.NDArray``, which only annotations name."""

    def __class_getitem__(cls, _: Any) -> Any:
        return Any


class ndarray:
    """Values in C order (the last axis fastest), ``flat``, and their shape; of shape () a single one."""

    def __init__(self, values: Iterable[Any], shape: Shape) -> None:
        NOTED.made = True
        self.flat: list[Any] = list(values)
        # as numpy promotes: integers beside floats are floats
        if set(map(type, self.flat)) == {int, float}:
            self.flat = list(map(float, self.flat))
        self.shape = shape

    def __getattr__(self, name: str) -> Any:
        raise _missing(name)

    @property
    def size(self) -> int:
        return len(self.flat)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def tolist(self) -> Any:
        if len(self.shape) == 1:
            return self.flat
        return [row.tolist() for row in self]

    def reshape(self, *shape: Any) -> ndarray:
        lengths = list(shape[0] if isinstance(shape[0], tuple) else shape)
        if -1 in lengths:
            # what the other axes leave; their product is negative, as it has the -1 itself
            lengths[lengths.index(-1)] = self.size // -prod(lengths)
        return ndarray(self.flat, tuple(lengths))

    def __getitem__(self, key: Any) -> Any:
        """Part of an array, by one of three kinds of key, which are not mixed.

        ``[:, None]`` adds axes; ``[rows, columns]`` of two lists takes an element for each pair; else
        every axis has a number, a slice, a list of numbers or a list of flags.
        """
        keys = key if isinstance(key, tuple) else (key,)
        added_axes = [axis for axis, part in enumerate(keys) if part is None]
        if added_axes:
            shape = list(self.shape)
            for axis in added_axes:
                shape.insert(axis, 1)
            return ndarray(self.flat, tuple(shape))
        lists = [part for part in keys if isinstance(part, ndarray | list)]
        if len(lists) > 1:
            indices = broadcast_arrays(*lists)
            return stack([self[pair] for pair in zip(*map(_flat_of, indices), strict=True)])
        places_by_axis = []
        shape = []
        # A whole slice for every axis, of which zip leaves those that no key is for: of three axes
        # [1, :] is 1, :, : and the rest. Keys beyond the last axis are not refused.
        part: Any
        for part, length in zip(keys + (slice(None),) * len(self.shape), self.shape, strict=False):
            places_by_axis.append(_places_on_axis(part, length))
            if not isinstance(part, int):
                shape.append(len(places_by_axis[-1]))
        values = [self.flat[_flat(index, self.shape)] for index in product(*places_by_axis)]
        return _array_or_value(values, tuple(shape))

    def __setitem__(self, key: Any, value: Any) -> None:
        # The same key on an array of its own places says which are meant: of shape (2, 3) the places
        # are [[0, 1, 2], [3, 4, 5]], and [:, 1] takes 1 and 4.
        places = asarray(ndarray(range(self.size), self.shape)[key])
        for place, new in zip(
            places.flat, _values_in_shape(asarray(value), places.shape), strict=True
        ):
            self.flat[place] = new

    def _along(self, axis: int | None) -> tuple[list[list[Any]], Shape]:
        """The values along an axis for each place on the others, and the shape of these; without an axis
        all values in one line.

        Of shape (2, 3) along axis 0: elements 0 and 3, 1 and 4, 2 and 5; the shape is (3,).
        """
        if axis is None:
            return [self.flat], ()
        axis %= len(self.shape)  # -1 is the last
        step = prod(self.shape[axis + 1 :])
        block = step * self.shape[axis]
        lines = []
        for start in range(0, self.size, block):
            for first in range(start, start + step):
                lines.append(self.flat[first : start + block : step])
        return lines, self.shape[:axis] + self.shape[axis + 1 :]

    def _reduce(self, function: Callable[[list[Any]], Any], axis: int | None) -> Any:
        """A number for each line of values along an axis."""
        lines, shape = self._along(axis)
        return _array_or_value(list(map(function, lines)), shape)

    def min(self, axis: int | None = None) -> Any:
        return self._reduce(_least, axis)

    def max(self, axis: int | None = None) -> Any:
        return self._reduce(_most, axis)

    def argmax(self, axis: int | None = None) -> Any:
        return self._reduce(lambda line: line.index(max(line)), axis)

    def any(self, axis: int | None = None) -> Any:
        return self._reduce(any, axis)

    def __neg__(self) -> Any:
        return _by_element(operator.neg, self)

    def __abs__(self) -> Any:
        return _by_element(abs, self)

    def __invert__(self) -> Any:
        return _by_element(operator.not_, self)


_flat_of = operator.attrgetter("flat")  # the values of an array


def _array_or_value(values: list[Any], shape: Shape) -> Any:
    """An array, or the value alone where it has no shape."""
    return ndarray(values, shape) if shape else values[0]


def _is_nan(value: float) -> bool:
    return value != value


def _least(line: Sequence[Any]) -> Any:
    """The least value; nan if one of them is."""
    return nan if any(map(_is_nan, line)) else min(line)


def _most(line: Sequence[Any]) -> Any:
    """The largest value; nan if one of them is."""
    return nan if any(map(_is_nan, line)) else max(line)


def _places_on_axis(part: Any, length: int) -> Sequence[int]:
    """The places on an axis of a length that a key's part takes: a number, a slice, numbers or flags."""
    if isinstance(part, int):
        return [range(length)[part]]
    if isinstance(part, slice):
        return range(length)[part]
    if len(asarray(part).shape) > 1:
        raise _missing("indices of several axes")
    values = asarray(part).flat
    if set(map(type, values)) == {bool}:
        return [place for place, is_taken in enumerate(values) if is_taken]
    # range(length)[-1] is the last place, and one beyond the end raises IndexError
    return [range(length)[place] for place in values]


def _flat(index: Sequence[Any], shape: Sequence[int]) -> Any:
    """The place in C order of an index with a number for each axis: (1, 2) of shape (2, 3) is 5."""
    place = 0
    for number, length in zip(index, shape, strict=True):
        place = place * length + number
    return place


def _values_in_shape(values: ndarray, shape: Shape) -> list[Any]:
    """Values in C order, repeated to a shape that they broadcast to; ValueError if they do not."""
    if values.shape == shape:
        return values.flat
    aligned = (1,) * (len(shape) - len(values.shape)) + values.shape
    # of each axis the places to take, in order: place 0 again and again where there is only one
    ranges: list[Sequence[int]] = []
    for aligned_length, length in zip(aligned, shape, strict=True):
        if aligned_length not in (1, length):
            raise ValueError(f"{values.shape} does not broadcast to {shape}")
        ranges.append(range(length) if aligned_length == length else [0] * length)
    return [values.flat[_flat(index, aligned)] for index in product(*ranges)]


def _by_element(function: Callable[..., Any], *values: Any) -> Any:
    """A function of plain numbers, element by element of arrays that broadcast; of numbers alone a
    number."""
    if not any(isinstance(value, ndarray) for value in values):
        return function(*values)
    arrays = broadcast_arrays(*values)
    return ndarray(map(function, *map(_flat_of, arrays)), arrays[0].shape)


def _divide(dividend: float, divisor: float) -> float:
    """A quotient that is infinite or nan where Python raises ZeroDivisionError."""
    if divisor:
        return dividend / divisor
    if dividend == 0 or _is_nan(dividend):
        return nan
    return math.copysign(inf, dividend) * math.copysign(1, divisor)


def _power(base: float, exponent: float) -> float:
    """A power with numpy's last digit: numpy takes the root and the square by themselves."""
    if exponent == 0.5:
        return math.sqrt(base)
    if exponent == 2:
        return base * base
    return float(base**exponent)


# By the names of Python's methods without underscores: __add__ and, but for comparisons, __radd__.
_OPERATORS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": _divide,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": _power,
    "and": operator.and_,
    "or": operator.or_,
}
_COMPARISONS = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}


def _define(name: str, function: Callable[[Any, Any], Any]) -> None:
    """Give arrays the method of an operator, ``__add__``; and of all but comparisons, which Python turns
    round by itself, ``__radd__``."""

    def forward(self: ndarray, other: Any) -> Any:
        return _by_element(function, self, other)

    def backward(self: ndarray, other: Any) -> Any:
        return _by_element(function, other, self)

    setattr(ndarray, f"__{name}__", forward)
    if name in _OPERATORS:
        setattr(ndarray, f"__r{name}__", backward)


for _name, _function in (_OPERATORS | _COMPARISONS).items():
    _define(_name, _function)


def asarray(value: Any, dtype: Any = None) -> ndarray:
    """An array of a number, a sequence, a sequence of arrays of one shape, or an array, which is itself
    returned. ``dtype``: a type of Python's that elements are turned into."""
    if isinstance(value, ndarray):
        result = value
    elif isinstance(value, list | tuple | range):
        rows = list(map(asarray, value))
        values = chain.from_iterable(map(_flat_of, rows))
        row_shape = rows[0].shape if rows else ()
        result = ndarray(values, (len(rows), *row_shape))
    else:
        result = ndarray([value], ())
    if dtype is None:
        return result
    return ndarray(map(dtype, result.flat), result.shape)


def array(value: Any, dtype: Any = None) -> ndarray:
    """:func:`asarray`, always with values of its own."""
    shared = asarray(value, dtype)
    return ndarray(shared.flat, shared.shape)


def zeros(shape: int | Shape, dtype: Any = float) -> ndarray:
    """An array of zeros of a type of Python's."""
    return broadcast_to(dtype(0), shape)


def full(shape: int | Shape, value: Any) -> ndarray:
    """An array of one value, of whose type it is."""
    return broadcast_to(value, shape)


def arange(*bounds: int) -> ndarray:
    """Integers, with the bounds of :class:`range`."""
    return asarray(range(*bounds))


def stack(rows: Sequence[Any], axis: int = 0) -> ndarray:
    """Rows as one array: (2, n) of two rows of n.

    Any other axis than 0 is taken as the last, which is right for rows of one axis only: (n, 2). More
    axes are noted as missing.
    """
    stacked = asarray(list(rows))
    if axis == 0:
        return stacked
    if len(stacked.shape) > 2:
        raise _missing("stack")
    columns, shape = stacked._along(0)
    return asarray(columns).reshape(*shape, len(stacked))


def broadcast_arrays(*values: Any) -> list[ndarray]:
    """The values as arrays of one shape, each repeated where it has one element on an axis."""
    arrays = list(map(asarray, values))
    # aligned at the last axis; an axis of no values stays one of none
    shape: list[int] = []
    for lengths in zip_longest(*[reversed(item.shape) for item in arrays], fillvalue=1):
        shape.insert(0, 0 if 0 in lengths else max(lengths))
    return [broadcast_to(item, tuple(shape)) for item in arrays]


def broadcast_to(value: Any, shape: int | Shape) -> ndarray:
    """A value or array repeated to a shape; ValueError if it does not broadcast to that."""
    lengths = (shape,) if isinstance(shape, int) else shape
    return ndarray(_values_in_shape(asarray(value), lengths), lengths)


def where(condition: Any, yes: Any, no: Any) -> Any:
    """``yes`` where a condition holds, else ``no``, element by element."""
    return choose(condition, [no, yes])  # False is 0, True is 1


def choose(index: Any, values: Sequence[Any]) -> Any:
    """For each element the value of the number that ``index`` has there."""
    numbers, *rows = broadcast_arrays(index, *values)
    # stacked, all are of the kind that numpy promotes them to
    return _by_element(lambda number, *choices: choices[number], numbers, *stack(rows))


def minimum(first: Any, second: Any, out: ndarray | None = None) -> Any:
    """The lesser, element by element, nan if either is; also written to ``out`` if there is one."""
    least = stack(broadcast_arrays(first, second)).min(axis=0)
    if out is not None:
        out[:] = least
    return least


def maximum(first: Any, second: Any) -> Any:
    """The larger, element by element, nan if either is; without an ``out``, which nobody uses."""
    return stack(broadcast_arrays(first, second)).max(axis=0)


def unique(
    values: Any, return_inverse: bool = False, axis: int | None = None
) -> ndarray | tuple[ndarray, ndarray]:
    """Sorted values, each once, or with ``axis`` 0 the rows; with ``return_inverse`` also where each is
    among them."""
    listed = asarray(values)
    items = listed.flat
    if axis == 0:
        items = list(map(tuple, listed.tolist()))
    once = sorted(set(items))
    if not return_inverse:
        return asarray(once)
    place_of = {item: place for place, item in enumerate(once)}
    return asarray(once), asarray([place_of[item] for item in items])


def flatnonzero(values: Any) -> ndarray:
    """The places in C order whose values are not 0 or False."""
    return asarray([place for place, value in enumerate(asarray(values).flat) if value])


def unravel_index(places: Any, shape: Sequence[int]) -> tuple[ndarray, ...]:
    """The index on each axis of places in C order: of shape (2, 3) place 5 is 1 and 2."""
    by_axis = []
    # the last axis is the fastest
    for length in reversed(shape):
        by_axis.append(places % length)
        places = places // length
    return tuple(reversed(by_axis))


def ravel_multi_index(index: Sequence[Any], shape: Sequence[int]) -> Any:
    """The places in C order of indices, the other way of :func:`unravel_index`; bounds are not checked."""
    return _flat(index, shape)


def interp(x: Any, xp: Any, fp: Any) -> Any:
    """Values ``fp`` at ``xp``, which rise, and on the straight lines between; constant outside."""
    xs = asarray(xp).flat
    ys = asarray(fp).flat

    def value_at(x: float) -> Any:
        below = sum(known_x <= x for known_x in xs) - 1
        if below < 0 or below == len(xs) - 1:
            return ys[max(below, 0)]
        # in numpy's order of operations, for its last digit
        slope = (ys[below + 1] - ys[below]) / (xs[below + 1] - xs[below])
        return slope * (x - xs[below]) + ys[below]

    return _by_element(value_at, x)
