"""``explain``: the description of an algorithm, and its formula with numbers put in."""

from __future__ import annotations

from typing import NamedTuple

from colltool.base.formatting import format_bytes, format_length, format_rate, format_size, format_time, sentence, whole_bytes
from colltool.base.primitives import least_n_beta
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.explain import AlgorithmExplanation, CableDelay, Explanation, NcclEstimateParts
from colltool.render.blocks import Block, Headline, Lines, Table, label, number
from colltool.render.estimate_columns import readings_block, slow_words
from colltool.render.estimate_fields import model_field, row_fields
from colltool.render.view import Document, View, fields, group_columns, group_field, on_fabric, set_field, set_text

_SAME = 1e-9


class _Use(NamedTuple):
    asked: Explanation
    entry: AlgorithmExplanation


_COLUMNS = (
    label("algorithm", "algorithm", get=lambda one: one.entry.algorithm),
    label("primitive", "primitive", lambda primitive: primitive.spoken, get=lambda one: one.entry.primitive),
    label("title", "title", get=lambda one: one.entry.title),
    label("formula", "formula", get=lambda one: " ".join(" ".join(one.entry.formula).split())),
    label("text", "text", get=lambda one: " ".join(one.entry.text.split())),
    label("size_means", "M is", get=lambda one: one.entry.size_means),
    label("runs_on", "runs on", get=lambda one: one.entry.runs_on),
    label("requires", "requires", get=lambda one: "; ".join(one.entry.requires)),
    label("status", "status", get=lambda one: one.entry.status),
    label("shipped_by", "shipped by", get=lambda one: ", ".join(one.entry.shipped_by)),
    label("source", "source", get=lambda one: one.entry.source),
    label("note", "note", get=lambda one: one.entry.note),
    label("fabric", "fabric", get=lambda one: one.asked.fabric),
    label("set", "set", get=lambda one: set_text(one.asked.overrides)),
    number("ranks", "ranks", get=lambda one: one.asked.ranks or None),
    number("bytes", "size", get=lambda one: whole_bytes(one.asked.bytes) or None),
    number("total_s", "total", format_time, get=lambda one: one.entry.row and float(one.entry.row.total_s)),
    number("busbw_Bps", "busbw", format_rate, get=lambda one: one.entry.row and float(one.entry.row.busbw_Bps)),
    label("reason", "cannot run", get=lambda one: one.entry.reason),
)


def _table(result: Explanation) -> Table:
    columns = (*_COLUMNS, *group_columns(result.group, lambda one: one.asked.group))
    return Table(columns, tuple(_Use(result, entry) for entry in result.entries))


def _blocks(result: Explanation) -> list[Block]:
    return [block for entry in result.entries for block in _explained(entry, result)]


def _explained(entry: AlgorithmExplanation, result: Explanation) -> list[Block]:
    lines = [*entry.formula, "", f"M is {entry.size_means}.", *(p for p in entry.text.split("\n\n") if p)]
    lines += ["", f"runs on: {entry.runs_on.removeprefix('needs ')}", *(f"requires: {rule}" for rule in entry.requires)]
    lines += [f"status: {entry.status}{', by ' + ', '.join(entry.shipped_by) if entry.shipped_by else ''}"]
    lines += [f"source: {entry.source}"] + ([f"note: {entry.note}"] if entry.note else [])
    out: list[Block] = [Lines(_title(entry), tuple(lines))]
    where = on_fabric(result.fabric, result.overrides)
    if entry.reason:
        out.append(Lines(f"on {where}: {entry.reason}", ()))
    if (row := entry.row) is not None:
        asked = f"on {where}, {_group(result)}, {format_size(result.bytes)} per rank, {result.mode}"
        took = f"{format_time(float(row.total_s))}, busbw {format_rate(float(row.busbw_Bps))}, bound by {row.bound}"
        out.insert(0, Headline(f"{entry.algorithm}: {took}. {sentence(entry.primitive.spoken)} {asked}."))
        out += [Lines(asked, tuple(_numbers(row, entry, result))), *readings_block(result.readings)]
    out += [Lines(_estimated(one, result), tuple(_estimate_lines(one))) for one in entry.estimates]
    return out


def _estimated(one: NcclEstimateParts, result: Explanation) -> str:
    said = f"{result.library}'s own estimate, {one.algorithm} under {one.protocol}: {format_time(one.seconds)}"
    return f"{said}; its pick" if one.picked else said


def _estimate_lines(one: NcclEstimateParts) -> list[str]:
    lines = [f"{name}: {times:g} x {format_time(each)} = {format_time(times * each)}" for name, times, each in one.latency]
    if abs(one.plateau - 1) > _SAME:
        lines.append(f"these latencies times {one.plateau:.3g} at this size: a ring's plateau")
    lines.append(f"channels under the protocol {format_rate(one.bus_Bps)}, of the call {format_rate(one.bandwidth_Bps)}")
    if abs(one.correction - 1) > _SAME:
        lines.append(f"of which {one.correction:.3g} is left at this size")
    sent = one.seconds - one.plateau * sum(times * each for _, times, each in one.latency)
    return [*lines, f"bytes: {format_time(sent)}"]


