"""``price``: every algorithm at one or several sizes.

:data:`VIEWS`, at the end, names what is read for each result: a :class:`PriceList` has one
:class:`Price` a size, and is what the command line makes; a :class:`Price` alone comes from Python,
and its size may be an array. Both are shown by :func:`_all_blocks`. Its answer is in
``price_answer``, the winner at each of several sizes in ``price_sizes``.

A row is an algorithm's price at one size. Of a price, ``leading`` are the rows that may be called the
fastest: what the user can run (``runnable``), or what was named (``asked``); ``others`` are the rest.
``results`` has the leading ones first, and ``best`` is its first row: what the library picks where that is
known (``shows_pick``), else the fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.algorithms.libraries import NCCL_ALL_REDUCE
from colltool.base.errors import argument_text, localize
from colltool.base.formatting import (
    format_count,
    format_factor,
    format_rate,
    format_time,
    title_size,
)
from colltool.estimate.algorithm_estimate import AlgorithmEstimate, PhaseCost
from colltool.estimate.results import LibraryChoice, Price, PriceList
from colltool.libraries.nccl.hardware import version_label
from colltool.libraries.nccl.names import ALGORITHM_NAMES
from colltool.render import estimates
from colltool.render.blocks import (
    Block,
    Columns,
    Headline,
    Lines,
    Table,
    label,
    later,
    lines_by_names,
    lines_by_text,
    number,
)
from colltool.render.dispatch import View, listed
from colltool.render.documents import Document
from colltool.render.intervals import may_be_as_fast
from colltool.render.not_ranked import WHY_NOT_RANKED

if TYPE_CHECKING:
    from colltool.libraries.nccl.model import NcclEstimate
    from colltool.render.busbw_chart import BusbwChart

_MOST_ROWS = 5  # of a ranking without --all
_VISIBLE = 0.01  # share of the total from which on an overhead below 0 is explained
_SLOW = 1.02  # a pick that takes this many times as long as the fastest is called slow


# --- all rows


def _all_blocks(prices: tuple[Price, ...], *, by_size: bool) -> list[Block]:
    """The blocks of prices, one a size; ``by_size``: the winner at each size comes first."""
    # for what is the same at all sizes
    price = prices[0]
    ranking, *more_tables = _row_tables(prices, by_size=by_size)
    rows = _rows(prices)
    # JSON says no sentences: their modules load where they are shown
    if by_size:
        from colltool.render.views.price_sizes import sizes_answer, winners_for_people

        price_list = PriceList(prices)
        answer = sizes_answer(price_list)
        first_tables = [winners_for_people(price_list), later(ranking)]
    else:
        from colltool.render.views.price_answer import price_answer

        answer = price_answer(price, price.best)
        title = _below_zero_title(price) or ranking.title
        first_tables = [ranking._replace(first=_MOST_ROWS, title=title)]
    # rows that may not lead are shown at once where they were asked for by name
    behind = more_tables if price.asked else map(later, more_tables)
    return [
        Headline(answer),
        *first_tables,
        *estimates.named_anyway(prices),
        *_warning_blocks(prices),
        *_slow_rank_blocks(prices),
        *_nearest_used_blocks(prices),
        *_faster_elsewhere_blocks(prices),
        *_pick_blocks(prices),
        *behind,
        links_table(rows, first=0),
        *estimates.notes(rows, price.model, prices, first=0),
        *_cannot_run_blocks(price),
    ]


def _row_tables(prices: Sequence[Price], *, by_size: bool) -> list[Table]:
    """The tables of all rows: those that the library can select, those of other libraries, and those
    that no library runs, as far as there are any; one at least."""
    selectable: list[estimates.Ranked] = []
    others: list[estimates.Ranked] = []
    unranked: list[estimates.Ranked] = []
    for price in prices:
        selectable += [estimates.Ranked(price, row) for row in price.leading]
        for row in price.others:
            # class 1: another library runs it; higher classes: none does
            kind = others if row.rank_class == 1 else unranked
            kind.append(estimates.Ranked(price, row))
    row_table = partial(estimates.row_table, sizes=by_size, names=True)
    tables = []
    if selectable:
        # the first row of a single size is the one to highlight
        tables.append(row_table(selectable, best=None if by_size else 0))
    if others:
        library = estimates.library_label(prices[0])
        tables.append(row_table(others, f"priced, but {library} does not run these here"))
    if unranked:
        tables.append(row_table(unranked, _unranked_title(unranked)))
    return tables


def _unranked_title(unranked: Sequence[estimates.Ranked]) -> str:
    """Title of the table of rows that no library runs."""
    statuses = {ranked.row.status for ranked in unranked}
    if statuses == {"reference"}:
        return "for reference only (no library implements these)"
    reasons = [why for status, why in WHY_NOT_RANKED.items() if status in statuses]
    return f"not ranked: {'; '.join(reasons)}"


def _below_zero_title(price: Price) -> str:
    """Title of the ranking that says what an overhead below 0 means; empty where its first rows have none."""
    for estimate in price.leading[:_MOST_ROWS]:
        if float(estimate.rest_s) < -_VISIBLE * estimates.seconds(estimate):
            return "an overhead below 0: this machine was measured to be that much faster"
    return ""


def _rows(prices: Sequence[Price]) -> list[AlgorithmEstimate]:
    """The rows of all sizes."""
    rows: list[AlgorithmEstimate] = []
    for price in prices:
        rows += price.results
    return rows


def _cannot_run_blocks(price: Price) -> list[Block]:
    """Algorithms that cannot run there, by the reason."""
    reasons = ((refused.reason, refused.algorithm) for refused in price.infeasible)
    return listed("cannot run here", lines_by_names(reasons), first=0)


def _faster_elsewhere_blocks(prices: Sequence[Price]) -> list[Block]:
    """What would be faster at a single size: with SHARP switched on, or without the library's own
    overhead."""
    price = prices[0]
    if len(prices) > 1 or not price.runnable or price.library is None:
        return []
    best_s = estimates.seconds(price.best)
    lines: list[str] = []
    by_sharp = _fastest_with_sharp(price)
    if by_sharp is not None and estimates.seconds(by_sharp) < best_s:
        option = localize(argument_text("overrides", ["library.collnet=true"]))
        time = format_time(estimates.seconds(by_sharp))
        lines.append(f"SHARP (NCCL_COLLNET_ENABLE=1): {by_sharp.title}, {time}; add {option}")
    shipped = (estimate for estimate in price.results if estimate.status == "shipped")
    fastest_bare = min(shipped, key=_without_software)
    bare_s = _without_software(fastest_bare)
    # where that row has no overhead, the line would repeat the number of the line before
    repeats_sharp = bool(lines) and bare_s == estimates.seconds(fastest_bare)
    # rows with a protocol are this library's, as measured: there is none without its overhead
    if bare_s < best_s and not repeats_sharp and not price.best.protocol:
        option = localize(argument_text("library", "all"))
        time = format_time(bare_s)
        lines.append(f"without library overhead: {fastest_bare.title}, {time}; add {option}")
    return listed("faster, but not what runs by default", lines)


def _without_software(row: AlgorithmEstimate) -> float:
    """Seconds of a row without what the library and the machine add."""
    return float(row.total_s - row.software_s)


def _fastest_with_sharp(price: Price) -> AlgorithmEstimate | None:
    """The fastest row that NCCL would run if CollNet were on; None without one. A row that one of NCCL's
    rules excludes on so many ranks a node is none."""
    ranks_per_node = price.group.per_domain[0]
    for estimate in sorted(price.others, key=estimates.seconds):
        reason = estimate.not_selected_reason
        if reason is None or reason.code != "collnet_off":
            continue
        rules = (rule for rule in NCCL_ALL_REDUCE if set(rule.by) <= set(estimate.shipped_by))
        if not any(rule.why_not_inside(ranks_per_node) for rule in rules):
            return estimate
    return None


def _nearest_used_blocks(prices: Sequence[Price]) -> list[Block]:
    """Notes on a single size, where the library's overhead was measured at other sizes or rank counts only
    and the nearest was used."""
    if len(prices) > 1:
        return []
    price = prices[0]
    best = price.best
    notes = best.software_time.notes(float(price.bytes))
    return [Lines(note.replace(best.spec, best.name), ()) for note in notes]


def _warning_blocks(prices: Sequence[Price]) -> list[Block]:
    """Plugins that offered nothing usable, which are the same at all sizes."""
    return listed(
        "warning", (f"{plugin.algorithm}: {plugin.reason}" for plugin in prices[0].failed)
    )


def _slow_rank_blocks(prices: Sequence[Price]) -> list[Block]:
    """With one slow rank: which row is the fastest of a single size, and why some rows have no time. Empty
    where no slow rank was asked for."""
    selectable = []
    unknown = []
    share = None
    for row in _rows(prices):
        if row.slow is None:
            continue
        share = row.slow.share  # the one that was asked for, in all rows
        if row.selectable and row.slow.total_s is not None:
            selectable.append((row.slow.total_s, row.name))
        if row.slow.reason:
            unknown.append((f"not known, {row.slow.reason}", row.title))
    if share is None:
        return []
    lines = []
    if selectable and len(prices) == 1:
        fastest_s, name = min(selectable)
        lines.append(f"the fastest is then {name}, {format_time(fastest_s)}")
    lines += lines_by_text(unknown)
    slow = f"all its ports and links at {share:g} of their bandwidth"
    return [Lines(f"with one slow rank ({slow}; the worst rank for each row)", tuple(lines))]


# --- what the library itself picks


class _Pick(NamedTuple):
    """What the library picks at a size, by its own cost model."""

    price: Price
    choice: LibraryChoice  # ``runs``: our price of the pick, None where it is not modelled
    estimate: NcclEstimate  # the library's own of its pick
    fastest: AlgorithmEstimate  # by our prices, of what the library has, its pick included

    @property
    def name(self) -> str:
        """``Tree``: NCCL's name."""
        return ALGORITHM_NAMES.get(self.estimate.algorithm, self.estimate.algorithm)

    @property
    def size(self) -> str:
        return title_size(float(self.price.bytes))


