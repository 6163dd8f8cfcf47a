"""``price`` and ``breakdown``: every algorithm at one or several sizes, the winner at each size,
and the phases of one.

Read from :data:`VIEWS`, which names the parts of each result: one size (``_price_*``), several
(``_list_*``), or one algorithm (``_breakdown_*``). All begin with a headline (:func:`_answer`,
:func:`_winners_answer`); tables of all rows come from :func:`_all_blocks`, documents stand last.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

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
from colltool.estimate.results import Breakdown, Gain, LibraryChoice, Price, PriceList
from colltool.estimate.segments import BestSegments
from colltool.libraries.nccl.hardware import version_label
from colltool.libraries.nccl.rules import ALGORITHM_NAMES, algorithms_of
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
from colltool.render.busbw_chart import BusbwChart, BusbwCurve, curves
from colltool.render.dispatch import View, context, group_columns, listed, on_fabric
from colltool.render.documents import LEFT_OUT, Document, optional
from colltool.render.intervals import may_be_as_fast, within, within_several

if TYPE_CHECKING:
    from colltool.libraries.nccl.model import NcclEstimate

_MOST_ROWS = 5  # of a ranking without --all


# --- the answer


def _answer(price: Price, row: AlgorithmEstimate, gains: Sequence[Gain] = ()) -> str:
    """The verdict with its interval, what comes next, what would change it, and what was asked."""
    who = row.name
    if price.shows_pick and row is price.best:
        who += f" ({r.library_label(price)}'s pick)"
    took = format_time(float(row.total_s))
    off = within(row)
    if off:
        took += f" ({off})"
    sentences = [f"{who}: {took}, busbw {format_rate(float(row.busbw_Bps))}"]
    if price.as_filed_s is not None and row is price.best:
        sentences += _against_the_file(price.as_filed_s, float(row.total_s))
    following = _next(price, row)
    if following:
        sentences.append(following)
    sentences.append(_largest_part(price, row))
    largest = _largest_gains(gains, float(row.total_s))
    if largest:
        sentences.append(largest)
    if gains and _is_fixed_latency(row, gains):
        software = r.library_label(price) or "the library"
        sentences.append(
            f"Latency is mostly {software}'s own time per step, which no link shortens"
        )
    for inert in price.inert:
        reason = inert.reason.replace(row.title, row.name)
        sentences.append(f"{inert.key} does not change this time: {reason}")
    sentences.append(sentence(r.heading(price)))
    return f"{'. '.join(sentences)}."


def _against_the_file(filed_s: float, total_s: float) -> list[str]:
    """``1.52x faster than with the file's own values, 5.945 ms``; nothing for equal times."""
    factor = format_factor(max(filed_s / total_s, total_s / filed_s))
    if factor == "1x":
        return []
    how = "faster" if total_s < filed_s else "slower"
    return [f"That is {factor} {how} than with the file's own values, {format_time(filed_s)}"]


def _largest_gains(gains: Sequence[Gain], total_s: float) -> str:
    """``Twice the bandwidth of ib would save 34%, half the latency of nvlink 3%``. Empty where
    nothing saves a percent."""
    texts: list[str] = []
    for gain in gains[:_MOST_GAINS]:
        saved = 1 - gain.total_s / total_s
        if saved >= _FELT_GAIN:
            texts.append(f"{_gain_words(gain)}{' would save' * (not texts)} {whole_percent(saved)}")
    return sentence(", ".join(texts))


def _is_fixed_latency(row: AlgorithmEstimate, gains: Sequence[Gain]) -> bool:
    """Whether much of a time is latency, of which halving all that the file states saves little."""
    total_s = float(row.total_s)
    latency_s = float(row.steps_s)
    if latency_s <= _LITTLE * total_s:
        return False
    left_s = latency_s / 2
    for gain in gains:
        if gain.kind == "alpha":
            left_s -= total_s - gain.total_s
    return left_s > (1 - _LITTLE) * latency_s / 2


