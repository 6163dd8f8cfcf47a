"""``price`` and ``breakdown``: every algorithm at one or several sizes, the winner at each size,
and the phases of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.algorithms.libraries import NCCL_ALL_REDUCE
from colltool.base.errors import argument_text, localize
from colltool.base.formatting import (
    format_bytes,
    format_count,
    format_energy,
    format_factor,
    format_rate,
    format_time,
    sentence,
    title_size,
    whole_bytes,
    whole_percent,
)
from colltool.estimate.algorithm_estimate import AlgorithmEstimate, PhaseCost
from colltool.estimate.results import Breakdown, LibraryChoice, Price, PriceList
from colltool.estimate.segments import BestSegments
from colltool.libraries.nccl.hardware import version_label
from colltool.libraries.nccl.rules import ALGORITHM_NAMES
from colltool.render import estimates as r
from colltool.render.blocks import (
    Block,
    Column,
    Columns,
    Headline,
    Lines,
    Table,
    gathered,
    label,
    later,
    lines_by_names,
    lines_by_text,
    number,
)
from colltool.render.chart import BusbwChart, BusbwCurve, curves
from colltool.render.dispatch import View, context, group_columns, listed, on_fabric
from colltool.render.documents import LEFT_OUT, Document, optional
from colltool.render.intervals import may_be_as_fast, within, within_several

if TYPE_CHECKING:
    from colltool.libraries.nccl.model import NcclEstimate

_MOST_ROWS = 8


# --- the answer


def _answer(price: Price, row: AlgorithmEstimate) -> str:
    """The result, its error, and what would change it."""
    name = row.name
    who = name
    if price.shows_pick and row is price.best:
        who += f", {r.spoken(price)}'s pick"
    took = format_time(float(row.total_s))
    off = within(row)
    if off:
        took += f" ({off})"
    parts = [
        f"{who}: {took}, busbw {format_rate(float(row.busbw_Bps))}",
        sentence(r.heading(price)),
    ]
    if price.accuracy is not None and row.selectable:
        rival = _rivals(price, row, price.accuracy.median)
        if rival:
            parts.append(sentence(rival))
    for inert in price.inert:
        reason = inert.reason.replace(row.title, name)
        parts.append(f"{inert.key} does not move this time: {reason}")
    parts.append(_largest_part(row))
    return ". ".join(parts)


_ADVICE = {
    "latency": "is latency: more bandwidth gains little.",
    "bandwidth": "is transfer time: it grows with the size and falls with bandwidth.",
    "overhead": "is launch overhead: fewer and larger calls gain most.",
    "software": "is the library's own overhead: a faster network gains little.",
}


def _largest_part(row: AlgorithmEstimate) -> str:
    """Such as ``62% is latency: more bandwidth gains little.``"""
    seconds = {
        "latency": row.steps_s,
        "bandwidth": row.moved_s,
        "overhead": row.overhead_s,
        "software": row.rest_s,
    }
    share = whole_percent(float(seconds[row.bound] / row.total_s))
    return f"{share} {_ADVICE[row.bound]}"


def _rivals(price: Price, row: AlgorithmEstimate, error: float) -> str:
    """Which other row is as fast within the error, or faster by more and how to run it."""
    own_s = float(row.total_s)
    fastest = price.fastest
    gain = 1 - float(fastest.total_s) / own_s
    # only a pick is not the fastest
    if gain > error and not may_be_as_fast(price.best, fastest):
        name = fastest.name
        less = f"would take {whole_percent(gain)} less"
        if fastest.status != "own":
            return f"{name} {less}: NCCL_ALGO={name}"
        before = "" if fastest.protocol else " before any library's overhead"
        return f"{name}, of your own, {less}{before}"
    rivals = [rival for rival in price.leading if rival is not row]
    close = [rival for rival in rivals if float(rival.total_s) <= own_s * (1 + error)]
    if not rivals:
        return ""
    if not close:
        return "the runner-up is further behind"
    names = close[0].name
    if len(close) > 1:
        names += f" and {len(close) - 1} more"
    return f"{names} may be as fast"


def _size(price: Price) -> str:
    return title_size(float(price.bytes))


def _winners_answer(prices: Sequence[Price]) -> str:
    """Such as ``Tree, Ring from 4MB: all-reduce on nvl72, ...``."""
    steps: list[str] = []
    before = ""
    for price in sorted(prices, key=lambda price: float(price.bytes)):
        name = price.best.name
        if name != before:
            steps.append(f"{name} from {_size(price)}" if steps else name)
        before = name
    if len(steps) == 1:
        steps[0] += " at every size"
    answer = f"{', '.join(steps)}: {r.heading(prices[0], '')}."
    intervals = []
    for price in prices:
        interval = price.best.interval
        if interval is not None:
            intervals.append((interval, float(price.best.total_s)))
    if intervals:
        return f"{answer} {within_several(intervals)}."
    return answer


# --- all rows


def _all_blocks(prices: Sequence[Price], *, sizes: bool) -> list[Block]:
    """The blocks of prices with all rows.

    Selectable rows come first; those of other libraries, and those that no library runs, are in
    tables that the default view leaves out.
    """
    selectable: list[r.Ranked] = []
    others: list[r.Ranked] = []
    unranked: list[r.Ranked] = []
    for price in prices:
        selectable += [r.Ranked(price, row) for row in price.leading]
        for row in price.others:
            # class 1: another library runs it; higher classes: none does
            kind = others if row.rank_class == 1 else unranked
            kind.append(r.Ranked(price, row))
    tables = []
    if selectable:
        tables.append(r.row_table(selectable, "", None if sizes else 0, sizes=sizes, names=True))
    if others:
        title = f"priced, but not what {r.spoken(prices[0])} runs here"
        tables.append(r.row_table(others, title, sizes=sizes, names=True))
    if unranked:
        statuses = {ranked.row.status for ranked in unranked}
        reasons = [why for status, why in r.WHY_NOT_RANKED.items() if status in statuses]
        title = f"not ranked: nobody gets these times ({'; '.join(reasons)})"
        tables.append(r.row_table(unranked, title, sizes=sizes, names=True))
    first, *rest = tables
    every = _rows(prices)
    answer = _winners_answer(prices) if sizes else _answer(prices[0], prices[0].best)
    return [
        Headline(answer),
        first._replace(first=_MOST_ROWS),
        *r.named_anyway(prices),
        *_warnings(prices),
        *_slow_rank(prices),
        *_faster_elsewhere(prices),
        *_picks(prices),
        *(rest if prices[0].asked else map(later, rest)),
        _links_table(every, first=0),
        *r.notes(every, prices[0].model, prices, first=0),
        *_cannot_run(prices[0]),
    ]


def _rows(prices: Sequence[Price]) -> list[AlgorithmEstimate]:
    rows: list[AlgorithmEstimate] = []
    for price in prices:
        rows += price.results
    return rows


def _cannot_run(price: Price) -> list[Block]:
    reasons = ((row.reason, row.algorithm) for row in price.infeasible)
    return listed("cannot run here", lines_by_names(reasons), first=0)


def _faster_elsewhere(prices: Sequence[Price]) -> list[Block]:
    """What would be faster: with SHARP switched on, or without the library's own overhead."""
    price = prices[0]
    if len(prices) > 1 or not price.runnable or price.library is None:
        return []
    best_s = float(price.best.total_s)
    lines: list[str] = []
    by_sharp = _fastest_with_sharp(price)
    if by_sharp is not None and r.seconds(by_sharp) < best_s:
        option = localize(argument_text("overrides", ["library.collnet=true"]))
        took = format_time(r.seconds(by_sharp))
        lines.append(f"with SHARP (NCCL_COLLNET_ENABLE=1): {took} by {by_sharp.title}: {option}")
    shipped = (row for row in price.results if row.status == "shipped")
    fastest_bare = min(shipped, key=_without_software)
    fastest_bare_s = _without_software(fastest_bare)
    # both lines would have the same number
    same_number = bool(lines) and fastest_bare_s == r.seconds(fastest_bare)
    # rows with a protocol are this library's, as measured
    if fastest_bare_s < best_s and not same_number and not price.best.protocol:
        option = localize(argument_text("library", "all"))
        took = format_time(fastest_bare_s)
        lines.append(
            f"by alpha, BW and eta alone, any library: {took} by {fastest_bare.title}: {option}"
        )
    return listed("faster, but not what runs by default", lines)


