"""Values of a Chakra node's JSON, of the type that is due; ValueError says what is wrong else."""

from __future__ import annotations

from typing import Any

from colltool.logs.call_metadata import as_count
from colltool.logs.chakra_format import NODE_TYPES, NodeType

_MOST_US = 1e18  # of a time that is believed


def node_type(value: Any) -> NodeType:
    """A node's type by name or number; ValueError for any other value."""
    if type(value) is int and 0 <= value < len(NODE_TYPES):
        return NODE_TYPES[value]
    if value not in NODE_TYPES:
        raise ValueError("its type or dependencies")
    known: NodeType = value
    return known


def node_ids(value: Any) -> tuple[int, ...]:
    """The ids of a list; ValueError for anything else."""
    if not isinstance(value, list):
        raise ValueError("its type or dependencies")
    return tuple(map(whole_number, value))


def whole_number(value: Any) -> int:
    """A whole number from 0 on, which may be written as text; 0 for None, ValueError for anything
    else."""
    if value is None:
        return 0
    number = as_count(value)
    if number is None:
        raise ValueError("a whole number is due")
    return number


def whole_us(value: Any) -> int:
    """Whole microseconds of a time, as :func:`whole_number`; one with a fraction is rounded, and 0
    where it is negative, huge or not a number."""
    if not isinstance(value, float):
        return whole_number(value)
    # NaN compares as False
    if 0 <= value < _MOST_US:
        return round(value)
    return 0
