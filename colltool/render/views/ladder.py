"""``ladder``: prices to compare, ideal beside realistic."""

from __future__ import annotations

from typing import NamedTuple

from colltool.base.formatting import counted, format_count, format_gap, format_time, plain_number, title_size, whole_bytes
from colltool.estimate.readings import USUAL
from colltool.estimate.results import Ladder, Rung
from colltool.estimate.row import Row
from colltool.render.blocks import Block, Lines, Table, label, number
from colltool.render.estimate_columns import readings_block
from colltool.render.estimate_fields import model_field, under
from colltool.render.view import Document, View


class _Step(NamedTuple):
    """A rung of its ladder."""

    ladder: Ladder
    rung: Rung


_COLUMNS = (
    label("primitive", "primitive", lambda primitive: primitive.spoken, get=lambda one: one.rung.primitive),
    label("fabric", "fabric", get=lambda one: one.rung.fabric),
    label("algorithm", "algorithm", get=lambda one: one.rung.algorithm),
    label("protocol", "protocol", drop=4, get=lambda one: one.rung.realistic.protocol),
    number("ranks", "ranks", drop=7, get=lambda one: one.rung.ranks),
    number("bytes", "size", title_size, get=lambda one: whole_bytes(one.ladder.bytes), hidden=True),
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
_LEGEND = "gap: times the fastest rung of its primitive; margin: gap real / gap ideal, below 1 where contention compresses it"


def _table(result: Ladder, title: str = "") -> Table:
    table = Table(_COLUMNS, tuple(_Step(result, rung) for rung in result.rows), None, title)
    return table if any(rung.realistic.protocol for rung in result.rows) else table.without("protocol")


def _blocks(result: Ladder) -> list[Block]:
    described = [Lines(result.description, ())] if result.description else []
    title = f"ladder {result.name}, {title_size(result.bytes)} per rank"
    return [_table(result, title), *described, *readings_block(result.readings), Lines(_LEGEND, ())]


def _document(result: Ladder) -> Document:
    fields = {"ladder": result.name, "description": result.description, "bytes": whole_bytes(result.bytes)}
    told = model_field(result.readings) if result.readings.unlike(USUAL) else {}  # a ladder is kept to be compared
    return fields | told | {"rows": [_rung(rung) for rung in result.rows]}


def _rung(rung: Rung) -> Document:
    return {
        "primitive": str(rung.primitive),
        "fabric": rung.fabric,
        "algorithm": rung.algorithm,
        "spec": rung.realistic.spec,
        "ranks": rung.ranks,
        "n_alpha": plain_number(rung.ideal.n_alpha),
        "n_beta": plain_number(rung.ideal.n_beta),
        "ideal": _seconds(rung.ideal),
        "realistic": _seconds(rung.realistic) | _etas(rung.realistic),
        "gap_ideal": rung.gap_ideal,
        "gap_realistic": rung.gap_realistic,
        "compression": rung.gap_realistic / rung.gap_ideal,
    }


def _seconds(row: Row) -> Document:
    paid = {name: getattr(row, name) for name in ("overhead_s", "software_s") if getattr(row, name)}
    seconds = ("alpha_s", "bandwidth_s", "total_s", "lower_bound_s")
    return {name: getattr(row, name) for name in seconds} | paid | under(row.protocol)


def _etas(row: Row) -> Document:
    """The coefficients of a rung; None where its phases have different ones."""
    alphas, betas = ({getattr(phase, name) for phase in row.phases} for name in ("eta_alpha", "eta_beta"))
    return {
        "eta_alpha": alphas.pop() if len(alphas) == 1 else None,
        "eta_beta": betas.pop() if len(betas) == 1 else None,
    }


def _summary(result: Ladder) -> str:
    return f"ladder {result.name}, {title_size(result.bytes)} per rank, {counted(len(result.rows), 'rung')}"


VIEWS = {Ladder: View("ladder", _blocks, _document, _table, _summary)}
