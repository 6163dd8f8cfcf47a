"""``explain`` and ``crossover``: an algorithm's formula with numbers put in, and the sizes at which
two take equally long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from colltool.algorithms.libraries import LIBRARIES
from colltool.base.errors import given, said
from colltool.base.formatting import (
    format_bytes,
    format_length,
    format_rate,
    format_size,
    format_time,
    sentence,
    whole_bytes,
)
from colltool.base.primitives import least_n_beta
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.explain import AlgorithmExplanation, Explanation
from colltool.estimate.results import AlgorithmPair, Crossing, Crossover, Winner
from colltool.nccl.rules import name_on
from colltool.render import estimates as r
from colltool.render.blocks import Block, Column, Headline, Lines, Table, gathered, label, number
from colltool.render.dispatch import (
    Document,
    View,
    context,
    fields,
    group_columns,
    group_field,
    on_fabric,
    set_field,
    set_text,
)

_SAME = 1e-9

_COLUMNS = (
    label("algorithm", "algorithm"),
    label("primitive", "primitive", lambda primitive: primitive.spoken),
    label("title", "title"),
    label("formula", "formula", get=lambda one: " ".join(" ".join(one.formula).split())),
    label("text", "text", get=lambda one: " ".join(one.text.split())),
    label("size_means", "M is"),
    label("runs_on", "runs on"),
    label("requires", "requires", get=lambda one: "; ".join(one.requires)),
    label("status", "status"),
    label("shipped_by", "shipped by", get=lambda one: ", ".join(one.shipped_by)),
    label("source", "source"),
    label("note", "note"),
)
_PRICED = (
    number("total_s", "total", format_time, get=lambda one: one.row and float(one.row.total_s)),
    number("busbw_Bps", "busbw", format_rate, get=lambda one: one.row and float(one.row.busbw_Bps)),
    label("reason", "cannot run"),
)


def _table(result: Explanation) -> Table:
    asked = (
        label("fabric", "fabric", get=lambda _: result.fabric),
        label("set", "set", get=lambda _: set_text(result.overrides)),
        number("ranks", "ranks", get=lambda _: result.ranks or None),
        number("bytes", "size", get=lambda _: whole_bytes(result.bytes) or None),
    )
    return Table(
        (*_COLUMNS, *asked, *_PRICED, *group_columns(result.group, lambda _: result.group)),
        result.entries,
    )


def _blocks(result: Explanation) -> list[Block]:
    return [block for entry in result.entries for block in _explained(entry, result)]


def _explained(entry: AlgorithmExplanation, result: Explanation) -> list[Block]:
    lines = [
        *entry.formula,
        "",
        f"M is {entry.size_means}.",
        *(p for p in entry.text.split("\n\n") if p),
    ]
    lines += [
        "",
        f"runs on: {entry.runs_on.removeprefix('needs ')}",
        *(f"requires: {rule}" for rule in entry.requires),
    ]
    lines += [
        f"status: {entry.status}{', by ' + ', '.join(entry.shipped_by) if entry.shipped_by else ''}"
    ]
    lines += [f"source: {entry.source}"] + ([f"note: {entry.note}"] if entry.note else [])
    out: list[Block] = [Lines(_title(entry), tuple(lines))]
    where = on_fabric(result.fabric, result.overrides)
    if entry.reason:
        out.append(Lines(f"on {where}: {entry.reason}", ()))
    if (row := entry.row) is not None:
        asked = f"on {where}, {_group(result)}, {format_size(result.bytes)} per rank, {result.mode}"
        out.insert(
            0,
            Headline(
                f"{entry.algorithm}: {_took(row)}. {sentence(entry.primitive.spoken)} {asked}."
            ),
        )
        out += [
            Lines(asked, tuple(_numbers(row, entry, result))),
            *r.readings_block(result.readings),
        ]
    for one in entry.estimates:
        lines = [
            f"{name}: {times:g} x {format_time(each)} = {format_time(times * each)}"
            for name, times, each in one.latency
        ]
        if abs(one.plateau - 1) > _SAME:
            lines.append(f"these latencies times {one.plateau:.3g} at this size: a ring's plateau")
        lines.append(
            f"channels under the protocol {format_rate(one.bus_Bps)}, of the call"
            f" {format_rate(one.bandwidth_Bps)}"
        )
        if abs(one.correction - 1) > _SAME:
            lines.append(f"of which {one.correction:.3g} is left at this size")
        sent = one.seconds - one.plateau * sum(times * each for _, times, each in one.latency)
        title = (
            f"{result.library}'s own estimate, {one.algorithm} under {one.protocol}:"
            f" {format_time(one.seconds)}"
        )
        out.append(
            Lines(
                f"{title}; its pick" if one.picked else title,
                (*lines, f"bytes: {format_time(sent)}"),
            )
        )
    return out


def _took(row: AlgorithmEstimate) -> str:
    return (
        f"{format_time(float(row.total_s))}, busbw {format_rate(float(row.busbw_Bps))}, bound by"
        f" {row.bound}"
    )


def _title(entry: AlgorithmExplanation) -> str:
    return f"{entry.algorithm}, {entry.primitive.spoken}: {entry.title.rstrip('.')}"


def _numbers(
    row: AlgorithmEstimate, entry: AlgorithmExplanation, result: Explanation
) -> Iterator[str]:
    if row.protocol:
        yield f"protocol {row.protocol}"
    for one in result.cables:
        where = one.tier if one.level == one.tier else f"{one.tier} {one.level}"
        yield (
            f"alpha of {where}: {format_time(one.adds_s)} of it are {format_length(one.metres)} of"
            " cable, before eta"
        )
    for phase in row.phases:
        name = (
            f"{phase.level}, {phase.label}" if len(row.phases) > 1 and phase.label else phase.level
        )
        if phase.n_alpha:
            per_hop = format_time(float(phase.alpha_s / phase.n_alpha))
            yield (
                f"{name}: n_alpha x alpha = {phase.n_alpha:g} x {per_hop} ="
                f" {format_time(float(phase.alpha_s))}"
            )
        rate = f"({format_rate(float(phase.bandwidth_Bps))} x {phase.eta_beta:.4g})"
        wire = format_time(
            float(phase.n_beta * phase.bytes / (phase.bandwidth_Bps * phase.eta_beta))
        )
        yield (
            f"{name}: n_beta x M / BW = {float(phase.n_beta):.4g} x"
            f" {format_bytes(float(phase.bytes))} / {rate} = {wire}"
        )
    if sum(float(phase.bandwidth_s) for phase in row.phases) > float(row.moved_s) * (1 + _SAME):
        yield (
            "phases stream: of the bytes the busiest tier's count alone,"
            f" {format_time(float(row.moved_s))}"
        )
    if row.overhead_s:
        yield f"launch overhead {format_time(float(row.overhead_s))}"
    if row.software_s:
        yield f"software, as measured: {format_time(float(row.software_s))}"
    yield f"t = {_took(row)}"
    if slow := r.slow_words(row.slow):
        yield slow
    if entry.balance is not None:
        latency = "latency with the launch" if row.overhead_s else "latency"
        side = (
            f"below it, so {latency} takes more"
            if row.bytes < entry.balance
            else "above it, so transfer takes more"
        )
        where = f"where {latency} equals transfer time; {format_size(float(row.bytes))} is {side}"
        yield f"n* = {format_bytes(entry.balance)}: {where}"
    for line in r.segment_lines(entry.segments):
        yield f"segments on {line}"
    if entry.partners is not None:
        yield (
            f"partners: a rank exchanges with {entry.partners} other{'s' * (entry.partners != 1)}"
            " at most"
        )
    if row.n_beta is not None and not entry.in_switch:
        least = least_n_beta(entry.primitive, result.ranks)
        yield f"least n_beta of any endpoint-driven schedule on one port: {least:.4g}"
    if (floor := row.lower_bound_s) is not None:
        below = f"cut bound: no schedule on these wires is faster than {format_time(float(floor))}"
        yield f"{below}; this one takes {float(row.total_s / floor):.4g} times as long"


def _document(result: Explanation) -> Document:
    head: Document = {"algorithm": result.algorithm}
    if result.fabric:
        head |= {"fabric": result.fabric} | set_field(result.overrides)
        head |= {"ranks": result.ranks} | (
            {"group": group_field(result.group)} if result.group else {}
        )
        head |= {"bytes": whole_bytes(result.bytes), "mode": result.mode} | r.model_field(
            result.readings
        )
        head |= {"cables": [one._asdict() for one in result.cables]} if result.cables else {}
    return head | {"primitives": [_fields(entry) for entry in result.entries]}


def _fields(entry: AlgorithmExplanation) -> Document:
    estimates = [
        {
            **fields(one, "algorithm protocol picked"),
            "estimate_s": one.seconds,
            "latency": [
                {"what": name, "times": times, "each_s": each} for name, times, each in one.latency
            ],
            "plateau": one.plateau,
            "channels_Bps": one.bus_Bps,
            **fields(one, "bandwidth_Bps correction"),
        }
        for one in entry.estimates
    ]
    return {
        **fields(
            entry,
            "primitive title formula text size_means runs_on requires status shipped_by source"
            " note",
        ),
        "result": None if entry.row is None else r.row_fields(entry.row),
        "reason": entry.reason,
        **{
            name: value
            for name, value in fields(entry, "balance partners").items()
            if value is not None
        },
        **r.segments_field(entry.segments),
        **({"estimates": estimates} if estimates else {}),
    }


def _summary(result: Explanation) -> str:
    uses = ", ".join(entry.primitive.spoken for entry in result.entries)
    said = _title(result.entries[0]) if len(result.entries) == 1 else f"{result.algorithm}: {uses}"
    times = ", ".join(
        format_time(float(entry.row.total_s)) for entry in result.entries if entry.row is not None
    )
    return (
        f"{said}\non {on_fabric(result.fabric, result.overrides)}, {_group(result)}: {times}"
        if times
        else said
    )


def _group(result: Explanation) -> str:
    return result.group.spoken if result.group else ""


_APPROXIMATIONS = ("N*alpha*BW/log2N", "N*alpha*BW", "N*alpha*BW/(log2N-1)")


class _Met(NamedTuple):
    """A row: a crossing of a pair, a pair that never crosses, or a winner; fields of the others
    stay None."""

    result: Crossover
    pair: AlgorithmPair | None = None
    crossing: Crossing | None = None
    winner: Winner | None = None

    def faster(self, side: str) -> str | None:
        """The faster one below or above the crossing; of a pair that never crosses always the
        same."""
        return (
            getattr(self.crossing, f"faster_{side}")
            if self.crossing
            else self.pair and self.pair.dominates
        )

    def balance(self, of: str) -> float | None:
        """The size at which an algorithm's latency equals its bandwidth time."""
        return None if self.pair is None else self.result.balance.get(getattr(self.pair, of))