_PICKS: Columns[_Pick] = (
    number("bytes", "size", title_size, path="price.bytes"),
    label("pick", "NCCL runs", path="name"),
    label("pick_protocol", "protocol", path="estimate.protocol"),
    number("estimate_s", "NCCL's estimate", format_time, path="estimate.seconds"),
    label("priced_as", "priced as", drop=3, path="choice.runs.title"),
    number("runs_s", "our price", format_time, drop=1, path="choice.runs.total_s"),
    label("fastest", drop=4, path="fastest.name"),
    number("fastest_s", "fastest total", format_time, drop=5, path="fastest.total_s"),
    number("of_fastest", "times the fastest", format_factor, drop=2, path="price.slower_pick"),
)


def _pick_of(price: Price, choice: LibraryChoice, estimate: NcclEstimate) -> _Pick:
    """The row of a price; ``choice`` and ``estimate`` are the price's own, neither of them None."""
    # the user's own schedules are not the library's to pick
    pickable = [row for row in price.runnable if row.status != "own"]
    if choice.runs is not None:
        pickable.append(choice.runs)
    fastest = min(pickable, key=estimates.seconds, default=price.best)
    return _Pick(price, choice, estimate, fastest)


def _pick_blocks(prices: Sequence[Price]) -> list[Block]:
    """What the library picks at each size, and where that is not the fastest that it has; or why its pick is
    not known. Empty where neither is, as for any library."""
    reasons: dict[str, None] = {}
    picks = []
    for price in prices:
        choice = price.library
        if choice is not None and choice.reason:
            reasons[choice.reason] = None
        if choice is not None and choice.pick is not None:
            picks.append(_pick_of(price, choice, choice.pick))
    if reasons:
        title = f"{estimates.library_label(prices[0])}'s own pick is not known here"
        return listed(title, reasons, first=0)
    if not picks:
        return []
    version = picks[0].choice.version
    label_of_version = version_label(version)
    library = f"{picks[0].choice.name.upper()} {label_of_version}"
    # the answer of a single size names the pick; it does not say that the numbers are a pre-release's
    is_release = label_of_version == version
    in_answer = len(prices) == 1 and prices[0].shows_pick and is_release
    runs = f"{library} runs, by its own cost model: {_picks_text(picks)}"
    blocks: list[Block] = [Lines(runs, (), first=0 if in_answer else None)]
    slow = [pick for pick in picks if _is_slow(pick)]
    texts = list(map(_slow_pick_text, slow))
    if len(picks) > 1:
        texts = [f"{pick.size}: {_slow_pick_text(pick)}" for pick in slow]
    blocks += listed("by these prices its pick is not the fastest", texts)
    unpriced = dict.fromkeys(pick.name for pick in picks if pick.choice.runs is None)
    if unpriced:
        names = ", ".join(unpriced)
        blocks.append(Lines(f"{library}'s {names} is not modelled on this group", ()))
    title = f"what {library} runs, by its own cost model"
    return [*blocks, Table(_PICKS, tuple(picks), title=title, first=0)]


