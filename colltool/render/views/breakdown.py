"""``breakdown``: the phases of one algorithm, what adds up to its time, and what would save some.

Read from :data:`VIEWS`: :func:`_blocks` is the screen, :func:`_phases` the rows of CSV,
:func:`_sums` the time as a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.errors import argument_text, localize
from colltool.base.formatting import (
    format_bytes,
    format_count,
    format_energy,
    format_time,
    title_size,
    whole_bytes,
    whole_percent,
)
from colltool.estimate.algorithm_estimate import PhaseCost
from colltool.estimate.results import Breakdown, Gain, Price
from colltool.estimate.segments import BestSegments
from colltool.render import estimates as r
from colltool.render.blocks import Block, Column, Columns, Headline, Lines, Table, label, number
from colltool.render.dispatch import View, context, group_columns, listed
from colltool.render.documents import LEFT_OUT, optional
from colltool.render.views.price import links_table
from colltool.render.views.price_answer import gain_words, price_answer

if TYPE_CHECKING:
    pass


def _gain_line(gain: Gain, total_s: float) -> str:
    """``half the latency of ib: 1.2 ms (-3%), --set ib.alpha=2us``."""
    what = gain_words(gain)
    took = format_time(gain.total_s)
    change = r.change_text(gain.total_s / total_s - 1)
    settings = [argument_text("set", setting) for setting in gain.set]
    typed = localize(" ".join(settings))
    return f"{what}: {took} ({change}), {typed}"


def _algorithm_name(phase: PhaseCost) -> str:
    # the label that an estimate gives to copying a rank's own data, which no algorithm does
    return "local copy" if phase.label == "own share" else phase.algorithm


_PHASE: Columns[PhaseCost] = (
    label("tier"),
    label("level", drop=5),
    label("primitive", "phase", lambda primitive: primitive.label),
    label("algorithm", get=_algorithm_name),
    label("label", "step", drop=4),
    number("ranks", drop=7),
    number("bytes", "payload", format_bytes, drop=6),
    number("n_alpha", "n_alpha", format_count, drop=9),
    number("n_beta", "n_beta", format_count, drop=10),
    number("alpha_s", "latency", format_time, drop=2),
    number("bandwidth_s", "transfer", format_time, drop=1),
    number("eta_alpha", "eta_a", format_count, drop=11),
    number("eta_beta", "eta_b", format_count, drop=12),
)


class _Remainder(NamedTuple):
    """Time that belongs to no phase: the launch, the library's overhead, or, below 0, what phases
    save by running at once."""

    label: str
    total_s: float
    tier: str = ""
    level: str = ""
    primitive: None = None
    algorithm: str = ""
    ranks: None = None
    bytes: None = None
    n_alpha: None = None
    n_beta: None = None
    alpha_s: None = None
    bandwidth_s: None = None
    eta_alpha: None = None
    eta_beta: None = None
    energy_J: None = None


_Part = PhaseCost | _Remainder


def _remainders(price: Price) -> list[_Remainder]:
    """What a price has besides its phases; with them it adds up to the total."""
    row = price.results[0]
    in_phases_s = sum(float(phase.total_s) for phase in row.phases)
    library = r.library_label(price) or "library"
    parts = {
        "overlap of the phases": float(row.steps_s + row.moved_s) - in_phases_s,
        "launch": float(row.overhead_s),
        f"{library} overhead": float(row.rest_s),
    }
    # less is rounding
    least_s = 1e-9 * float(row.total_s)
    remainders = []
    for part, took_s in parts.items():
        if abs(took_s) > least_s:
            remainders.append(_Remainder(part, took_s))
    return remainders


def _whole_shares(parts: Sequence[_Part], total_s: float) -> dict[int, str]:
    """The share of each part in whole percent, by its id.

    Rounded so that they add up to 100: of 33.4, 33.3 and 33.3 the first, which loses most when it is
    rounded down, gets the percent that is left.
    """
    exact = {id(part): 100 * float(part.total_s) / total_s for part in parts}
    shares = {}
    losses = {}
    for key, share in exact.items():
        shares[key] = floor(share)
        losses[key] = share - shares[key]
    left = 100 - sum(shares.values())
    for key in sorted(losses, key=losses.__getitem__, reverse=True)[:left]:
        shares[key] += 1
    return {key: f"{share}%" for key, share in shares.items()}


def _phase_name(part: _Part) -> str:
    return part.label if part.primitive is None else part.primitive.label


def _step(part: _Part) -> str:
    return "" if isinstance(part, _Remainder) else part.label


def _phases(result: Breakdown) -> Table:
    """The phases of an algorithm; the question is in hidden columns, for CSV."""
    price = result.price
    row = price.results[0]

    def share(phase: PhaseCost) -> float:
        return float(phase.total_s / row.total_s)

    columns: list[Column[PhaseCost]] = [
        *context(fabric=price.fabric, collective=price.primitive),
        number("group_ranks", "ranks of the group", hidden=True, get=lambda _: price.ranks),
        number(
            "message_bytes", "size", title_size, hidden=True, get=lambda _: whole_bytes(price.bytes)
        ),
        *context(spec=row.spec),
        *group_columns(price.group, lambda _: price.group),
        *context(price.overrides),
        *_PHASE,
        number("share", "of total", whole_percent, get=share),
    ]
    if row.energy_J is not None:
        columns.append(number("energy_J", "energy", format_energy, drop=8))
    return Table(tuple(columns), row.phases)


_FELT = 0.005
"""Least share of a part on the first screen: it would be shown as 0%."""


def _phases_for_people(result: Breakdown) -> Table:
    """The phases, and a row for all that is in none, so that the shares add up to 100%."""
    price = result.price
    total_s = float(price.results[0].total_s)
    parts: list[_Part] = [*price.results[0].phases, *_remainders(price)]
    shares = _whole_shares(parts, total_s)
    # what takes no time that anybody feels is for --all
    felt = [part for part in parts if abs(float(part.total_s)) >= _FELT * total_s]
    parts = [*felt, *(part for part in parts if part not in felt)]

    def share(part: _Part) -> str:
        return shares[id(part)]

    for_people: dict[str, Column[Any]] = {
        "primitive": label("primitive", "phase", get=_phase_name),
        "label": label("label", "step", drop=4, get=_step),
        "share": number("share", get=share),
    }
    columns: list[Column[Any]] = []
    for column in _phases(result).columns:
        if column.key == "share":
            columns.append(number("total_s", "time", format_time))
        columns.append(for_people.get(column.key, column))
    return Table(tuple(columns), tuple(parts), first=len(felt))


def _blocks(result: Breakdown) -> list[Block]:
    price = result.price
    row = price.results[0]
    answer = price_answer(price, row, result.gains)
    out: list[Block] = [Headline(answer), _phases_for_people(result)]
    out.append(Lines(_sums(price), ()))
    slow = r.slow_words(row.slow)
    if slow:
        out.append(Lines(slow, ()))
    segments = r.segment_lines(result.segments)
    # payloads that are best sent whole are for --all
    first = None if any(cut.exact >= 1 for cut in result.segments) else 0
    title = "segments of the pipeline, P* = sqrt((F-1) b M / (alpha BW))"
    out += listed(title, segments, first=first)
    gains = [_gain_line(gain, float(row.total_s)) for gain in result.gains]
    out += listed("what would save time", gains, first=0)
    if row.streams:
        text = "the phases overlap: only the bandwidth of the busiest tier counts"
        out.append(Lines(text, (), first=0))
    out.append(links_table([row], first=0))
    if result.baselines:
        baselines = [r.Ranked(price, baseline) for baseline in result.baselines]
        out.append(r.row_table(baselines, "flat baselines", names=True)._replace(first=0))
    return out + r.notes([row], price.model, first=0)


def _sums(price: Price) -> str:
    """Such as ``3 us = latency 1 us + transfer 2 us (protocol LL)``."""
    row = price.results[0]
    terms = {
        "latency": float(row.steps_s),
        "transfer": float(row.moved_s),
        "launch": float(row.overhead_s),
        f"{r.library_label(price) or 'library'} overhead": float(row.rest_s),
    }
    sums = ""
    for term, seconds in terms.items():
        if seconds or term in ("latency", "transfer"):
            sign = "-" if seconds < 0 else "+"
            sums += f" {sign} {term} {format_time(abs(seconds))}"
    text = f"{format_time(float(row.total_s))} = {sums.removeprefix(' + ')}"
    if row.protocol:
        text += f" (protocol {row.protocol})"
    if row.energy_J is not None:
        text += f"; energy {format_energy(float(row.energy_J))}"
    return text


def _summary(result: Breakdown) -> str:
    row = result.price.results[0]
    heading = r.heading(result.price)
    text = f"{row.title}: {heading}\n{_sums(result.price)}"
    slow = r.slow_words(row.slow)
    if slow:
        text += f"; {slow}"
    return text


class BreakdownDocument(r.SizeDocument):
    """The price of one schedule, and of flat baselines to compare it with."""

    baselines: list[r.RowDocument]
    segments: list[BestSegments] = optional("segments")
    gains: list[Gain]


def _document(result: Breakdown) -> dict[str, Any]:
    return BreakdownDocument.of(
        result.price,
        baselines=result.baselines,
        segments=result.segments or LEFT_OUT,
        gains=result.gains,
    )


VIEWS = {Breakdown: View("breakdown", _blocks, _document, _phases, _summary)}
