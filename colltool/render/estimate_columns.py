"""What views of prices share: columns, names, titles, notes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from colltool.algorithms.libraries import LIBRARIES, ships
from colltool.base.errors import given, said
from colltool.base.formatting import (
    format_count,
    format_energy,
    format_factor,
    format_rate,
    format_time,
    plain_number,
    title_size,
    whole_bytes,
    whole_percent,
)
from colltool.base.primitives import Primitive
from colltool.estimate.algorithm_estimate import LATE, AlgorithmEstimate, SlowRank
from colltool.estimate.assumptions import USUAL, Readings
from colltool.estimate.placement import GroupPlacement
from colltool.estimate.results import AssumptionsUsed, Infeasible, Price
from colltool.nccl.rules import name_of
from colltool.render.blocks import Block, Column, Lines, Table, flag, gathered, label, number
from colltool.render.estimate_fields import WHY_NOT_RANKED, not_run_text, why_not_ranked
from colltool.render.view import group_columns, on_fabric, set_text


class Ranked(NamedTuple):
    """A row and its price, at one size."""

    price: Price
    row: AlgorithmEstimate


CONTEXT: tuple[Column, ...] = (
    label("fabric", "fabric", get=lambda one: one.price.fabric, hidden=True),
    label("primitive", "primitive", get=lambda one: one.price.primitive, hidden=True),
    number("ranks", "ranks", get=lambda one: one.price.ranks, hidden=True),
    number("bytes", "size", title_size, get=lambda one: whole_bytes(one.price.bytes), hidden=True),
)
SET = label("set", "set", get=lambda one: set_text(one.price.overrides), hidden=True)


def context(price: Price | None) -> tuple[Column, ...]:
    """The hidden columns that say what was priced."""
    if price is None:
        return CONTEXT
    apart = group_columns(price.group, lambda one: one.price.group)
    return (*CONTEXT[:3], *apart, CONTEXT[3], *((SET,) if price.overrides else ()))


_ROW: tuple[Column, ...] = (
    label("algorithm", "algorithm", get=lambda one: one.row.title, fold=22),
    label("protocol", "protocol", get=lambda one: one.row.protocol, drop=5),
    number("n_alpha", "n_alpha", format_count, 6, get=lambda one: one.row.n_alpha),
    number("n_beta", "n_beta", format_count, 7, get=lambda one: one.row.n_beta),
    number("alpha_s", "alpha", format_time, 2, get=lambda one: float(one.row.alpha_s)),
    number("bandwidth_s", "bandwidth", format_time, 2, get=lambda one: float(one.row.bandwidth_s)),
    number("overhead_s", "launch", format_time, 5, get=lambda one: float(one.row.overhead_s)),
    number("software_s", "software", format_time, 1, get=lambda one: float(one.row.software_s)),
    number("total_s", "total", format_time, get=lambda one: float(one.row.total_s)),
    number("slow_total_s", "slow rank", format_time, get=lambda one: one.row.slow and one.row.slow.total_s),
    number("slowdown", "slower", format_factor, get=lambda one: one.row.slow and one.row.slow.slowdown),
    number("alpha_share", "alpha%", whole_percent, 9, get=lambda one: float(one.row.alpha_s / one.row.total_s)),
    number("bandwidth_share", "BW%", whole_percent, 10, get=lambda one: float(one.row.bandwidth_s / one.row.total_s)),
    number("algbw_Bps", "algbw", format_rate, 8, get=lambda one: float(one.row.algbw_Bps)),
    number("busbw_Bps", "busbw", format_rate, 3, get=lambda one: float(one.row.busbw_Bps)),
    number("energy_J", "energy", format_energy, 8, get=lambda one: plain_number(one.row.energy_J)),
    label("status", "status", drop=11, get=lambda one: one.row.status),
    label("shipped_by", "shipped by", drop=11, get=lambda one: ", ".join(one.row.shipped_by)),
    label("spec", "spec", drop=12, get=lambda one: one.row.spec, hidden=True),
    flag("leads", "leads", get=lambda one: one.row.selectable, hidden=True),
    label("why_not", "why not", get=lambda one: why_not_ranked(one.row), hidden=True),
)
_NAMED = (
    label("algorithm", "algorithm", get=lambda one: named(one.price, one.row), fold=22),
    label("how", "how (inside / across)", get=lambda one: how(one.price, one.row), fold=18),
)


def row_table(
    ranked: Sequence[Ranked], title: str = "", best: int | None = None, *, sizes: bool = False, names: bool = False
) -> Table:
    """A table of priced rows; terms that are 0 everywhere are hidden, and energy is left out where it is not known.

    ``names`` puts the library's names first.
    """
    idle = [key for key in ("overhead_s", "software_s", "protocol") if not any(getattr(one.row, key) for one in ranked)]
    told = (("energy_J", any(one.row.energy_J is not None for one in ranked)),
            *((key, any(one.row.slow for one in ranked)) for key in ("slow_total_s", "slowdown")))  # fmt: skip
    absent = {key for key, there in told if not there}
    own = tuple(column for column in _ROW if column.key not in absent)
    if names and any(how(one.price, one.row) for one in ranked):
        own = (*_NAMED, *own[1:])
    table = Table((*context(ranked[0].price if ranked else None), *own), tuple(ranked), best, title).without(*idle)
    return table.with_shown("bytes") if sizes else table


def library_name(price: Price, row: AlgorithmEstimate) -> str:
    """The library's own name of an algorithm; may be empty."""
    if price.library is None or not ships(price.library.name, row.shipped_by):
        return ""
    if found := nccl_name(price.library.name, price.primitive, price.group, row.spec):
        return found
    bracketed = (one.partition(" (")[2].rstrip(")") for one in row.shipped_by if ships(price.library.name, [one]))
    return next((name for name in bracketed if name and "," not in name), "")


