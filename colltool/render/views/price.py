"""``price`` and ``breakdown``: every algorithm at one or several sizes, the winner at each size,
and the phases of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from colltool.algorithms.libraries import NCCL_ALL_REDUCE
from colltool.base.errors import given, said
from colltool.base.formatting import (
    format_bytes,
    format_count,
    format_energy,
    format_factor,
    format_rate,
    format_time,
    plain_number,
    sentence,
    title_size,
    whole_bytes,
    whole_percent,
)
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.results import Breakdown, LibraryChoice, Price, PriceList
from colltool.nccl.hardware import told_version
from colltool.nccl.rules import SPELLED
from colltool.render import estimates as r
from colltool.render.blocks import (
    Block,
    Column,
    Headline,
    Lines,
    Table,
    gathered,
    label,
    later,
    number,
)
from colltool.render.dispatch import Document, View, context, group_columns, listed
from colltool.render.intervals import may_be_as_fast, within, within_several

if TYPE_CHECKING:
    from colltool.nccl.model import NcclEstimate

_MOST_ROWS = 8


def _answer(price: Price, row: AlgorithmEstimate) -> str:
    """The result, its error, and what would change it."""
    pick = f", {r.spoken(price)}'s pick" if price.shows_pick and row is price.best else ""
    off = f" ({told})" if (told := within(row)) else ""
    answer = (
        f"{r.named(price, row)}{pick}: {format_time(float(row.total_s))}{off}, busbw"
        f" {format_rate(float(row.busbw_Bps))}"
    )
    answer += f". {sentence(r.heading(price))}."
    if (
        price.accuracy is not None
        and row.selectable
        and (beside := _beside(price, row, price.accuracy.median))
    ):
        answer += f" {sentence(beside)}."
    for inert in price.inert:
        answer += (
            f" {inert.key} does not move this time:"
            f" {inert.reason.replace(row.title, r.named(price, row))}."
        )
    seconds = {
        "latency": row.steps_s,
        "bandwidth": row.moved_s,
        "overhead": row.overhead_s,
        "software": row.rest_s,
    }
    return f"{answer} {whole_percent(float(seconds[row.bound] / row.total_s))} {_TURNS[row.bound]}"


def _beside(price: Price, row: AlgorithmEstimate, error: float) -> str:
    """Who is as fast within the error, or faster by more, and how to run that."""
    own = float(row.total_s)
    gain = 1 - float(price.fastest.total_s) / own
    if gain > error and not may_be_as_fast(price.best, price.fastest):
        name = r.named(price, price.fastest)  # only a pick is not the fastest
        if price.fastest.status == "own":
            before = "" if price.fastest.protocol else " before any library's overhead"
            return f"{name}, of your own, would take {whole_percent(gain)} less{before}"
        return f"{name} would take {whole_percent(gain)} less: NCCL_ALGO={name}"
    close = [
        one for one in price.leading if one is not row and float(one.total_s) <= own * (1 + error)
    ]
    more = f" and {len(close) - 1} more" if len(close) > 1 else ""
    behind = "the runner-up is further behind" if len(price.leading) > 1 else ""
    return f"{r.named(price, close[0])}{more} may be as fast" if close else behind


_TURNS = {
    "latency": "is latency: more bandwidth gains little.",
    "bandwidth": "is transfer time: it grows with the size and falls with bandwidth.",
    "overhead": "is launch overhead: fewer and larger calls gain most.",
    "software": "is the library's own overhead: a faster network gains little.",
}


def _all(prices: Sequence[Price], *, sizes: bool) -> list[Block]:
    """What may lead, then what other libraries run and what nobody runs, which the default view
    leaves out."""
    leads = [r.Ranked(one, row) for one in prices for row in one.leading]
    others = [r.Ranked(one, row) for one in prices for row in one.others if row.rank_class == 1]
    nobody_s = [r.Ranked(one, row) for one in prices for row in one.others if row.rank_class > 1]
    reasons = [
        why
        for status, why in r.WHY_NOT_RANKED.items()
        if any(one.row.status == status for one in nobody_s)
    ]
    tables = (
        (leads, ""),
        (others, f"priced, but not what {r.spoken(prices[0])} runs here"),
        (nobody_s, f"not ranked: nobody gets these times ({'; '.join(reasons)})"),
    )
    best = None if sizes else 0
    first, *rest = (
        r.row_table(rows, title, best if rows is leads else None, sizes=sizes, names=rows is leads)
        for rows, title in tables
        if rows
    )
    every = [row for one in prices for row in one.results]
    cannot = gathered((one.reason, one.algorithm) for one in prices[0].infeasible)
    return [
        Headline(_winners_answer(prices) if sizes else _answer(prices[0], prices[0].best)),
        first._replace(first=_MOST_ROWS),
        *r.named_anyway(prices),
        *_warnings(prices),
        *_slow_rank(prices),
        *_faster_elsewhere(prices),
        *_picks(prices),
        *(rest if prices[0].asked else map(later, rest)),
        *_links_table(every, first=0),
        *r.notes(every, prices[0].model, prices, first=0),
        *listed(
            "cannot run here",
            (f"{', '.join(names)}: {reason}" for reason, names in cannot.items()),
            first=0,
        ),
    ]


def _faster_elsewhere(prices: Sequence[Price]) -> list[Block]:
    """What would be faster: with SHARP switched on, or without the library's own overhead."""
    price = prices[0]
    lines: list[str] = []
    if len(prices) > 1 or not price.runnable or price.library is None:
        return []
    best, inside = float(price.best.total_s), price.group.per_domain[0]
    for row in sorted(price.others, key=r.seconds):
        off = row.not_selected_reason is not None and row.not_selected_reason.code == "collnet_off"
        blocked = any(
            one.why_not_inside(inside)
            for one in NCCL_ALL_REDUCE
            if set(one.by) <= set(row.shipped_by)
        )
        if not lines and float(row.total_s) < best and off and not blocked:
            option = said(given("overrides", ["library.collnet=true"]))
            lines.append(
                f"with SHARP (NCCL_COLLNET_ENABLE=1): {format_time(float(row.total_s))} by"
                f" {row.title}: {option}"
            )
    bare = min(
        (row for row in price.results if row.status == "shipped"),
        key=lambda row: float(row.total_s - row.software_s),
    )
    alone = float(bare.total_s - bare.software_s)
    told = lines and alone == float(bare.total_s)  # the same number
    # those are this library's, as measured
    if alone < best and not told and not price.best.protocol:
        option = said(given("library", "all"))
        lines.append(
            f"by alpha, BW and eta alone, any library: {format_time(alone)} by {bare.title}:"
            f" {option}"
        )
    return listed("faster, but not what runs by default", lines)


