"""``explain`` and ``crossover``: an algorithm's formula with numbers put in, and the sizes at which
two take equally long.

Read from :data:`VIEWS`, at the end: an explanation (:func:`_blocks`), the list of algorithms
(``_list_*``) and ``crossover`` (``_crossover_*``) follow each other, each with its documents
behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from colltool.algorithms.libraries import LIBRARIES
from colltool.base.errors import argument_text, localize
from colltool.base.formatting import (
    format_bytes,
    format_factor,
    format_length,
    format_rate,
    format_size,
    format_time,
    sentence,
    whole_bytes,
    whole_percent,
)
from colltool.base.primitives import SHORT, least_n_beta
from colltool.estimate.algorithm_estimate import AlgorithmEstimate, PhaseCost
from colltool.estimate.explain import (
    AlgorithmExplanation,
    AlgorithmList,
    CableDelay,
    Explanation,
    ListedAlgorithm,
    NcclEstimateParts,
)
from colltool.estimate.results import AlgorithmPair, Crossing, Crossover, PickCost, Winner
from colltool.estimate.segments import BestSegments
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
from colltool.render.dispatch import View, context, group_columns, on_fabric, set_text
from colltool.render.documents import LEFT_OUT, Document, derived, optional
from colltool.render.intervals import within
from colltool.render.shared_documents import (
    GroupDocument,
    MachineDocument,
    OnFabricDocument,
    assumed_by_file,
    machine_of,
    model_echo,
    whole_size,
)

_SAME = 1e-9  # relative difference that is rounding


# --- explain


def _formula(entry: AlgorithmExplanation) -> str:
    return " ".join(" ".join(entry.formula).split())


def _text(entry: AlgorithmExplanation) -> str:
    return " ".join(entry.text.split())


_COLUMNS: Columns[AlgorithmExplanation] = (
    label("algorithm"),
    label("primitive", "primitive", lambda primitive: primitive.label),
    label("title"),
    label("formula", get=_formula),
    label("text", get=_text),
    label("size_means", "M is"),
    label("runs_on", "runs on"),
    label("requires", get=lambda entry: "; ".join(entry.requires)),
    label("status"),
    label("shipped_by", "shipped by", get=lambda entry: ", ".join(entry.shipped_by)),
    label("source"),
    label("note"),
)
_PRICED: Columns[AlgorithmExplanation] = (
    number("total_s", "total", format_time, path="row.total_s"),
    number("busbw_Bps", "busbw", format_rate, path="row.busbw_Bps"),
    label("reason", "cannot run"),
)


def _table(result: Explanation) -> Table:
    # empty without a fabric, so that the header is always the same
    columns_of_question: Columns[AlgorithmExplanation] = (
        label("fabric", get=lambda _: result.fabric),
        label("set", get=lambda _: set_text(result.overrides)),
        number("ranks", get=lambda _: result.ranks or None),
        number("bytes", "size", get=lambda _: whole_bytes(result.bytes) or None),
    )
    group = group_columns(result.group, lambda _: result.group)
    return Table((*_COLUMNS, *columns_of_question, *_PRICED, *group), result.entries)


def _blocks(result: Explanation) -> list[Block]:
    blocks: list[Block] = []
    for entry in result.entries:
        blocks += _explained(entry, result)
    return blocks


def _explained(entry: AlgorithmExplanation, result: Explanation) -> Iterator[Block]:
    """An algorithm: the answer where a fabric is given, its formula, and the numbers put in."""
    where = f"on {on_fabric(result.fabric, result.overrides)}"
    row = entry.row
    mode = r.CONTENTION.get(result.mode, "")
    question = f"{where}, {_group(result)}, {format_size(result.bytes)} per rank, {mode}"
    if row is not None:
        what = sentence(entry.primitive.label)
        yield Headline(f"{row.name}: {_took(row, interval=True)}. {what} {question}.")
        formula = tuple(_description(entry))
        # the answer is the numbers; after the formula and its paper the rest is for --all
        yield Lines(_title(entry), formula, first=len(entry.formula) + 1)
    else:
        yield Lines(_title(entry), tuple(_description(entry)))
    if entry.reason:
        yield Lines(f"{where}: {entry.reason}", ())
    if row is not None:
        numbers = tuple(_numbers(row, result))
        yield Lines(question, numbers, first=min(len(numbers), _MOST_TERMS))
        schedule = tuple(_schedule(entry))
        limits = tuple(_limits(row, entry, result))
        yield Lines("this schedule", (*schedule, *limits), first=len(schedule))
        yield from r.readings_block(result.readings)
    for estimate in entry.estimates:
        yield _library_estimate(estimate, result.library)._replace(first=0)


_MOST_TERMS = 12  # lines of numbers without --all


def _description(entry: AlgorithmExplanation) -> Iterator[str]:
    """What is true on every fabric: formula, meaning of M, requirements, status and source."""
    yield from entry.formula
    paper, _, more = entry.source.partition("; ")
    yield f"source: {paper}"
    if more:
        yield f"source, continued: {more}"
    yield ""
    yield f"M is {entry.size_means}."
    yield from filter(None, entry.text.split("\n\n"))
    yield ""
    yield f"runs on: {entry.runs_on.removeprefix('needs ')}"
    for rule in entry.requires:
        yield f"requires: {rule}"
    yield f"status: {', by '.join(filter(None, (entry.status, ', '.join(entry.shipped_by))))}"
    if entry.note:
        yield f"note: {entry.note}"


def _library_estimate(estimate: NcclEstimateParts, library: str) -> Lines:
    """The library's own estimate, part by part."""
    lines = []
    latency_s = 0.0
    for name, times, each_s in estimate.latency:
        latency_s += times * each_s
        lines.append(f"{name}: {times:g} x {format_time(each_s)} = {format_time(times * each_s)}")
    if abs(estimate.plateau - 1) > _SAME:
        lines.append(f"these latencies times {estimate.plateau:.3g} at this size: a ring's plateau")
    lines.append(
        f"bandwidth: all channels under the protocol {format_rate(estimate.bus_Bps)}, the call"
        f" {format_rate(estimate.bandwidth_Bps)}"
    )
    if abs(estimate.correction - 1) > _SAME:
        lines.append(f"at this size {estimate.correction:.3g} of that is reached")
    lines.append(f"bytes: {format_time(estimate.seconds - estimate.plateau * latency_s)}")
    title = (
        f"{library}'s own estimate, {estimate.algorithm} under {estimate.protocol}:"
        f" {format_time(estimate.seconds)}"
    )
    return Lines(f"{title}; its pick" if estimate.picked else title, tuple(lines))