def _without_software(row: AlgorithmEstimate) -> float:
    return float(row.total_s - row.software_s)


def _fastest_with_sharp(price: Price) -> AlgorithmEstimate | None:
    """The fastest row that only the CollNet switch keeps from being selected."""
    inside = price.group.per_domain[0]
    for row in sorted(price.others, key=r.seconds):
        reason = row.not_selected_reason
        if reason is None or reason.code != "collnet_off":
            continue
        rules = (rule for rule in NCCL_ALL_REDUCE if set(rule.by) <= set(row.shipped_by))
        if not any(rule.why_not_inside(inside) for rule in rules):
            return row
    return None


def _warnings(prices: Sequence[Price]) -> list[Block]:
    return listed("warning", (f"{row.algorithm}: {row.reason}" for row in prices[0].failed))


def _slow_rank(prices: Sequence[Price]) -> list[Block]:
    """What each algorithm takes with one slow rank, by the time that it then has, and why others
    have none."""
    slow = [(row, row.slow) for row in _rows(prices) if row.slow is not None]
    if not slow:
        return []
    selectable = []
    unknown = []
    for row, late in slow:
        if late.total_s is not None and row.selectable:
            selectable.append((late.total_s, row.name))
        if late.reason:
            unknown.append((f"not known, {late.reason}", row.title))
    lines = []
    if selectable and len(prices) == 1:
        fastest_s, name = min(selectable)
        lines.append(f"fastest then: {name}, {format_time(fastest_s)}")
    lines += lines_by_text(unknown)
    share = f"{slow[0][1].share:g} of their bandwidth"
    title = f"slow rank: all ports and links of one rank, the worst one, at {share}"
    return [Lines(title, tuple(lines))]


