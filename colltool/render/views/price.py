"""``price``: every schedule of one size or of several, or the winner and runner-up at each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from colltool.base.formatting import format_rate, format_time
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.results import Price, PriceList
from colltool.render import estimate_columns as r
from colltool.render.blocks import Block, Lines, Table, label, number
from colltool.render.slow import slow_rank
from colltool.render.view import Document, View


def _blocks(result: Price) -> list[Block]:
    if hasattr(result.bytes, "__len__"):
        return _several(tuple(r.at_each_size(result)))
    return _all([result], r.heading(result), best=0)


def _all(prices: Sequence[Price], heading: str, *, best: int | None = None, sizes: bool = False) -> list[Block]:
    """The ranking, what the library picks, then what does not lead, notes, and what cannot run."""
    first, *others = _tables(prices, heading, best=best, sizes=sizes)
    every = [row for one in prices for row in one.results]
    return [
        first,
        *slow_rank(prices),
        *_picks(prices),
        *others,
        *r.notes(every, prices[0].model, prices),
        *r.cannot(prices[0].infeasible),
    ]


def _tables(prices: Sequence[Price], heading: str, *, best: int | None = None, sizes: bool = False) -> list[Block]:
    """What leads, what other libraries run, what nobody runs: the first of them under the heading."""
    first = prices[0]
    leads = [r.Ranked(one, row) for one in prices for row in one.leading]
    others, nobody_s = ([r.Ranked(one, row) for one in prices for row in r.apart(one)[index]] for index in (0, 1))
    named = [(leads, ""), (others, r.elsewhere_title(first)), (nobody_s, r.unranked_title([one.row for one in nobody_s]))]
    shown = [(rows, title) for rows, title in named if rows]
    return [
        r.row_table(
            rows, ": ".join(filter(None, (heading if not at else "", title))), best if rows is leads else None, sizes=sizes
        )
        for at, (rows, title) in enumerate(shown)
    ]


def _picks(prices: Sequence[Price]) -> list[Block]:
    """What the library would run; why that is not known."""
    reasons = list(dict.fromkeys(one.library.reason for one in prices if one.library and one.library.reason))
    if reasons:
        return [Lines(f"what {r.spoken(prices[0])} picks is not known here", tuple(reasons))]
    if all(one.library is None or one.library.pick is None for one in prices):
        return []
    from colltool.render.picks import pick_blocks  # loads a library's model, which few prices ask for

    return pick_blocks(prices)


def _several(prices: Sequence[Price]) -> list[Block]:
    """One table of all sizes, to read down a column; what may not lead in one of its own."""
    first = prices[0]
    return _all(prices, r.heading_of_all(first, f"{len(prices)} sizes, "), sizes=True)


def _table(result: Price) -> Table:
    return _every_row(tuple(r.at_each_size(result)))


def _every_row(prices: Sequence[Price]) -> Table:
    ranked = [r.Ranked(one, row) for one in prices for row in sorted(one.results, key=_as_ranked)]
    return r.row_table(ranked, sizes=len(prices) > 1)


def _as_ranked(row: AlgorithmEstimate) -> tuple[int, float]:
    """What leads first, the fastest of them first; an array of sizes has its rows in registry order."""
    return row.rank_class, float(row.total_s)


def _document(result: Price) -> Document:
    """An array of sizes has its numbers as lists."""
    return r.price_fields(result) if hasattr(result.bytes, "__len__") else _one_shape([result])


def _one_shape(prices: Sequence[Price]) -> Document:
    """``sizes`` whatever their number; of a single one its fields at the top too, where they stood before there were several."""
    sizes = [r.price_fields(one) for one in prices]
    return (sizes[0] if len(sizes) == 1 else {}) | {"sizes": sizes}


def _summary(result: Price) -> str:
    name = r.heading_of_all(result) if hasattr(result.bytes, "__len__") else r.heading(result)
    if hasattr(result.bytes, "__len__"):
        return f"{name}: {len(result.results)} algorithms at {len(result.bytes)} sizes"
    best = result.best
    return f"{name}: {best.title}, {format_time(float(best.total_s))}, busbw {format_rate(float(best.busbw_Bps))}"


class _Winner(NamedTuple):
    """The fastest of a size and who comes next."""

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
    number("runner_up_s", "its total", format_time, 3, get=lambda one: one.second and float(one.second.total_s)),
    label("spec", "spec", drop=6, get=lambda one: one.row.spec, hidden=True),
)


def _winners(result: PriceList, title: str = "") -> Table:
    first = result.prices[0]
    records = tuple(_Winner(one, one.results[0], one.results[1] if len(one.results) > 1 else None) for one in result.prices)
    columns = (*r.context(first), *_WINNER)
    idle = () if any(one.row.protocol for one in records) else ("protocol",)
    return Table(columns, records, None, title).with_shown("bytes").without(*idle)


def _list_blocks(result: PriceList) -> list[Block]:
    if not result.winners_only:
        return _blocks(result.prices[0]) if len(result.prices) == 1 else _several(result.prices)
    first = result.prices[0]
    rows = [row for one in result.prices for row in one.results]
    return [_winners(result, r.heading_of_all(first)), *_picks(result.prices), *r.notes(rows, first.model, result.prices)]


def _list_table(result: PriceList) -> Table:
    return _winners(result) if result.winners_only else _every_row(result.prices)


def _list_document(result: PriceList) -> Document:
    if result.winners_only:
        return {"sizes": [r.price_fields(one) for one in result.prices]}
    return _one_shape(result.prices)


def _list_summary(result: PriceList) -> str:
    first = result.prices[0]
    if len(result.prices) == 1:
        return _summary(first)
    names = list(dict.fromkeys(one.best.title for one in result.prices))
    return f"{r.heading_of_all(first, f'{len(result.prices)} sizes, ')}: fastest {', then '.join(names)}"


VIEWS = {
    Price: View("price", _blocks, _document, _table, _summary),
    PriceList: View("price", _list_blocks, _list_document, _list_table, _list_summary),
}
