"""``price``: every algorithm at one or several sizes, or the winner and runner-up at each size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from colltool.algorithms.libraries import NCCL_ALL_REDUCE
from colltool.base.errors import given, said
from colltool.base.formatting import format_factor, format_rate, format_time, title_size
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.results import LibraryChoice, Price, PriceList
from colltool.nccl.rules import SPELLED
from colltool.render import estimate_columns as r
from colltool.render.blocks import Block, Headline, Lines, Table, gathered, label, number
from colltool.render.estimate_fields import price_fields
from colltool.render.sentences import answer, error_of, off_by
from colltool.render.view import Document, View
from colltool.render.views.breakdown import links_table

if TYPE_CHECKING:
    from colltool.nccl.model import NcclEstimate


def _blocks(result: Price) -> list[Block]:
    if hasattr(result.bytes, "__len__"):
        return _several(tuple(r.at_each_size(result)))
    best = r.Ranked(result, result.best)
    return [Headline(answer(best)), *_all([result], "", best=0)]


def _several(prices: Sequence[Price]) -> list[Block]:
    return [Headline(_winners_answer(prices)), *_all(prices, "", sizes=True)]


def _all(prices: Sequence[Price], heading: str, *, best: int | None = None, sizes: bool = False) -> list[Block]:
    first, *others = _tables(prices, heading, best=best, sizes=sizes)
    every = [row for one in prices for row in one.results]
    return [
        first,
        *_slow_rank(prices),
        *_faster_elsewhere(prices),
        *_picks(prices),
        *others,
        *links_table(every, first=0),
        *r.notes(every, prices[0].model, prices, first=0),
        *r.cannot(prices[0].infeasible),
    ]


def _tables(prices: Sequence[Price], heading: str, *, best: int | None = None, sizes: bool = False) -> list[Block]:
    """What may lead, what other libraries run, what nobody runs; only the first is in the default view."""
    leads = [r.Ranked(one, row) for one in prices for row in one.leading]
    others, nobody_s = ([r.Ranked(one, row) for one in prices for row in r.apart(one)[index]] for index in (0, 1))
    named = [
        (leads, ""),
        (others, f"priced, but not what {r.spoken(prices[0])} runs here"),
        (nobody_s, r.unranked_title([one.row for one in nobody_s])),
    ]
    shown = [(rows, title) for rows, title in named if rows]
    tables = []
    for at, (rows, title) in enumerate(shown):
        title = ": ".join(filter(None, (heading if not at else "", title)))
        table = r.row_table(rows, title, best if rows is leads else None, sizes=sizes, names=rows is leads)
        tables.append(table._replace(first=0 if at else _MOST_ROWS))
    return list(tables)


_MOST_ROWS = 8


def _faster_elsewhere(prices: Sequence[Price]) -> list[Block]:
    """What would be faster: with SHARP switched on, or without the library's own overhead."""
    if len(prices) > 1 or not prices[0].leading or prices[0].library is None:
        return []
    price, best = prices[0], float(prices[0].best.total_s)
    lines: list[str] = []
    for row in sorted(price.others, key=lambda row: float(row.total_s)):
        if not lines and float(row.total_s) < best and _needs_collnet(row, price):
            seconds = format_time(float(row.total_s))
            option = said(given("overrides", ["library.collnet=true"]))
            lines.append(f"with SHARP (NCCL_COLLNET_ENABLE=1): {seconds} by {row.title}: {option}")
    able = [row for row in price.results if row.status == "shipped"]
    bare = min(able, key=lambda row: float(row.total_s - row.software_s))
    alone = float(bare.total_s - bare.software_s)
    if alone < best and not (lines and alone == float(bare.total_s)):  # the same number twice
        lines.append(
            f"by alpha, BW and eta alone, any library: {format_time(alone)} by {bare.title}: {said(given('library', 'all'))}"
        )
    return [Lines("faster, but not what runs by default", tuple(lines))] if lines else []