# --- what the library itself picks


class _Pick(NamedTuple):
    """The library's own pick at a size; ``best`` is the fastest that the library has, its pick
    included."""

    price: Price
    own: LibraryChoice
    estimate: NcclEstimate
    best: AlgorithmEstimate

    @property
    def name(self) -> str:
        return ALGORITHM_NAMES.get(self.estimate.algorithm, self.estimate.algorithm)

    @property
    def best_name(self) -> str:
        return self.best.name

    @property
    def size(self) -> str:
        return _size(self.price)


_SLOW = 1.02  # a pick that takes this many times as long as the fastest is called slow
_PICKS: Columns[_Pick] = (
    number("bytes", "size", title_size, path="price.bytes"),
    label("pick", "picks", path="name"),
    label("pick_protocol", "protocol", path="estimate.protocol"),
    number("estimate_s", "its own estimate", format_time, path="estimate.seconds"),
    label("priced_as", "here", drop=3, path="own.runs.title"),
    number("runs_s", "our price", format_time, 1, path="own.runs.total_s"),
    label("fastest", drop=4, path="best_name"),
    number("fastest_s", "fastest total", format_time, 5, path="best.total_s"),
    number("of_fastest", "times the fastest", format_factor, 2, path="price.slower_pick"),
)


def _pick(price: Price, own: LibraryChoice, estimate: NcclEstimate) -> _Pick:
    able = [row for row in price.runnable if row.status != "own"]
    if own.runs is not None:
        able.append(own.runs)
    return _Pick(price, own, estimate, min(able, key=r.seconds, default=price.best))