def _warnings(prices: Sequence[Price]) -> list[Block]:
    return listed("warning", (f"{one.algorithm}: {one.reason}" for one in prices[0].failed))


def _slow_rank(prices: Sequence[Price]) -> list[Block]:
    slow = [(row, row.slow) for one in prices for row in one.results if row.slow is not None]
    if not slow:
        return []
    known = [
        (one.total_s, r.named(prices[0], row))
        for row, one in slow
        if row.selectable and one.total_s is not None
    ]
    lines = (
        [f"fastest then: {min(known)[1]}, {format_time(min(known)[0])}"]
        if known and len(prices) == 1
        else []
    )
    unknown = gathered((one.reason, row.title) for row, one in slow if one.reason)
    lines += [f"not known, {reason}: {', '.join(titles)}" for reason, titles in unknown.items()]
    share = f"{slow[0][1].share:g} of their bandwidth"
    return [
        Lines(
            f"slow rank: all ports and links of one rank, the worst one, at {share}", tuple(lines)
        )
    ]


class _Pick(NamedTuple):
    """The library's own pick at a size; ``best`` is the fastest that the library has, its pick
    included."""

    price: Price
    own: LibraryChoice
    estimate: NcclEstimate
    name: str
    best: AlgorithmEstimate


_TOLD = 1.02  # times the fastest, from which on a pick is called slow
_PICKS = (
    number("bytes", "size", title_size, get=lambda one: float(one.price.bytes)),
    label("pick", "picks", get=lambda one: one.name),
    label("pick_protocol", "protocol", get=lambda one: one.estimate.protocol),
    number("estimate_s", "its own estimate", format_time, get=lambda one: one.estimate.seconds),
    label("priced_as", "here", drop=3, get=lambda one: one.own.runs and one.own.runs.title),
    number(
        "runs_s",
        "our price",
        format_time,
        1,
        get=lambda one: one.own.runs and float(one.own.runs.total_s),
    ),
    label("fastest", "fastest", drop=4, get=lambda one: r.named(one.price, one.best)),
    number("fastest_s", "fastest total", format_time, 5, get=lambda one: float(one.best.total_s)),
    number(
        "of_fastest", "times the fastest", format_factor, 2, get=lambda one: one.price.slower_pick
    ),
)