def _picks_text(picks: Sequence[_Pick]) -> str:
    """``Ring (LL) at 1MB, 4MB; Tree (Simple) at 1GB``; at a single size without it."""
    pairs = [(f"{pick.name} ({pick.estimate.protocol})", pick.size) for pick in picks]
    if len(pairs) == 1:
        return pairs[0][0]
    from colltool.render.views.price_answer import names_at_sizes

    return "; ".join(names_at_sizes(pairs))


def _is_slow(pick: _Pick) -> bool:
    """Whether the pick is slower than the fastest by more than the error of the prices."""
    factor = pick.price.slower_pick
    if factor is None or factor < _SLOW:
        return False
    return not may_be_as_fast(pick.price.best, pick.fastest)


def _slow_pick_text(pick: _Pick) -> str:
    """``Ring takes 1.3x as long as Tree``, of a pick with a price (else slower_pick is None)."""
    factor = format_factor(pick.price.slower_pick or 1.0)
    return f"{pick.name} takes {factor} as long as {pick.fastest.name}"


# --- prices at one or several sizes


def _sizes_blocks(result: PriceList) -> list[Block]:
    """The blocks of a list: of all rows, or of the winners alone where no sizes were named."""
    prices = result.prices
    if not result.winners_only:
        return _all_blocks(prices, by_size=len(prices) > 1)
    from colltool.render.views.price_sizes import sizes_answer, winners_for_people

    return [
        Headline(sizes_answer(result)),
        winners_for_people(result),
        *estimates.named_anyway(prices),
        *_warning_blocks(prices),
        *map(later, _pick_blocks(prices)),
        *estimates.notes(_rows(prices), prices[0].model, prices, first=0),
    ]