def _picks(prices: Sequence[Price]) -> list[Block]:
    """What the library picks at each size, and where that is not the fastest that it has."""
    reasons: dict[str, None] = {}
    picks = []
    for price in prices:
        library = price.library
        if library is not None and library.reason:
            reasons[library.reason] = None
        if library is not None and library.pick is not None:
            picks.append(_pick(price, library, library.pick))
    if reasons:
        title = f"what {r.spoken(prices[0])} itself would pick is not known here"
        return listed(title, reasons, first=0)
    if not picks:
        return []
    library_choice = picks[0].own
    name = f"{library_choice.name.upper()} {version_label(library_choice.version)}"
    several = len(picks) > 1
    # the answer says it
    in_answer = len(prices) == 1 and prices[0].shows_pick and name.endswith(library_choice.version)
    what = f"picks by its own cost model: {_picked(picks)}"
    out: list[Block] = [Lines(f"{name} {what}", (), first=0 if in_answer else None)]
    slow = (_slow_pick(pick, several=several) for pick in picks if _is_slow(pick))
    out += listed("not the fastest that it has, by the prices here", slow)
    unknown = dict.fromkeys(pick.name for pick in picks if pick.own.runs is None)
    if unknown:
        names = ", ".join(unknown)
        out.append(Lines(f"no schedule here stands for {name}'s {names} on this group", ()))
    title = f"what {name} picks by its own cost model"
    return [*out, Table(_PICKS, tuple(picks), None, title, first=0)]


def _picked(picks: Sequence[_Pick]) -> str:
    """Such as ``Ring (LL) at 1MB,4MB; Tree (Simple) at 1GB``."""
    chosen = gathered((f"{pick.name} ({pick.estimate.protocol})", pick.size) for pick in picks)
    if len(picks) == 1:
        return next(iter(chosen))
    return "; ".join(f"{name} at {','.join(sizes)}" for name, sizes in chosen.items())


def _is_slow(pick: _Pick) -> bool:
    factor = pick.price.slower_pick
    if factor is None or factor < _SLOW:
        return False
    return not may_be_as_fast(pick.price.best, pick.best)


def _slow_pick(pick: _Pick, *, several: bool) -> str:
    factor = format_factor(pick.price.slower_pick or 1.0)
    text = f"{pick.name} takes {factor} of {pick.best_name}"
    if several:
        return f"{pick.size}: {text}"
    return text


# --- the winner at each size


class _SizeWinner(NamedTuple):
    """The fastest algorithm at a size, and the one after it where there is one."""

    price: Price
    row: AlgorithmEstimate
    second: AlgorithmEstimate | None

    @property
    def size(self) -> Any:
        return whole_bytes(self.price.bytes)

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def second_name(self) -> str:
        return self.second.name if self.second else ""


_WINNER: Columns[_SizeWinner] = (
    label("fastest", path="row.title"),
    number("total_s", "total", format_time, path="row.total_s"),
    number("busbw_Bps", "busbw", format_rate, 1, path="row.busbw_Bps"),
    label("bound", "bound by", drop=4, path="row.bound"),
    label("protocol", drop=5, path="row.protocol"),
    label("runner_up", "runner-up", drop=2, path="second.title"),
    number("runner_up_s", "its total", format_time, 3, path="second.total_s"),
    label("spec", drop=6, hidden=True, path="row.spec"),
)
_NAMES: dict[str, Column[_SizeWinner]] = {
    "fastest": label("fastest", fold=22, path="name"),
    "runner_up": label("runner_up", "runner-up", drop=2, fold=22, path="second_name"),
}


def _winners(result: PriceList, columns: Columns[_SizeWinner] = _WINNER) -> Table:
    """A row per size: the winner and by how much; protocols only where the library has some."""
    records = []
    for price in result.prices:
        best, *rivals = price.results
        records.append(_SizeWinner(price, best, rivals[0] if rivals else None))
    context_columns = r.price_context(result.prices[0])
    table = Table((*context_columns, *columns), tuple(records)).with_shown("bytes")
    if any(record.row.protocol for record in records):
        return table
    return table.without("protocol")


def _list_blocks(result: PriceList) -> list[Block]:
    prices = result.prices
    if not result.winners_only:
        return _all_blocks(prices, sizes=len(prices) > 1)
    return [
        Headline(_winners_answer(prices)),
        _winners(result, tuple(_NAMES.get(column.key, column) for column in _WINNER)),
        *r.named_anyway(prices),
        *_warnings(prices),
        *_picks(prices),
        *r.notes(_rows(prices), prices[0].model, prices, first=0),
    ]


def _list_table(result: PriceList) -> Table:
    return _winners(result) if result.winners_only else r.every_row(result.prices)