def _picks(prices: Sequence[Price]) -> list[Block]:
    if reasons := dict.fromkeys(
        one.library.reason for one in prices if one.library and one.library.reason
    ):
        return listed(
            f"what {r.spoken(prices[0])} itself would pick is not known here", reasons, first=0
        )
    picks, sizes, slow = [], [], []
    for price in prices:
        if (own := price.library) is None or own.pick is None:
            continue
        able = (
            *(row for row in price.runnable if row.status != "own"),
            *([] if own.runs is None else [own.runs]),
        )
        best = min(able, key=r.seconds, default=price.best)
        picks.append(
            _Pick(price, own, own.pick, SPELLED.get(own.pick.algorithm, own.pick.algorithm), best)
        )
        sizes.append(title_size(float(price.bytes)))
    if not picks:
        return []
    several = len(picks) > 1
    library = f"{picks[0].own.name.upper()} {told_version(picks[0].own.version)}"
    for one, size in zip(picks, sizes, strict=True):
        if (
            (factor := one.price.slower_pick) is not None
            and factor >= _TOLD
            and not may_be_as_fast(one.price.best, one.best)
        ):
            at = f"{size}: " if several else ""
            slow.append(
                f"{at}{one.name} takes {format_factor(factor)} of {r.named(one.price, one.best)}"
            )
    chosen = gathered(
        (f"{one.name} ({one.estimate.protocol})", size)
        for one, size in zip(picks, sizes, strict=True)
    )
    what = "; ".join(
        f"{name} at {','.join(at)}" if several else name for name, at in chosen.items()
    )
    # the answer says it
    shown = len(prices) == 1 and prices[0].shows_pick and library.endswith(picks[0].own.version)
    out: list[Block] = [
        Lines(f"{library} picks by its own cost model: {what}", (), first=0 if shown else None)
    ]
    out += listed("not the fastest that it has, by the prices here", slow)
    if blind := dict.fromkeys(one.name for one in picks if one.own.runs is None):
        out.append(
            Lines(f"no schedule here stands for {library}'s {', '.join(blind)} on this group", ())
        )
    return [
        *out,
        Table(_PICKS, tuple(picks), None, f"what {library} picks by its own cost model", first=0),
    ]


def _document(result: Price) -> Document:
    return r.price_fields(result) if hasattr(result.bytes, "__len__") else _one_shape([result])


def _one_shape(prices: Sequence[Price]) -> Document:
    # a single size has its fields at the top as well, for readers of older documents
    sizes = [r.price_fields(one) for one in prices]
    return (sizes[0] if len(sizes) == 1 else {}) | {"sizes": sizes}


def _summary(result: Price) -> str:
    if hasattr(result.bytes, "__len__"):
        return (
            f"{r.heading(result, '')}: {len(result.results)} algorithms at {len(result.bytes)}"
            " sizes"
        )
    best = result.best
    return (
        f"{r.heading(result)}: {best.title}, {format_time(float(best.total_s))}, busbw"
        f" {format_rate(float(best.busbw_Bps))}"
    )


class _SizeWinner(NamedTuple):
    price: Price
    row: AlgorithmEstimate
    second: AlgorithmEstimate | None


