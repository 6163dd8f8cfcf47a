"""What a subject's module offers to the door, and what several of them share."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.formatting import percent, plain_number, shape_text, whole_percent
from colltool.estimate.group_spec import GroupPlacement
from colltool.render.blocks import Block, Column, Table, flag, label, number

if TYPE_CHECKING:
    from colltool.fabric.model import Fabric

Document = dict[str, Any]


class View(NamedTuple):
    """How results of one type are rendered; ``VIEWS`` of a module lists one for each type.

    Args:
        schema: of the document, as in ``colltool.price/1``.
        blocks: for people.
        document: the promised fields, after the head.
        table: the main table with everything: for CSV and ``to_columns()``.
        summary: the answer in a line or two.
        page: as HTML, where that is more than its blocks.
    """

    schema: str
    blocks: Callable[[Any], list[Block]]
    document: Callable[[Any], Document]
    table: Callable[[Any], Table]
    summary: Callable[[Any], str]
    page: Callable[[Any], str] | None = None


Overrides = tuple[tuple[str, str], ...]


def on_fabric(name: str, overrides: Overrides) -> str:
    """``nvl72``, or ``nvl72 with ib.size=64`` where values of the file are overridden."""
    return f"{name} with {', '.join(f'{key}={value}' for key, value in overrides)}" if overrides else name


def described(fabric: Fabric) -> str:
    """What a fabric is in its file's words, on one line; where values are overridden it says whose words they are."""
    text = " ".join(fabric.description.split())
    return f"in its file: {text}" if text and fabric.overrides else text


signed_percent = partial(percent, sign="+")


def reached_percent(share: float) -> str:
    """A share of what is expected: ``94%``; above ten times ``12 times``."""
    return percent(share) if share > 10 else whole_percent(share)


def plain(value: Any) -> Any:
    """A value as documents have it: named tuples as dicts, tuples as lists, names of an enumeration as text."""
    if isinstance(value, tuple):
        fields_of = getattr(value, "_asdict", None)
        return [plain(one) for one in value] if fields_of is None else {key: plain(one) for key, one in fields_of().items()}
    return value.value if isinstance(value, StrEnum) else plain_number(value)


def fields(record: Any, names: str) -> Document:
    """These fields and properties of a record, in this order."""
    return {name: plain(getattr(record, name)) for name in names.split()}


def set_field(overrides: Overrides) -> Document:
    """``--set`` as documents show it; nothing where nothing is overridden."""
    return {"set": dict(overrides)} if overrides else {}


def group_field(group: GroupPlacement) -> Document:
    """Who is in a group, as every document of a command that takes one echoes it."""
    shape = {"shape": list(group.shape)} if group.shape else {}
    return {"ranks": group.ranks, "stride": group.stride, "per_domain": list(group.per_domain), "alone": group.alone} | shape


def group_columns(group: GroupPlacement | None, get: Callable[[Any], GroupPlacement | None]) -> tuple[Column, ...]:
    """Columns of CSV that tell groups of one number of ranks apart; none for consecutive ranks where there is no lattice."""
    if group is None or group.stride == 1:
        shape = label("shape", "shape", get=lambda one: (seats := get(one)) and shape_text(seats.shape), hidden=True)
        return (shape,) if group and group.shape else ()
    return (
        number("stride", "stride", get=lambda one: (seats := get(one)) and seats.stride, hidden=True),
        flag("alone", "alone", get=lambda one: (seats := get(one)) and seats.alone, hidden=True),
    )


def set_text(overrides: Overrides) -> str:
    """``--set`` as a cell of CSV; empty where nothing is overridden."""
    return " ".join(f"{key}={value}" for key, value in overrides)
