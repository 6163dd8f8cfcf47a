"""``crossover``: the sizes at which the faster of two algorithms changes, and the fastest by size."""

from __future__ import annotations

from typing import Any, NamedTuple

from colltool.algorithms.libraries import LIBRARIES
from colltool.base.errors import given, said
from colltool.base.formatting import format_bytes, sentence
from colltool.estimate.results import AlgorithmPair, Crossing, Crossover, Winner
from colltool.render import estimate_columns as r
from colltool.render.blocks import Block, Column, Headline, Lines, Table, gathered, label, number
from colltool.render.estimate_fields import under
from colltool.render.view import Document, View, fields, group_columns, group_field, on_fabric, set_field, set_text

_APPROXIMATIONS = ("N*alpha*BW/log2N", "N*alpha*BW", "N*alpha*BW/(log2N-1)")


class _Met(NamedTuple):
    """A row: a crossing of a pair, a pair that never crosses, or a winner; fields of the others stay None."""

    result: Crossover
    pair: AlgorithmPair | None = None
    crossing: Crossing | None = None
    winner: Winner | None = None

    @property
    def kind(self) -> str:
        return "winner" if self.winner else "crossing" if self.crossing else "dominates"

    def faster(self, side: str) -> str | None:
        """The faster one below or above the crossing; of a pair that never crosses always the same."""
        if self.pair is None:
            return None
        return getattr(self.crossing, f"faster_{side}") if self.crossing else self.pair.dominates

    def balance(self, of: str) -> float | None:
        """The size at which an algorithm's latency equals its bandwidth time."""
        return None if self.pair is None else self.result.balance.get(getattr(self.pair, of))


def _approximation(name: str) -> Column:
    return number(name, f"~{name}", format_bytes, 5, get=lambda one: one.pair and one.pair.approximations.get(name))


_CONTEXT = (
    label("kind", "kind", hidden=True),
    label("fabric", "fabric", get=lambda one: one.result.fabric, hidden=True),
    label("primitive", "primitive", get=lambda one: one.result.primitive, hidden=True),
    number("ranks", "ranks", get=lambda one: one.result.ranks, hidden=True),
)
_SET = label("set", "set", get=lambda one: set_text(one.result.overrides), hidden=True)
_PAIR = (
    label("a", "a", get=lambda one: one.pair and one.pair.a),
    label("b", "b", get=lambda one: one.pair and one.pair.b),
    label("a_spec", "spec of a", get=lambda one: one.pair and one.pair.a_spec, hidden=True),
    label("b_spec", "spec of b", get=lambda one: one.pair and one.pair.b_spec, hidden=True),
    Column("bytes", "crossover", format_bytes, get=lambda one: one.crossing and one.crossing.bytes),
    label("faster_below", "faster below", drop=4, get=lambda one: one.faster("below")),
    label("faster_above", "faster above", drop=3, get=lambda one: one.faster("above")),
    *map(_approximation, _APPROXIMATIONS),
    number("balance_a", "balance of a", format_bytes, 6, get=lambda one: one.balance("a")),
    number("balance_b", "balance of b", format_bytes, 7, get=lambda one: one.balance("b")),
)
_WINNER = (
    number("from_bytes", "from", format_bytes, get=lambda one: one.winner and one.winner.from_bytes),
    number("to_bytes", "to", format_bytes, get=lambda one: one.winner and one.winner.to_bytes),
    label("algorithm", "fastest of all", get=lambda one: one.winner and one.winner.algorithm),
    label("protocol", "under protocol", get=lambda one: one.winner and one.winner.protocol),
    number("balance", "balance", format_bytes, 8, get=lambda one: one.winner and one.winner.balance),
    label("spec", "spec", get=lambda one: one.winner and one.winner.spec, hidden=True),
)


def _pairs(result: Crossover) -> tuple[_Met, ...]:
    met = [_Met(result, pair, crossing) for pair in result.pairs for crossing in pair.crossings or (None,)]
    return tuple(one for one in met if one.crossing is not None or (one.pair and one.pair.dominates is not None))


def _winners(result: Crossover) -> tuple[_Met, ...]:
    return tuple(_Met(result, winner=winner) for winner in result.winners)


def _table(result: Crossover) -> Table:
    apart = group_columns(result.group, lambda one: one.result.group)
    columns = (*_CONTEXT, *apart, *((_SET,) if result.overrides else ()), *_PAIR, *_WINNER)
    return Table(columns, (*_pairs(result), *_winners(result)))


