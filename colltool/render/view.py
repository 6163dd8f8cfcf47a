"""The interface of a view, and helpers that views share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.formatting import percent, plain_number, shape_text, title_size, whole_percent
from colltool.estimate.placement import GroupPlacement
from colltool.render.blocks import Block, Column, Lines, Table, flag, label, number

if TYPE_CHECKING:
    from colltool.fabric.model import Fabric

Document = dict[str, Any]


class View(NamedTuple):
    """How results of one type are rendered; ``VIEWS`` of a module has one per type."""

    schema: str  # of the JSON document, as in ``colltool.price/1``
    blocks: Callable[[Any], list[Block]]
    document: Callable[[Any], Document]
    table: Callable[[Any], Table]  # the main table, for CSV and ``to_columns()``
    summary: Callable[[Any], str]
    page: Callable[[Any], str] | None = None  # its own HTML page, where that is more than its blocks


Overrides = tuple[tuple[str, str], ...]


def on_fabric(name: str, overrides: Overrides) -> str:
    """Such as ``nvl72``, or ``nvl72 with ib.size=64``."""
    return f"{name} with {', '.join(f'{key}={value}' for key, value in overrides)}" if overrides else name


def described(fabric: Fabric) -> str:
    """The description of a fabric on one line, marked as the file's where numbers are overridden."""
    text = " ".join(fabric.description.split())
    return f"in its file: {text}" if text and fabric.overrides else text


signed_percent = partial(percent, sign="+")


def reached_percent(share: float) -> str:
    """A share of the expected: ``94%``, above ten times ``12 times``."""
    return percent(share) if share > 10 else whole_percent(share)


def plain(value: Any) -> Any:
    """A value for JSON: named tuples as dicts, tuples as lists, enums as text."""
    if isinstance(value, tuple):
        fields_of = getattr(value, "_asdict", None)
        return [plain(one) for one in value] if fields_of is None else {key: plain(one) for key, one in fields_of().items()}
    return value.value if isinstance(value, StrEnum) else plain_number(value)


def fields(record: Any, names: str) -> Document:
    """These fields and properties of a record, for JSON."""
    return {name: plain(getattr(record, name)) for name in names.split()}


def set_field(overrides: Overrides) -> Document:
    return {"set": dict(overrides)} if overrides else {}


def group_field(group: GroupPlacement) -> Document:
    shape = {"shape": list(group.shape)} if group.shape else {}
    return {"ranks": group.ranks, "stride": group.stride, "per_domain": list(group.per_domain), "alone": group.alone} | shape


def group_columns(group: GroupPlacement | None, get: Callable[[Any], GroupPlacement | None]) -> tuple[Column, ...]:
    """Hidden columns that tell groups of equal size apart: stride, or shape."""
    if group is None or group.stride == 1:
        shape = label("shape", "shape", get=lambda one: (seats := get(one)) and shape_text(seats.shape), hidden=True)
        return (shape,) if group and group.shape else ()
    return (
        number("stride", "stride", get=lambda one: (seats := get(one)) and seats.stride, hidden=True),
        flag("alone", "alone", get=lambda one: (seats := get(one)) and seats.alone, hidden=True),
    )


def set_text(overrides: Overrides) -> str:
    return " ".join(f"{key}={value}" for key, value in overrides)


def context(overrides: Overrides = (), **values: Any) -> tuple[Column, ...]:
    """Hidden columns with one value in all rows, for rows of several runs to be put together; ``set`` only with overrides."""
    return tuple(starmap(_same_in_all, (values | ({"set": set_text(overrides)} if overrides else {})).items()))


def _same_in_all(key: str, value: Any) -> Column:
    kind = number if isinstance(value, int | float) else label
    title, show = ("size", title_size) if key == "bytes" else (key, str)
    return kind(key, title, show, get=lambda _: value, hidden=True)


def listed(title: str, lines: Iterable[str], first: int | None = None) -> list[Block]:
    """A list; no block without lines."""
    return [Lines(title, found, first=first)] if (found := tuple(lines)) else []