def _list_summary(result: PriceList) -> str:
    if len(result.prices) == 1:
        return _summary(result.prices[0])
    names = dict.fromkeys(price.best.title for price in result.prices)
    heading = r.heading(result.prices[0], f"{len(result.prices)} sizes, ")
    return f"{heading}: fastest {', then '.join(names)}"


def _chart(result: PriceList) -> BusbwChart:
    """Bus bandwidth of what is selected somewhere, then of what is fastest elsewhere."""
    prices = result.prices
    asked = prices[0]
    where = on_fabric(asked.fabric, asked.overrides)
    title = f"{asked.primitive.label} on {where}, {asked.group.label}"
    if result.winners_only:
        # the winner and the runner-up change from size to size: one curve that goes all the way
        best = [("selected", float(price.bytes), float(price.best.busbw_Bps)) for price in prices]
        return BusbwChart(title, curves(best))
    leaders = dict.fromkeys(price.best.name for price in prices)
    points = []
    for price in prices:
        rows = price.leading or price.results
        points += [(row.name, float(price.bytes), float(row.busbw_Bps)) for row in rows]

    def rank(curve: BusbwCurve) -> tuple[bool, float]:
        return curve.name not in leaders, -max(value for _, value in curve.points)

    drawn = tuple(sorted(curves(points), key=rank))
    return BusbwChart(title, drawn)


# --- one price; its size may be an array


def _is_array(price: Price) -> bool:
    return hasattr(price.bytes, "__len__")


def _size_count(price: Price) -> int:
    sizes: Any = price.bytes
    return len(sizes)


def _price_blocks(result: Price) -> list[Block]:
    return _all_blocks(tuple(r.at_each_size(result)), sizes=_is_array(result))


def _price_table(result: Price) -> Table:
    return r.every_row(tuple(r.at_each_size(result)))


def _summary(result: Price) -> str:
    if _is_array(result):
        count = f"{len(result.results)} algorithms at {_size_count(result)} sizes"
        return f"{r.heading(result, '')}: {count}"
    best = result.best
    took = f"{format_time(float(best.total_s))}, busbw {format_rate(float(best.busbw_Bps))}"
    return f"{r.heading(result)}: {best.title}, {took}"


# --- breakdown


def _algorithm_name(phase: PhaseCost) -> str:
    # the label that an estimate gives to copying a rank's own data, which no algorithm does
    return "own copy" if phase.label == "own share" else phase.algorithm


_PHASE: Columns[PhaseCost] = (
    label("tier"),
    label("level", drop=5),
    label("primitive", "phase", lambda primitive: primitive.label),
    label("algorithm", get=_algorithm_name),
    label("label", "step", drop=4),
    number("ranks", drop=7),
    number("bytes", "payload", format_bytes, 6),
    number("n_alpha", "n_alpha", format_count, 9),
    number("n_beta", "n_beta", format_count, 10),
    number("alpha_s", "alpha", format_time, 2),
    number("bandwidth_s", "bandwidth", format_time, 1),
    number("eta_alpha", "eta_a", format_count, 11),
    number("eta_beta", "eta_b", format_count, 12),
)


class _Link(NamedTuple):
    """The numbers of a tier or level before contention: alpha of one step, bandwidth of an
    endpoint."""

    tier: str
    level: str
    alpha_s: float | None
    bandwidth_Bps: float
    eta_alpha: float
    eta_beta: float


_LINKS: Columns[_Link] = (
    label("tier"),
    label("level"),
    number("alpha_s", "alpha of a step", format_time),
    number("bandwidth_Bps", "BW", format_rate),
    number("eta_alpha", "eta of alpha", format_count),
    number("eta_beta", "eta of BW", format_count),
)


def _link(phase: PhaseCost) -> _Link:
    """What a phase runs on, as the table of links shows it: latency, bandwidth and both η."""
    steps = float(phase.n_alpha * phase.eta_alpha)
    # rounded, so that phases of one tier agree
    alpha = float(f"{float(phase.alpha_s) / steps:.9g}") if steps else None
    return _Link(
        phase.tier,
        phase.level,
        alpha,
        float(phase.bandwidth_Bps),
        float(phase.eta_alpha),
        float(phase.eta_beta),
    )


