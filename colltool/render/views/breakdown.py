"""``breakdown``: the phases of one algorithm, beside the flat baselines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from colltool.base.formatting import (
    format_bytes,
    format_count,
    format_energy,
    format_rate,
    format_time,
    plain_number,
    title_size,
    whole_bytes,
    whole_percent,
)
from colltool.estimate.algorithm_estimate import AlgorithmEstimate, PhaseCost
from colltool.estimate.results import Breakdown, Price
from colltool.render import estimate_columns as r
from colltool.render.blocks import Block, Headline, Lines, Table, label, number
from colltool.render.estimate_columns import slow_words
from colltool.render.estimate_fields import price_fields, row_fields
from colltool.render.sentences import answer
from colltool.render.view import Document, View, group_columns


class _PhaseOf(NamedTuple):
    price: Price
    row: AlgorithmEstimate
    phase: PhaseCost


_CONTEXT = (
    label("fabric", "fabric", get=lambda one: one.price.fabric, hidden=True),
    label("collective", "collective", get=lambda one: one.price.primitive, hidden=True),
    number("group_ranks", "ranks of the group", get=lambda one: one.price.ranks, hidden=True),
    number("message_bytes", "size", title_size, get=lambda one: whole_bytes(one.price.bytes), hidden=True),
    label("spec", "spec", get=lambda one: one.row.spec, hidden=True),
)
_PHASE = (
    label("tier", "tier", get=lambda one: one.phase.tier),
    label("level", "level", drop=5, get=lambda one: one.phase.level),
    label("primitive", "phase", lambda primitive: primitive.spoken, get=lambda one: one.phase.primitive),
    label("algorithm", "algorithm", get=lambda one: one.phase.algorithm),
    label("label", "step", drop=4, get=lambda one: one.phase.label),
    number("ranks", "ranks", drop=7, get=lambda one: one.phase.ranks),
    number("bytes", "payload", format_bytes, 6, get=lambda one: float(one.phase.bytes)),
    number("n_alpha", "n_alpha", format_count, 9, get=lambda one: one.phase.n_alpha),
    number("n_beta", "n_beta", format_count, 10, get=lambda one: one.phase.n_beta),
    number("alpha_s", "alpha", format_time, 2, get=lambda one: float(one.phase.alpha_s)),
    number("bandwidth_s", "bandwidth", format_time, 1, get=lambda one: float(one.phase.bandwidth_s)),
    number("eta_alpha", "eta_a", format_count, 11, get=lambda one: one.phase.eta_alpha),
    number("eta_beta", "eta_b", format_count, 12, get=lambda one: one.phase.eta_beta),
    number("share", "of total", whole_percent, get=lambda one: float(one.phase.total_s / one.row.total_s)),
)

_ENERGY = number("energy_J", "energy", format_energy, 8, get=lambda one: plain_number(one.phase.energy_J))


class _Link(NamedTuple):
    """The numbers of a tier or level before contention: alpha of one step, bandwidth of an endpoint."""

    tier: str
    level: str
    alpha_s: float | None
    bandwidth_Bps: float
    eta_alpha: float
    eta_beta: float


_LINKS = (
    label("tier", "tier"),
    label("level", "level"),
    number("alpha_s", "alpha of a step", format_time),
    number("bandwidth_Bps", "BW", format_rate),
    number("eta_alpha", "eta of alpha", format_count),
    number("eta_beta", "eta of BW", format_count),
)


def links_table(rows: Sequence[AlgorithmEstimate], first: int | None = None) -> list[Block]:
    """Alpha, bandwidth and eta of each tier, recovered from the phases of rows."""
    found = dict.fromkeys(_link(phase) for row in rows for phase in row.phases)
    return [Table(_LINKS, tuple(found), None, "each tier's own numbers; a price multiplies alpha and BW by their eta", first)]


def _link(phase: PhaseCost) -> _Link:
    steps = float(phase.n_alpha * phase.eta_alpha)
    alpha = float(phase.alpha_s) / steps if steps else None
    rate, *etas = float(phase.bandwidth_Bps), float(phase.eta_alpha), float(phase.eta_beta)
    return _Link(phase.tier, phase.level, alpha and float(f"{alpha:.9g}"), rate, *etas)


def _table(result: Breakdown, title: str = "") -> Table:
    price, row = result.price, result.price.results[0]
    apart = group_columns(price.group, lambda one: one.price.group)
    energy = (_ENERGY,) if row.energy_J is not None else ()
    columns = (*_CONTEXT, *apart, *((r.SET,) if price.overrides else ()), *_PHASE, *energy)
    return Table(columns, tuple(_PhaseOf(price, row, phase) for phase in row.phases), None, title)


def _blocks(result: Breakdown) -> list[Block]:
    price, row = result.price, result.price.results[0]
    out: list[Block] = [Headline(answer(r.Ranked(price, row))), _table(result), Lines(_sums(row), ())]
    if streams(row):
        out.append(Lines("phases stream through each other: only the busiest tier's bandwidth counts", ()))
    out += links_table([row])
    if result.baselines:
        out.append(r.row_table([r.Ranked(price, one) for one in result.baselines], "flat baselines")._replace(first=0))
    return out + r.notes([row], price.model, first=0)


def streams(row: AlgorithmEstimate) -> bool:
    """Whether phases overlap, so that only the busiest tier's bandwidth counts."""
    return float(sum(phase.bandwidth_s for phase in row.phases)) > float(row.bandwidth_s) * (1 + 1e-9)


def _sums(row: AlgorithmEstimate) -> str:
    sums = f"total {format_time(float(row.total_s))}: alpha {format_time(float(row.alpha_s))}"
    sums += f" + bandwidth {format_time(float(row.bandwidth_s))}"
    sums += f" + launch overhead {format_time(float(row.overhead_s))}" if row.overhead_s else ""
    sums += f" + software {format_time(float(row.software_s))}" if row.software_s else ""
    sums += f", energy {format_energy(float(row.energy_J))}" if row.energy_J is not None else ""
    sums += f", bound by {row.bound}" + (f", under protocol {row.protocol}" if row.protocol else "")
    return f"{sums}; {slow}" if (slow := slow_words(row.slow)) else sums


def _document(result: Breakdown) -> Document:
    return price_fields(result.price) | {"baselines": [row_fields(row) for row in result.baselines]}


def _summary(result: Breakdown) -> str:
    row = result.price.results[0]
    return f"{row.title}: {r.heading(result.price)}\n{_sums(row)}"


VIEWS = {Breakdown: View("breakdown", _blocks, _document, _table, _summary)}
