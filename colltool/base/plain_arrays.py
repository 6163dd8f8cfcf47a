"""The few operations on arrays that a price of several sizes takes, in plain Python: what stands for
numpy in a page that has none.

Numbers are those of numpy to the last digit. What is not here is not approximated: asking for it
raises AttributeError and is noted in :data:`NOTED`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import product, zip_longest
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
    if not name.startswith("__"):
        NOTED.missing = name
    raise AttributeError(name)


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
        NOTED.missing = name
        raise AttributeError(name)

    @property
    def size(self) -> int:
        return len(self.flat)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(self.shape[0]))

    def tolist(self) -> Any:
        return self.flat if len(self.shape) == 1 else [row.tolist() for row in self]

    def reshape(self, *shape: Any) -> ndarray:
        lengths = shape[0] if isinstance(shape[0], tuple) else shape
        rest = self.size // -prod(lengths) if -1 in lengths else 0
        return ndarray(self.flat, tuple(rest if length == -1 else length for length in lengths))

    def __getitem__(self, key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        if None in [part if part is None else 0 for part in keys]:
            lengths = iter(self.shape)
            return ndarray(self.flat, tuple(1 if part is None else next(lengths) for part in keys))
        lists = [part for part in keys if isinstance(part, ndarray | list)]
        if len(lists) > 1:
            indices = broadcast_arrays(*lists)
            return stack([self[at] for at in zip(*(each.flat for each in indices), strict=True)])
        taken = []
        shape = []
        # what no key is for is taken whole
        part: Any
        for part, length in zip(keys + (slice(None),) * len(self.shape), self.shape, strict=False):
            taken.append(_positions(part, length))
            if not isinstance(part, int):
                shape.append(len(taken[-1]))
        found = [self.flat[_flat(at, self.shape)] for at in product(*taken)]
        return ndarray(found, tuple(shape)) if shape else found[0]

    def __setitem__(self, key: Any, value: Any) -> None:
        places = array(ndarray(range(self.size), self.shape)[key])
        for place, one in zip(places.flat, _spread(array(value), places.shape), strict=True):
            self.flat[place] = one

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
        found = list(map(function, lines))
        return ndarray(found, shape) if shape else found[0]

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


def _least(line: list[Any]) -> Any:
    return nan if any(one != one for one in line) else min(line)


def _most(line: list[Any]) -> Any:
    return nan if any(one != one for one in line) else max(line)


def _positions(part: Any, length: int) -> Sequence[int]:
    """The places that an index takes of an axis."""
    if isinstance(part, int):
        return [range(length)[part]]
    if isinstance(part, slice):
        return range(length)[part]
    values = array(part).flat
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
    if any(own not in (1, length) for own, length in zip(aligned, shape, strict=True)):
        raise ValueError(f"{values.shape} does not broadcast to {shape}")
    ranges = [
        [0] * length if own == 1 else range(length)
        for own, length in zip(aligned, shape, strict=True)
    ]
    return [values.flat[_flat(at, aligned)] for at in product(*ranges)]


def _by_element(function: Callable[..., Any], *values: Any) -> Any:
    """A function of plain numbers, element by element of arrays."""
    if not any(isinstance(value, ndarray) for value in values):
        return function(*values)
    arrays = broadcast_arrays(*values)
    found = map(function, *(each.flat for each in arrays))
    return ndarray(list(found), arrays[0].shape)


def _divide(one: float, other: float) -> float:
    if other:
        return one / other
    return nan if one == 0 or one != one else math.copysign(inf, one) * math.copysign(1, other)


def _power(one: float, other: float) -> float:
    if other == 0.5:  # numpy takes the root
        return math.sqrt(one)
    return one * one if other == 2 else one**other


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
_COMPARISONS = {name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")}


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


def array(value: Any, dtype: Any = None) -> ndarray:
    """An array of a number, a sequence, a sequence of arrays, or an array."""
    if isinstance(value, ndarray):
        found = value
    elif isinstance(value, list | tuple | range):
        rows = list(map(array, value))
        values = [one for row in rows for one in row.flat]
        found = ndarray(values, (len(rows), *(rows[0].shape if rows else ())))
    else:
        found = ndarray([value], ())
    return found if dtype is None else ndarray(list(map(dtype, found.flat)), found.shape)


asarray = array


def _filled(value: Any, shape: int | Shape) -> ndarray:
    lengths = (shape,) if isinstance(shape, int) else shape
    return ndarray([value] * prod(lengths), lengths)


def zeros(shape: int | Shape, dtype: Any = float) -> ndarray:
    return _filled(dtype(0), shape)


def full(shape: int | Shape, value: Any) -> ndarray:
    return _filled(value, shape)


def arange(*bounds: int) -> ndarray:
    return array(range(*bounds))


def stack(rows: Sequence[Any], axis: int = 0) -> ndarray:
    found = array(list(rows))
    if axis == 0:
        return found
    columns, shape = found._along(0)
    return array(columns).reshape(*shape, len(found))


def broadcast_arrays(*values: Any) -> list[ndarray]:
    arrays = list(map(array, values))
    lengths = zip_longest(*(each.shape[::-1] for each in arrays), fillvalue=1)
    shape = tuple(max(each) if 0 not in each else 0 for each in lengths)[::-1]
    return [broadcast_to(each, shape) for each in arrays]


def broadcast_to(value: Any, shape: int | Shape) -> ndarray:
    lengths = (shape,) if isinstance(shape, int) else shape
    return ndarray(_spread(array(value), lengths), lengths)


def where(condition: Any, one: Any, other: Any) -> Any:
    return _by_element(lambda holds, yes, no: yes if holds else no, array(condition), one, other)


def choose(index: Any, values: Sequence[Any]) -> Any:
    return _by_element(lambda at, *each: each[at], array(index), *values)


def minimum(one: Any, other: Any, out: ndarray | None = None) -> Any:
    found = _by_element(lambda *pair: _least(list(pair)), one, other)
    if out is not None:
        out[:] = found
    return found


def maximum(one: Any, other: Any) -> Any:
    return _by_element(lambda *pair: _most(list(pair)), one, other)


def unique(
    values: Any, return_inverse: bool = False, axis: int | None = None
) -> ndarray | tuple[ndarray, ndarray]:
    """Sorted values, each once, or with ``axis`` 0 the rows; and where each is among them."""
    listed = array(values)
    rows = listed.flat if axis is None else list(map(tuple, listed.tolist()))
    found = sorted(set(rows))
    if not return_inverse:
        return array(found)
    place = {row: at for at, row in enumerate(found)}
    return array(found), array([place[row] for row in rows])


def flatnonzero(values: Any) -> ndarray:
    return array([place for place, one in enumerate(array(values).flat) if one])


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
    xs, ys = array(places).flat, array(values).flat

    def between(x: float) -> Any:
        below = sum(place <= x for place in xs) - 1
        if below < 0 or below == len(xs) - 1:
            return ys[max(below, 0)]
        slope = (ys[below + 1] - ys[below]) / (xs[below + 1] - xs[below])
        return slope * (x - xs[below]) + ys[below]

    return _by_element(between, at)