def _gain_words(gain: Gain) -> str:
    match gain.kind:
        case "bandwidth":
            return f"twice the bandwidth of {gain.tier}"
        case "alpha":
            return f"half the latency of {gain.tier}"
        case "launch_overhead":
            return "half the launch overhead"
        case _:
            assert_never(gain.kind)


def _gain_line(gain: Gain, total_s: float) -> str:
    change = r.change_text(gain.total_s / total_s - 1)
    took = f"{format_time(gain.total_s)} ({change})"
    settings = " ".join(argument_text("set", setting) for setting in gain.set)
    return f"{_gain_words(gain)}: {took}, {localize(settings)}"


_MOST_GAINS = 2  # that the answer names
_FELT_GAIN = 0.01  # share of the total below which nobody notices a gain

_LITTLE = 0.3
"""A smaller share of transfer: more bandwidth barely helps."""


def _largest_part(price: Price, row: AlgorithmEstimate) -> str:
    """What the time consists of, and what would change it, such as ``Bandwidth-bound (95% of the
    time)``."""
    library = r.library_label(price) or "library"
    seconds = {
        "latency": (float(row.steps_s), "latency"),
        "bandwidth": (float(row.moved_s), "transfer"),
        "overhead": (float(row.overhead_s), "launch overhead"),
        "software": (float(row.rest_s), f"{library} overhead"),
    }
    total_s = float(row.total_s)
    largest_s, name = seconds.pop(row.bound)
    share = whole_percent(largest_s / total_s)
    if share == "50%":
        share = "half"
    what = f"{share} of the time is {name}"
    if row.bound == "overhead":
        return f"{sentence(what)}; fewer and larger calls would help most"
    if row.bound == "software" and float(row.moved_s) < _LITTLE * total_s:
        return f"{sentence(what)}; a faster network would barely help"
    if 2 * largest_s < total_s:
        second_s, second = max(seconds.values())
        return f"{sentence(what)} and {whole_percent(second_s / total_s)} {second}"
    if row.bound == "bandwidth":
        return f"Bandwidth-bound ({share} of the time)"
    if row.bound == "latency":
        return f"Latency-bound ({share} of the time); more bandwidth would barely help"
    return sentence(what)


def _next(price: Price, row: AlgorithmEstimate) -> str:
    """The row to name after this one: what would be faster and how to run it, else the runner-up."""
    rivals = sorted((rival for rival in price.leading if rival is not row), key=r.seconds)
    if not rivals:
        return ""
    own_s = float(row.total_s)
    error = price.accuracy.median if price.accuracy else 0.0
    rival = rivals[0]
    took = f"{format_time(r.seconds(rival))} ({r.change_text(r.seconds(rival) / own_s - 1)})"
    gain = 1 - r.seconds(rival) / own_s
    # only a pick is not the fastest
    if gain > error and not may_be_as_fast(row, rival):
        if rival.status != "own":
            setting = f": set NCCL_ALGO={_setting(price, rival)}" if price.shows_pick else ""
            return f"{rival.name} would be faster, {took}{setting}"
        before = "" if rival.protocol else " before any library overhead"
        return f"Your own {rival.name} would be faster, {took}{before}"
    following = f"Next: {rival.name}, {took}"
    if gain > 0:
        following = f"{rival.name} might be faster, {took}"
    close = [other for other in rivals if r.seconds(other) <= own_s * (1 + error)]
    # an exact price needs no judgement
    if not close or not row.interval:
        return following
    if len(close) > 1:
        return f"{following}; too close to call, as are {len(close) - 1} more"
    return f"{following}, too close to call"


def _setting(price: Price, row: AlgorithmEstimate) -> str:
    """What NCCL_ALGO calls a row."""
    # a network without nodes has a tree of its own name
    ours = sorted(algorithms_of(row.spec, price.primitive))
    return row.library_name or (ALGORITHM_NAMES[ours[0]] if ours else row.name)