def _sizes_table(result: PriceList) -> Table:
    if not result.winners_only:
        return estimates.every_row(result.prices)
    from colltool.render.views.price_sizes import winners_table

    return winners_table(result)


def _sizes_summary(result: PriceList) -> str:
    """The answer at a single size, or which algorithms are the fastest at several."""
    if len(result.prices) == 1:
        return _summary(result.prices[0])
    names = dict.fromkeys(price.best.title for price in result.prices)
    heading = estimates.heading(result.prices[0], f"{len(result.prices)} sizes, ")
    return f"{heading}: fastest {', then '.join(names)}"


def _chart(result: PriceList) -> BusbwChart:
    from colltool.render.views.price_sizes import busbw_chart

    return busbw_chart(result)


# --- one price; its size may be an array


def _is_array(price: Price) -> bool:
    return hasattr(price.bytes, "__len__")


def _price_blocks(result: Price) -> list[Block]:
    return _all_blocks(tuple(estimates.at_each_size(result)), by_size=_is_array(result))


def _price_table(result: Price) -> Table:
    return estimates.every_row(tuple(estimates.at_each_size(result)))


def _summary(result: Price) -> str:
    """The best row at a single size; of an array only how many rows and sizes there are."""
    if _is_array(result):
        sizes: Any = result.bytes
        count = f"{len(result.results)} algorithms at {len(sizes)} sizes"
        return f"{estimates.heading(result, '')}: {count}"
    best = result.best
    time = format_time(float(best.total_s))
    rate = format_rate(float(best.busbw_Bps))
    return f"{estimates.heading(result)}: {best.title}, {time}, busbw {rate}"


# --- the numbers of tiers


class _Link(NamedTuple):
    """The numbers of a tier, or of a level of switches within it, before contention."""

    tier: str
    level: str
    alpha_s: float | None  # of one step; None where a phase has no steps
    bandwidth_Bps: float  # of an endpoint
    eta_alpha: float  # contention multiplies alpha by this, and the bandwidth by the next
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
    """The numbers of the tier that a phase runs on. Alpha follows from the time of all its steps: 4 that take
    8 us at an eta of 1 are 2 us each."""
    steps = float(phase.n_alpha * phase.eta_alpha)
    alpha_s = None
    if steps:
        # rounded to 9 digits, so that phases of one tier agree and become one row
        alpha_s = float(f"{float(phase.alpha_s) / steps:.9g}")
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

    sizes: list[estimates.SizeDocument]


class PriceDocument(estimates.SizeDocument, PricesDocument):
    """The prices at a single size, which has its fields at the top as well, for readers of older
    documents."""


def _price_document(result: Price) -> dict[str, Any]:
    if _is_array(result):
        return estimates.SizeDocument.of(result)
    return _sizes_document([result])


def _sizes_document(prices: Sequence[Price]) -> dict[str, Any]:
    """The prices; a single one has its keys at the top as well."""
    sizes = [estimates.SizeDocument.of(price) for price in prices]
    if len(sizes) == 1:
        return sizes[0] | {"sizes": sizes}
    return {"sizes": sizes}


def _sizes_list_document(result: PriceList) -> dict[str, Any]:
    if result.winners_only:
        return {"sizes": [estimates.SizeDocument.of(price) for price in result.prices]}
    return _sizes_document(result.prices)


VIEWS = {
    Price: View("price", _price_blocks, _price_document, _price_table, _summary),
    PriceList: View(
        "price", _sizes_blocks, _sizes_list_document, _sizes_table, _sizes_summary, chart=_chart
    ),
}
