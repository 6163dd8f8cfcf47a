"""What several subjects say of prices: the columns of a row, its document, titles, notes, and why others cannot run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from colltool.algorithms.libraries import LIBRARIES
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
from colltool.estimate.algorithm_estimate import LATE, AlgorithmEstimate, PhaseCost
from colltool.estimate.results import AssumptionsUsed, Infeasible, Price
from colltool.render.blocks import Block, Column, Lines, Table, flag, gathered, label, number
from colltool.render.not_run import not_run_text
from colltool.render.slow import slow_field
from colltool.render.view import Document, group_columns, group_field, on_fabric, set_field, set_text

WHY_NOT_RANKED = {
    "reference": "reference: a baseline of the textbooks that no library runs",
    "hypothetical": "hypothetical: on hardware that does not exist",
    "idealised": "idealised: real wiring takes longer than its formula",
}


class Ranked(NamedTuple):
    """A row with the price it stands in; of one size."""

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
    """What rows are rows of: with the stride and the overrides where a price has any."""
    if price is None:
        return CONTEXT
    apart = group_columns(price.group, lambda one: one.price.group)
    return (*CONTEXT[:3], *apart, CONTEXT[3], *((SET,) if price.overrides else ()))


_ROW: tuple[Column, ...] = (
    label("algorithm", "algorithm", get=lambda one: one.row.title),
    label("protocol", "protocol", get=lambda one: one.row.protocol, drop=5),
    number("n_alpha", "n_alpha", format_count, 6, get=lambda one: one.row.n_alpha),
    number("n_beta", "n_beta", format_count, 7, get=lambda one: one.row.n_beta),
    number("alpha_s", "alpha", format_time, 3, get=lambda one: float(one.row.alpha_s)),
    number("bandwidth_s", "bandwidth", format_time, 2, get=lambda one: float(one.row.bandwidth_s)),
    number("overhead_s", "overhead", format_time, 5, get=lambda one: float(one.row.overhead_s)),
    number("software_s", "software", format_time, 1, get=lambda one: float(one.row.software_s)),
    number("total_s", "total", format_time, get=lambda one: float(one.row.total_s)),
    number("slow_total_s", "slow rank", format_time, get=lambda one: one.row.slow and one.row.slow.total_s),
    number("slowdown", "slower", format_factor, get=lambda one: one.row.slow and one.row.slow.slowdown),
    number("alpha_share", "alpha%", whole_percent, 9, get=lambda one: float(one.row.alpha_s / one.row.total_s)),
    number("bandwidth_share", "bw%", whole_percent, 10, get=lambda one: float(one.row.bandwidth_s / one.row.total_s)),
    number("algbw_Bps", "algbw", format_rate, 8, get=lambda one: float(one.row.algbw_Bps)),
    number("busbw_Bps", "busbw", format_rate, 1, get=lambda one: float(one.row.busbw_Bps)),
    number("energy_J", "energy", format_energy, 8, get=lambda one: plain_number(one.row.energy_J)),
    label("status", "status", drop=4, get=lambda one: one.row.status),
    label("shipped_by", "shipped by", drop=11, get=lambda one: ", ".join(one.row.shipped_by)),
    label("spec", "spec", drop=12, get=lambda one: one.row.spec, hidden=True),
    flag("leads", "leads", get=lambda one: one.row.selectable, hidden=True),
    label("why_not", "why not", get=lambda one: why_not_ranked(one.row), hidden=True),
)


def row_table(ranked: Sequence[Ranked], title: str = "", best: int | None = None, *, sizes: bool = False) -> Table:
    """Rows with what they are rows of; for CSV alone: an overhead or software term of 0, protocols where there are none.

    Energy only where the fabric gives what a bit takes.
    """
    idle = [key for key in ("overhead_s", "software_s", "protocol") if not any(getattr(one.row, key) for one in ranked)]
    told = (("energy_J", any(one.row.energy_J is not None for one in ranked)),
            *((key, any(one.row.slow for one in ranked)) for key in ("slow_total_s", "slowdown")))  # fmt: skip
    absent = {key for key, there in told if not there}
    own = tuple(column for column in _ROW if column.key not in absent)
    columns = (*context(ranked[0].price if ranked else None), *own)
    table = Table(columns, tuple(ranked), best, title).without(*idle)
    return table.with_shown("bytes") if sizes else table


def why_not_ranked(row: AlgorithmEstimate) -> str:
    """Why a row may not be called the fastest; empty where it may."""
    reason = row.not_selected_reason
    return WHY_NOT_RANKED.get(row.status, not_run_text(reason) if reason else "")


def unranked_title(rows: Sequence[AlgorithmEstimate]) -> str:
    """Why these rows stand apart, in plain words."""
    reasons = [why for status, why in WHY_NOT_RANKED.items() if any(row.status == status for row in rows)]
    return f"not ranked, as nobody runs them at this price ({'; '.join(reasons)})"


def elsewhere_title(price: Price) -> str:
    """Why these rows follow the ranking."""
    return f"priced, but not what {spoken(price)} runs here"


def spoken(price: Price) -> str:
    """How people call the library of a price; empty where any may run."""
    return LIBRARIES[price.library.name].spoken if price.library else ""


def apart(price: Price) -> tuple[tuple[AlgorithmEstimate, ...], tuple[AlgorithmEstimate, ...]]:
    """The rows that may not lead: those of other libraries, and those that nobody runs."""
    return tuple(row for row in price.others if row.rank_class == 1), tuple(row for row in price.others if row.rank_class > 1)


def at_each_size(price: Price) -> Iterator[Price]:
    """One price a size; of a single size itself."""
    if isinstance(price.bytes, float):
        yield price
        return
    for at, size in enumerate(price.bytes):
        yield replace(price, bytes=float(size), results=tuple(_row_at(row, at) for row in price.results))


_NUMBERS = {name: name for name in ("n_alpha", "n_beta", "alpha_s", "overhead_s", "bytes", "protocol")} | LATE
"""The fields of a row that hold arrays, and what of the row they are made from."""


def _row_at(row: AlgorithmEstimate, at: int) -> AlgorithmEstimate:
    """A row of one of its sizes, without phases."""
    numbers = {field: plain_number(_item(getattr(row, name), at)) for field, name in _NUMBERS.items()}
    return replace(row, late_phases=(), **numbers)


def _item(value: Any, at: int) -> Any:
    return value[at] if hasattr(value, "shape") and value.shape else value


def heading(price: Price) -> str:
    """What was asked, of one size."""
    return heading_of_all(price, f"{title_size(float(price.bytes))} per rank, ")


def heading_of_all(price: Price, several: str = "") -> str:
    """What was asked, of many sizes."""
    where = on_fabric(price.fabric, price.overrides)
    library = f"{running(price.library.name, leads=bool(price.leading))}, " if price.library else ""
    return f"{price.primitive.spoken} on {where}, {price.group.spoken}, {several}{library}{price.mode}"


def running(library: str, *, leads: bool) -> str:
    """Whose schedules are ranked, in a title: that it runs none of what is shown where none leads."""
    known = LIBRARIES[library]
    return known.spoken if leads else f"of which {known.spoken} runs none{known.hint}"


NONE_RUNS = "the library runs none of what is priced there"
"""Of points whose fastest may not lead."""


def notes(rows: Sequence[AlgorithmEstimate], model: AssumptionsUsed, prices: Sequence[Price] = ()) -> list[Block]:
    """The readings that are not the usual ones, then each note with the rows it is about; who leads ``prices`` on one port."""
    turned = [(f"with {said(given('ports', 'one'))} {one.leads_on_one_port} leads", one.results[0].title)
              for one in prices if one.leads_on_one_port and isinstance(one.leads_on_one_port, str)]  # fmt: skip
    by_note = gathered((*turned, *((note, row.title) for row in rows for note in (*row.notes, *_told_elsewhere(row)))))
    lines = [f"{note}: {', '.join(titles)}" for note, titles in by_note.items()]
    readings = [f"{name}={value}" for name, value in model.unusual().items()]
    extra = [f"readings: {', '.join(readings)}"] if readings else []
    return [Lines("notes", (*extra, *lines))] if extra or lines else []


def _told_elsewhere(row: AlgorithmEstimate) -> tuple[str, ...]:
    """Why a library that ships a schedule does not run it here; that it has none the table says."""
    reason = row.not_selected_reason
    return (not_run_text(reason),) if row.rank_class == 1 and reason and not reason.foreign else ()


def cannot(infeasible: Sequence[Infeasible]) -> list[Block]:
    """Why the others cannot run, one line for each reason."""
    by_reason = gathered((one.reason, one.algorithm) for one in infeasible)
    lines = tuple(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
    return [Lines("cannot run here", lines)] if lines else []


def price_fields(price: Price) -> Document:
    """The promised fields of one price."""
    return (
        asked_fields(price)
        | {
            "results": [row_fields(row) for row in price.results],
            "infeasible": [{"algorithm": one.algorithm, "reason": one.reason} for one in price.infeasible],
        }
        | _library(price)
        | ({"leads_on_one_port": price.leads_on_one_port} if any(price.leads_on_one_port) else {})
    )


def _library(price: Price) -> Document:
    if price.library is None or price.library.pick is None:
        reason = {"reason": price.library.reason} if price.library and price.library.reason else {}
        return {"library": {"name": price.library.name} | reason} if price.library else {}
    from colltool.render.picks import library_field  # loads a library's model, which few prices ask for

    return library_field(price.library, None if price.library.runs is None else row_fields(price.library.runs), price.slower_pick)


def asked_fields(price: Price) -> Document:
    """What was asked."""
    return {"fabric": price.fabric} | set_field(price.overrides) | {
        "primitive": str(price.primitive),
        "ranks": price.ranks,
        "group": group_field(price.group),
        "bytes": whole_bytes(price.bytes),
        "mode": price.mode,
        "model": price.model.echo(),
    }  # fmt: skip


def row_fields(row: AlgorithmEstimate) -> Document:
    """The promised fields of one priced schedule."""
    array = hasattr(row.bytes, "tolist")
    return {
        "algorithm": row.algorithm,
        "detail": row.detail,
        "spec": row.spec,
        "n_alpha": plain_number(row.n_alpha),
        "n_beta": plain_number(row.n_beta),
        "alpha_s": plain_number(row.alpha_s),
        "bandwidth_s": plain_number(row.bandwidth_s),
        "overhead_s": plain_number(row.overhead_s),
        "software_s": plain_number(row.software_s),
        "total_s": plain_number(row.total_s),
        **slow_field(row.slow),
        "lower_bound_s": plain_number(row.lower_bound_s),
        "bound_ratio": plain_number(None if row.lower_bound_s is None else row.total_s / row.lower_bound_s),
        "bound": None if array else row.bound,
        "alpha_share": plain_number(row.alpha_s / row.total_s),
        "bandwidth_share": plain_number(row.bandwidth_s / row.total_s),
        "algbw_Bps": plain_number(row.algbw_Bps),
        "busbw_Bps": plain_number(row.busbw_Bps),
        **energy_field(row.energy_J),
        "status": row.status,
        "shipped_by": list(row.shipped_by),
        "leads": row.selectable,
        "why_not": why_not_ranked(row),
        "notes": list(row.notes),
        "phases": [_phase(phase, row) for phase in row.phases],
    } | under(row.protocol)


def energy_field(joule: Any) -> Document:
    """The energy, where the fabric gives what a bit takes."""
    return {} if joule is None else {"energy_J": plain_number(joule)}


def under(protocol: Any) -> Document:
    """The protocol, where the fabric lists any."""
    return {"protocol": plain_number(protocol)} if len(protocol) else {}


def _phase(phase: PhaseCost, row: AlgorithmEstimate) -> Document:
    return {
        "tier": phase.tier,
        "level": phase.level,
        "label": phase.label,
        "primitive": str(phase.primitive),
        "algorithm": phase.algorithm,
        "ranks": phase.ranks,
        "bytes": whole_bytes(phase.bytes),
        "n_alpha": plain_number(phase.n_alpha),
        "n_beta": plain_number(phase.n_beta),
        "alpha_s": plain_number(phase.alpha_s),
        "bandwidth_s": plain_number(phase.bandwidth_s),
        "eta_alpha": plain_number(phase.eta_alpha),
        "eta_beta": plain_number(phase.eta_beta),
        "bandwidth_Bps": plain_number(phase.bandwidth_Bps),
        "share": plain_number(phase.share),
        "of_total": plain_number(phase.total_s / row.total_s),
    } | energy_field(phase.energy_J)
