"""Serving: the network's part of a token, KV transfer, and what would change it."""

from __future__ import annotations

from typing import NamedTuple

from colltool.base.formatting import (
    format_bytes,
    format_count,
    format_rate,
    format_time,
    whole_percent,
)
from colltool.engines.intervals import NOBODY_KNOWS
from colltool.render.blocks import Block, Headline, Lines, Table, label, number
from colltool.render.dispatch import (
    Document,
    View,
    context,
    fields,
    listed,
    on_fabric,
    plain,
    set_field,
)
from colltool.render.intervals import interval_field, within, within_words
from colltool.render.views.sensitivity import quantity
from colltool.serving.reshard import Resharded, ReshardWay
from colltool.serving.results import KvTransfer, Served, ServedOperation, ServedPhase, ServeList
from colltool.serving.spread import ServeSpread


def _where(result: Served) -> str:
    own = result.deployment
    sizes = f"batch {own.batch}, {own.input} in, {own.output} out"
    return (
        f"{result.job} on {on_fabric(result.fabric, result.overrides)}, {own.spoken}, {sizes},"
        f" {result.engine}"
    )


def _answer(result: Served) -> str:
    decode, prefill = result.decode, result.prefill
    if not decode.network_s:
        return f"No network in a token: {_where(result)} needs one rank.{_memory(result)}"
    told = (
        f"{format_time(decode.network_s)} of network a token, {format_time(prefill.network_s)} a"
        f" prompt: {_where(result)}."
    )
    if result.share is not None:
        told += f" That is {whole_percent(result.share)} of {format_time(result.tpot_s or 0.0)}."
    elif decode.floor_s:
        told += f" Memory and FLOPs take at least {format_time(decode.floor_s)} a token."
    worst = max(decode.operations, key=lambda one: one.total_s)
    told += (
        f" Most of it: {format_count(worst.calls)} x {worst.operation} by {worst.kernel},"
        f" {format_time(worst.each_s)} each"
    )
    off = f" ({within(worst.interval, worst.each_s)})" if worst.interval else ""
    return f"{told}{off}.{_memory(result)}"


def _memory(result: Served) -> str:
    if result.fits is not False:
        return ""
    return (
        f" It does not fit: {format_bytes(result.memory_bytes)} of"
        f" {format_bytes(result.capacity_bytes or 0)} a rank."
    )


class _ServedLine(NamedTuple):
    phase: ServedPhase
    one: ServedOperation


_OPERATION = (
    label("phase", "phase", get=lambda row: row.phase.name),
    label("operation", "operation", get=lambda row: row.one.operation),
    label("group", "ranks", get=lambda row: row.one.group),
    number("bytes", "bytes", format_bytes, 3, get=lambda row: row.one.bytes),
    label("kernel", "kernel", fold=20, get=lambda row: row.one.kernel),
    number("each_s", "each", format_time, 2, get=lambda row: row.one.each_s),
    number("calls", "calls", format_count, 1, get=lambda row: row.one.calls),
    number("total_s", "total", format_time, get=lambda row: row.one.total_s),
    number("share", "share", whole_percent, 4, get=lambda row: row.one.share),
    label("wire", "wire", drop=5, get=lambda row: row.one.wire),
    label("within", "nine in ten", drop=6, get=lambda row: _nine_in_ten(row.one)),
    label("why", "why", drop=7, get=lambda row: row.one.why),
    number("error", "off by", whole_percent, get=lambda row: row.one.error, hidden=True),
)


def _nine_in_ten(one: ServedOperation) -> str:
    return within_words(*one.interval.around(one.each_s)) if one.interval else ""


def _operations(result: Served) -> Table:
    records = tuple(
        _ServedLine(phase, one) for phase in reversed(result.phases) for one in phase.operations
    )
    own = context(result.overrides, job=result.job, fabric=result.fabric, engine=result.engine)
    return Table((*own, *_OPERATION), records)


def _bounds(result: Served) -> list[str]:
    decode, lines = result.decode, []
    if result.bound_tokens_s is not None:
        a_user = f"{1 / decode.network_s:,.0f} a sequence"
        lines.append(
            f"bound by the network: {result.bound_tokens_s:,.0f} tokens/s in all, {a_user}"
        )
    for phase in (decode, result.prefill):
        if phase.floor_s is not None:
            what = "a token" if phase is decode else "a prompt"
            lines.append(
                f"floor of {phase.name}: {format_time(phase.floor_s)} {what} by {phase.floor_by}"
                " (no kernel reaches it)"
            )
    if result.capacity_bytes is not None:
        fits = "fits" if result.fits else "does not fit"
        lines.append(
            f"memory: {format_bytes(result.memory_bytes)} of {format_bytes(result.capacity_bytes)}"
            f" a rank, {fits}"
        )
    return lines