def _title(entry: AlgorithmExplanation) -> str:
    return f"{entry.algorithm}, {entry.primitive.spoken}: {entry.title.rstrip('.')}"


def _numbers(row: AlgorithmEstimate, entry: AlgorithmExplanation, result: Explanation) -> list[str]:
    lines = [f"protocol {row.protocol}"] if row.protocol else []
    lines += [_cable(one) for one in result.cables]
    for phase in row.phases:
        label_ = f"{phase.level}{f', {phase.label}' if phase.label else ''}" if len(row.phases) > 1 else phase.level
        if phase.n_alpha:
            per_hop = format_time(float(phase.alpha_s / phase.n_alpha))
            lines.append(f"{label_}: n_alpha x alpha = {phase.n_alpha:g} x {per_hop} = {format_time(float(phase.alpha_s))}")
        rate = f"({format_rate(float(phase.bandwidth_Bps))} x {phase.eta_beta:.4g})"
        product = f"{float(phase.n_beta):.4g} x {format_bytes(float(phase.bytes))} / {rate}"
        wire = float(phase.n_beta * phase.bytes / (phase.bandwidth_Bps * phase.eta_beta))
        lines.append(f"{label_}: n_beta x M / BW = {product} = {format_time(wire)}")
    if sum(float(phase.bandwidth_s) for phase in row.phases) > float(row.bandwidth_s) * (1 + _SAME):
        lines.append(f"phases stream: of the bytes the busiest tier's count alone, {format_time(float(row.bandwidth_s))}")
    if row.overhead_s:
        lines.append(f"launch overhead {format_time(float(row.overhead_s))}")
    if row.software_s:
        lines.append(f"software, as measured: {format_time(float(row.software_s))}")
    lines.append(f"t = {format_time(float(row.total_s))}, busbw {format_rate(float(row.busbw_Bps))}, bound by {row.bound}")
    lines += [slow] if (slow := slow_words(row.slow)) else []
    if entry.balance is not None:
        lines.append(f"n* = {format_bytes(entry.balance)}: {_at_balance(row, entry.balance)}")
    if entry.partners is not None:
        lines.append(f"partners: a rank exchanges with {entry.partners} other{'s' * (entry.partners != 1)} at most")
    if row.n_beta is not None and not entry.in_switch:
        least = least_n_beta(entry.primitive, result.ranks)
        lines.append(f"least n_beta of any endpoint-driven schedule on one port: {least:.4g}")
    if (floor := row.lower_bound_s) is not None:
        below = f"cut bound: no schedule on these wires is faster than {format_time(float(floor))}"
        lines.append(f"{below}; this one takes {float(row.total_s / floor):.4g} times as long")
    return lines


def _at_balance(row: AlgorithmEstimate, balance: float) -> str:
    latency = "latency with the launch" if row.overhead_s else "latency"
    side = f"below it, so {latency} takes more" if row.bytes < balance else "above it, so transfer takes more"
    return f"where {latency} equals transfer time; {format_size(float(row.bytes))} is {side}"


def _cable(one: CableDelay) -> str:
    """Such as ``alpha of ib spine: 500 ns of it are 100 m of cable``."""
    where = one.tier if one.level == one.tier else f"{one.tier} {one.level}"
    return f"alpha of {where}: {format_time(one.adds_s)} of it are {format_length(one.metres)} of cable, before eta"


def _document(result: Explanation) -> Document:
    head: Document = {"algorithm": result.algorithm}
    if result.fabric:
        head |= {"fabric": result.fabric} | set_field(result.overrides)
        head |= {"ranks": result.ranks} | ({"group": group_field(result.group)} if result.group else {})
        head |= {"bytes": whole_bytes(result.bytes), "mode": result.mode} | model_field(result.readings)
        head |= {"cables": [one._asdict() for one in result.cables]} if result.cables else {}
    return head | {"primitives": [_fields(entry) for entry in result.entries]}


def _fields(entry: AlgorithmExplanation) -> Document:
    estimates = [
        {
            **fields(one, "algorithm protocol picked"),
            "estimate_s": one.seconds,
            "latency": [{"what": name, "times": times, "each_s": each} for name, times, each in one.latency],
            "plateau": one.plateau,
            "channels_Bps": one.bus_Bps,
            **fields(one, "bandwidth_Bps correction"),
        }
        for one in entry.estimates
    ]
    return {
        **fields(entry, "primitive title formula text size_means runs_on requires status shipped_by source note"),
        "result": None if entry.row is None else row_fields(entry.row),
        "reason": entry.reason,
        **{name: value for name, value in fields(entry, "balance partners").items() if value is not None},
        **({"estimates": estimates} if estimates else {}),
    }


def _summary(result: Explanation) -> str:
    uses = ", ".join(entry.primitive.spoken for entry in result.entries)
    said = _title(result.entries[0]) if len(result.entries) == 1 else f"{result.algorithm}: {uses}"
    times = ", ".join(format_time(float(entry.row.total_s)) for entry in result.entries if entry.row is not None)
    return f"{said}\non {on_fabric(result.fabric, result.overrides)}, {_group(result)}: {times}" if times else said


def _group(result: Explanation) -> str:
    return result.group.spoken if result.group else ""


VIEWS = {Explanation: View("explain", _blocks, _document, _table, _summary)}
