"""``price`` at several sizes: which algorithm wins at which, as a sentence, a table and a chart.

``price`` asks for these only where there are several sizes. A price's ``best`` is what the library
picks at its size where that is known (``shows_pick``), else the fastest; ``leading`` are the rows that may be called
the fastest. Each function takes the whole list of prices, which has one at least.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from colltool.base.formatting import format_rate, format_time, sentence, title_size
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.results import Price, PriceList
from colltool.render import estimates
from colltool.render.blocks import Column, Columns, Table, label, number
from colltool.render.busbw_chart import BusbwChart, BusbwCurve, curves
from colltool.render.dispatch import on_fabric
from colltool.render.intervals import within_several
from colltool.render.views.price_answer import names_at_sizes

_MOST_WINNERS = 12  # rows without --all, spread over the sizes


# --- the answer


def sizes_answer(result: PriceList) -> str:
    """Which algorithm runs at which size, how sure that is, and what was asked."""
    prices = result.prices
    if result.crossover is None:
        winners = _winners_text(prices)
    else:
        # a price at a few sizes has no crossovers, and need not load them
        from colltool.render.views.crossover import ranges_answer

        winners = ranges_answer(result.crossover)
    # the prices differ in their size alone, which the heading leaves out
    question = sentence(estimates.heading(prices[0], sizes=""))
    answer = f"{winners} {question}."
    intervals = []
    for price in prices:
        interval = price.best.interval
        if interval is not None:
            intervals.append((interval, estimates.seconds(price.best)))
    if intervals:
        return f"{answer} {within_several(intervals)}."
    return answer


def _winners_text(prices: Sequence[Price]) -> str:
    """``NCCL runs Tree at 1MB, 16MB and NVLSTree at 256MB, 1GB.``"""
    winners = []
    for price in sorted(prices, key=lambda price: float(price.bytes)):
        size = title_size(float(price.bytes))
        winners.append((price.best.name, size))
    opening = "Fastest:"
    if all(price.shows_pick for price in prices):
        opening = f"{estimates.library_label(prices[0])} runs"
    texts = names_at_sizes(winners)
    if len(texts) == 1:
        return f"{opening} {prices[0].best.name} at every size."
    *others, largest = texts
    return f"{opening} {', '.join(others)} and {largest}."


# --- the table


class _SizeWinner(NamedTuple):
    """The best row at a size, and the fastest of the others that may lead; None where there is none.

    Where the best is the library's pick, the second may be faster.
    """

    price: Price
    row: AlgorithmEstimate
    second: AlgorithmEstimate | None


# for CSV and ``to_columns()``: colltool's own names; on the screen _FOR_PEOPLE replaces some
_COLUMNS: Columns[_SizeWinner] = (
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
    """What bounds a row, in words for the screen where the key of CSV says too little."""
    return {"software": "library overhead", "overhead": "launch"}.get(bound, bound)


# the columns of the screen with these keys: the library's names and words in place of colltool's
_FOR_PEOPLE: dict[str, Column[_SizeWinner]] = {
    "fastest": label("fastest", "algorithm", fold=22, path="row.name"),
    "bound": label("bound", "bound by", _bound_words, drop=4, path="row.bound"),
    "runner_up": label("runner_up", "next", drop=2, fold=22, path="second.name"),
}


def winners_table(
    result: PriceList,
    columns: Columns[_SizeWinner] = _COLUMNS,
) -> Table:
    """A row for each size: the winner, and the fastest of the others that may lead, with its time. Protocols only
    where the winners have some."""
    winners = []
    for price in result.prices:
        rivals = [estimate for estimate in price.leading if estimate is not price.best]
        second = min(rivals, key=estimates.seconds, default=None)
        winners.append(_SizeWinner(price, price.best, second))
    context_columns = estimates.price_context(result.prices[0])
    # of what was priced only the size is shown, as it alone differs
    table = Table((*context_columns, *columns), tuple(winners)).with_shown("bytes")
    if any(winner.row.protocol for winner in winners):
        return table
    return table.without("protocol")


def winners_for_people(result: PriceList) -> Table:
    """The table in the library's names; its default view has sizes from the whole range."""
    columns = tuple(_FOR_PEOPLE.get(column.key, column) for column in _COLUMNS)
    return winners_table(result, columns)._replace(first=_MOST_WINNERS, spread=True)


# --- the chart


def busbw_chart(result: PriceList) -> BusbwChart:
    """Bus bandwidth over size of every row that may lead, the winners' curves first. At a size where none may,
    all rows are drawn."""
    prices = result.prices
    first = prices[0]
    where = on_fabric(first.fabric, first.overrides)
    title = f"{first.primitive.label} on {where}, {first.group.label}"
    if result.winners_only:
        # A price has the two fastest rows of its size alone, so that no algorithm has a curve over all sizes:
        # one curve follows what is selected at each.
        selected = []
        for price in prices:
            selected.append(("selected", float(price.bytes), float(price.best.busbw_Bps)))
        return BusbwChart(title, curves(selected))
    winners = {price.best.name for price in prices}
    points = []
    for price in prices:
        rows = price.leading or price.results
        points += [(row.name, float(price.bytes), float(row.busbw_Bps)) for row in rows]

    def winners_first(curve: BusbwCurve) -> tuple[bool, float]:
        # False sorts before True; among winners, and among others, the highest first
        return curve.name not in winners, -curve.highest

    ordered = sorted(curves(points), key=winners_first)
    return BusbwChart(title, tuple(ordered))