def _size_text(price: Price) -> str:
    return title_size(float(price.bytes))


def _winners_answer(result: PriceList) -> str:
    """Which algorithm runs at which size, how sure that is, and what was asked."""
    prices = result.prices
    if result.crossover is None:
        which = _by_size(prices)
    else:
        # a price at a size needs no crossovers
        from colltool.render.views.crossover import stretches_answer

        which = stretches_answer(result.crossover)
    answer = f"{which} {sentence(r.heading(prices[0], ''))}."
    intervals = []
    for price in prices:
        interval = price.best.interval
        if interval is not None:
            intervals.append((interval, float(price.best.total_s)))
    if intervals:
        return f"{answer} {within_several(intervals)}."
    return answer


def _by_size(prices: Sequence[Price]) -> str:
    """Such as ``NCCL runs Tree up to 16MB and NVLSTree at 256MB and 1GB.``"""
    by_size = sorted(prices, key=lambda price: float(price.bytes))
    sizes = gathered((price.best.name, _size_text(price)) for price in by_size)
    picked = all(price.shows_pick for price in prices)
    verb = f"{r.library_label(prices[0])} runs" if picked else "Fastest:"
    if len(sizes) == 1:
        return f"{verb} {next(iter(sizes))} at every size."
    steps = [f"{name} at {_listed_sizes(at)}" for name, at in sizes.items()]
    return f"{verb} {', '.join(steps[:-1])} and {steps[-1]}."


def _listed_sizes(sizes: Sequence[str]) -> str:
    if len(sizes) > _MOST_SIZES:
        return f"{sizes[0]} to {sizes[-1]} ({len(sizes)} sizes)"
    return ", ".join(sizes)


_MOST_SIZES = 4  # that a sentence lists


# --- all rows


def _all_blocks(prices: tuple[Price, ...], *, sizes: bool) -> list[Block]:
    """The blocks of prices with all rows.

    Selectable rows come first; those of other libraries, and those that no library runs, are in
    tables that the default view leaves out.
    """
    selectable: list[r.Ranked] = []
    others: list[r.Ranked] = []
    unranked: list[r.Ranked] = []
    for price in prices:
        selectable += [r.Ranked(price, row) for row in price.leading]
        for estimate in price.others:
            # class 1: another library runs it; higher classes: none does
            kind = others if estimate.rank_class == 1 else unranked
            kind.append(r.Ranked(price, estimate))
    tables = []
    if selectable:
        tables.append(r.row_table(selectable, "", None if sizes else 0, sizes=sizes, names=True))
    if others:
        title = f"priced, but {r.library_label(prices[0])} does not run these here"
        tables.append(r.row_table(others, title, sizes=sizes, names=True))
    if unranked:
        statuses = {ranked.row.status for ranked in unranked}
        reasons = [why for status, why in r.WHY_NOT_RANKED.items() if status in statuses]
        title = f"not ranked: {'; '.join(reasons)}"
        if statuses == {"reference"}:
            title = "for reference only (no library implements these)"
        tables.append(r.row_table(unranked, title, sizes=sizes, names=True))
    first, *rest = tables
    every = _rows(prices)
    if sizes:
        listed_sizes = PriceList(prices)
        answer = _winners_answer(listed_sizes)
        ranking = [_winners_for_people(listed_sizes), later(first)]
    else:
        answer = _answer(prices[0], prices[0].best)
        ranking = [first._replace(first=_MOST_ROWS, title=_below_zero(prices[0]) or first.title)]
    return [
        Headline(answer),
        *ranking,
        *r.named_anyway(prices),
        *_warnings(prices),
        *_slow_rank(prices),
        *_nearest_used(prices),
        *_faster_elsewhere(prices),
        *_pick_blocks(prices),
        *(rest if prices[0].asked else map(later, rest)),
        _links_table(every, first=0),
        *r.notes(every, prices[0].model, prices, first=0),
        *_cannot_run(prices[0]),
    ]


