"""``crossover``: which algorithm is the fastest at which size, and where two take equally long.

Read from :data:`VIEWS`: :func:`_blocks` is the screen, :func:`_answer` its first sentences, and
:func:`_crossings` the rows of CSV.

Algorithms go by their titles (``AlgorithmPair.a``), and for people by the library's names (``a_name``).
``winners`` are the fastest by our prices, ``picks`` what the library runs by its own cost model (empty where
that is not known); both are ranges of sizes, ascending from the smallest, of which the last has no end
(``to_bytes`` None).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from colltool.algorithms.libraries import LIBRARIES
from colltool.base.errors import argument_text, localize
from colltool.base.formatting import (
    format_bytes,
    format_factor,
    format_time,
    sentence,
    whole_percent,
)
from colltool.estimate.results import AlgorithmPair, Crossover, PickCost, Winner
from colltool.render import estimates
from colltool.render.blocks import (
    Block,
    Column,
    Columns,
    Headline,
    Lines,
    Table,
    columns_at,
    label,
    later,
    names_by_text,
    number,
)
from colltool.render.dispatch import View, context, fabric_of, group_columns
from colltool.render.documents import LEFT_OUT, Document, derived, optional
from colltool.render.shared_documents import (
    GroupDocument,
    OnFabricDocument,
)

_APPROXIMATIONS = ("N*alpha*BW/log2N", "N*alpha*BW", "N*alpha*BW/(log2N-1)")
"""Closed forms of textbooks for the size of a crossing, by which ``AlgorithmPair.approximations`` has
the sizes of a pair that has any. They are keys of columns too."""


class _Line(NamedTuple):
    """A row of CSV, of one of three kinds: a crossing of a pair, a pair of which one dominates, or a
    winner. What another kind has is None."""

    kind: Literal["crossing", "dominates", "winner"]
    pair: AlgorithmPair | None = None
    bytes: float | None = None  # the size of the crossing
    faster_below: str | None = None
    faster_above: str | None = None
    # bytes at which the latency of the pair's first and second equals their bandwidth time
    balance_a: float | None = None
    balance_b: float | None = None
    winner: Winner | None = None

    def library_name(self, algorithm: str | None) -> str | None:
        """The name that people know for one of the pair, by its title; None without a pair or title."""
        return self.pair and self.pair.named(algorithm)


def _approximation(closed_form: str) -> Column[_Line]:
    """The column of a closed form's sizes."""

    def size(line: _Line) -> float | None:
        return line.pair and line.pair.approximations.get(closed_form)

    return number(closed_form, f"textbook estimate {closed_form}", format_bytes, drop=5, get=size)


_KIND: Column[_Line] = label("kind", hidden=True)
_PAIR: Columns[_Line] = (
    label("a", path="pair.a"),
    label("b", path="pair.b"),
    label("a_spec", "spec of a", hidden=True, path="pair.a_spec"),
    label("b_spec", "spec of b", hidden=True, path="pair.b_spec"),
    number("bytes", "crossover", format_bytes),
    label("faster_below", "faster below", drop=4),
    label("faster_above", "faster above", drop=3),
    *map(_approximation, _APPROXIMATIONS),
    number("balance_a", "a bandwidth-bound above", format_bytes, drop=6),
    number("balance_b", "b bandwidth-bound above", format_bytes, drop=7),
)
_WINNER: Columns[Winner] = (
    number("from_bytes", "from", format_bytes),
    number("to_bytes", "to", format_bytes),
    label("algorithm", "fastest of all"),
    label("protocol"),
    number("balance", "bandwidth-bound above", format_bytes, drop=8),
    label("spec", hidden=True),
)


def _size_or_none(line: _Line) -> float | str:
    """The size of a crossing, or the word for a pair without one."""
    return "none" if line.bytes is None else line.bytes


def _size_text(size: float | str) -> str:
    return size if isinstance(size, str) else format_bytes(size)