def _took(row: AlgorithmEstimate, *, interval: bool = False) -> str:
    rate = format_rate(float(row.busbw_Bps))
    bound = {"software": "library overhead", "overhead": "launch overhead"}.get(row.bound)
    took = format_time(float(row.total_s))
    off = within(row) if interval else ""
    if off:
        took += f" ({off})"
    return f"{took}, busbw {rate}, bound by {bound or row.bound}"


def _title(entry: AlgorithmExplanation) -> str:
    return f"{entry.algorithm}, {entry.primitive.label}: {entry.title.rstrip('.')}"


def _numbers(row: AlgorithmEstimate, result: Explanation) -> Iterator[str]:
    """The formula with the numbers of a fabric put in."""
    if row.protocol:
        yield f"protocol {row.protocol}"
    for cable in result.cables:
        where = r.place_name(cable.tier, cable.level)
        adds = f"{format_time(cable.adds_s)} of it are {format_length(cable.metres)} of cable"
        yield f"alpha of {where}: {adds}, before eta"
    for phase in row.phases:
        yield from _phase_terms(phase, alone=len(row.phases) == 1)
    # more than a rounding error of the sum
    if sum(float(phase.bandwidth_s) for phase in row.phases) > float(row.moved_s) * (1 + _SAME):
        busiest = format_time(float(row.moved_s))
        yield f"the phases overlap: only the bytes of the busiest tier count, {busiest}"
    if row.overhead_s:
        yield f"launch overhead {format_time(float(row.overhead_s))}"
    if row.rest_s:
        yield f"library overhead, as measured: {format_time(float(row.rest_s))}"
    yield f"t = {_took(row)}"
    slow = r.slow_words(row.slow)
    if slow:
        yield slow


def _phase_terms(phase: PhaseCost, *, alone: bool) -> Iterator[str]:
    """The latency and the transfer of a phase."""
    step = "local copy" if phase.label == "own share" else phase.label
    name = phase.level if alone or not step else f"{phase.level}, {step}"
    if phase.n_alpha:
        alpha_s = float(phase.alpha_s)
        per_hop = format_time(float(phase.alpha_s / phase.n_alpha))
        yield f"{name}: n_alpha x alpha = {phase.n_alpha:g} x {per_hop} = {format_time(alpha_s)}"
    rate = f"({format_rate(float(phase.bandwidth_Bps))} x {phase.eta_beta:.4g})"
    wire_s = float(phase.n_beta * phase.bytes / (phase.bandwidth_Bps * phase.eta_beta))
    yield (
        f"{name}: n_beta x M / BW = {float(phase.n_beta):.4g} x"
        f" {format_bytes(float(phase.bytes))} / {rate} = {format_time(wire_s)}"
    )


def _schedule(entry: AlgorithmExplanation) -> Iterator[str]:
    """The best number of segments, and with how many others a rank exchanges."""
    for line in r.segment_lines(entry.segments):
        yield f"segments on {line}"
    if entry.partners is not None:
        others = "other" if entry.partners == 1 else "others"
        yield f"partners: each rank exchanges with at most {entry.partners} {others}"


def _limits(
    row: AlgorithmEstimate, entry: AlgorithmExplanation, result: Explanation
) -> Iterator[str]:
    """Crossover of latency and bandwidth, and lower bounds."""
    if entry.balance is not None:
        latency = "latency with the launch" if row.overhead_s else "latency"
        larger = latency if row.bytes < entry.balance else "transfer"
        size = format_size(float(row.bytes))
        yield (
            f"{latency} = transfer at {format_bytes(entry.balance)}; at {size} {larger} takes longer"
        )
    # a switch that reduces is no endpoint, and can do with less
    if row.n_beta is not None and not entry.in_switch:
        least = least_n_beta(entry.primitive, result.ranks)
        yield f"smallest possible n_beta without help of the switches, on one port: {least:.4g}"
    floor = row.lower_bound_s
    if floor is not None:
        least_time = format_time(float(floor))
        times = f"this one takes {float(row.total_s / floor):.4g} times as long"
        yield f"lower bound: no schedule on these links is faster than {least_time}; {times}"