def _kv_lines(kv: KvTransfer) -> list[str]:
    off = "" if kv.interval is None else f" ({within(kv.interval, kv.total_s)})"
    lines = [
        f"{format_bytes(kv.bytes)} a prompt over {kv.pairs} pairs by {kv.kernel}:"
        f" {format_time(kv.total_s)}{off}"
    ]
    if kv.prefill_layer_s is not None:
        sign, so = ("<=", "hides but for the last layer") if kv.hidden else (">", "does not hide")
        pair = (
            f"{format_time(kv.layer_s)} a layer {sign} {format_time(kv.prefill_layer_s)}, the floor"
            " of its prefill"
        )
        lines.append(f"layer by layer it {so}: {pair}; exposed {format_time(kv.exposed_s)}")
    if kv.hiding_nic_Bps is not None:
        lines.append(f"smallest NIC of a rank that hides it: {format_rate(kv.hiding_nic_Bps)}")
    return [*lines, *kv.notes]


def _blocks(result: Served) -> list[Block]:
    out: list[Block] = [
        Headline(_answer(result)),
        _operations(result),
        *(Lines(line, ()) for line in _bounds(result)),
    ]
    out += listed("KV transfer", _kv_lines(result.kv)) if result.kv else []
    changes = [
        f"{one.change}: {format_time(one.network_s)} a token, {one.factor:.3g}x"
        for one in result.changes
    ]
    return (
        out
        + listed("what would change it", changes, first=5)
        + listed("notes", result.notes, first=2)
    )


def _interval(one: ServedOperation | KvTransfer | ReshardWay) -> Document:
    return interval_field(one.interval, NOBODY_KNOWS)


def _document(result: Served) -> Document:
    phases = [
        fields(phase, "name network_s floor_s floor_by tokens")
        | {
            "operations": [
                plain(one) | {"group": one.group} | _interval(one) for one in phase.operations
            ]
        }
        for phase in result.phases
    ]
    return (
        {
            "job": result.job,
            "fabric": result.fabric,
            **set_field(result.overrides),
            "engine": result.engine,
        }
        | {"deployment": plain(result.deployment), "phases": phases}
        | {"kv": plain(result.kv) | _interval(result.kv) if result.kv else None}
        | fields(result, "tpot_s share bound_tokens_s memory_bytes capacity_bytes fits")
        | {"changes": [plain(one) for one in result.changes], "notes": list(result.notes)}
    )


class _NamedServed(NamedTuple):
    name: str
    served: Served


_SERVED = (
    label("name", "deployment"),
    number(
        "network_s", "network a token", format_time, get=lambda one: one.served.decode.network_s
    ),
    number("floor_s", "floor", format_time, 2, get=lambda one: one.served.decode.floor_s),
    number(
        "prefill_network_s",
        "a prompt",
        format_time,
        1,
        get=lambda one: one.served.prefill.network_s,
    ),
    number(
        "bound_tokens_s",
        "tokens/s at most",
        "{:,.0f}".format,
        3,
        get=lambda one: one.served.bound_tokens_s,
    ),
    number("memory_bytes", "memory", format_bytes, 4, get=lambda one: one.served.memory_bytes),
    label("kernel", "most by", drop=5, get=lambda one: _most(one.served)),
)


def _most(served: Served) -> str:
    return (
        max(served.decode.operations, key=lambda one: one.total_s).kernel
        if served.decode.operations
        else ""
    )


def _list_table(result: ServeList) -> Table:
    records = tuple(
        _NamedServed(name, served) for name, served in zip(result.names, result.served, strict=True)
    )
    best = min(range(len(records)), key=lambda at: records[at].served.decode.network_s)
    first = result.served[0]
    return Table(
        (*context(first.overrides, job=first.job, engine=first.engine), *_SERVED), records, best
    )


def _list_answer(result: ServeList) -> str:
    if result.title == "side by side":
        best = min(
            zip(result.names, result.served, strict=True), key=lambda one: one[1].decode.network_s
        )
        return (
            f"{best[0]} has the least network a token, {format_time(best[1].decode.network_s)}:"
            f" {_where(best[1])}."
        )
    first = result.served[0]
    took = f"{format_time(first.decode.network_s)} of network a token"
    return (
        f"{result.names[0]}: {took} of {result.title}, by network and floor together."
        f" {_where(first)}."
    )