# columns of CSV by the names that people know
_FOR_PEOPLE: dict[str, Column[_Line]] = {
    "a": label("a", "algorithm", path="pair.a_name"),
    "b": label("b", "against", path="pair.b_name"),
    "bytes": Column("bytes", "crossover", _size_text, get=_size_or_none),
    "faster_below": label(
        "faster_below",
        "faster below",
        drop=4,
        get=lambda line: line.library_name(line.faster_below),
    ),
    "faster_above": label(
        "faster_above",
        "faster above",
        drop=3,
        get=lambda line: line.library_name(line.faster_above),
    ),
}


def _pair_lines(result: Crossover) -> Iterator[_Line]:
    """The crossings of each pair, and the pairs of which one is always the faster."""
    for pair in result.pairs:
        of_pair = partial(
            _Line,
            pair=pair,
            balance_a=result.balance.get(pair.a),
            balance_b=result.balance.get(pair.b),
        )
        for crossing in pair.crossings:
            yield of_pair(
                "crossing",
                bytes=crossing.bytes,
                faster_below=crossing.faster_below,
                faster_above=crossing.faster_above,
            )
        if not pair.crossings and pair.dominates is not None:
            yield of_pair("dominates", faster_below=pair.dominates, faster_above=pair.dominates)


def _crossings(result: Crossover) -> Table:
    """The table of CSV: lines of pairs, then the winners; what was asked is in hidden columns."""
    columns = (
        _KIND,
        *context(fabric=result.fabric, primitive=result.primitive, ranks=result.ranks),
        *group_columns(result.group, lambda _: result.group),
        *context(result.overrides),
        *_PAIR,
        *columns_at("winner", _WINNER),
    )
    winners = (_Line("winner", winner=winner) for winner in result.winners)
    return Table(columns, [*_pair_lines(result), *winners])


LARGEST_SENT = 16e9
"""Bytes per rank: crossovers beyond are for --all, as nobody sends more in one call."""


def _blocks(result: Crossover) -> Iterator[Block]:
    """Which algorithm runs at which size, where pairs cross, and what would be the fastest."""
    # who named algorithms did not ask what the library would pick
    are_named = bool(result.asked)
    winners = _winners(result, result.winners, "fastest").without_empty("protocol")
    pairs = _crossings_for_people(result)
    yield Headline(_answer(result))
    if result.picks and not are_named:
        yield _picks(result)
        yield later(winners._replace(title="the fastest by these prices"))
        # of flat schedules, which the library's own names do not mean
        yield later(pairs)
    else:
        # the answer names a single winner, and the table of a single named pair has both
        is_repetition = len(result.winners) < 2 or (are_named and len(result.pairs) == 1)
        yield later(winners) if is_repetition else winners
        yield pairs
    yield from _never_crossing(result)
    if result.uneven:
        library = LIBRARIES[result.library].label
        option = argument_text("library", "all")
        text = f"some of these include {library}'s measured overhead, others none"
        yield Lines(localize(f"{text}: {option} leaves it out"), ())
    if result.picks and are_named:
        yield later(_picks(result))
    yield from estimates.notes([], result.model)


def _picks(result: Crossover) -> Table:
    """What the library runs by its own cost model, which says nothing of how and of a balance."""
    library = library_title(result)
    picks = _winners(result, result.picks, f"{library} runs").without("how")
    return picks._replace(
        columns=tuple(column for column in picks.columns if column.key != "balance"),
        title=f"what {library} runs, by its own cost model",
    )


def _is_sent(size: float | None) -> bool:
    """Whether anybody sends so many bytes in one call; not for None, which is no size."""
    return size is not None and size <= LARGEST_SENT


def _crossings_for_people(result: Crossover) -> Table:
    """The pairs with their crossing sizes in words. Those that cross at a size that somebody sends
    come first; the others are for --all."""
    lines = sorted(_pair_lines(result), key=lambda line: not _is_sent(line.bytes))
    names = dict.fromkeys(pair.a_name for pair in result.pairs)
    columns = [_FOR_PEOPLE.get(column.key, column) for column in _PAIR]
    title = f"crossovers with {' and '.join(names)}"
    sent = sum(_is_sent(line.bytes) for line in lines)
    table = Table(tuple(columns), lines, title=title, first=sent)
    return table.without_empty(*_APPROXIMATIONS).without("balance_a", "balance_b")


