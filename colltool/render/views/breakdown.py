"""``breakdown``: the phases of one algorithm, what adds up to its time, and what would save some.

Read from :data:`VIEWS`: :func:`_blocks` is the screen, :func:`_phase_table` the rows of CSV,
:func:`_sum_text` the time as a sum. The price of a breakdown has one row, the algorithm's. Its time is
``steps_s`` + ``moved_s`` + ``overhead_s`` + ``rest_s``: latency, transfer, launch and the library's overhead.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Any, NamedTuple

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
from colltool.render import estimates
from colltool.render.blocks import Block, Column, Columns, Headline, Lines, Table, label, number
from colltool.render.dispatch import View, context, group_columns, listed
from colltool.render.documents import LEFT_OUT, optional
from colltool.render.row_document import RowDocument
from colltool.render.views.price import links_table
from colltool.render.views.price_answer import gain_words, price_answer


def _gain_line(gain: Gain, total_s: float) -> str:
    """``half the latency of ib: 1.2 ms (-3%), --set ib.alpha=2us``."""
    change = estimates.change_text(gain.total_s / total_s - 1)
    settings = [argument_text("set", setting) for setting in gain.set]
    arguments = localize(" ".join(settings))
    return f"{gain_words(gain)}: {format_time(gain.total_s)} ({change}), {arguments}"


def _algorithm_name(phase: PhaseCost) -> str:
    """What a phase runs."""
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
    save by running at once. It is a record beside phases: what it lacks of them is None or empty."""

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
    """What phases lack of the time of a price's row, or take beyond it: with these they add up to it."""
    row = price.results[0]
    in_phases_s = sum(float(phase.total_s) for phase in row.phases)
    library = estimates.library_label(price) or "library"
    parts = {
        "overlap of the phases": float(row.steps_s + row.moved_s) - in_phases_s,
        "launch": float(row.overhead_s),
        f"{library} overhead": float(row.rest_s),
    }
    # less than this is rounding
    least_s = 1e-9 * float(row.total_s)
    remainders = []
    for part, part_s in parts.items():
        if abs(part_s) > least_s:
            remainders.append(_Remainder(part, part_s))
    return remainders


def _whole_shares(parts: Sequence[_Part], total_s: float) -> dict[int, str]:
    """The share of each part in whole percent, such as ``34%``, by the part's ``id()``: two parts may
    be equal.

    Rounded so that they add up to 100: of 33.4, 33.3 and 33.3 the first, which loses most when it is
    rounded down, gets the percent that is missing.
    """
    exact = {id(part): 100 * float(part.total_s) / total_s for part in parts}
    shares = {}
    losses = {}
    for key, share in exact.items():
        shares[key] = floor(share)
        losses[key] = share - shares[key]
    missing = 100 - sum(shares.values())
    for key in sorted(losses, key=losses.__getitem__, reverse=True)[:missing]:
        shares[key] += 1
    return {key: f"{share}%" for key, share in shares.items()}


def _phase_name(part: _Part) -> str:
    return part.label if part.primitive is None else part.primitive.label


def _step(part: _Part) -> str:
    return "" if isinstance(part, _Remainder) else part.label


def _phase_table(result: Breakdown) -> Table:
    """The phases of an algorithm; what was priced is in hidden columns, for CSV."""
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


_LEAST_SHARE = 0.005  # of the total; a part below it would be shown as 0%


def _table_for_people(result: Breakdown) -> Table:
    """The phases, and a row for each time that is in none, so that the shares add up to 100%. Parts
    of less than half a percent come last, for --all."""
    price = result.price
    total_s = float(price.results[0].total_s)
    parts: list[_Part] = [*price.results[0].phases, *_remainders(price)]
    shares = _whole_shares(parts, total_s)
    large = []
    small = []
    for part in parts:
        if abs(float(part.total_s)) >= _LEAST_SHARE * total_s:
            large.append(part)
        else:
            small.append(part)

    def share(part: _Part) -> str:
        return shares[id(part)]

    # columns of CSV that differ for people, or whose records may be remainders
    for_people: dict[str, Column[Any]] = {
        "primitive": label("primitive", "phase", get=_phase_name),
        "label": label("label", "step", drop=4, get=_step),
        "share": number("share", get=share),
    }
    columns: list[Column[Any]] = []
    for column in _phase_table(result).columns:
        if column.key == "share":
            columns.append(number("total_s", "time", format_time))
        columns.append(for_people.get(column.key, column))
    return Table(tuple(columns), (*large, *small), first=len(large))


def _blocks(result: Breakdown) -> list[Block]:
    """The answer, the phases and their sum first; segments, gains, links and baselines after them."""
    price = result.price
    row = price.results[0]
    answer = price_answer(price, row, result.gains)
    out: list[Block] = [Headline(answer), _table_for_people(result), Lines(_sum_text(price), ())]
    slow = estimates.slow_words(row.slow)
    if slow:
        out.append(Lines(slow, ()))
    segments = estimates.segment_lines(result.segments)
    # payloads that are best sent whole are for --all
    first = None if any(part.exact >= 1 for part in result.segments) else 0
    title = "segments of the pipeline, P* = sqrt((F-1) b M / (alpha BW))"
    out += listed(title, segments, first=first)
    gains = [_gain_line(gain, float(row.total_s)) for gain in result.gains]
    out += listed("what would save time", gains, first=0)
    if row.streams:
        text = "the phases overlap: only the bandwidth of the busiest tier counts"
        out.append(Lines(text, (), first=0))
    out.append(links_table([row], first=0))
    if result.baselines:
        baselines = [estimates.Ranked(price, baseline) for baseline in result.baselines]
        out.append(estimates.row_table(baselines, "flat baselines", names=True)._replace(first=0))
    return out + estimates.notes([row], price.model, first=0)


def _sum_text(price: Price) -> str:
    """Such as ``3 us = latency 1 us + transfer 2 us (protocol LL)``; without launch and overhead of
    0, and with the energy where it is known."""
    row = price.results[0]
    terms = {
        "latency": float(row.steps_s),
        "transfer": float(row.moved_s),
        "launch": float(row.overhead_s),
        f"{estimates.library_label(price) or 'library'} overhead": float(row.rest_s),
    }
    terms_text = ""
    for term, term_s in terms.items():
        if term_s or term in ("latency", "transfer"):
            sign = "-" if term_s < 0 else "+"
            terms_text += f" {sign} {term} {format_time(abs(term_s))}"
    text = f"{format_time(float(row.total_s))} = {terms_text.removeprefix(' + ')}"
    if row.protocol:
        text += f" (protocol {row.protocol})"
    if row.energy_J is not None:
        text += f"; energy {format_energy(float(row.energy_J))}"
    return text


def _summary(result: Breakdown) -> str:
    row = result.price.results[0]
    heading = estimates.heading(result.price)
    text = f"{row.title}: {heading}\n{_sum_text(result.price)}"
    slow = estimates.slow_words(row.slow)
    if slow:
        text += f"; {slow}"
    return text


class BreakdownDocument(estimates.SizeDocument):
    """The price of one schedule, and of flat baselines to compare it with."""

    baselines: list[RowDocument]
    segments: list[BestSegments] = optional("segments")
    gains: list[Gain]


def _document(result: Breakdown) -> dict[str, Any]:
    """The document of the price with the breakdown's own keys."""
    return BreakdownDocument.of(
        result.price,
        baselines=result.baselines,
        segments=result.segments or LEFT_OUT,
        gains=result.gains,
    )


VIEWS = {Breakdown: View("breakdown", _blocks, _document, _phase_table, _summary)}