def _list_blocks(result: ServeList) -> list[Block]:
    refused = [f"{name}: {why}" for name, why in result.refused]
    return [
        Headline(_list_answer(result)),
        _list_table(result),
        *listed("not possible", refused, first=0),
    ]


def _list_document(result: ServeList) -> Document:
    served = [
        {"name": name, **_document(one)}
        for name, one in zip(result.names, result.served, strict=True)
    ]
    refused = [{"name": name, "reason": why} for name, why in result.refused]
    return {"title": result.title, "tried": result.tried, "served": served, "refused": refused}


def _reshard_answer(result: Resharded) -> str:
    first = result.best
    source = (
        f"{result.senders} ranks"
        if result.storage_Bps is None
        else f"a store of {format_rate(result.storage_Bps)}"
    )
    where = (
        f"{result.job} on {on_fabric(result.fabric, result.overrides)},"
        f" {format_bytes(result.bytes)} from {source}"
    )
    to = f"to {result.receivers // result.replica} replicas of {result.replica} ranks"
    off = f" ({within(first.interval, first.total_s)})" if first.interval else ""
    told = (
        f"{format_time(first.total_s)}{off} by {first.way}, limited by {first.wire}: {where} {to}."
    )
    return f"{told} No way takes less than {format_time(result.least_s)}."


_WAY = (
    label("way", "way"),
    number("total_s", "total", format_time),
    label("wire", "limited by", drop=1),
    number("out_bytes", "out of a sender", format_bytes, 2),
    number("in_bytes", "into a receiver", format_bytes, 2),
)


def _ways(result: Resharded) -> Table:
    return Table(
        (*context(result.overrides, job=result.job, fabric=result.fabric), *_WAY), result.ways, 0
    )


def _spread_answer(result: ServeSpread) -> str:
    decode = result.served.decode
    ends = (
        f"90% of the samples lie between {format_time(result.p5_s)} and {format_time(result.p95_s)}"
    )
    told = f"{format_time(decode.network_s)} of network a token; {ends}: {_where(result.served)}."
    if not result.moved or not result.moved[0].span_s:
        return (
            f"{told} Of the fabric's numbers none moves it: what is left is the kernels' own error."
        )
    most = result.moved[0]
    low, high = (
        quantity(most.number.key, most.number.low),
        quantity(most.number.key, most.number.high),
    )
    return (
        f"{told} {most.number.key} moves it most: {format_time(most.low_s)} at {low},"
        f" {format_time(most.high_s)} at {high}."
    )


_MOST_NUMBERS = 6
_MOVED = (
    label("key", "number", get=lambda one: one.number.key),
    number("value", "now", get=lambda one: one.number.value, show=lambda value: f"{value:.4g}"),
    number(
        "low", "from", get=lambda one: one.number.low, show=lambda value: f"{value:.4g}", drop=2
    ),
    number(
        "high", "to", get=lambda one: one.number.high, show=lambda value: f"{value:.4g}", drop=2
    ),
    number("low_s", "a token from", format_time),
    number("high_s", "to", format_time),
    number("span_s", "apart", format_time, 1),
)


def _spread_table(result: ServeSpread) -> Table:
    title = "the network of a token when one number changes alone"
    moving = sum(one.span_s > 0 for one in result.moved)
    columns = (*context(result.served.overrides, job=result.served.job), *_MOVED)
    return Table(columns, result.moved, title=title, first=max(1, min(moving, _MOST_NUMBERS)))


def _spread_document(result: ServeSpread) -> Document:
    moved = [
        fields(one.number, "key value low high") | fields(one, "low_s high_s span_s")
        for one in result.moved
    ]
    served = {"served": _document(result.served), "network_s": result.served.decode.network_s}
    return served | fields(result, "p5_s p50_s p95_s samples seed") | {"moved": moved}


VIEWS = {
    ServeSpread: View(
        "serve-spread",
        lambda result: [Headline(_spread_answer(result)), _spread_table(result)],
        _spread_document,
        _spread_table,
        _spread_answer,
    ),
    Resharded: View(
        "reshard",
        lambda result: [Headline(_reshard_answer(result)), _ways(result)],
        lambda result: (
            fields(result, "job fabric bytes senders receivers replica storage_Bps least_s")
            | {
                "ways": [plain(one) | _interval(one) for one in result.ways],
                **set_field(result.overrides),
            }
        ),
        _ways,
        _reshard_answer,
    ),
    Served: View("serve", _blocks, _document, _operations, _answer),
    ServeList: View("serve-list", _list_blocks, _list_document, _list_table, _list_answer),
}