_EVERYWHERE = "at every size"


def _never_crossing(result: Crossover) -> Iterator[Block]:
    """A line for each algorithm that is faster than others at every size, or at all that anybody sends, with
    all that it beats; the latter for ``--all``."""
    claim_and_loser = []
    for pair in result.pairs:
        winner = pair.dominates
        sizes = _EVERYWHERE
        if pair.crossings:
            smallest = pair.crossings[0]
            if _is_sent(smallest.bytes):
                continue
            winner = smallest.faster_below
            sizes = f"up to {format_bytes(LARGEST_SENT)}"
        if winner is not None:
            loser = pair.b_name if winner == pair.a else pair.a_name
            claim_and_loser.append((f"{pair.named(winner)} is faster {sizes} than", loser))
    for claim, losers in names_by_text(claim_and_loser).items():
        line = Lines(f"{claim} {', '.join(losers)}", ())
        yield line if _EVERYWHERE in claim else later(line)


def _sent_end(winner: Winner) -> float | None:
    """Where a winner's sizes end, unless nobody sends as much."""
    return winner.to_bytes if _is_sent(winner.to_bytes) else None


_MOST_RANGES = 4  # size ranges without --all
_MOST_STEPS = 3  # changes of the fastest that a sentence lists; more are only named


def _winners(result: Crossover, winners: Sequence[Winner], title: str) -> Table:
    """Which algorithm wins between which sizes, by the library's names under a ``title``; first what
    somebody sends."""
    columns: list[Column[Winner]] = []
    for column in _WINNER:
        if column.key == "algorithm":
            columns.append(label("algorithm", title, fold=22, path="name"))
            every = (*result.winners, *result.picks)
            if any(winner.name != winner.algorithm for winner in every):
                columns.append(label("how", "inside / across", drop=7, path="algorithm"))
        elif column.key == "to_bytes":
            columns.append(column._replace(get=_sent_end))
        else:
            columns.append(column)
    sent = sum(_is_sent(winner.from_bytes) for winner in winners)
    return Table(tuple(columns), winners, first=min(_MOST_RANGES, sent))


def _answer(result: Crossover) -> str:
    """Say what runs at each size and what that choice costs, then what was priced."""
    return f"{ranges_answer(result)} {sentence(crossover_title(result))}."


def ranges_answer(result: Crossover) -> str:
    """What the library runs at which size, and what its choice costs: ``NCCL runs Tree below 323 KB
    and NVLSTree above. ...``. Where its picks are not known, and for named algorithms, which is the
    fastest."""
    if not result.picks or result.asked:
        return f"{_ranges_text(result.winners, 'is the fastest', 'Fastest: ')}."
    library = library_title(result)
    runs = _ranges_text(result.picks, "", f"{library} runs ", digits=3)
    return f"{runs}{_choice_cost(library, result.pick_cost)}."


# how many times as long as the fastest a choice takes
_LEAST_COST = 1.02  # less costs nothing
_TWICE = 2.0  # as much and more is written as a factor, not in percent


def _choice_cost(library: str, cost: PickCost | None) -> str:
    """Say what the library's choice costs at the size where it costs most, in words that follow those on
    what it runs; empty where that is not known."""
    if cost is None:
        return ""
    if cost.factor < _LEAST_COST:
        return "; nothing it has is faster"
    times = f"{format_time(cost.fastest_s, 3)} instead of {format_time(cost.pick_s, 3)}"
    faster = cost.fastest
    if cost.fastest == cost.pick:
        faster += " under another protocol"
    example = f"at {format_bytes(cost.bytes, 2)} {faster} would take {times}"
    more = format_factor(cost.factor, 2)
    if cost.factor < _TWICE:
        more = whole_percent(cost.factor - 1)
    if cost.close:
        return f". That choice costs at most {more} ({example}), too close to call"
    return f". {library}'s choice costs up to {more}: {example}"