def _below_zero(price: Price) -> str:
    """What an overhead below 0 means, where the table has one."""
    for estimate in price.leading[:_MOST_ROWS]:
        if float(estimate.rest_s) < -_FELT_GAIN * float(estimate.total_s):
            return "an overhead below 0: this machine was measured to be that much faster"
    return ""


def _rows(prices: Sequence[Price]) -> list[AlgorithmEstimate]:
    rows: list[AlgorithmEstimate] = []
    for price in prices:
        rows += price.results
    return rows


def _cannot_run(price: Price) -> list[Block]:
    reasons = ((reason.reason, reason.algorithm) for reason in price.infeasible)
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
        lines.append(f"SHARP (NCCL_COLLNET_ENABLE=1): {by_sharp.title}, {took}; add {option}")
    shipped = (estimate for estimate in price.results if estimate.status == "shipped")
    fastest_bare = min(shipped, key=_without_software)
    fastest_bare_s = _without_software(fastest_bare)
    # both lines would have the same number
    same_number = bool(lines) and fastest_bare_s == r.seconds(fastest_bare)
    # rows with a protocol are this library's, as measured
    if fastest_bare_s < best_s and not same_number and not price.best.protocol:
        option = localize(argument_text("library", "all"))
        took = format_time(fastest_bare_s)
        lines.append(f"without library overhead: {fastest_bare.title}, {took}; add {option}")
    return listed("faster, but not what runs by default", lines)


def _without_software(row: AlgorithmEstimate) -> float:
    return float(row.total_s - row.software_s)


def _fastest_with_sharp(price: Price) -> AlgorithmEstimate | None:
    """The fastest row that only the CollNet switch keeps from being selected."""
    inside = price.group.per_domain[0]
    for estimate in sorted(price.others, key=r.seconds):
        reason = estimate.not_selected_reason
        if reason is None or reason.code != "collnet_off":
            continue
        rules = (rule for rule in NCCL_ALL_REDUCE if set(rule.by) <= set(estimate.shipped_by))
        if not any(rule.why_not_inside(inside) for rule in rules):
            return estimate
    return None


def _nearest_used(prices: Sequence[Price]) -> list[Block]:
    """Where the library's overhead was not measured at this size or on so many ranks."""
    if len(prices) > 1:
        return []
    notes = prices[0].best.software_time.notes(float(prices[0].bytes))
    return [Lines(note.replace(prices[0].best.spec, prices[0].best.name), ()) for note in notes]


def _warnings(prices: Sequence[Price]) -> list[Block]:
    return listed(
        "warning", (f"{estimate.algorithm}: {estimate.reason}" for estimate in prices[0].failed)
    )


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
        lines.append(f"the fastest is then {name}, {format_time(fastest_s)}")
    lines += lines_by_text(unknown)
    share = f"{slow[0][1].share:g} of their bandwidth"
    title = f"with one slow rank (all its ports and links at {share}; the worst rank for each row)"
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
        return _size_text(self.price)


_SLOW = 1.02  # a pick that takes this many times as long as the fastest is called slow
_PICKS: Columns[_Pick] = (
    number("bytes", "size", title_size, path="price.bytes"),
    label("pick", "NCCL runs", path="name"),
    label("pick_protocol", "protocol", path="estimate.protocol"),
    number("estimate_s", "NCCL's estimate", format_time, path="estimate.seconds"),
    label("priced_as", "priced as", drop=3, path="own.runs.title"),
    number("runs_s", "our price", format_time, drop=1, path="own.runs.total_s"),
    label("fastest", drop=4, path="best_name"),
    number("fastest_s", "fastest total", format_time, drop=5, path="best.total_s"),
    number("of_fastest", "times the fastest", format_factor, drop=2, path="price.slower_pick"),
)