def _links_table(rows: Sequence[AlgorithmEstimate], first: int | None = None) -> Table:
    """Alpha, bandwidth and eta of each tier, recovered from the phases of rows."""
    links: dict[_Link, None] = {}
    for row in rows:
        links |= dict.fromkeys(map(_link, row.phases))
    title = "each tier's own numbers; a price multiplies alpha and BW by their eta"
    return Table(_LINKS, tuple(links), None, title, first)


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
        columns.append(number("energy_J", "energy", format_energy, 8))
    return Table(tuple(columns), row.phases)


def _breakdown_blocks(result: Breakdown) -> list[Block]:
    price = result.price
    row = price.results[0]
    out: list[Block] = [Headline(_answer(price, row)), _phases(result), Lines(_sums(row), ())]
    if row.streams:
        out.append(
            Lines("phases stream through each other: only the busiest tier's bandwidth counts", ())
        )
    out += listed("pipelined: P* = sqrt((F-1) b M / (alpha BW))", r.segment_lines(result.segments))
    out.append(_links_table([row]))
    if result.baselines:
        baselines = [r.Ranked(price, baseline) for baseline in result.baselines]
        out.append(r.row_table(baselines, "flat baselines", names=True)._replace(first=0))
    return out + r.notes([row], price.model, first=0)


def _sums(row: AlgorithmEstimate) -> str:
    """Such as ``total 3 us: alpha 1 us + bandwidth 2 us, bound by bandwidth``."""
    sums = f"total {format_time(float(row.total_s))}: alpha {format_time(float(row.alpha_s))}"
    terms = {
        "bandwidth": float(row.bandwidth_s),
        "launch overhead": float(row.overhead_s),
        "software": float(row.software_s),
    }
    for name, seconds in terms.items():
        if seconds or name == "bandwidth":
            sums += f" {'+' if seconds >= 0 else '-'} {name} {format_time(abs(seconds))}"
    if row.energy_J is not None:
        sums += f", energy {format_energy(float(row.energy_J))}"
    sums += f", bound by {row.bound}"
    if row.protocol:
        sums += f", under protocol {row.protocol}"
    slow = r.slow_words(row.slow)
    if slow:
        return f"{sums}; {slow}"
    return sums


def _breakdown_summary(result: Breakdown) -> str:
    row = result.price.results[0]
    return f"{row.title}: {r.heading(result.price)}\n{_sums(row)}"


# --- documents


class PricesDocument(Document):
    """The prices at several sizes."""

    sizes: list[r.SizeDocument]


class PriceDocument(r.SizeDocument, PricesDocument):
    """The prices at a single size, which has its fields at the top as well, for readers of older
    documents."""


class BreakdownDocument(r.SizeDocument):
    """The price of one schedule, and of flat baselines to compare it with."""

    baselines: list[r.RowDocument]
    segments: list[BestSegments] = optional("segments")


def _price_document(result: Price) -> dict[str, Any]:
    if _is_array(result):
        return r.SizeDocument.of(result)
    return _sizes_document([result])


def _sizes_document(prices: Sequence[Price]) -> dict[str, Any]:
    sizes = [r.SizeDocument.of(price) for price in prices]
    if len(sizes) == 1:
        return sizes[0] | {"sizes": sizes}
    return {"sizes": sizes}


def _list_document(result: PriceList) -> dict[str, Any]:
    if result.winners_only:
        return {"sizes": [r.SizeDocument.of(price) for price in result.prices]}
    return _sizes_document(result.prices)


def _breakdown_document(result: Breakdown) -> dict[str, Any]:
    return BreakdownDocument.of(
        result.price, baselines=result.baselines, segments=result.segments or LEFT_OUT
    )


VIEWS = {
    Price: View("price", _price_blocks, _price_document, _price_table, _summary),
    PriceList: View(
        "price", _list_blocks, _list_document, _list_table, _list_summary, chart=_chart
    ),
    Breakdown: View(
        "breakdown", _breakdown_blocks, _breakdown_document, _phases, _breakdown_summary
    ),
}
