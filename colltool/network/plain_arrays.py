"""The few operations on arrays that a price of several sizes takes, in plain Python: what stands for
numpy in a page that has none.

Numbers are those of numpy to the last digit. What is not here is not approximated: asking for it
raises AttributeError and is noted in :data:`NOTED`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, product, zip_longest
from math import inf as inf
from math import nan as nan
from math import prod
from typing import Any

Shape = tuple[int, ...]

float64 = float
int64 = intp = uint8 = signedinteger = int
bool_ = bool


class Noted:
    """What was asked of the arrays since the last ``clear``."""

    made = False
    missing = ""

    def clear(self) -> None:
        self.made = False
        self.missing = ""


NOTED = Noted()


def __getattr__(name: str) -> Any:
    """Note a function of numpy that is not here."""
    if name.startswith("__"):
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
    """Values in C order, and their shape."""

    def __init__(self, values: Sequence[Any], shape: Shape) -> None:
        NOTED.made = True
        self.flat: list[Any] = list(values)
        # as numpy promotes: integers beside floats are floats
        if set(map(type, values)) == {int, float}:
            self.flat = list(map(float, values))
        self.shape = shape

    def __getattr__(self, name: str) -> Any:
        raise _missing(name)

    @property
    def size(self) -> int:
        return len(self.flat)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(self.shape[0]))

    def tolist(self) -> Any:
        if len(self.shape) == 1:
            return self.flat
        return [inner.tolist() for inner in self]

    def reshape(self, *shape: Any) -> ndarray:
        lengths = list(shape[0] if isinstance(shape[0], tuple) else shape)
        if -1 in lengths:
            lengths[lengths.index(-1)] = self.size // -prod(lengths)
        return ndarray(self.flat, tuple(lengths))

    def __getitem__(self, key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        added = [number for number, part in enumerate(keys) if part is None]
        if added:
            shape = list(self.shape)
            for number in added:
                shape.insert(number, 1)
            return ndarray(self.flat, tuple(shape))
        lists = [part for part in keys if isinstance(part, ndarray | list)]
        if len(lists) > 1:
            indices = broadcast_arrays(*lists)
            return stack([self[at] for at in zip(*map(_values, indices), strict=True)])
        taken = []
        shape = []
        # what no key is for is taken whole
        part: Any
        for part, length in zip(keys + (slice(None),) * len(self.shape), self.shape, strict=False):
            taken.append(_positions(part, length))
            if not isinstance(part, int):
                shape.append(len(taken[-1]))
        found = [self.flat[_flat(at, self.shape)] for at in product(*taken)]
        return _shaped(found, tuple(shape))

    def __setitem__(self, key: Any, value: Any) -> None:
        places = asarray(ndarray(range(self.size), self.shape)[key])
        for place, new in zip(places.flat, _spread(asarray(value), places.shape), strict=True):
            self.flat[place] = new

    def _along(self, axis: int | None) -> tuple[list[list[Any]], Shape]:
        """The values along an axis for each place on the others, and the shape of these."""
        if axis is None:
            return [self.flat], ()
        axis %= len(self.shape)
        step = prod(self.shape[axis + 1 :])
        block = step * self.shape[axis]
        lines = []
        for start in range(0, self.size, block):
            for inner in range(step):
                lines.append(self.flat[start + inner : start + block : step])
        return lines, self.shape[:axis] + self.shape[axis + 1 :]

    def _reduced(self, function: Callable[[list[Any]], Any], axis: int | None) -> Any:
        lines, shape = self._along(axis)
        return _shaped(list(map(function, lines)), shape)

    def min(self, axis: int | None = None) -> Any:
        return self._reduced(_least, axis)

    def max(self, axis: int | None = None) -> Any:
        return self._reduced(_most, axis)

    def argmax(self, axis: int | None = None) -> Any:
        return self._reduced(lambda line: line.index(max(line)), axis)

    def any(self, axis: int | None = None) -> Any:
        return self._reduced(any, axis)

    def __neg__(self) -> Any:
        return _by_element(operator.neg, self)

    def __abs__(self) -> Any:
        return _by_element(abs, self)

    def __invert__(self) -> Any:
        return _by_element(operator.not_, self)


def _values(array: ndarray) -> list[Any]:
    return array.flat


def _shaped(values: list[Any], shape: Shape) -> Any:
    """An array, or the value alone where it has no shape."""
    return ndarray(values, shape) if shape else values[0]


def _is_nan(value: Any) -> bool:
    return bool(value != value)


def _least(line: Sequence[Any]) -> Any:
    return nan if any(map(_is_nan, line)) else min(line)


def _most(line: Sequence[Any]) -> Any:
    return nan if any(map(_is_nan, line)) else max(line)


def _positions(part: Any, length: int) -> Sequence[int]:
    """The places that an index takes of an axis."""
    if isinstance(part, int):
        return [range(length)[part]]
    if isinstance(part, slice):
        return range(length)[part]
    if len(asarray(part).shape) > 1:
        raise _missing("indices of several axes")
    values = asarray(part).flat
    if set(map(type, values)) == {bool}:
        return [place for place, taken in enumerate(values) if taken]
    return [range(length)[place] for place in values]


def _flat(at: Sequence[int], shape: Shape) -> int:
    """The place in C order of indices along the axes."""
    place = 0
    for index, length in zip(at, shape, strict=True):
        place = place * length + index
    return place


def _spread(values: ndarray, shape: Shape) -> list[Any]:
    """Values repeated to a shape that they broadcast to."""
    if values.shape == shape:
        return values.flat
    aligned = (1,) * (len(shape) - len(values.shape)) + values.shape
    ranges: list[Sequence[int]] = []
    for own, length in zip(aligned, shape, strict=True):
        if own not in (1, length):
            raise ValueError(f"{values.shape} does not broadcast to {shape}")
        ranges.append(range(length) if own == length else [0] * length)
    return [values.flat[_flat(at, aligned)] for at in product(*ranges)]


def _by_element(function: Callable[..., Any], *values: Any) -> Any:
    """A function of plain numbers, element by element of arrays."""
    if not any(isinstance(value, ndarray) for value in values):
        return function(*values)
    arrays = broadcast_arrays(*values)
    return ndarray(list(map(function, *map(_values, arrays))), arrays[0].shape)


def _divide(dividend: float, divisor: float) -> float:
    if divisor:
        return dividend / divisor
    if dividend == 0 or _is_nan(dividend):
        return nan
    return math.copysign(inf, dividend) * math.copysign(1, divisor)


def _power(base: float, exponent: float) -> float:
    # numpy takes the root and the square itself
    if exponent == 0.5:
        return math.sqrt(base)
    if exponent == 2:
        return base * base
    return float(base**exponent)


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
    """An operator of arrays, in both orders."""

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
    """An array of a number, a sequence, a sequence of arrays, or an array."""
    if isinstance(value, ndarray):
        found = value
    elif isinstance(value, list | tuple | range):
        rows = list(map(asarray, value))
        values = list(chain.from_iterable(map(_values, rows)))
        found = ndarray(values, (len(rows), *asarray(rows[0] if rows else 0).shape))
    else:
        found = ndarray([value], ())
    if dtype is None:
        return found
    return ndarray(list(map(dtype, found.flat)), found.shape)


def array(value: Any, dtype: Any = None) -> ndarray:
    """The same as an array of its own."""
    found = asarray(value, dtype)
    return ndarray(found.flat, found.shape)


def zeros(shape: int | Shape, dtype: Any = float) -> ndarray:
    return broadcast_to(dtype(0), shape)


def full(shape: int | Shape, value: Any) -> ndarray:
    return broadcast_to(value, shape)


def arange(*bounds: int) -> ndarray:
    return asarray(range(*bounds))


def stack(rows: Sequence[Any], axis: int = 0) -> ndarray:
    found = asarray(list(rows))
    if axis == 0:
        return found
    if len(found.shape) > 2:
        raise _missing("stack")
    columns, shape = found._along(0)
    return asarray(columns).reshape(*shape, len(found))


def broadcast_arrays(*values: Any) -> list[ndarray]:
    arrays = list(map(asarray, values))
    # aligned at the last axis
    shape: list[int] = []
    for lengths in zip_longest(*[reversed(item.shape) for item in arrays], fillvalue=1):
        shape.insert(0, 0 if 0 in lengths else max(lengths))
    return [broadcast_to(item, tuple(shape)) for item in arrays]


def broadcast_to(value: Any, shape: int | Shape) -> ndarray:
    lengths = (shape,) if isinstance(shape, int) else shape
    return ndarray(_spread(asarray(value), lengths), lengths)


def where(condition: Any, yes: Any, no: Any) -> Any:
    return choose(condition, [no, yes])


def choose(index: Any, values: Sequence[Any]) -> Any:
    at, *rows = broadcast_arrays(index, *values)
    # stacked, all are of the kind that numpy promotes them to
    return _by_element(lambda number, *choices: choices[number], at, *stack(rows))


def minimum(first: Any, second: Any, out: ndarray | None = None) -> Any:
    found = stack(broadcast_arrays(first, second)).min(axis=0)
    if out is not None:
        out[:] = found
    return found


def maximum(first: Any, second: Any) -> Any:
    return stack(broadcast_arrays(first, second)).max(axis=0)


def unique(
    values: Any, return_inverse: bool = False, axis: int | None = None
) -> ndarray | tuple[ndarray, ndarray]:
    """Sorted values, each once, or with ``axis`` 0 the rows; and where each is among them."""
    listed = asarray(values)
    items = listed.flat
    if axis == 0:
        items = list(map(tuple, listed.tolist()))
    found = sorted(set(items))
    if not return_inverse:
        return asarray(found)
    place = {item: at for at, item in enumerate(found)}
    return asarray(found), asarray([place[item] for item in items])


def flatnonzero(values: Any) -> ndarray:
    return asarray([place for place, value in enumerate(asarray(values).flat) if value])


def unravel_index(places: Any, shape: Sequence[int]) -> tuple[ndarray, ...]:
    found = []
    for length in reversed(shape):
        found.append(places % length)
        places = places // length
    return tuple(found[::-1])


def ravel_multi_index(at: Sequence[Any], shape: Sequence[int]) -> Any:
    place: Any = 0
    for index, length in zip(at, shape, strict=True):
        place = place * length + index
    return place


def interp(at: Any, places: Any, values: Any) -> Any:
    """Values between places that rise, constant outside."""
    xs, ys = asarray(places).flat, asarray(values).flat

    def between(x: float) -> Any:
        below = sum(place <= x for place in xs) - 1
        if below < 0 or below == len(xs) - 1:
            return ys[max(below, 0)]
        slope = (ys[below + 1] - ys[below]) / (xs[below + 1] - xs[below])
        return slope * (x - xs[below]) + ys[below]

    return _by_element(between, at)
