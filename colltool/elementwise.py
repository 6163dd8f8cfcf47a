"""The same choices for numbers and for arrays of them: on a fabric whose values are arrays many fabrics are priced at once.

Arithmetic works on both by itself. What chooses, such as the slowest of several distances, chooses element by element here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, TypeVar

T = TypeVar("T")
Record = TypeVar("Record", bound=tuple[Any, ...])


def is_array(value: object) -> bool:
    """Whether it holds many numbers."""
    return hasattr(value, "shape")


def least(*values: Any) -> Any:
    """The least of several numbers, element by element."""
    if not any(map(is_array, values)):
        return min(values)
    import numpy as np

    return reduce(np.minimum, values)


def largest(*values: Any) -> Any:
    """The largest of several numbers, element by element."""
    if not any(map(is_array, values)):
        return max(values)
    import numpy as np

    return reduce(np.maximum, values)


def anywhere(condition: Any) -> bool:
    """Whether something holds, of an array at any element."""
    return bool(condition.any()) if is_array(condition) else bool(condition)


def first_by(keys: Sequence[Any], *, most: bool = False) -> Any:
    """The index of the least (with ``most`` the largest) key, the first of equals; an array of them where any key is one."""
    if not any(map(is_array, keys)):
        return keys.index((max if most else min)(keys))
    import numpy as np

    rows = np.stack(np.broadcast_arrays(*keys))
    return rows.argmax(axis=0) if most else rows.argmin(axis=0)


def taken(index: Any, values: Sequence[Any]) -> Any:
    """Of each element the value that its index points at. Words are those of the first element: they label, and price nothing."""
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
    """The record that an index points at; of an array of indices one whose fields are taken element by element."""
    if not is_array(index):
        return records[int(index)]
    kind = type(records[0])
    return kind(*(taken(index, values) for values in zip(*records, strict=True)))


def pick(records: Sequence[Record], key: Callable[[Record], Any], *, most: bool = False) -> Record:
    """The record with the least (with ``most`` the largest) key, element by element."""
    return record_at(first_by([key(record) for record in records], most=most), records) if len(records) > 1 else records[0]


def winners(candidates: Iterable[T], key: Callable[[T], Any]) -> list[T]:
    """The candidates that have the least key at any element; one where keys are numbers."""
    listed = list(candidates)
    index = first_by([key(one) for one in listed])
    return [listed[number] for number in sorted(set(index.flat))] if is_array(index) else [listed[index]]
