"""``ladder``: a fixed list of prices, ideal beside realistic, to compare over time."""

from __future__ import annotations

from typing import NamedTuple

from colltool.base.formatting import (
    counted,
    format_count,
    format_factor,
    format_gap,
    format_time,
    plain_number,
    title_size,
    whole_bytes,
)
from colltool.base.primitives import SHORT
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import USUAL
from colltool.estimate.results import Ladder, Rung
from colltool.render.blocks import Block, Headline, Lines, Table, gathered, label, number
from colltool.render.estimate_columns import readings_block
from colltool.render.estimate_fields import model_field, under
from colltool.render.view import Document, View, fields


class _LadderRow(NamedTuple):
    ladder: Ladder
    rung: Rung


_COLUMNS = (
    label("primitive", "primitive", lambda primitive: primitive.spoken, get=lambda one: one.rung.primitive),
    label("fabric", "fabric", get=lambda one: one.rung.fabric),
    label("algorithm", "algorithm", get=lambda one: one.rung.algorithm),
    label("protocol", "protocol", drop=4, get=lambda one: one.rung.realistic.protocol),
    number("ranks", "ranks", drop=7, get=lambda one: one.rung.ranks),
    number("bytes", "size", title_size, get=lambda one: whole_bytes(one.rung.realistic.bytes), hidden=True),
    number("n_alpha", "n_alpha", format_count, 5, get=lambda one: one.rung.ideal.n_alpha),
    number("n_beta", "n_beta", format_count, 6, get=lambda one: one.rung.ideal.n_beta),
    number("ideal_s", "ideal", format_time, get=lambda one: float(one.rung.ideal.total_s)),
    number("eta_alpha", "eta_a", format_count, 8, get=lambda one: one.rung.realistic.phases[0].eta_alpha),
    number("eta_beta", "eta_b", format_count, 9, get=lambda one: one.rung.realistic.phases[0].eta_beta),
    number("realistic_s", "realistic", format_time, get=lambda one: float(one.rung.realistic.total_s)),
    number("gap_ideal", "gap ideal", format_gap, 2, get=lambda one: one.rung.gap_ideal),
    number("gap_realistic", "gap real", format_gap, 1, get=lambda one: one.rung.gap_realistic),
    number("compression", "margin", format_gap, 3, get=lambda one: one.rung.gap_realistic / one.rung.gap_ideal),
    label("spec", "spec", drop=10, get=lambda one: one.rung.realistic.spec, hidden=True),
)
_FOR_PEOPLE = {
    "primitive": label("primitive", "PRIM", lambda primitive: SHORT[primitive], get=lambda one: one.rung.primitive),
    "gap_realistic": number("gap_realistic", "gap", format_gap, get=lambda one: one.rung.gap_realistic),
}
_PARTS = (
    number("alpha_s", "alpha", format_time, 2, get=lambda one: float(one.rung.realistic.alpha_s)),
    number("bandwidth_s", "BW", format_time, 2, get=lambda one: float(one.rung.realistic.bandwidth_s)),
)
_LEGEND = "gap: times the fastest of its primitive and size; margin: realistic / ideal gap, below 1 where contention shrinks it"


def _table(result: Ladder) -> Table:
    table = Table(_COLUMNS, tuple(_LadderRow(result, rung) for rung in result.rows))
    return table if any(rung.realistic.protocol for rung in result.rows) else table.without("protocol")


def _blocks(result: Ladder) -> list[Block]:
    table = _table(result)
    columns = [_FOR_PEOPLE.get(column.key, column) for column in table.columns]
    at = [column.key for column in columns].index("realistic_s") + 1
    table = table._replace(columns=(*columns[:at], *_PARTS, *columns[at:]))
    if len({rung.realistic.bytes for rung in result.rows}) > 1:
        table = table.with_shown("bytes")
    described = [Lines(result.description, (), first=0)] if result.description else []
    return [Headline(_answer(result)), table, *described, *readings_block(result.readings), Lines(_LEGEND, ())]


def _answer(result: Ladder) -> str:
    several = len({rung.realistic.bytes for rung in result.rows}) > 1
    first = [rung for rung in result.rows if rung.gap_realistic == 1]
    best = gathered((f"{rung.algorithm} on {rung.fabric}", _asked(rung, several)) for rung in first)
    most = sorted(best.items(), key=lambda one: -len(one[1]))
    fastest = "; ".join(f"{name} for {', '.join(what)}" for name, what in most[:2])
    more = f"; {len(most) - 2} more with gap 1x" if len(most) > 2 else ""
    paid = [float(rung.realistic.total_s / rung.ideal.total_s) for rung in result.rows]
    low, high = format_factor(min(paid), 3), format_factor(max(paid), 3)
    size = "" if several else f" at {title_size(result.bytes)} per rank"
    costs = f"Contention costs {low if low == high else f'{low} to {high}'} of the ideal time."
    return f"Fastest: {fastest}{more}. {costs} Ladder {result.name}, {counted(len(result.rows), 'rung')}{size}."


def _asked(rung: Rung, several: bool) -> str:
    return f"{rung.primitive.spoken} of {title_size(float(rung.realistic.bytes))}" if several else rung.primitive.spoken


def _document(result: Ladder) -> Document:
    head = {"ladder": result.name, "description": result.description, "bytes": whole_bytes(result.bytes)}
    told = model_field(result.readings) if result.readings.unlike(USUAL) else {}  # left out if usual: kept documents are compared
    return head | told | {"rows": [_rung(rung, result.bytes) for rung in result.rows]}


def _rung(rung: Rung, usual: float) -> Document:
    size = rung.realistic.bytes
    return {
        **fields(rung, "primitive fabric algorithm"),
        "spec": rung.realistic.spec,
        "ranks": rung.ranks,
        **({} if size == usual else {"bytes": whole_bytes(size)}),
        "n_alpha": plain_number(rung.ideal.n_alpha),
        "n_beta": plain_number(rung.ideal.n_beta),
        "ideal": _seconds(rung.ideal),
        "realistic": _seconds(rung.realistic) | _etas(rung.realistic),
        **fields(rung, "gap_ideal gap_realistic"),
        "compression": rung.gap_realistic / rung.gap_ideal,
    }


def _seconds(row: AlgorithmEstimate) -> Document:
    paid = {name: getattr(row, name) for name in ("overhead_s", "software_s") if getattr(row, name)}
    return fields(row, "alpha_s bandwidth_s total_s lower_bound_s") | paid | under(row.protocol)


def _etas(row: AlgorithmEstimate) -> Document:
    """None where phases differ."""
    alphas, betas = ({getattr(phase, name) for phase in row.phases} for name in ("eta_alpha", "eta_beta"))
    return {"eta_alpha": alphas.pop() if len(alphas) == 1 else None, "eta_beta": betas.pop() if len(betas) == 1 else None}


def _summary(result: Ladder) -> str:
    return f"ladder {result.name}, {title_size(result.bytes)} per rank, {counted(len(result.rows), 'rung')}"


VIEWS = {Ladder: View("ladder", _blocks, _document, _table, _summary)}
