"""What a library would run, beside our price of it and the fastest: a table under the ranking, a field of the document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from colltool.base.formatting import format_factor, format_time, title_size
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.results import LibraryChoice, Price
from colltool.nccl.model import NcclEstimate
from colltool.render.blocks import Block, Column, Lines, Table, label, number
from colltool.render.view import Document


class _Pick(NamedTuple):
    """One size: what is picked, beside what was priced."""

    price: Price
    answer: LibraryChoice

    @property
    def estimate(self) -> NcclEstimate:
        """What is picked, and what the library takes it to cost."""
        assert self.answer.pick is not None  # or there is no table
        return self.answer.pick

    @property
    def best(self) -> AlgorithmEstimate:
        """The fastest that the library has: of those that were asked for, and what is picked."""
        picked = () if self.answer.runs is None else (self.answer.runs,)
        return min((*self.price.leading, *picked), key=lambda row: float(row.total_s), default=self.price.best)


_TOLD = 1.02
"""How much slower than the fastest a pick is told of."""

_COLUMNS: tuple[Column, ...] = (
    number("bytes", "size", title_size, get=lambda one: float(one.price.bytes)),
    label("pick", "picks", get=lambda one: one.estimate.algorithm),
    label("pick_protocol", "under", get=lambda one: one.estimate.protocol),
    number("estimate_s", "its estimate", format_time, get=lambda one: one.estimate.seconds),
    label("priced_as", "priced here as", drop=3, get=lambda one: one.answer.runs and one.answer.runs.title),
    number("runs_s", "our price", format_time, 1, get=lambda one: one.answer.runs and float(one.answer.runs.total_s)),
    label("fastest", "fastest here", drop=4, get=lambda one: one.best.title),
    number("fastest_s", "its total", format_time, 5, get=lambda one: float(one.best.total_s)),
    number("of_fastest", "of fastest", format_factor, 2, get=lambda one: one.price.slower_pick),
)


def pick_blocks(prices: Sequence[Price]) -> list[Block]:
    """A row for each size; nothing where no library was asked."""
    picks = tuple(_Pick(one, one.library) for one in prices if one.library is not None and one.library.pick is not None)
    if not picks:
        return []
    first = picks[0].answer
    title = f"what {first.name.upper()} {first.version} picks by its own cost model"
    blind = list(dict.fromkeys(one.estimate.algorithm for one in picks if one.answer.runs is None))
    unpriced = [Lines(f"no schedule that runs here is what {first.name.upper()} runs as {', '.join(blind)}", ())] if blind else []
    return [Table(_COLUMNS, picks, None, title), *_slower(picks), *unpriced]


def _slower(picks: Sequence[_Pick]) -> list[Block]:
    """Where the library does not pick the fastest that it has, by these prices, and by how much."""
    slow = [(one, factor) for one in picks if (factor := one.price.slower_pick) is not None and factor >= _TOLD]
    lines = tuple(
        f"{title_size(float(one.price.bytes))}: {one.estimate.algorithm} takes {format_factor(factor)} of {one.best.title}"
        for one, factor in slow
    )
    return [Lines("not the fastest that it has, by the prices here", lines)] if lines else []


def library_field(answer: LibraryChoice, runs: Document | None, of_fastest: float | None) -> Document:
    """The promised field of a price with a pick; ``runs`` is the entry of what is picked, ``of_fastest`` its price in units of
    the fastest that the library has."""
    assert answer.pick is not None  # or there is nothing to tell
    pick = {"algorithm": answer.pick.algorithm, "protocol": answer.pick.protocol, "estimate_s": answer.pick.seconds}
    ways = [_way(one) for one in answer.ways]
    known = {"name": answer.name, "version": answer.version, "pick": pick, "runs": runs, "of_fastest": of_fastest, "ways": ways}
    return {"library": known}


def _way(one: NcclEstimate) -> Document:
    return {"algorithm": one.algorithm, "protocol": one.protocol, "estimate_s": one.seconds, "reason": one.reason}