_WINNER = (
    label("fastest", "fastest", get=lambda one: one.row.title),
    number("total_s", "total", format_time, get=lambda one: float(one.row.total_s)),
    number("busbw_Bps", "busbw", format_rate, 1, get=lambda one: float(one.row.busbw_Bps)),
    label("bound", "bound by", drop=4, get=lambda one: one.row.bound),
    label("protocol", "protocol", drop=5, get=lambda one: one.row.protocol),
    label("runner_up", "runner-up", drop=2, get=lambda one: one.second and one.second.title),
    number(
        "runner_up_s",
        "its total",
        format_time,
        3,
        get=lambda one: one.second and float(one.second.total_s),
    ),
    label("spec", "spec", drop=6, get=lambda one: one.row.spec, hidden=True),
)
_NAMES = {
    "fastest": label("fastest", "fastest", get=lambda one: r.named(one.price, one.row), fold=22),
    "runner_up": label(
        "runner_up",
        "runner-up",
        drop=2,
        get=lambda one: one.second and r.named(one.price, one.second),
        fold=22,
    ),
}


def _winners(result: PriceList, columns: Sequence[Column] = _WINNER) -> Table:
    records = tuple(
        _SizeWinner(one, one.results[0], one.results[1] if len(one.results) > 1 else None)
        for one in result.prices
    )
    idle = () if any(one.row.protocol for one in records) else ("protocol",)
    return (
        Table((*r.price_context(result.prices[0]), *columns), records)
        .with_shown("bytes")
        .without(*idle)
    )


def _winners_answer(prices: Sequence[Price]) -> str:
    changes = [
        (r.named(one, one.best), one) for one in sorted(prices, key=lambda one: float(one.bytes))
    ]
    starts = [
        (name, one)
        for at, (name, one) in enumerate(changes)
        if not at or changes[at - 1][0] != name
    ]
    first, *later = starts
    who = first[0] + "".join(f", {name} from {title_size(float(one.bytes))}" for name, one in later)
    told = f"{who}{'' if later else ' at every size'}: {r.heading(prices[0], '')}."
    intervals = [
        (one.best.interval, float(one.best.total_s))
        for one in prices
        if one.best.interval is not None
    ]
    return f"{told} {within_several(intervals)}." if intervals else told


def _list_blocks(result: PriceList) -> list[Block]:
    prices = result.prices
    if not result.winners_only:
        return _all(prices, sizes=len(prices) > 1)
    table = _winners(result, [_NAMES.get(column.key, column) for column in _WINNER])
    rows = [row for one in prices for row in one.results]
    return [
        Headline(_winners_answer(prices)),
        table,
        *r.named_anyway(prices),
        *_warnings(prices),
        *_picks(prices),
        *r.notes(rows, prices[0].model, prices, first=0),
    ]


def _list_document(result: PriceList) -> Document:
    return (
        {"sizes": [r.price_fields(one) for one in result.prices]}
        if result.winners_only
        else _one_shape(result.prices)
    )


def _list_summary(result: PriceList) -> str:
    if len(result.prices) == 1:
        return _summary(result.prices[0])
    names = dict.fromkeys(one.best.title for one in result.prices)
    return (
        f"{r.heading(result.prices[0], f'{len(result.prices)} sizes, ')}: fastest"
        f" {', then '.join(names)}"
    )