def _ranges_text(winners: Sequence[Winner], alone: str, before: str, digits: int = 4) -> str:
    """``Tree below 200 KB and NVLSTree above``; a change of protocol alone is no change.

    Args:
        alone: what follows the name of one that wins everywhere; if empty, ``before`` stands before
            it.
        before: what stands before the names of several.
        digits: of sizes.
    """
    names: list[str] = []
    sizes = []  # from which each name wins, as text; beyond what anybody sends the last name stays
    for winner in winners:
        if not names or (names[-1] != winner.name and _is_sent(winner.from_bytes)):
            names.append(winner.name)
            sizes.append(format_bytes(winner.from_bytes, digits))
    if len(names) == 1:
        return f"{names[0]} {alone} at every size" if alone else f"{before}{names[0]} at every size"
    start = f"{before}{names[0]} below {sizes[1]}"
    end = f"{names[-1]} above"
    if len(names) > _MOST_STEPS + 1:
        distinct = list(dict.fromkeys(names))
        in_turn = " and ".join(distinct) if len(distinct) == 2 else f"{len(distinct)} algorithms"
        return f"{start}, {end} {sizes[-1]}, and in between {in_turn} in turn"
    # each of those between wins up to where the next one does
    steps = [f", {name} up to {size}" for name, size in zip(names[1:-1], sizes[2:], strict=True)]
    return f"{start}{''.join(steps)} and {end}"


def library_title(result: Crossover) -> str:
    """The display name of the library; empty if any may run."""
    return LIBRARIES[result.library].label if result.library else ""


def crossover_title(result: Crossover) -> str:
    """``all-reduce on nvl72, 72 ranks, NCCL, with contention``."""
    parts = [f"{result.primitive.label} on {fabric_of(result)}", result.group.label]
    if result.library:
        parts.append(estimates.library_in_title(result.library, leads=result.library_leads))
    return ", ".join((*parts, estimates.CONTENTION[result.mode]))


def _summary(result: Crossover) -> str:
    return f"{crossover_title(result)}: {_ranges_text(result.winners, 'is the fastest', '')}"


class WinnerDocument(Document, of=Winner):
    """The fastest algorithm in an interval of sizes; an end of null is none."""

    from_bytes: float
    to_bytes: float | None
    name: str
    algorithm: str
    spec: str
    balance: float = optional("balance")
    protocol: str = optional("protocol")


class CrossingDocument(Document):
    """A size at which one algorithm overtakes the other."""

    bytes: float
    faster_below: str
    faster_above: str
    faster_below_spec: str
    faster_above_spec: str


def _crossing_documents(pair: AlgorithmPair) -> Iterator[dict[str, Any]]:
    """The crossings of a pair, with the spec of each algorithm."""
    for crossing in pair.crossings:
        yield CrossingDocument.of(
            crossing,
            faster_below_spec=pair.spec(crossing.faster_below),
            faster_above_spec=pair.spec(crossing.faster_above),
        )


class PairDocument(Document, extends=AlgorithmPair):
    """Two algorithms, and every size at which one overtakes the other."""

    crossings: list[CrossingDocument] = derived(_crossing_documents)
    dominates_spec: str | None = derived(lambda pair: pair.spec(pair.dominates))


class CrossoverLibraryDocument(Document):
    """The library that a crossover is for, and what it picks."""

    name: str = derived("library")
    picks: list[WinnerDocument] = optional("picks")
    pick_cost: PickCost = optional("pick_cost")


def _library(result: Crossover) -> Any:
    """The library; left out where any may run."""
    return CrossoverLibraryDocument.of(result) if result.library else LEFT_OUT


class CrossoverDocument(OnFabricDocument):
    """The crossovers of one primitive on one group, and who wins at each size."""

    primitive: str
    ranks: int
    group: GroupDocument
    mode: str
    model: estimates.ModelDocument = derived(lambda result: result.model.echo())
    pairs: list[PairDocument]
    uneven: bool
    winners: list[WinnerDocument]
    balance: dict[str, float | None]
    library: CrossoverLibraryDocument = optional(_library)


VIEWS = {
    Crossover: View("crossover", _blocks, CrossoverDocument.of, _crossings, _summary),
}