def _pick_of(price: Price, own: LibraryChoice, estimate: NcclEstimate) -> _Pick:
    able = [row for row in price.runnable if row.status != "own"]
    if own.runs is not None:
        able.append(own.runs)
    return _Pick(price, own, estimate, min(able, key=r.seconds, default=price.best))


def _pick_blocks(prices: Sequence[Price]) -> list[Block]:
    """What the library picks at each size, and where that is not the fastest that it has."""
    reasons: dict[str, None] = {}
    picks = []
    for price in prices:
        library = price.library
        if library is not None and library.reason:
            reasons[library.reason] = None
        if library is not None and library.pick is not None:
            picks.append(_pick_of(price, library, library.pick))
    if reasons:
        title = f"{r.library_label(prices[0])}'s own pick is not known here"
        return listed(title, reasons, first=0)
    if not picks:
        return []
    library_choice = picks[0].own
    name = f"{library_choice.name.upper()} {version_label(library_choice.version)}"
    several = len(picks) > 1
    # the answer says it
    in_answer = len(prices) == 1 and prices[0].shows_pick and name.endswith(library_choice.version)
    what = f"runs, by its own cost model: {_picks_text(picks)}"
    out: list[Block] = [Lines(f"{name} {what}", (), first=0 if in_answer else None)]
    slow = (_slow_pick_text(pick, several=several) for pick in picks if _is_slow(pick))
    out += listed("by these prices its pick is not the fastest", slow)
    unknown = dict.fromkeys(pick.name for pick in picks if pick.own.runs is None)
    if unknown:
        names = ", ".join(unknown)
        out.append(Lines(f"{name}'s {names} is not modelled on this group", ()))
    title = f"what {name} runs, by its own cost model"
    return [*out, Table(_PICKS, tuple(picks), title=title, first=0)]


def _picks_text(picks: Sequence[_Pick]) -> str:
    """Such as ``Ring (LL) at 1MB,4MB; Tree (Simple) at 1GB``."""
    chosen = gathered((f"{pick.name} ({pick.estimate.protocol})", pick.size) for pick in picks)
    if len(picks) == 1:
        return next(iter(chosen))
    return "; ".join(f"{name} at {_listed_sizes(sizes)}" for name, sizes in chosen.items())


def _is_slow(pick: _Pick) -> bool:
    factor = pick.price.slower_pick
    if factor is None or factor < _SLOW:
        return False
    return not may_be_as_fast(pick.price.best, pick.best)


def _slow_pick_text(pick: _Pick, *, several: bool) -> str:
    factor = format_factor(pick.price.slower_pick or 1.0)
    text = f"{pick.name} takes {factor} as long as {pick.best_name}"
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
    number("busbw_Bps", "busbw", format_rate, drop=1, path="row.busbw_Bps"),
    label("bound", "bound by", drop=4, path="row.bound"),
    label("protocol", drop=5, path="row.protocol"),
    label("runner_up", "next", drop=2, path="second.title"),
    number("runner_up_s", "its total", format_time, drop=3, path="second.total_s"),
    label("spec", drop=6, hidden=True, path="row.spec"),
)


def _bound_words(bound: str) -> str:
    return {"software": "library overhead", "overhead": "launch"}.get(bound, bound)


_NAMES: dict[str, Column[_SizeWinner]] = {
    "fastest": label("fastest", "algorithm", fold=22, path="name"),
    "bound": label("bound", "bound by", _bound_words, drop=4, path="row.bound"),
    "runner_up": label("runner_up", "next", drop=2, fold=22, path="second_name"),
}


def _winners(result: PriceList, columns: Columns[_SizeWinner] = _WINNER) -> Table:
    """A row per size: the winner and by how much; protocols only where the library has some."""
    records = []
    for price in result.prices:
        rivals = [estimate for estimate in price.leading if estimate is not price.best]
        second = min(rivals, key=r.seconds, default=None)
        records.append(_SizeWinner(price, price.best, second))
    context_columns = r.price_context(result.prices[0])
    table = Table((*context_columns, *columns), tuple(records)).with_shown("bytes")
    if any(record.row.protocol for record in records):
        return table
    return table.without("protocol")