_PHASE = (
    label("tier", "tier"),
    label("level", "level", drop=5),
    label("primitive", "phase", lambda primitive: primitive.spoken),
    label(
        "algorithm",
        "algorithm",
        get=lambda phase: "own copy" if phase.label == "own share" else phase.algorithm,
    ),
    label("label", "step", drop=4),
    number("ranks", "ranks", drop=7),
    number("bytes", "payload", format_bytes, 6, get=lambda phase: float(phase.bytes)),
    number("n_alpha", "n_alpha", format_count, 9),
    number("n_beta", "n_beta", format_count, 10),
    number("alpha_s", "alpha", format_time, 2, get=lambda phase: float(phase.alpha_s)),
    number("bandwidth_s", "bandwidth", format_time, 1, get=lambda phase: float(phase.bandwidth_s)),
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


_LINKS = (
    label("tier", "tier"),
    label("level", "level"),
    number("alpha_s", "alpha of a step", format_time),
    number("bandwidth_Bps", "BW", format_rate),
    number("eta_alpha", "eta of alpha", format_count),
    number("eta_beta", "eta of BW", format_count),
)


def _links_table(rows: Sequence[AlgorithmEstimate], first: int | None = None) -> list[Block]:
    """Alpha, bandwidth and eta of each tier, recovered from the phases of rows."""
    found: dict[_Link, None] = {}
    for phase in (phase for row in rows for phase in row.phases):
        steps = float(phase.n_alpha * phase.eta_alpha)
        alpha = float(phase.alpha_s) / steps if steps else None
        rate, *etas = float(phase.bandwidth_Bps), float(phase.eta_alpha), float(phase.eta_beta)
        found[_Link(phase.tier, phase.level, alpha and float(f"{alpha:.9g}"), rate, *etas)] = None
    return [
        Table(
            _LINKS,
            tuple(found),
            None,
            "each tier's own numbers; a price multiplies alpha and BW by their eta",
            first,
        )
    ]


def _phases(result: Breakdown) -> Table:
    price, row = result.price, result.price.results[0]
    columns = (
        *context(fabric=price.fabric, collective=price.primitive),
        number("group_ranks", "ranks of the group", get=lambda _: price.ranks, hidden=True),
        number(
            "message_bytes", "size", title_size, get=lambda _: whole_bytes(price.bytes), hidden=True
        ),
        *context(spec=row.spec),
        *group_columns(price.group, lambda _: price.group),
        *context(price.overrides),
        *_PHASE,
        number(
            "share", "of total", whole_percent, get=lambda phase: float(phase.total_s / row.total_s)
        ),
        number(
            "energy_J", "energy", format_energy, 8, get=lambda phase: plain_number(phase.energy_J)
        ),
    )
    return Table(columns if row.energy_J is not None else columns[:-1], row.phases)


def _breakdown_blocks(result: Breakdown) -> list[Block]:
    price, row = result.price, result.price.results[0]
    out: list[Block] = [Headline(_answer(price, row)), _phases(result), Lines(_sums(row), ())]
    if row.streams:
        out.append(
            Lines("phases stream through each other: only the busiest tier's bandwidth counts", ())
        )
    out += listed("pipelined: P* = sqrt((F-1) b M / (alpha BW))", r.segment_lines(result.segments))
    out += _links_table([row])
    if result.baselines:
        out.append(
            r.row_table(
                [r.Ranked(price, one) for one in result.baselines], "flat baselines"
            )._replace(first=0)
        )
    return out + r.notes([row], price.model, first=0)


def _sums(row: AlgorithmEstimate) -> str:
    sums = f"total {format_time(float(row.total_s))}: alpha {format_time(float(row.alpha_s))}"
    terms = (
        ("bandwidth", row.bandwidth_s),
        ("launch overhead", row.overhead_s),
        ("software", row.software_s),
    )
    for name, term in terms:
        seconds = float(term)
        if seconds or name == "bandwidth":
            sums += f" {'+' if seconds >= 0 else '-'} {name} {format_time(abs(seconds))}"
    sums += f", energy {format_energy(float(row.energy_J))}" if row.energy_J is not None else ""
    sums += f", bound by {row.bound}" + (f", under protocol {row.protocol}" if row.protocol else "")
    return f"{sums}; {slow}" if (slow := r.slow_words(row.slow)) else sums


def _breakdown_document(result: Breakdown) -> Document:
    baselines = {"baselines": [r.row_fields(row) for row in result.baselines]}
    return r.price_fields(result.price) | baselines | r.segments_field(result.segments)


def _breakdown_summary(result: Breakdown) -> str:
    row = result.price.results[0]
    return f"{row.title}: {r.heading(result.price)}\n{_sums(row)}"


VIEWS = {
    Price: View(
        "price",
        lambda result: _all(tuple(r.at_each_size(result)), sizes=hasattr(result.bytes, "__len__")),
        _document,
        lambda result: r.every_row(tuple(r.at_each_size(result))),
        _summary,
    ),
    PriceList: View(
        "price",
        _list_blocks,
        _list_document,
        lambda result: _winners(result) if result.winners_only else r.every_row(result.prices),
        _list_summary,
    ),
    Breakdown: View(
        "breakdown", _breakdown_blocks, _breakdown_document, _phases, _breakdown_summary
    ),
}
