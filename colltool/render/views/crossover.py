"""``crossover``: which algorithm is the fastest at which size, and where two take equally long.

Read from :data:`VIEWS`: :func:`_verdict` is the answer, :func:`_blocks` the screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from colltool.algorithms.libraries import LIBRARIES
from colltool.base.errors import argument_text, localize
from colltool.base.formatting import (
    format_bytes,
    format_factor,
    format_time,
    sentence,
    whole_percent,
)
from colltool.estimate.results import AlgorithmPair, Crossing, Crossover, PickCost, Winner
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
    number,
)
from colltool.render.dispatch import View, context, group_columns, on_fabric
from colltool.render.documents import LEFT_OUT, Document, derived, optional
from colltool.render.shared_documents import (
    GroupDocument,
    OnFabricDocument,
)

_APPROXIMATIONS = ("N*alpha*BW/log2N", "N*alpha*BW", "N*alpha*BW/(log2N-1)")
"""Closed forms for the size of a crossing, as far as a pair has them: the headings of columns."""


class _CrossoverLine(NamedTuple):
    """A row: a crossing of a pair, a pair that never crosses, or a winner; fields of the others
    stay None."""

    result: Crossover
    pair: AlgorithmPair | None = None
    crossing: Crossing | None = None
    winner: Winner | None = None

    @property
    def kind(self) -> str:
        if self.winner:
            return "winner"
        return "crossing" if self.crossing else "dominates"

    @property
    def faster_below(self) -> str | None:
        """The faster of the pair below the crossing; without a crossing always the same."""
        if self.crossing:
            return self.crossing.faster_below
        return self.pair and self.pair.dominates

    @property
    def faster_above(self) -> str | None:
        return self.crossing.faster_above if self.crossing else self.faster_below

    @property
    def named_below(self) -> str | None:
        return self.pair and self.pair.named(self.faster_below)

    @property
    def named_above(self) -> str | None:
        return self.pair and self.pair.named(self.faster_above)

    @property
    def balance_a(self) -> float | None:
        """The size at which an algorithm's latency equals its bandwidth time."""
        return self.result.balance.get(self.pair.a) if self.pair else None

    @property
    def balance_b(self) -> float | None:
        return self.result.balance.get(self.pair.b) if self.pair else None

    @property
    def name(self) -> str:
        """The library's name of the winner, else ours."""
        return self.winner.name if self.winner else ""


def _approximation(name: str) -> Column[_CrossoverLine]:
    def size(line: _CrossoverLine) -> float | None:
        return line.pair.approximations.get(name) if line.pair else None

    return number(name, f"textbook estimate {name}", format_bytes, drop=5, get=size)


_KIND: Column[_CrossoverLine] = label("kind", hidden=True)
_PAIR: Columns[_CrossoverLine] = (
    label("a", path="pair.a"),
    label("b", path="pair.b"),
    label("a_spec", "spec of a", hidden=True, path="pair.a_spec"),
    label("b_spec", "spec of b", hidden=True, path="pair.b_spec"),
    number("bytes", "crossover", format_bytes, path="crossing.bytes"),
    label("faster_below", "faster below", drop=4),
    label("faster_above", "faster above", drop=3),
    *map(_approximation, _APPROXIMATIONS),
    number("balance_a", "a bandwidth-bound above", format_bytes, drop=6),
    number("balance_b", "b bandwidth-bound above", format_bytes, drop=7),
)
_WINNER: Columns[_CrossoverLine] = (
    number("from_bytes", "from", format_bytes, path="winner.from_bytes"),
    number("to_bytes", "to", format_bytes, path="winner.to_bytes"),
    label("algorithm", "fastest of all", path="winner.algorithm"),
    label("protocol", path="winner.protocol"),
    number("balance", "bandwidth-bound above", format_bytes, drop=8, path="winner.balance"),
    label("spec", hidden=True, path="winner.spec"),
)


def _size_or_none(line: _CrossoverLine) -> float | str:
    return line.crossing.bytes if line.crossing else "none"


def _size_text(size: float | str) -> str:
    return size if isinstance(size, str) else format_bytes(size)


# the same by the names that people know
_FOR_PEOPLE: dict[str, Column[_CrossoverLine]] = {
    "a": label("a", "algorithm", path="pair.a_name"),
    "b": label("b", "against", path="pair.b_name"),
    "faster_below": label("faster_below", "faster below", drop=4, path="named_below"),
    "faster_above": label("faster_above", "faster above", drop=3, path="named_above"),
}


def _pair_lines(result: Crossover) -> list[_CrossoverLine]:
    """The crossings of each pair, and the pairs of which one is always the faster."""
    lines = []
    for pair in result.pairs:
        lines += [_CrossoverLine(result, pair, crossing) for crossing in pair.crossings]
        if not pair.crossings and pair.dominates is not None:
            lines.append(_CrossoverLine(result, pair))
    return lines


def _crossings(result: Crossover) -> Table:
    columns = (
        _KIND,
        *context(fabric=result.fabric, primitive=result.primitive, ranks=result.ranks),
        *group_columns(result.group, lambda _: result.group),
        *context(result.overrides),
        *_PAIR,
        *_WINNER,
    )
    winners = (_CrossoverLine(result, winner=winner) for winner in result.winners)
    return Table(columns, (*_pair_lines(result), *winners))