def _needs_collnet(row: AlgorithmEstimate, price: Price) -> bool:
    """Whether switching CollNet on is all it takes."""
    off = row.not_selected_reason is not None and row.not_selected_reason.code == "collnet_off"
    inside = price.group.per_domain[0]
    return off and not any(one.why_not_inside(inside) for one in NCCL_ALL_REDUCE if set(one.by) <= set(row.shipped_by))


def _slow_rank(prices: Sequence[Price]) -> list[Block]:
    slow = [(row, row.slow) for one in prices for row in one.results if row.slow is not None]
    if not slow:
        return []
    known = [(one.total_s, row.title) for row, one in slow if row.selectable and one.total_s is not None]
    lines = [f"fastest then: {min(known)[1]}, {format_time(min(known)[0])}"] if known and len(prices) == 1 else []
    unknown = gathered((one.reason, row.title) for row, one in slow if one.reason)
    lines += [f"not known, {reason}: {', '.join(titles)}" for reason, titles in unknown.items()]
    said = f"slow rank: all ports and links of one rank, the worst one, at {slow[0][1].share:g} of their bandwidth"
    return [Lines(said, tuple(lines))]


class _Pick(NamedTuple):
    """The library's own pick at a size."""

    price: Price
    own: LibraryChoice

    @property
    def estimate(self) -> NcclEstimate:
        assert self.own.pick is not None  # or there is no table
        return self.own.pick

    @property
    def name(self) -> str:
        return SPELLED.get(self.estimate.algorithm, self.estimate.algorithm)

    @property
    def best(self) -> AlgorithmEstimate:
        """The fastest that the library has, its pick included."""
        picked = () if self.own.runs is None else (self.own.runs,)
        return min((*self.price.leading, *picked), key=lambda row: float(row.total_s), default=self.price.best)


_TOLD = 1.02  # times the fastest, from which on a pick is called slow
_PICKS = (
    number("bytes", "size", title_size, get=lambda one: float(one.price.bytes)),
    label("pick", "picks", get=lambda one: one.name),
    label("pick_protocol", "protocol", get=lambda one: one.estimate.protocol),
    number("estimate_s", "its own estimate", format_time, get=lambda one: one.estimate.seconds),
    label("priced_as", "here", drop=3, get=lambda one: one.own.runs and one.own.runs.title),
    number("runs_s", "our price", format_time, 1, get=lambda one: one.own.runs and float(one.own.runs.total_s)),
    label("fastest", "fastest", drop=4, get=lambda one: r.named(one.price, one.best)),
    number("fastest_s", "fastest total", format_time, 5, get=lambda one: float(one.best.total_s)),
    number("of_fastest", "times the fastest", format_factor, 2, get=lambda one: one.price.slower_pick),
)


def _picks(prices: Sequence[Price]) -> list[Block]:
    reasons = list(dict.fromkeys(one.library.reason for one in prices if one.library and one.library.reason))
    if reasons:
        return [Lines(f"what {r.spoken(prices[0])} itself would pick is not known here", tuple(reasons), first=0)]
    picks = tuple(_Pick(one, one.library) for one in prices if one.library is not None and one.library.pick is not None)
    if not picks:
        return []
    library = f"{picks[0].own.name.upper()} {picks[0].own.version}"
    chosen = gathered((f"{one.name} ({one.estimate.protocol})", title_size(float(one.price.bytes))) for one in picks)
    what = "; ".join(f"{name}{f' at {chr(44).join(sizes)}' if len(picks) > 1 else ''}" for name, sizes in chosen.items())
    slow = [f"{_at(one, picks)}{one.name} takes {format_factor(factor)} of {r.named(one.price, one.best)}"
            for one in picks if (factor := one.price.slower_pick) is not None and factor >= _TOLD]  # fmt: skip
    blind = list(dict.fromkeys(one.name for one in picks if one.own.runs is None))
    out: list[Block] = [Lines(f"{library} picks by its own cost model: {what}", ())]
    if slow:
        out.append(Lines("not the fastest that it has, by the prices here", tuple(slow)))
    if blind:
        out.append(Lines(f"no schedule here stands for {library}'s {', '.join(blind)} on this group", ()))
    return [*out, Table(_PICKS, picks, None, f"what {library} picks by its own cost model", first=0)]