def nccl_name(library: str, primitive: Primitive, group: GroupPlacement, spec: str) -> str:
    """NCCL's name of an algorithm on a group; may be empty."""
    if not library or not LIBRARIES[library].like_nccl:
        return ""
    return name_of(spec, primitive, group.ranks, group.ranks // group.per_domain[0])


def named(price: Price, row: AlgorithmEstimate) -> str:
    """The library's name of an algorithm, else ours."""
    return library_name(price, row) or row.title


def how(price: Price, row: AlgorithmEstimate) -> str:
    """Our name of an algorithm that the library calls otherwise, for a hierarchical one its parts."""
    name = library_name(price, row)
    if not name or name.lower() == row.title:
        return ""
    return row.detail if row.algorithm == "hierarchical" else row.title


def unranked_title(rows: Sequence[AlgorithmEstimate]) -> str:
    reasons = [why for status, why in WHY_NOT_RANKED.items() if any(row.status == status for row in rows)]
    return f"not ranked: nobody gets these times ({'; '.join(reasons)})"


def spoken(price: Price) -> str:
    """The library's display name; empty without one."""
    return LIBRARIES[price.library.name].spoken if price.library else ""


def apart(price: Price) -> tuple[tuple[AlgorithmEstimate, ...], tuple[AlgorithmEstimate, ...]]:
    """Rows that may not lead: those of other libraries, and those that nobody runs."""
    return tuple(row for row in price.others if row.rank_class == 1), tuple(row for row in price.others if row.rank_class > 1)


def at_each_size(price: Price) -> Iterator[Price]:
    """One price per size."""
    if isinstance(price.bytes, float):
        yield price
        return
    for at, size in enumerate(price.bytes):
        yield replace(price, bytes=float(size), results=tuple(_row_at(row, at) for row in price.results))


_NUMBERS = {name: name for name in ("n_alpha", "n_beta", "alpha_s", "overhead_s", "bytes", "protocol")} | LATE
"""Fields of a row that may be arrays over sizes, each with the property that gives its value."""


def _row_at(row: AlgorithmEstimate, at: int) -> AlgorithmEstimate:
    numbers = {field: plain_number(_item(getattr(row, name), at)) for field, name in _NUMBERS.items()}
    return replace(row, late_phases=(), **numbers)


def _item(value: Any, at: int) -> Any:
    return value[at] if hasattr(value, "shape") and value.shape else value


def heading(price: Price) -> str:
    """What was asked, at one size."""
    return heading_of_all(price, f"{title_size(float(price.bytes))} per rank, ")


def heading_of_all(price: Price, several: str = "") -> str:
    """What was asked, at several sizes."""
    where = on_fabric(price.fabric, price.overrides)
    library = f"{running(price.library.name, leads=bool(price.leading))}, " if price.library else ""
    return f"{price.primitive.spoken} on {where}, {price.group.spoken}, {several}{library}{price.mode}"


def running(library: str, *, leads: bool) -> str:
    """The library in a title; ``leads`` says whether it runs any of the rows."""
    known = LIBRARIES[library]
    return known.spoken if leads else f"none of it implemented in {known.spoken}{known.hint}"


NONE_RUNS = "the library implements none of these algorithms"


def notes(
    rows: Sequence[AlgorithmEstimate], model: AssumptionsUsed, prices: Sequence[Price] = (), first: int | None = None
) -> list[Block]:
    """Non-default readings and who leads on one port, then each note with the rows it is about.

    The default view has all of the former and ``first`` of the latter.
    """
    extra = readings_lines(model.readings, model.usual)
    extra += [f"with {said(given('ports', 'one'))} {one.leads_on_one_port} leads: {one.results[0].title}"
              for one in prices if one.leads_on_one_port and isinstance(one.leads_on_one_port, str)]  # fmt: skip
    by_note = gathered((note, row.title) for row in rows for note in (*row.notes, *_why_elsewhere(row)))
    lines = (*dict.fromkeys(extra), *(f"{note}: {', '.join(titles)}" for note, titles in by_note.items()))
    return [Lines("notes", lines, first=None if first is None else len(dict.fromkeys(extra)) + first)] if lines else []


def _why_elsewhere(row: AlgorithmEstimate) -> tuple[str, ...]:
    reason = row.not_selected_reason
    return (not_run_text(reason),) if row.rank_class == 1 and reason and not reason.foreign else ()


def readings_lines(readings: Readings, usual: Readings = USUAL, varied: Collection[str] = ()) -> list[str]:
    """Such as ``readings: ring_alpha=worst``: those that are not the default; ``varied`` ones are an axis."""
    told = [f"{name}={value}" for name, value in readings.unlike(usual).items() if name not in varied]
    return [f"readings: {', '.join(told)}"] if told else []


def readings_block(readings: Readings, varied: Collection[str] = ()) -> list[Block]:
    return [Lines(line, ()) for line in readings_lines(readings, varied=varied)]


def cannot(infeasible: Sequence[Infeasible]) -> list[Block]:
    """Why algorithms cannot run, a line per reason."""
    by_reason = gathered((one.reason, one.algorithm) for one in infeasible)
    lines = tuple(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
    return [Lines("cannot run here", lines, first=0)] if lines else []


def slow_words(slow: SlowRank | None) -> str:
    """Such as ``with one rank at 0.8 of its bandwidth 1.2 ms, 1.19x; rank 0 costs most``."""
    if slow is None:
        return ""
    who = f"with one rank at {slow.share:g} of its bandwidth"
    if slow.total_s is None or slow.slowdown is None:
        return f"{who}: not known, {slow.reason}"
    worst = "" if slow.rank is None else f"; rank {slow.rank} costs most"
    return f"{who} {format_time(slow.total_s)}, {format_factor(slow.slowdown)}{worst}"