LARGEST_SHOWN = 16e9
"""Bytes: crossovers beyond are for --all, as nobody sends more per rank in one call."""


def _blocks(result: Crossover) -> list[Block]:
    """Which algorithm runs at which size, where pairs cross, and what would be the fastest."""
    # in one line, or by the pair's own table, or by what the library runs
    in_answer = len(result.winners) < 2 or (bool(result.asked) and len(result.pairs) == 1)
    picks_known = bool(result.picks) and not result.asked
    winners = _winners(result, result.winners, "fastest")
    if picks_known:
        winners = winners._replace(title="the fastest by these prices")
    if in_answer or picks_known:
        winners = winners._replace(first=0)
    if not any(winner.protocol for winner in result.winners):
        winners = winners.without("protocol")
    pairs = _crossings_for_people(result)
    # flat schedules, which the library's own names do not mean
    if picks_known:
        pairs = pairs._replace(first=0)
    out: list[Block] = [Headline(_verdict(result)), winners, pairs, *_never_crossing(result)]
    if result.uneven:
        library = LIBRARIES[result.library].label
        option = argument_text("library", "all")
        whose = f"some of these include {library}'s measured overhead, others none"
        out.append(Lines(localize(f"{whose}: {option} leaves it out"), ()))
    if result.picks:
        picks = _winners(result, result.picks, f"{library_title(result)} runs").without("how")
        picks = picks._replace(
            columns=tuple(column for column in picks.columns if column.key != "balance"),
            title=f"what {library_title(result)} runs, by its own cost model",
        )
        # who named algorithms did not ask what the library would pick
        if result.asked:
            out.append(picks._replace(first=0))
        else:
            out.insert(1, picks)
    return [*out, *r.notes([], result.model)]


def _is_shown(size: float | None) -> bool:
    return size is not None and size <= LARGEST_SHOWN


def _crossings_for_people(result: Crossover) -> Table:
    """The pairs with their crossing sizes in words. Those that cross at a size that somebody sends
    come first."""
    pairs = _pair_lines(result)
    first = [line for line in pairs if line.crossing and _is_shown(line.crossing.bytes)]
    # the others follow, for --all only
    lines = [*first, *(line for line in pairs if line not in first)]
    names = dict.fromkeys(pair.a_name for pair in result.pairs)
    columns: list[Column[_CrossoverLine]] = []
    for column in _PAIR:
        if column.key == "bytes":
            column = column._replace(get=_size_or_none, show=_size_text)
        columns.append(_FOR_PEOPLE.get(column.key, column))
    title = f"crossovers with {' and '.join(names)}"
    table = Table(tuple(columns), tuple(lines), title=title, first=len(first))
    known = set().union(*(pair.approximations for pair in result.pairs))
    unknown = [algorithm for algorithm in _APPROXIMATIONS if algorithm not in known]
    return table.without(*unknown, "balance_a", "balance_b")


def _never_crossing(result: Crossover) -> list[Block]:
    """The algorithms that are faster at every size, or up to 16 GB, each with all that it beats."""
    beaten = []
    for pair in result.pairs:
        first = pair.crossings[0] if pair.crossings else None
        winner = first.faster_below if first else pair.dominates
        if winner is None or _is_shown(first and first.bytes):
            continue
        other = pair.b_name if winner == pair.a else pair.a_name
        where = f"up to {format_bytes(LARGEST_SHOWN)}" if first else "at every size"
        beaten.append((f"{pair.named(winner)} is faster {where} than", other))
    lines = []
    for what, names in gathered(beaten).items():
        # beyond 16 GB is for --all
        shown = None if "at every size" in what else 0
        lines.append(Lines(f"{what} {', '.join(names)}", (), first=shown))
    return [*lines]


def _end_shown(line: _CrossoverLine) -> float | None:
    """Where a winner's sizes end, unless nobody sends as much."""
    end = line.winner.to_bytes if line.winner else None
    return end if _is_shown(end) else None


_MOST_STRETCHES = 4  # size ranges without --all
_MOST_STEPS = 3  # changes of the fastest that a sentence lists; more are only named


def _winners(result: Crossover, winners: Sequence[Winner], title: str) -> Table:
    """Which algorithm wins between which sizes, by the library's names; first what somebody
    sends."""
    names: list[Column[_CrossoverLine]] = [label("algorithm", title, fold=22, path="name")]
    every = (*result.winners, *result.picks)
    if any(winner.name != winner.algorithm for winner in every):
        names.append(label("how", "inside / across", drop=7, path="winner.algorithm"))
    # the names in place of the column of the algorithm
    start, end, _, *others = _WINNER
    end = end._replace(get=_end_shown)
    columns = (start, end, *names, *others)
    lines = tuple(_CrossoverLine(result, winner=winner) for winner in winners)
    first = min(_MOST_STRETCHES, sum(_is_shown(winner.from_bytes) for winner in winners))
    return Table(columns, lines, first=first)