def _at(one: _Pick, picks: Sequence[_Pick]) -> str:
    return f"{title_size(float(one.price.bytes))}: " if len(picks) > 1 else ""


def _table(result: Price) -> Table:
    return _every_row(tuple(r.at_each_size(result)))


def _every_row(prices: Sequence[Price]) -> Table:
    ranked = [
        r.Ranked(one, row) for one in prices for row in sorted(one.results, key=lambda row: (row.rank_class, float(row.total_s)))
    ]
    return r.row_table(ranked, sizes=len(prices) > 1)


def _document(result: Price) -> Document:
    return price_fields(result) if hasattr(result.bytes, "__len__") else _one_shape([result])


def _one_shape(prices: Sequence[Price]) -> Document:
    # a single size has its fields at the top as well, for readers of older documents
    sizes = [price_fields(one) for one in prices]
    return (sizes[0] if len(sizes) == 1 else {}) | {"sizes": sizes}


def _summary(result: Price) -> str:
    if hasattr(result.bytes, "__len__"):
        return f"{r.heading_of_all(result)}: {len(result.results)} algorithms at {len(result.bytes)} sizes"
    best = result.best
    return f"{r.heading(result)}: {best.title}, {format_time(float(best.total_s))}, busbw {format_rate(float(best.busbw_Bps))}"


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
    number("runner_up_s", "its total", format_time, 3, get=lambda one: one.second and float(one.second.total_s)),
    label("spec", "spec", drop=6, get=lambda one: one.row.spec, hidden=True),
)
_NAMES = {
    "fastest": label("fastest", "fastest", get=lambda one: r.named(one.price, one.row), fold=22),
    "runner_up": label("runner_up", "runner-up", drop=2, get=lambda one: one.second and r.named(one.price, one.second), fold=22),
}


def _winners(result: PriceList, columns: Sequence[object] = _WINNER) -> Table:
    first = result.prices[0]
    records = tuple(_SizeWinner(one, one.results[0], one.results[1] if len(one.results) > 1 else None) for one in result.prices)
    idle = () if any(one.row.protocol for one in records) else ("protocol",)
    return Table((*r.context(first), *columns), records).with_shown("bytes").without(*idle)  # type: ignore[arg-type]


def _winners_answer(prices: Sequence[Price]) -> str:
    changes = [(r.named(one, one.best), one) for one in sorted(prices, key=lambda one: float(one.bytes))]
    starts = [(name, one) for at, (name, one) in enumerate(changes) if not at or changes[at - 1][0] != name]
    first, *later = starts
    who = first[0] + "".join(f", {name} from {title_size(float(one.bytes))}" for name, one in later)
    said = f"{who}{'' if later else ' at every size'}: {r.heading_of_all(prices[0])}."
    errors = [error for one in prices if (error := error_of(one.best, one)) is not None]
    if not errors:
        return said
    return f"{said} {off_by(errors)}."


def _list_blocks(result: PriceList) -> list[Block]:
    if not result.winners_only:
        return _blocks(result.prices[0]) if len(result.prices) == 1 else _several(result.prices)
    first = result.prices[0]
    rows = [row for one in result.prices for row in one.results]
    table = _winners(result, [_NAMES.get(column.key, column) for column in _WINNER])
    out: list[Block] = [Headline(_winners_answer(result.prices)), table, *_picks(result.prices)]
    return [*out, *r.notes(rows, first.model, result.prices, first=0)]


def _list_table(result: PriceList) -> Table:
    return _winners(result) if result.winners_only else _every_row(result.prices)


def _list_document(result: PriceList) -> Document:
    if result.winners_only:
        return {"sizes": [price_fields(one) for one in result.prices]}
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