def _blocks(result: Crossover) -> list[Block]:
    pairs = sorted(_pairs(result), key=lambda one: one.crossing is None)
    found = sum(one.crossing is not None for one in pairs)
    crossings = Table(_with_none(_PAIR), tuple(pairs), None, f"where {_and(result)} cross", first=found)
    if not any(_APPROXIMATIONS[2] in pair.approximations for pair in result.pairs):
        crossings = crossings.without(_APPROXIMATIONS[2])
    winners = Table(_named_winner(result, "fastest"), _winners(result), first=0 if len(result.winners) < 2 else None)
    winners = winners if any(one.protocol for one in result.winners) else winners.without("protocol")
    never = gathered((f"{one.pair.dominates} is faster at every size than", _other(one.pair)) for one in pairs
                     if one.pair and one.crossing is None)  # fmt: skip
    beaten = [Lines(f"{what} {', '.join(names)}", ()) for what, names in never.items()]
    out = [Headline(_answer(result)), winners, crossings, *beaten, *_uneven(result), *_picks(result)]
    return [*out, *r.notes([], result.model)]


def _and(result: Crossover) -> str:
    return " and ".join(dict.fromkeys([*(pair.a for pair in result.pairs), *(pair.b for pair in result.pairs)]))


def _other(pair: AlgorithmPair) -> str:
    return pair.b if pair.dominates == pair.a else pair.a


def _named(result: Crossover, winner: Winner) -> str:
    return r.nccl_name(result.library, result.primitive, result.group, winner.spec) or winner.algorithm


def _named_winner(result: Crossover, title: str) -> tuple[Column, ...]:
    name = label("algorithm", title, get=lambda one: one.winner and _named(result, one.winner), fold=22)
    ours = label("how", "how (inside / across)", get=lambda one: one.winner.algorithm, fold=18)
    told = any(_named(result, one) != one.algorithm for one in (*result.winners, *result.picks))
    both = (name, ours) if told else (name,)
    return tuple(column for one in _WINNER for column in (both if one.key == "algorithm" else (one,)))


def _answer(result: Crossover) -> str:
    first, *later = result.winners
    asked = sentence(crossover_title(result))
    if not later:
        return f"{_named(result, first)} is the fastest at every size. {asked}."
    steps = [f"{_named(result, first)} below {format_bytes(later[0].from_bytes)}"]
    steps += [f"{_named(result, one)} from there" if at == 0 else f"{_named(result, one)} from {format_bytes(one.from_bytes)}"
              for at, one in enumerate(later)]  # fmt: skip
    return f"{', '.join(steps)}. {asked}."


def _uneven(result: Crossover) -> list[Block]:
    if not result.uneven:
        return []
    whose, alike = LIBRARIES[result.library].spoken, given("library", "all")
    return [Lines(said(f"some of these carry {whose}'s measured overhead, others none: {alike} leaves it out"), ())]


def _picks(result: Crossover) -> list[Block]:
    if not result.picks:
        return []
    columns = tuple(column for column in _named_winner(result, "its own pick") if column.key != "balance")
    picks = tuple(_Met(result, winner=one) for one in result.picks)
    return [Table(columns, picks, None, f"what {library_title(result)} picks by its own cost model")]


def library_title(result: Crossover) -> str:
    return LIBRARIES[result.library].spoken if result.library else ""


def crossover_title(result: Crossover) -> str:
    where = on_fabric(result.fabric, result.overrides)
    library = f"{r.running(result.library, leads=result.library_leads)}, " if result.library else ""
    return f"{result.primitive.spoken} on {where}, {result.group.spoken}, {library}{result.mode}"


def _with_none(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    def size(one: _Met) -> Any:
        return one.crossing.bytes if one.crossing else "none"

    return tuple(
        column._replace(get=size, show=lambda found: found if isinstance(found, str) else format_bytes(found))
        if column.key == "bytes"
        else column
        for column in columns
    )


def _document(result: Crossover) -> Document:
    return {"fabric": result.fabric} | set_field(result.overrides) | {
        **fields(result, "primitive ranks"),
        "group": group_field(result.group),
        "mode": result.mode,
        "model": result.model.echo(),
        "pairs": [_pair(pair) for pair in result.pairs],
        "uneven": result.uneven,
        "winners": [_winner(one) for one in result.winners],
        "balance": result.balance,
    } | _library_field(result)  # fmt: skip


def _winner(one: Winner) -> Document:
    balance = "" if one.balance is None else " balance"
    return fields(one, "from_bytes to_bytes algorithm spec" + balance) | under(one.protocol)


def _library_field(result: Crossover) -> Document:
    picks = {"picks": [_winner(one) for one in result.picks]} if result.picks else {}
    return {"library": {"name": result.library} | picks} if result.library else {}


def _pair(pair: AlgorithmPair) -> Document:
    return {
        **fields(pair, "a b"),
        "crossings": [
            {
                **fields(one, "bytes faster_below faster_above"),
                "faster_below_spec": pair.spec(one.faster_below),
                "faster_above_spec": pair.spec(one.faster_above),
            }
            for one in pair.crossings
        ],
        **fields(pair, "dominates approximations a_spec b_spec"),
        "dominates_spec": pair.spec(pair.dominates),
    }


def _summary(result: Crossover) -> str:
    asked = crossover_title(result)
    steps = [f"{one.algorithm} from {format_bytes(one.from_bytes)}" for one in result.winners]
    return f"{asked}: {', '.join(steps)}"


VIEWS = {Crossover: View("crossover", _blocks, _document, _table, _summary)}
