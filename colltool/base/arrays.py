"""Arithmetic and choice of records that take plain numbers and numpy's arrays alike, arrays element
by element; numpy is imported only for arrays.

``Any`` below is such a number or array. What chooses, and whether rounding errors tie:

    least, largest, first_by, pick    exact; of equals the first
    first_least, winners, ranked      keys within TIE of each other are equal, and the first is taken

    first_by, first_least             return the index of the one that is chosen
    pick                              returns the record itself, of arrays put together by element
    winners                           returns every record that is chosen somewhere, and where
    ranked                            returns the indices of plain numbers in order

``values_at`` and ``record_at`` then take from records what an index of these says. An index is an int, or an
array of ints of the shape of the keys; keys are positive where ties count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from math import exp, inf, log2
from typing import Any, TypeVar

T = TypeVar("T")
Record = TypeVar("Record", bound=tuple[Any, ...])
# Relative difference up to which numbers count as equal: the rounding errors of sums.
TIE = 1e-12
# Elements up to which a function is that of single numbers, to the last digit. Numpy's own, which is
# faster, may end in another digit, by the processor that it runs on.
_MOST_BY_NUMBER = 1024


def is_array(value: object) -> bool:
    """Whether a value is an array of numpy's, or one of its scalars."""
    return hasattr(value, "shape")


def least(*values: Any) -> Any:
    """The least of plain numbers; of arrays that of each element."""
    if not any(map(is_array, values)):
        return min(values)
    import numpy as np

    return reduce(np.minimum, values)


def largest(*values: Any) -> Any:
    """The largest of plain numbers; of arrays that of each element."""
    if not any(map(is_array, values)):
        return max(values)
    import numpy as np

    return reduce(np.maximum, values)


def exponential(value: Any) -> Any:
    """e to a power, of a number or of each element."""
    return _by_element(exp, "exp", value)


def logarithm(value: Any) -> Any:
    """The logarithm to base 2 (not e), of a number or of each element."""
    return _by_element(log2, "log2", value)


def _by_element(function: Callable[[float], float], numpy_name: str, value: Any) -> Any:
    """A function's value for a number, or for each element; ``numpy_name``: what numpy calls the
    function."""
    if not is_array(value):
        return function(value)
    import numpy as np

    if value.size > _MOST_BY_NUMBER or not value.shape:
        return getattr(np, numpy_name)(value)
    return np.array(list(map(function, value.flat))).reshape(value.shape)


def anywhere(condition: Any) -> bool:
    """Whether a condition holds; of an array whether it does at any element."""
    return bool(condition.any() if is_array(condition) else condition)


def first_by(keys: Sequence[Any], *, most: bool) -> Any:
    """The index of the exactly least key (``most``: the largest), the first of equals; an array of
    indices where any key is an array. :func:`first_least` lets rounding errors tie."""
    if not any(map(is_array, keys)):
        return keys.index(max(keys) if most else min(keys))
    import numpy as np

    rows = np.stack(np.broadcast_arrays(*keys))
    return rows.argmax(axis=0) if most else rows.argmin(axis=0)


def values_at(index: Any, values: Sequence[Any]) -> Any:
    """Return ``values[index]``, of an array of indices an array that has at each element the value of the
    index there (values may be arrays themselves).

    Texts and flags give no array: callers show them only where they are alike at all elements, so the
    one at the first element stands for all. Numpy chooses among fewer than 64 values.
    """
    if not is_array(index):
        return values[index]
    first = values[0]
    if isinstance(first, str | bool):
        return values[int(index.flat[0])]
    if all(value is first for value in values):
        return first
    import numpy as np

    return np.choose(index, [np.broadcast_to(value, index.shape) for value in values])


def record_at(index: Any, records: Sequence[Record]) -> Record:
    """Return ``records[index]``; for an array of indices one record whose fields are chosen element by
    element."""
    if not is_array(index):
        return records[int(index)]
    kind = type(records[0])
    return kind(*(values_at(index, values) for values in zip(*records, strict=True)))


def pick(records: Sequence[Record], keys: Sequence[Any], *, most: bool = False) -> Record:
    """Return the record with the least (``most``: the largest) key, of arrays one record whose fields are
    chosen element by element; ``keys`` has one for each record."""
    if len(records) == 1:
        return records[0]
    return record_at(first_by(keys, most=most), records)


def winners(candidates: Iterable[T], key: Callable[[T], Any]) -> list[tuple[T, Any]]:
    """Return every candidate whose key is the least at some element, with a mask of those elements.

    A single candidate, or one of plain numbers, has True in place of a mask. Of keys within :data:`TIE`
    of the least the first counts as the least (:func:`first_least`).
    """
    contenders = list(candidates)
    if len(contenders) == 1:
        return [(contenders[0], True)]
    index = first_least(list(map(key, contenders)))
    if not is_array(index):
        return [(contenders[index], True)]
    import numpy as np

    return [(contenders[number], index == number) for number in np.unique(index).tolist()]


def first_least(keys: Sequence[Any]) -> Any:
    """The index of the first key that ties with the least, within :data:`TIE`; an array of indices
    where any key is an array. :func:`first_by` is exact."""
    if not any(map(is_array, keys)):
        first = keys.index(min(keys))
        near = keys[first] * (1 + TIE)
        return next((index for index in range(first) if keys[index] <= near), first)
    import numpy as np

    rows = np.stack(np.broadcast_arrays(*keys))
    return (rows <= rows.min(axis=0) * (1 + TIE)).argmax(axis=0)


def ranked(keys: Sequence[float]) -> list[int]:
    """Return indices by key, the least first; keys that tie stay in their order. A key ties with the
    least of its run of ties, within :data:`TIE` of that, and not with its neighbour alone."""
    order = sorted(range(len(keys)), key=keys.__getitem__)
    # Two passes: first each key gets the least key of its run, then indices are sorted by these. Keys
    # 2, 1 + 1e-15 and 1 have 2, 1 and 1, and the order 1, 2, 0.
    run_of: dict[int, float] = {}
    least_of_run = -inf  # any key begins a run
    for index in order:
        if keys[index] > least_of_run * (1 + TIE):
            least_of_run = keys[index]
        run_of[index] = least_of_run
    return sorted(order, key=lambda index: (run_of[index], index))