def _summary(result: Explanation) -> str:
    uses = ", ".join(entry.primitive.label for entry in result.entries)
    title = f"{result.algorithm}: {uses}"
    if len(result.entries) == 1:
        title = _title(result.entries[0])
    rows = [entry.row for entry in result.entries if entry.row is not None]
    if not rows:
        return title
    times = ", ".join(format_time(float(row.total_s)) for row in rows)
    where = f"on {on_fabric(result.fabric, result.overrides)}, {_group(result)}"
    return f"{title}\n{where}: {times}"


def _group(result: Explanation) -> str:
    return result.group.label if result.group else ""


class LatencyShare(NamedTuple):
    """A part of a library's own estimate of latency."""

    what: str
    times: float
    each_s: float


class EstimateDocument(Document, of=NcclEstimateParts):
    """A library's own estimate, part by part."""

    algorithm: str
    protocol: str
    picked: bool
    estimate_s: float = derived("seconds")
    latency: list[LatencyShare] = derived(
        lambda estimate: tuple(LatencyShare(*term) for term in estimate.latency)
    )
    plateau: float
    channels_Bps: float = derived("bus_Bps")
    bandwidth_Bps: float
    correction: float


class EntryDocument(Document, of=AlgorithmExplanation):
    """An algorithm for a primitive."""

    primitive: str
    title: str
    formula: list[str]
    text: str
    size_means: str
    runs_on: str
    requires: list[str]
    status: str
    shipped_by: list[str]
    source: str
    note: str
    result: r.RowDocument | None = derived("row")
    reason: str
    balance: float = optional("balance")
    partners: int = optional("partners")
    segments: list[BestSegments] = optional("segments")
    estimates: list[EstimateDocument] = optional("estimates")


def _on_fabric(get: Any) -> Any:
    """Declare a key that only an explanation on a fabric has."""
    return optional(lambda result: get(result) if result.fabric else LEFT_OUT)


class ExplainDocument(Document):
    """An algorithm, and on a fabric what it takes there."""

    algorithm: str
    fabric: str = optional("fabric")
    set: dict[str, str] = _on_fabric(lambda result: dict(result.overrides) or LEFT_OUT)
    fabric_assumed: list[str] = _on_fabric(assumed_by_file)
    machine: MachineDocument | None = _on_fabric(lambda result: machine_of(result.overrides))
    ranks: int = _on_fabric(lambda result: result.ranks)
    group: GroupDocument = optional("group")
    bytes: float = _on_fabric(whole_size)
    mode: str = optional("mode")
    model: r.ModelDocument = _on_fabric(model_echo)
    cables: list[CableDelay] = optional("cables")
    primitives: list[EntryDocument] = derived("entries")


# --- every algorithm

_LISTED: Columns[ListedAlgorithm] = (
    label("name", "algorithm"),
    label("called", "also called", drop=3, fold=24, get=lambda row: ", ".join(row.called)),
    label("primitives", get=lambda row: ", ".join(SHORT[each] for each in row.primitives)),
    label("title", "what it is", drop=1, fold=30),
    label("status", drop=4),
    label("shipped_by", "shipped by", drop=2, get=lambda row: ", ".join(row.shipped_by)),
)


def _list_table(result: AlgorithmList) -> Table:
    return Table(_LISTED, result.rows)


def _list_summary(result: AlgorithmList) -> str:
    shipped = sum(bool(row.shipped_by) for row in result.rows)
    return f"{len(result.rows)} algorithms; libraries implement {shipped} of them"


def _list_blocks(result: AlgorithmList) -> list[Block]:
    how = "colltool explain NAME: the formula, its source, and your numbers put in"
    return [
        Headline(f"{_list_summary(result)}. {how}."),
        _list_table(result).without("status", "shipped_by"),
    ]


class ListedDocument(Document, of=ListedAlgorithm):
    """An algorithm, and what others call it."""

    name: str
    title: str
    primitives: list[str]
    called: list[str]
    status: str
    shipped_by: list[str]


class AlgorithmsDocument(Document):
    """Every algorithm that can be priced."""

    algorithms: list[ListedDocument] = derived("rows")


# --- crossover

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


def _crossover_blocks(result: Crossover) -> list[Block]:
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


def _crossover_summary(result: Crossover) -> str:
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
    Explanation: View("explain", _blocks, ExplainDocument.of, _table, _summary),
    AlgorithmList: View(
        "explain-list", _list_blocks, AlgorithmsDocument.of, _list_table, _list_summary
    ),
    Crossover: View(
        "crossover", _crossover_blocks, CrossoverDocument.of, _crossings, _crossover_summary
    ),
}