def _approximation(name: str) -> Column:
    return number(
        name,
        f"~{name}",
        format_bytes,
        5,
        get=lambda one: one.pair and one.pair.approximations.get(name),
    )


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
    number(
        "from_bytes", "from", format_bytes, get=lambda one: one.winner and one.winner.from_bytes
    ),
    number("to_bytes", "to", format_bytes, get=lambda one: one.winner and one.winner.to_bytes),
    label("algorithm", "fastest of all", get=lambda one: one.winner and one.winner.algorithm),
    label("protocol", "under protocol", get=lambda one: one.winner and one.winner.protocol),
    number(
        "balance", "balance", format_bytes, 8, get=lambda one: one.winner and one.winner.balance
    ),
    label("spec", "spec", get=lambda one: one.winner and one.winner.spec, hidden=True),
)

_KIND = label(
    "kind",
    "kind",
    get=lambda one: "winner" if one.winner else "crossing" if one.crossing else "dominates",
    hidden=True,
)


def _pairs(result: Crossover) -> tuple[_Met, ...]:
    met = [
        _Met(result, pair, crossing)
        for pair in result.pairs
        for crossing in pair.crossings or (None,)
    ]
    return tuple(
        one
        for one in met
        if one.crossing is not None or (one.pair and one.pair.dominates is not None)
    )