def _winners_for_people(result: PriceList) -> Table:
    columns = tuple(_NAMES.get(column.key, column) for column in _WINNER)
    return _winners(result, columns)._replace(first=_MOST_WINNERS, spread=True)


_MOST_WINNERS = 12  # rows without --all, spread over the sizes


def _sizes_blocks(result: PriceList) -> list[Block]:
    prices = result.prices
    if not result.winners_only:
        return _all_blocks(prices, sizes=len(prices) > 1)
    return [
        Headline(_winners_answer(result)),
        _winners_for_people(result),
        *r.named_anyway(prices),
        *_warnings(prices),
        *map(later, _pick_blocks(prices)),
        *r.notes(_rows(prices), prices[0].model, prices, first=0),
    ]


def _sizes_table(result: PriceList) -> Table:
    return _winners(result) if result.winners_only else r.every_row(result.prices)


def _sizes_summary(result: PriceList) -> str:
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
    title = "the numbers of each tier; alpha and BW are multiplied by their eta"
    return Table(_LINKS, tuple(links), title=title, first=first)


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
    in_phases = sum(float(phase.total_s) for phase in row.phases)
    parts = {
        "overlap of the phases": float(row.steps_s + row.moved_s) - in_phases,
        "launch": float(row.overhead_s),
        f"{r.library_label(price) or 'library'} overhead": float(row.rest_s),
    }
    # less is rounding
    least_s = 1e-9 * float(row.total_s)
    return [_Remainder(part, took) for part, took in parts.items() if abs(took) > least_s]


def _whole_shares(parts: Sequence[_Part], total_s: float) -> dict[int, str]:
    """The share of each part in whole percent, by its id; rounded so that they add up to 100."""
    exact = {id(part): 100 * float(part.total_s) / total_s for part in parts}
    shares = {key: floor(share) for key, share in exact.items()}
    by_loss = sorted(exact, key=lambda key: shares[key] - exact[key])
    for key in by_loss[: 100 - sum(shares.values())]:
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


def _breakdown_blocks(result: Breakdown) -> list[Block]:
    price = result.price
    row = price.results[0]
    answer = _answer(price, row, result.gains)
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
    out.append(_links_table([row], first=0))
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


def _breakdown_summary(result: Breakdown) -> str:
    row = result.price.results[0]
    sums = "; ".join(filter(None, (_sums(result.price), r.slow_words(row.slow))))
    return f"{row.title}: {r.heading(result.price)}\n{sums}"


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
    gains: list[Gain]


def _price_document(result: Price) -> dict[str, Any]:
    if _is_array(result):
        return r.SizeDocument.of(result)
    return _sizes_document([result])


def _sizes_document(prices: Sequence[Price]) -> dict[str, Any]:
    sizes = [r.SizeDocument.of(price) for price in prices]
    if len(sizes) == 1:
        return sizes[0] | {"sizes": sizes}
    return {"sizes": sizes}


def _sizes_list_document(result: PriceList) -> dict[str, Any]:
    if result.winners_only:
        return {"sizes": [r.SizeDocument.of(price) for price in result.prices]}
    return _sizes_document(result.prices)


def _breakdown_document(result: Breakdown) -> dict[str, Any]:
    return BreakdownDocument.of(
        result.price,
        baselines=result.baselines,
        segments=result.segments or LEFT_OUT,
        gains=result.gains,
    )


VIEWS = {
    Price: View("price", _price_blocks, _price_document, _price_table, _summary),
    PriceList: View(
        "price", _sizes_blocks, _sizes_list_document, _sizes_table, _sizes_summary, chart=_chart
    ),
    Breakdown: View(
        "breakdown", _breakdown_blocks, _breakdown_document, _phases, _breakdown_summary
    ),
}
