"""``price``: every algorithm at one or several sizes, and the winner at each size.

Read from :data:`VIEWS`, which names the parts of each result: one size (``_price_*``) or several
(``_sizes_*``). Both begin with a headline (:func:`price_answer`, :func:`_winners_answer`); tables of
all rows come from :func:`_all_blocks`, documents stand last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

from colltool.algorithms.libraries import NCCL_ALL_REDUCE
from colltool.base.errors import argument_text, localize
from colltool.base.formatting import (
    format_count,
    format_factor,
    format_rate,
    format_time,
    sentence,
    title_size,
    whole_bytes,
    whole_percent,
)
from colltool.estimate.algorithm_estimate import AlgorithmEstimate, PhaseCost
from colltool.estimate.results import Gain, LibraryChoice, Price, PriceList
from colltool.libraries.nccl.hardware import version_label
from colltool.libraries.nccl.names import ALGORITHM_NAMES, algorithms_of
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
from colltool.render.dispatch import View, listed, on_fabric
from colltool.render.documents import Document
from colltool.render.intervals import may_be_as_fast, within, within_several

if TYPE_CHECKING:
    from colltool.libraries.nccl.model import NcclEstimate

_MOST_ROWS = 5  # of a ranking without --all


# --- the answer


def price_answer(price: Price, row: AlgorithmEstimate, gains: Sequence[Gain] = ()) -> str:
    """The verdict with its interval, what comes next, what would change it, and what was asked."""
    who = row.name
    if price.shows_pick and row is price.best:
        who += f" ({r.library_label(price)}'s pick)"
    total_s = r.seconds(row)
    took = format_time(total_s)
    off = within(row)
    if off:
        took += f" ({off})"
    sentences = [f"{who}: {took}, busbw {format_rate(float(row.busbw_Bps))}"]
    if price.as_filed_s is not None and row is price.best:
        sentences += _against_the_file(price.as_filed_s, total_s)
    texts = (
        _next(price, row),
        _largest_part(price, row),
        _largest_gains(gains, total_s),
    )
    sentences += filter(None, texts)
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
            verb = " would save"
            # once: half the latency of nvlink 3%
            if texts:
                verb = ""
            texts.append(f"{gain_words(gain)}{verb} {whole_percent(saved)}")
    return sentence(", ".join(texts))


def _is_fixed_latency(row: AlgorithmEstimate, gains: Sequence[Gain]) -> bool:
    """Whether much of a time is latency, of which halving all that the file states saves little."""
    total_s = r.seconds(row)
    latency_s = float(row.steps_s)
    if latency_s <= _LITTLE * total_s:
        return False
    # Of 100 us of latency, half is 50 us. If halving every tier's alpha saves only 10 us, 40 us of the
    # 50 are not the file's: more than 0.7 of them.
    half_s = latency_s / 2
    saved_s = sum(total_s - gain.total_s for gain in gains if gain.kind == "alpha")
    return half_s - saved_s > (1 - _LITTLE) * half_s


def gain_words(gain: Gain) -> str:
    match gain.kind:
        case "bandwidth":
            return f"twice the bandwidth of {gain.tier}"
        case "alpha":
            return f"half the latency of {gain.tier}"
        case "launch_overhead":
            return "half the launch overhead"
        case _:
            assert_never(gain.kind)


_MOST_GAINS = 2  # that the answer names
_FELT_GAIN = 0.01  # share of the total below which nobody notices a gain

_LITTLE = 0.3  # a smaller share of the time is not worth shortening


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
    total_s = r.seconds(row)
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
    own_s = r.seconds(row)
    error = price.accuracy.median if price.accuracy else 0.0
    rival = rivals[0]
    rival_s = r.seconds(rival)
    change = r.change_text(rival_s / own_s - 1)
    took = f"{format_time(rival_s)} ({change})"
    gain = 1 - rival_s / own_s
    # only a pick is not the fastest
    if gain > error and not may_be_as_fast(row, rival):
        name = rival.name
        if rival.status == "own":
            name = f"Your own {name}"
        how = _how_to_run(price, rival)
        return f"{name} would be faster, {took}{how}"
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


def _how_to_run(price: Price, rival: AlgorithmEstimate) -> str:
    """What to set for an algorithm of the library's; of one's own what its price leaves out."""
    if rival.status == "own":
        return "" if rival.protocol else " before any library overhead"
    if price.shows_pick:
        return f": set NCCL_ALGO={_setting(price, rival)}"
    return ""


def _setting(price: Price, row: AlgorithmEstimate) -> str:
    """What NCCL_ALGO calls a row."""
    if row.library_name:
        return row.library_name
    # a network without nodes has a tree of its own name
    ours = sorted(algorithms_of(row.spec, price.primitive))
    if not ours:
        return row.name
    return ALGORITHM_NAMES[ours[0]]


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
            intervals.append((interval, r.seconds(price.best)))
    if intervals:
        return f"{answer} {within_several(intervals)}."
    return answer


def _by_size(prices: Sequence[Price]) -> str:
    """Such as ``NCCL runs Tree up to 16MB and NVLSTree at 256MB and 1GB.``"""
    pairs = []
    for price in sorted(prices, key=lambda price: float(price.bytes)):
        pairs.append((price.best.name, _size_text(price)))
    verb = "Fastest:"
    if all(price.shows_pick for price in prices):
        verb = f"{r.library_label(prices[0])} runs"
    texts = _at_sizes(pairs)
    if len(texts) == 1:
        return f"{verb} {prices[0].best.name} at every size."
    *others, last = texts
    return f"{verb} {', '.join(others)} and {last}."


def _at_sizes(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """``Tree at 1MB, 4MB`` of names and sizes, for each name."""
    return [f"{name} at {_listed_sizes(sizes)}" for name, sizes in gathered(pairs).items()]


def _listed_sizes(sizes: Sequence[str]) -> str:
    """``1KB, 4KB``; of many ``1KB to 1GB (12 sizes)``."""
    if len(sizes) > _MOST_SIZES:
        return f"{sizes[0]} to {sizes[-1]} ({len(sizes)} sizes)"
    return ", ".join(sizes)


_MOST_SIZES = 4  # that a sentence lists


# --- all rows


def _all_blocks(prices: tuple[Price, ...], *, sizes: bool) -> list[Block]:
    """The blocks of prices with all rows; ``sizes``: of several sizes, whose winners come first."""
    price = prices[0]
    ranking, *more_tables = _row_tables(prices, sizes=sizes)
    every = _rows(prices)
    if sizes:
        listed_sizes = PriceList(prices)
        answer = _winners_answer(listed_sizes)
        first_tables = [_winners_for_people(listed_sizes), later(ranking)]
    else:
        answer = price_answer(price, price.best)
        title = _below_zero(price) or ranking.title
        first_tables = [ranking._replace(first=_MOST_ROWS, title=title)]
    return [
        Headline(answer),
        *first_tables,
        *r.named_anyway(prices),
        *_warnings(prices),
        *_slow_rank(prices),
        *_nearest_used(prices),
        *_faster_elsewhere(prices),
        *_pick_blocks(prices),
        *(more_tables if price.asked else map(later, more_tables)),
        links_table(every, first=0),
        *r.notes(every, price.model, prices, first=0),
        *_cannot_run(price),
    ]


def _row_tables(prices: tuple[Price, ...], *, sizes: bool) -> list[Table]:
    """The tables of all rows: those that the library can select, those of other libraries, and those
    that no library runs, as far as there are any."""
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
        title = f"priced, but {r.library_label(prices[0])} does not run these here"
        tables.append(r.row_table(others, title, sizes=sizes, names=True))
    if unranked:
        tables.append(r.row_table(unranked, _why_unranked(unranked), sizes=sizes, names=True))
    return tables


def _why_unranked(rows: Sequence[r.Ranked]) -> str:
    statuses = {ranked.row.status for ranked in rows}
    if statuses == {"reference"}:
        return "for reference only (no library implements these)"
    reasons = [why for status, why in r.WHY_NOT_RANKED.items() if status in statuses]
    return f"not ranked: {'; '.join(reasons)}"


def _below_zero(price: Price) -> str:
    """What an overhead below 0 means, where the table has one."""
    for estimate in price.leading[:_MOST_ROWS]:
        least_s = -_FELT_GAIN * r.seconds(estimate)
        if float(estimate.rest_s) < least_s:
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
    best_s = r.seconds(price.best)
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
    price = prices[0]
    best = price.best
    notes = best.software_time.notes(float(price.bytes))
    return [Lines(note.replace(best.spec, best.name), ()) for note in notes]


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
        if row.selectable and late.total_s is not None:
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
    label("fastest", drop=4, path="best.name"),
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
    runs = f"{name} runs, by its own cost model: {_picks_text(picks)}"
    out: list[Block] = [Lines(runs, (), first=0 if in_answer else None)]
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
    pairs = [(f"{pick.name} ({pick.estimate.protocol})", pick.size) for pick in picks]
    if len(pairs) == 1:
        return pairs[0][0]
    return "; ".join(_at_sizes(pairs))


def _is_slow(pick: _Pick) -> bool:
    factor = pick.price.slower_pick
    if factor is None or factor < _SLOW:
        return False
    return not may_be_as_fast(pick.price.best, pick.best)


def _slow_pick_text(pick: _Pick, *, several: bool) -> str:
    factor = format_factor(pick.price.slower_pick or 1.0)
    text = f"{pick.name} takes {factor} as long as {pick.best.name}"
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
    "fastest": label("fastest", "algorithm", fold=22, path="row.name"),
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
        return curve.name not in leaders, -curve.highest

    drawn = tuple(sorted(curves(points), key=rank))
    return BusbwChart(title, drawn)


# --- one price; its size may be an array


def _is_array(price: Price) -> bool:
    return hasattr(price.bytes, "__len__")


def _price_blocks(result: Price) -> list[Block]:
    return _all_blocks(tuple(r.at_each_size(result)), sizes=_is_array(result))


def _price_table(result: Price) -> Table:
    return r.every_row(tuple(r.at_each_size(result)))


def _summary(result: Price) -> str:
    if _is_array(result):
        sizes: Any = result.bytes
        count = f"{len(result.results)} algorithms at {len(sizes)} sizes"
        return f"{r.heading(result, '')}: {count}"
    best = result.best
    took = format_time(float(best.total_s))
    rate = format_rate(float(best.busbw_Bps))
    return f"{r.heading(result)}: {best.title}, {took}, busbw {rate}"


# --- the numbers of tiers


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
    """What a phase runs on. Its time is all that a phase knows: 4 steps that take 8 us at an η of 1
    are 2 us of latency each."""
    steps = float(phase.n_alpha * phase.eta_alpha)
    # rounded, so that phases of one tier agree
    alpha_s = float(f"{float(phase.alpha_s) / steps:.9g}") if steps else None
    return _Link(
        phase.tier,
        phase.level,
        alpha_s=alpha_s,
        bandwidth_Bps=float(phase.bandwidth_Bps),
        eta_alpha=float(phase.eta_alpha),
        eta_beta=float(phase.eta_beta),
    )


def links_table(rows: Sequence[AlgorithmEstimate], first: int | None = None) -> Table:
    """Alpha, bandwidth and eta of each tier, recovered from the phases of rows."""
    links: dict[_Link, None] = {}
    for row in rows:
        links |= dict.fromkeys(map(_link, row.phases))
    title = "the numbers of each tier; alpha and BW are multiplied by their eta"
    return Table(_LINKS, tuple(links), title=title, first=first)


# --- documents


class PricesDocument(Document):
    """The prices at several sizes."""

    sizes: list[r.SizeDocument]


class PriceDocument(r.SizeDocument, PricesDocument):
    """The prices at a single size, which has its fields at the top as well, for readers of older
    documents."""


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


VIEWS = {
    Price: View("price", _price_blocks, _price_document, _price_table, _summary),
    PriceList: View(
        "price", _sizes_blocks, _sizes_list_document, _sizes_table, _sizes_summary, chart=_chart
    ),
}