def _crossings(result: Crossover) -> Table:
    asked = context(fabric=result.fabric, primitive=result.primitive, ranks=result.ranks)
    apart = (*group_columns(result.group, lambda _: result.group), *context(result.overrides))
    winners = (_Met(result, winner=winner) for winner in result.winners)
    return Table((_KIND, *asked, *apart, *_PAIR, *_WINNER), (*_pairs(result), *winners))


def _crossover_blocks(result: Crossover) -> list[Block]:
    pairs = sorted(_pairs(result), key=lambda one: one.crossing is None)
    names = dict.fromkeys([*(pair.a for pair in result.pairs), *(pair.b for pair in result.pairs)])
    found = sum(one.crossing is not None for one in pairs)
    columns = tuple(
        column._replace(get=_size_or_none, show=_size_text) if column.key == "bytes" else column
        for column in _PAIR
    )
    crossings = Table(
        columns, tuple(pairs), None, f"where {' and '.join(names)} cross", first=found
    )
    if not any(_APPROXIMATIONS[2] in pair.approximations for pair in result.pairs):
        crossings = crossings.without(_APPROXIMATIONS[2])
    # in one line, or by the pair's own table
    told = len(result.winners) < 2 or (bool(result.asked) and len(result.pairs) == 1)
    winners = _winners(result, result.winners, "fastest")._replace(first=0 if told else None)
    winners = (
        winners if any(one.protocol for one in result.winners) else winners.without("protocol")
    )
    losers = ((one.pair, one.pair.dominates) for one in pairs if one.pair and one.crossing is None)
    never = gathered(
        (f"{best} is faster at every size than", pair.b if best == pair.a else pair.a)
        for pair, best in losers
    )
    out: list[Block] = [Headline(_fastest(result)), winners, crossings]
    out += [Lines(f"{what} {', '.join(beaten)}", ()) for what, beaten in never.items()]
    if result.uneven:
        whose, alike = LIBRARIES[result.library].spoken, given("library", "all")
        out.append(
            Lines(
                said(
                    f"some of these carry {whose}'s measured overhead, others none: {alike} leaves"
                    " it out"
                ),
                (),
            )
        )
    if result.picks:
        picks = _winners(result, result.picks, "its own pick")
        kept = tuple(column for column in picks.columns if column.key != "balance")
        title = f"what {library_title(result)} picks by its own cost model"
        if result.asked:
            out.append(picks._replace(columns=kept, title=title, first=0))
        else:
            out.insert(1, picks._replace(columns=kept, title=title))
    return [*out, *r.notes([], result.model)]