def _verdict(result: Crossover) -> str:
    """What runs at each size and what that choice costs, and what was asked."""
    return f"{stretches_answer(result)} {sentence(crossover_title(result))}."


def stretches_answer(result: Crossover) -> str:
    """What the library runs at which size, and what its choice costs. Where it is not known, and
    for named algorithms, which is the fastest. Such as ``NCCL runs Tree below 323 KB and NVLSTree
    above. ...``"""
    if not result.picks or result.asked:
        return f"{_stretches(result.winners, 'is the fastest', 'Fastest: ')}."
    library = library_title(result)
    runs = _stretches(result.picks, "", f"{library} runs ", digits=3)
    return f"{runs}{_choice_cost(library, result.pick_cost)}."


_COSTS = 1.02
"""A choice that takes this many times as long as the fastest costs something."""


def _choice_cost(library: str, cost: PickCost | None) -> str:
    """What the library's choice costs where it costs most, to follow what it runs."""
    if cost is None:
        return ""
    if cost.factor < _COSTS:
        return "; nothing it has is faster"
    times = f"{format_time(cost.fastest_s, 3)} instead of {format_time(cost.pick_s, 3)}"
    other = cost.fastest
    if cost.fastest == cost.pick:
        other += " under another protocol"
    what = f"at {format_bytes(cost.bytes, 2)} {other} would take {times}"
    factor = format_factor(cost.factor, 2)
    if cost.factor < _TWICE:
        factor = whole_percent(cost.factor - 1)
    if cost.close:
        return f". That choice costs at most {factor} ({what}), too close to call"
    return f". {library}'s choice costs up to {factor}: {what}"


_TWICE = 2.0
"""A cost of at least this many times is written as a factor, not in percent."""


def _stretches(winners: Sequence[Winner], alone: str, before: str, digits: int = 4) -> str:
    """``Tree below 200 KB and NVLSTree above``, under whatever protocol, after the text ``before``;
    one that wins everywhere is followed by ``alone``."""
    starts: list[tuple[str, str]] = []
    for winner in winners:
        if starts and (starts[-1][0] == winner.name or not _is_shown(winner.from_bytes)):
            continue
        starts.append((winner.name, format_bytes(winner.from_bytes, digits)))
    (first, _), *later = starts
    if not later:
        return f"{first} {alone} at every size" if alone else f"{before}{first} at every size"
    steps = [f"{first} below {later[0][1]}"]
    if len(later) > _MOST_STEPS:
        known = list(dict.fromkeys(name for name, _ in starts))
        names = " and ".join(known) if len(known) == 2 else f"{len(known)} algorithms"
        return f"{before}{steps[0]}, {later[-1][0]} above {later[-1][1]}, and in between {names} in turn"
    for (name, _), (_, end) in pairwise(later):
        steps.append(f"{name} up to {end}")
    return f"{before}{', '.join(steps)} and {later[-1][0]} above"


def library_title(result: Crossover) -> str:
    return LIBRARIES[result.library].label if result.library else ""


def crossover_title(result: Crossover) -> str:
    where = on_fabric(result.fabric, result.overrides)
    parts = [f"{result.primitive.label} on {where}", result.group.label]
    if result.library:
        parts.append(r.running(result.library, leads=result.library_leads))
    return ", ".join((*parts, r.CONTENTION[result.mode]))


def _summary(result: Crossover) -> str:
    return f"{crossover_title(result)}: {_stretches(result.winners, 'is the fastest', '')}"


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


def _pair_crossings(pair: AlgorithmPair) -> tuple[dict[str, Any], ...]:
    return tuple(
        CrossingDocument.of(
            crossing,
            faster_below_spec=pair.spec(crossing.faster_below),
            faster_above_spec=pair.spec(crossing.faster_above),
        )
        for crossing in pair.crossings
    )


class PairDocument(Document, of=AlgorithmPair):
    """Two algorithms, and every size at which one overtakes the other."""

    a: str
    b: str
    crossings: list[CrossingDocument] = derived(_pair_crossings)
    dominates: str | None
    approximations: dict[str, float]
    a_spec: str
    b_spec: str
    a_name: str
    b_name: str
    dominates_spec: str | None = derived(lambda pair: pair.spec(pair.dominates))


class CrossoverLibraryDocument(Document):
    """The library that a crossover is for, and what it picks."""

    name: str = derived("library")
    picks: list[WinnerDocument] = optional("picks")
    pick_cost: PickCost = optional("pick_cost")


def _library(result: Crossover) -> Any:
    return CrossoverLibraryDocument.of(result) if result.library else LEFT_OUT


class CrossoverDocument(OnFabricDocument):
    """The crossovers of one primitive on one group, and who wins at each size."""

    primitive: str
    ranks: int
    group: GroupDocument
    mode: str
    model: r.ModelDocument = derived(lambda result: result.model.echo())
    pairs: list[PairDocument]
    uneven: bool
    winners: list[WinnerDocument]
    balance: dict[str, float | None]
    library: CrossoverLibraryDocument = optional(_library)


VIEWS = {
    Crossover: View("crossover", _blocks, CrossoverDocument.of, _crossings, _summary),
}
