"""Prices by kernels of engines and experts, their crossovers, and library files."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import NamedTuple

from colltool.base.formatting import (
    counted,
    format_bytes,
    format_rate,
    format_time,
    ordinal,
    sentence,
    size_text,
    whole_percent,
)
from colltool.engines.intervals import NOBODY_KNOWS
from colltool.engines.library_diff import LibraryDiff
from colltool.engines.results import (
    KernelCrossover,
    KernelEstimate,
    KernelPrice,
    KernelPriceList,
    LibraryChecks,
    LibraryList,
    LibraryShown,
    Threshold,
)
from colltool.render.blocks import Block, Headline, Lines, Table, flag, gathered, label, number
from colltool.render.dispatch import (
    Document,
    View,
    context,
    fields,
    group_field,
    listed,
    on_fabric,
    plain,
    set_field,
)
from colltool.render.intervals import interval_field, within, within_words


class _KernelLine(NamedTuple):
    price: KernelPrice
    row: KernelEstimate


def _asked(price: KernelPrice) -> str:
    what = price.operation.replace("_", "-").capitalize()
    if price.what is None:
        size = f"{size_text(price.bytes)} per rank"
    else:
        own = price.what
        size = (
            f"{counted(own.tokens, 'token')} of hidden {own.hidden}, top {own.top_k} of"
            f" {own.experts} experts, {own.dtype}"
        )
    return f"{what} on {on_fabric(price.fabric, price.overrides)}, {price.group.spoken}, {size}"


def _off_by(row: KernelEstimate) -> str:
    return f" ({within(row.interval, row.total_s)})" if row.interval else ""


def _answer(price: KernelPrice) -> str:
    best, fastest = price.best, price.fastest
    rate = (
        f"busbw {format_rate(best.busbw_Bps)}"
        if price.what is None
        else f"{format_bytes(best.bytes)} sent a rank"
    )
    measured = "" if best.interval else f" {sentence(best.measured)}."
    told = (
        f"{best.library} {best.kernel}: {format_time(best.total_s)}{_off_by(best)}, {rate}."
        f" {_asked(price)}.{measured}"
    )
    if fastest is not best and fastest.total_s < best.total_s * 0.98:
        told += (
            f" {fastest.kernel} would take {format_time(fastest.total_s)}:"
            f" {best.total_s / fastest.total_s:.3g} times faster."
        )
    return told


_ROW = (
    label("kernel", "kernel", get=lambda one: one.row.kernel),
    label("library", "library", drop=3, get=lambda one: one.row.library),
    number("total_s", "total", format_time, get=lambda one: one.row.total_s),
    number("latency_s", "latency", format_time, 2, get=lambda one: one.row.latency_s),
    number("bandwidth_s", "bandwidth", format_time, 2, get=lambda one: one.row.bandwidth_s),
    number("busbw_Bps", "busbw", format_rate, 4, get=lambda one: one.row.busbw_Bps),
    number("sent_bytes", "sent", format_bytes, 5, get=lambda one: one.row.bytes),
    label("within", "nine in ten", drop=1, get=lambda one: _nine_in_ten(one.row)),
    number("error", "off by", whole_percent, get=lambda one: one.row.error, hidden=True),
    label("wire", "wire", drop=6, get=lambda one: one.row.wire),
    flag("picked", "picked", drop=7, get=lambda one: one.row.picked),
    label("measured", "measured on", drop=8, get=lambda one: one.row.measured),
    label("formula", "formula", get=lambda one: one.row.formula, hidden=True),
)


def _nine_in_ten(row: KernelEstimate) -> str:
    return within_words(*row.interval.around(row.total_s)) if row.interval else ""


def _table(prices: Sequence[KernelPrice]) -> Table:
    first = prices[0]
    records = tuple(_KernelLine(one, row) for one in prices for row in one.results)
    size = number(
        "bytes", "size", size_text, get=lambda one: one.price.bytes, hidden=len(prices) == 1
    )
    own = context(
        first.overrides, fabric=first.fabric, collective=first.operation, ranks=first.ranks
    )
    table = Table((*own, size, *_ROW), records, 0 if len(prices) == 1 else None)
    return table.without("busbw_Bps") if first.what is not None else table.without("sent_bytes")


def _notes(prices: Sequence[KernelPrice]) -> list[Block]:
    said = [(note, "") for one in prices for note in one.notes]
    rows = [(note, row.kernel) for one in prices for row in one.results for note in row.notes]
    lines = [text for text, _ in dict.fromkeys(said)]
    lines += [
        f"{', '.join(dict.fromkeys(names))}: {text}" for text, names in gathered(rows).items()
    ]
    choices = dict.fromkeys(one.library for one in prices if one.library is not None)
    reasons = [
        f"{choice.kernel} is taken by {choice.name}@{choice.version}: {choice.reason}"
        for choice in choices
    ]
    refused = dict.fromkeys(f"{name}: {why}" for one in prices for name, why in one.refused)
    out: list[Block] = (
        [Lines(line, ()) for line in (*lines[:1], *reasons[:3])]
        if lines and lines[0].startswith("warning")
        else [Lines(line, ()) for line in reasons[:3]]
    )
    return out + listed("notes", lines, first=3) + listed("not measured here", refused, first=0)


def _blocks(result: KernelPriceList) -> list[Block]:
    heads = (
        [Headline(_answer(one)) for one in result.prices[:1]]
        if len(result.prices) == 1
        else [_several(result)]
    )
    return [*heads, _table(result.prices), *_notes(result.prices)]


def _several(result: KernelPriceList) -> Headline:
    first, *_ = result.prices
    names = dict.fromkeys(one.best.kernel for one in result.prices)
    where = (
        f"{first.operation.replace('_', '-')} on {on_fabric(first.fabric, first.overrides)},"
        f" {first.group.spoken}"
    )
    return Headline(f"{first.best.library} takes {', then '.join(names)}: {where}.")


def _row_fields(row: KernelEstimate) -> Document:
    return (
        {"algorithm": row.kernel, "detail": "", "spec": row.kernel, "library": row.library}
        | {
            "alpha_s": row.latency_s,
            "bandwidth_s": row.bandwidth_s,
            "overhead_s": 0.0,
            "software_s": 0.0,
            "total_s": row.total_s,
        }
        | fields(row, "bound algbw_Bps busbw_Bps wire formula error error_of measured bytes")
        | {"leads": row.picked, "notes": list(row.notes)}
        | interval_field(row.interval, NOBODY_KNOWS)
    )


def _fields(price: KernelPrice) -> Document:
    tokens = {} if price.what is None else plain(price.what)
    library = {} if price.library is None else {"library": plain(price.library)}
    best = price.best
    most = best.interval and best.interval.larger_side(best.total_s)
    accuracy = (
        None
        if best.error is None
        else {"median": best.error, "p90": most, "rows": 0, "like": best.error_of}
    )
    return (
        {
            "fabric": price.fabric,
            **set_field(price.overrides),
            "primitive": price.operation,
            "ranks": price.ranks,
        }
        | {
            "group": group_field(price.group),
            "bytes": round(price.bytes if price.what is None else best.bytes),
            **tokens,
        }
        | {"mode": "realistic", "results": [_row_fields(row) for row in price.results]}
        | {
            "infeasible": [{"algorithm": name, "reason": why} for name, why in price.refused],
            **library,
        }
        | {"notes": list(price.notes), "accuracy": accuracy}
    )


def _document(result: KernelPriceList) -> Document:
    sizes = [_fields(one) for one in result.prices]
    return (sizes[0] if len(sizes) == 1 else {}) | {"sizes": sizes}


_CROSSING = (
    label("change", "", get=lambda one: one[0]),
    label("below", "below", get=lambda one: one[1]),
    label("above", "above", get=lambda one: one[2]),
    number("bytes", "changes at", size_text, get=lambda one: one[3]),
    number("equal_bytes", "should be", size_text, get=lambda one: one[4]),
    number("apart_s", "apart there", format_time, 1, get=lambda one: one[5]),
)


def _crossings(result: KernelCrossover) -> Table:
    own = [
        ("its table", one.below, one.above, one.at_bytes, one.equal_bytes, one.costs_s)
        for one in result.thresholds
    ]
    here = [
        ("measured laws", below, above, at, None, None) for at, below, above in result.crossings
    ]
    return Table(
        (*context(result.overrides, fabric=result.fabric, library=result.library), *_CROSSING),
        tuple(own + here),
    )


def _judged(one: Threshold) -> str:
    if one.equal_bytes is None:
        gap = f"{format_time(one.costs_s)} there"
        where = f"its table goes from {one.below} to {one.above} at {size_text(one.at_bytes)}"
        return f"{where}; {one.faster} is faster at every size, by {gap}"
    ratio = one.at_bytes / one.equal_bytes
    if 0.9 < ratio < 1.12:
        return (
            f"its threshold of {size_text(one.at_bytes)} from {one.below} to {one.above} is right"
        )
    where = (
        f"its threshold from {one.below} to {one.above} is {size_text(one.at_bytes)}, on this"
        " machine it should be"
    )
    far = "" if one.measured else " (beyond the sizes that both were measured at)"
    return (
        f"{where} {size_text(one.equal_bytes)}{far}: at {size_text(one.at_bytes)} the two are"
        f" {format_time(one.costs_s)} apart"
    )


def _cross_answer(result: KernelCrossover) -> str:
    where = (
        f"{result.library} on {on_fabric(result.fabric, result.overrides)}, {result.group.spoken}"
    )
    if result.thresholds:
        worst = max(result.thresholds, key=lambda one: one.costs_s)
        return f"{where}: {_judged(worst)}."
    if result.crossings:
        told = ", ".join(
            f"{below} up to {size_text(at)}, then {above}" for at, below, above in result.crossings
        )
        return f"{where}: {told}. Its own table is not known."
    return f"{where}: one kernel is the fastest at every size."


def _cross_blocks(result: KernelCrossover) -> list[Block]:
    lines = [_judged(one) for one in result.thresholds]
    return [
        Headline(_cross_answer(result)),
        _crossings(result),
        *listed("thresholds", lines),
        *listed("notes", result.notes, first=2),
    ]


def _cross_document(result: KernelCrossover) -> Document:
    crossings = [
        {"bytes": at, "faster_below": below, "faster_above": above}
        for at, below, above in result.crossings
    ]
    return (
        {
            "fabric": result.fabric,
            **set_field(result.overrides),
            "primitive": result.operation,
            "ranks": result.ranks,
        }
        | {"group": group_field(result.group), "library": result.library, "crossings": crossings}
        | {"thresholds": [plain(one) for one in result.thresholds], "notes": list(result.notes)}
    )


_LIBRARY = (
    label("name", "library"),
    label("version", "version"),
    label("spoken", "of", drop=3),
    label("operations", "kernels for", get=lambda one: ", ".join(one.operations)),
    label("gpus", "measured on", drop=1, get=lambda one: ", ".join(one.gpus)),
)


def _library_blocks(result: LibraryList) -> list[Block]:
    told = (
        f"{counted(len(result.rows), 'library file')}: measured kernels, or how a library chooses;"
        " a price takes one by name."
    )
    return [Headline(told), Table(_LIBRARY, result.rows)]


_KERNEL = (
    label("kernel", "kernel"),
    label("operation", "for"),
    label("gpus", "GPU", get=lambda one: ", ".join(one.gpus)),
    label("ranks", "ranks", get=lambda one: "-".join(map(str, dict.fromkeys(one.ranks)))),
    label("sizes", "sizes", drop=2),
    label("formula", "seconds", drop=4),
    label("parameters", "with", drop=3),
    number("error", "off by", whole_percent, 1),
    label("said", "note", drop=5),
)
_DISPATCH = (
    label("kernel", "kernel"),
    label("gpus", "GPU", get=lambda one: ", ".join(one.gpus)),
    label("ranks", "ranks", get=lambda one: "-".join(map(str, dict.fromkeys(one.ranks)))),
    number("from_bytes", "from", size_text),
    number("to_bytes", "to", size_text),
)


def _shown_blocks(result: LibraryShown) -> list[Block]:
    like = [f"{one} by {other}'s numbers" for one, other in result.like]
    own = (
        counted(len(result.kernels), "kernel")
        if result.kernels
        else counted(len(result.dispatch), "row") + " of its table"
    )
    own = "what it picks follows from its constants and these rules" if result.rules else own
    out: list[Block] = [Headline(f"{result.library}, {result.spoken}: {own}.")]
    out.append(Table(_KERNEL, result.kernels))
    out.append(Table(_DISPATCH, result.dispatch, title="which it takes"))
    out += listed("rules", [f"{key}: {value}" for key, value in result.rules])
    return out + listed("not measured", like) + listed("sources", result.sources)


def _shown_document(result: LibraryShown) -> Document:
    rows = {
        "kernels": [plain(one) for one in result.kernels],
        "dispatch": [plain(one) for one in result.dispatch],
    }
    return {
        "library": result.library,
        "spoken": result.spoken,
        **rows,
        "like": dict(result.like),
        "sources": list(result.sources),
        "rules": dict(result.rules),
    }


def _diff_answer(result: LibraryDiff) -> str:
    where = f"{result.old} to {result.new} on {result.fabric}"
    if not result.changes:
        return f"{where}: the same picks at all {result.looked} sizes and groups."
    told = f"{where}: {result.differ} of {result.looked} picks change"
    costs = [one for one in result.changes if one.factor is not None and abs(one.factor - 1) > 0.01]
    if not costs:
        return f"{told}; by our prices none of them moves the time by more than 1%."
    worst = max(costs, key=lambda one: abs(log(one.factor or 1)))
    group = f"{worst.ranks} ranks" + (
        f", every {ordinal(worst.stride)}" if worst.stride > 1 else ""
    )
    moved = f"{format_time(worst.old_s or 0)} to {format_time(worst.new_s or 0)}"
    name = worst.primitive.replace("_", "-")
    return (
        f"{told}; the most in {name} of {size_text(worst.from_bytes)} on {group}: {worst.old} to"
        f" {worst.new}, {moved}."
    )


_CHANGE = (
    label("collective", "collective", get=lambda one: one.primitive.replace("_", "-")),
    number("ranks", "ranks"),
    number("stride", "stride", drop=3),
    number("from_bytes", "from", size_text),
    number("to_bytes", "to", size_text),
    label("old", "before"),
    label("new", "after"),
    number("old_s", "before", format_time, 2),
    number("new_s", "after", format_time, 2),
    number("factor", "factor", lambda value: f"{value:.3g}", 1),
)


def _changes_table(result: LibraryDiff, first: int | None = None) -> Table:
    own = context((), fabric=result.fabric, old_library=result.old, new_library=result.new)
    return Table((*own, *_CHANGE), result.changes, first=first)


def _diff_document(result: LibraryDiff) -> Document:
    return fields(result, "fabric old new looked differ moved") | {
        "changes": [plain(one) | {"factor": one.factor} for one in result.changes]
    }


VIEWS = {
    LibraryDiff: View(
        "library-diff",
        lambda result: [Headline(_diff_answer(result)), _changes_table(result, 20)],
        _diff_document,
        _changes_table,
        _diff_answer,
    ),
    KernelPrice: View(
        "price",
        lambda one: _blocks(KernelPriceList((one,))),
        lambda one: _document(KernelPriceList((one,))),
        lambda one: _table([one]),
        _answer,
    ),
    KernelPriceList: View(
        "price",
        _blocks,
        _document,
        lambda one: _table(one.prices),
        lambda one: "\n".join(map(_answer, one.prices)),
    ),
    KernelCrossover: View("crossover", _cross_blocks, _cross_document, _crossings, _cross_answer),
    LibraryChecks: View(
        "library-check",
        lambda result: [
            Headline(f"{', '.join(f'{one.name}@{one.version}' for one in result.rows)}: ok."),
            Table(_LIBRARY, result.rows),
        ],
        lambda result: {"libraries": [plain(one) for one in result.rows]},
        lambda result: Table(_LIBRARY, result.rows),
        lambda result: ", ".join(f"{one.name}@{one.version}: ok" for one in result.rows),
    ),
    LibraryList: View(
        "library-list",
        _library_blocks,
        lambda result: {"libraries": [plain(one) for one in result.rows]},
        lambda result: Table(_LIBRARY, result.rows),
        lambda result: ", ".join(f"{one.name}@{one.version}" for one in result.rows),
    ),
    LibraryShown: View(
        "library-show",
        _shown_blocks,
        _shown_document,
        lambda result: Table(_KERNEL, result.kernels),
        lambda result: f"{result.library}: {counted(len(result.kernels), 'kernel')}",
    ),
}