def _size_or_none(one: _Met) -> Any:
    return one.crossing.bytes if one.crossing else "none"


def _size_text(size: Any) -> str:
    return size if isinstance(size, str) else format_bytes(size)


def _named(result: Crossover, winner: Winner) -> str:
    return name_on(result.library, result.primitive, result.group, winner.spec) or winner.algorithm


def _winners(result: Crossover, winners: tuple[Winner, ...], title: str) -> Table:
    names: tuple[Column, ...] = (
        label("algorithm", title, get=lambda one: _named(result, one.winner), fold=22),
    )
    if any(_named(result, one) != one.algorithm for one in (*result.winners, *result.picks)):
        names = (
            *names,
            label("how", "how (inside / across)", get=lambda one: one.winner.algorithm, fold=18),
        )
    columns = (
        column for one in _WINNER for column in (names if one.key == "algorithm" else (one,))
    )
    return Table(tuple(columns), tuple(_Met(result, winner=winner) for winner in winners))


def _fastest(result: Crossover) -> str:
    """What runs at each size: the library's picks where they are known; beside them what would be
    the fastest.

    Of named algorithms the faster one.
    """
    asked, fastest = sentence(crossover_title(result)), _stretches(result, result.winners)
    if not result.picks or result.asked:
        return f"{fastest}. {asked}."
    picks = _stretches(result, result.picks)
    beside = "" if picks == fastest else f" Fastest by the prices here: {fastest}."
    return f"{library_title(result)} picks {picks}. {asked}.{beside}"


def _stretches(result: Crossover, winners: Sequence[Winner]) -> str:
    """``Tree below 200 KB, NVLSTree from there``: under whatever protocol."""
    several = [(_named(result, one), format_bytes(one.from_bytes)) for one in winners]
    (first, _), *later = [
        one for at, one in enumerate(several) if not at or several[at - 1][0] != one[0]
    ]
    if not later:
        return (
            f"{first} at every size"
            if result.picks and not result.asked
            else f"{first} is the fastest at every size"
        )
    steps = [
        f"{first} below {later[0][1]}",
        f"{later[0][0]} from there",
        *(f"{name} from {size}" for name, size in later[1:]),
    ]
    return ", ".join(steps)


def library_title(result: Crossover) -> str:
    return LIBRARIES[result.library].spoken if result.library else ""


def crossover_title(result: Crossover) -> str:
    where = on_fabric(result.fabric, result.overrides)
    library = f"{r.running(result.library, leads=result.library_leads)}, " if result.library else ""
    return f"{result.primitive.spoken} on {where}, {result.group.spoken}, {library}{result.mode}"


def _crossover_document(result: Crossover) -> Document:
    picks = {"picks": [_winner(one) for one in result.picks]} if result.picks else {}
    return {
        "fabric": result.fabric,
        **set_field(result.overrides),
        **fields(result, "primitive ranks"),
        "group": group_field(result.group),
        "mode": result.mode,
        "model": result.model.echo(),
        "pairs": [_pair(pair) for pair in result.pairs],
        "uneven": result.uneven,
        "winners": [_winner(one) for one in result.winners],
        "balance": result.balance,
        **({"library": {"name": result.library} | picks} if result.library else {}),
    }


def _winner(one: Winner) -> Document:
    balance = "" if one.balance is None else " balance"
    return fields(one, "from_bytes to_bytes algorithm spec" + balance) | r.under(one.protocol)


def _pair(pair: AlgorithmPair) -> Document:
    crossings = [
        fields(one, "bytes faster_below faster_above")
        | {
            "faster_below_spec": pair.spec(one.faster_below),
            "faster_above_spec": pair.spec(one.faster_above),
        }
        for one in pair.crossings
    ]
    dominates = fields(pair, "dominates approximations a_spec b_spec") | {
        "dominates_spec": pair.spec(pair.dominates)
    }
    return {"a": pair.a, "b": pair.b, "crossings": crossings, **dominates}


def _crossover_summary(result: Crossover) -> str:
    steps = [f"{one.algorithm} from {format_bytes(one.from_bytes)}" for one in result.winners]
    return f"{crossover_title(result)}: {', '.join(steps)}"


VIEWS = {
    Explanation: View("explain", _blocks, _document, _table, _summary),
    Crossover: View(
        "crossover", _crossover_blocks, _crossover_document, _crossings, _crossover_summary
    ),
}
