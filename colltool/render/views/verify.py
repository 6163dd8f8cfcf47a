"""``verify``: formulas against executed schedules.

Read from :data:`VIEWS`: :func:`_answer` is the headline, :func:`_blocks` the screen,
:func:`_trace_tables` the steps of ``--trace``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from colltool.algorithms.trace import Holdings, Message, Trace, TracedChunk, TracedStep
from colltool.base.formatting import (
    counted,
    format_count,
    format_factor,
    format_time,
    ordinal,
    sentence,
)
from colltool.estimate.results import Infeasible
from colltool.render.blocks import (
    Block,
    Column,
    Columns,
    Headline,
    Lines,
    Table,
    label,
    lines_by_text,
    number,
    span_text,
)
from colltool.render.dispatch import View, context, group_columns, listed, set_text
from colltool.render.documents import Document, derived, optional
from colltool.render.shared_documents import GroupDocument, OverridesDocument
from colltool.verification.executed import VERDICTS
from colltool.verification.verify import Verification, Verified


class _VerdictWords(NamedTuple):
    """A verdict as people read it; CSV and JSON keep the words that scripts know.

    Args:
        execution: in the column of formulas, such as ``matches``.
        counted, counted_one: of several formulas and of one: ``2 match``, ``1 matches``.
        result: where there is no formula to match, and the result of the schedule is what is proved.
    """

    execution: str
    counted: str
    counted_one: str
    result: str


_WORDS = {
    "proved": _VerdictWords("matches", "match", "matches", "proved"),
    "idealised": _VerdictWords(
        "only on idle wires",
        "match only on idle wires",
        "matches only on idle wires",
        "proved on idle wires",
    ),
    "counts only": _VerdictWords("counts only", "counts only", "counts only", "counts only"),
    "mismatch": _VerdictWords("does not match", "do not match", "does not match", "wrong"),
}


def _execution_text(verdict: str) -> str:
    return _WORDS[verdict].execution


def _result_text(verdict: str) -> str:
    return _WORDS[verdict].result


_ASKED: Columns[Verified] = (
    label("primitive", "primitive", lambda primitive: primitive.label),
    label("fabric", drop=7),
    label("algorithm"),
    number("ranks", drop=6),
)
_PRICE: Column[Verified] = number("price_s", "price", format_time, drop=8, path="time_s.price_s")
_NOTE: Column[Verified] = label("note", hidden=True)
_COLUMNS: Columns[Verified] = (
    *_ASKED,
    label("verdict", "execution", _execution_text),
    number("n_alpha_formula", "n_alpha", format_count, drop=4, path="n_alpha.formula"),
    number("n_alpha_executed", "executed", format_count, drop=5, path="n_alpha.executed"),
    number("n_beta_formula", "n_beta", format_count, drop=2, path="n_beta.formula"),
    number("n_beta_executed", "executed", format_count, drop=3, path="n_beta.executed"),
    _PRICE,
    number("executed_s", "executed", format_time, drop=9, path="time_s.executed_s"),
)
# of algorithms without a formula
_WITHOUT_FORMULA: Columns[Verified] = (
    *_ASKED,
    label("verdict", "result", _result_text),
    number("n_alpha_executed", "n_alpha", format_count, drop=5, path="n_alpha.executed"),
    number("n_beta_executed", "n_beta", format_count, drop=3, path="n_beta.executed"),
    _PRICE,
    number("executed_s", "takes", format_time, drop=9, path="time_s.executed_s"),
)


def _formulas(result: Verification) -> list[Verified]:
    """The results that have a formula: all but those of schedules of one's own."""
    return [row for row in result.results if row.n_alpha.formula is not None]


def _table(result: Verification) -> Table:
    overrides = context(result.overrides)
    if not _formulas(result):
        return Table((*_WITHOUT_FORMULA, _NOTE, *overrides), result.results)
    columns = list(_COLUMNS)
    if result.simulator:
        columns.append(number("simulated_s", result.simulator, format_time))
    groups = group_columns(result.results[0].group, lambda row: row.group)
    return Table((*columns, _NOTE, *groups, *overrides), result.results)


def _counts(result: Verification) -> str:
    """Such as ``86 match, 2 match only on idle wires; 1 not executed``."""
    counts = Counter(row.verdict for row in result.results)
    of_formulas = bool(_formulas(result))
    texts = []
    for verdict in VERDICTS:
        if verdict in counts:
            texts.append(_counted(counts[verdict], verdict, of_formulas=of_formulas))
    parts = [", ".join(texts)]
    stride = result.results[0].group.stride
    if result.skipped:
        parts.append(f"{len(result.skipped)} not executed")
    if stride > 1:
        parts.append(f"every {ordinal(stride)} rank")
    if result.overrides:
        parts.append(f"with {set_text(result.overrides)}")
    return "; ".join(parts)


def _counted(count: int, verdict: str, *, of_formulas: bool) -> str:
    """``2 match only on idle wires``, of one ``1 matches``; without formulas ``2 proved``."""
    words = _WORDS[verdict]
    if not of_formulas:
        return f"{count} {words.result}"
    if count == 1:
        return f"{count} {words.counted_one}"
    return f"{count} {words.counted}"


_MOST_ROWS = 10  # shown without --all, and all that are not proved
_ENDS_HERE = (
    "A step waits for its busiest port or link, and for its longest way; flows of a domain are"
    " spread evenly over its uplinks. For packets, queues and adaptive routing turn to a"
    " packet-level simulator (ns-3, htsim, SST) or to ASTRA-sim."
)


def _blocks(result: Verification) -> list[Block]:
    # VERDICTS goes from the best to the worst
    worst_first = sorted(result.results, key=lambda row: VERDICTS.index(row.verdict), reverse=True)
    odd = sum(row.verdict != "proved" for row in worst_first)
    table = _table(result)._replace(records=tuple(worst_first), first=max(odd, _MOST_ROWS))
    traces: list[Block] = []
    legends: dict[str, None] = {}
    for row in result.results:
        if row.trace is not None:
            traces += _trace_tables(row, row.trace)
            legends[_legend(row.trace)] = None
    noted = []
    for row in worst_first:
        if row.note:
            noted.append((row.note, f"{row.algorithm} ({row.primitive.label}, {row.fabric})"))
    skipped = ((row.reason, row.algorithm) for row in result.skipped)
    return [
        Headline(_answer(result)),
        table,
        *traces,
        *listed("how to read the steps", legends),
        Lines("notes", (*lines_by_text(noted), _ENDS_HERE), first=0),
        *listed("not executed", lines_by_text(skipped), first=0),
    ]


def _answer(result: Verification) -> str:
    formulas = _formulas(result)
    if not formulas:
        names = ", ".join(dict.fromkeys(row.algorithm for row in result.results))
        ends = " and ".join(dict.fromkeys(row.primitive.label for row in result.results))
        proved = f"{names}: proved, every rank ends with what {ends} promises."
        return f"{proved} {sentence(_counts(result))}."
    verdicts = [row.verdict for row in formulas]
    wrong = verdicts.count("mismatch")
    proved_count = verdicts.count("proved")
    every = counted(len(verdicts), "formula")
    if wrong:
        verb = "does" if wrong == 1 else "do"
        return f"{wrong} of {every} {verb} not hold: {_counts(result)}."
    if proved_count < len(verdicts):
        which = f"{proved_count} of {every} hold"
    elif proved_count == 1:
        which = "The formula holds"
    else:
        which = f"All {every} hold"
    return f"{which} exactly when executed: {_counts(result)}.{_simulated(result)}"


def _simulated(result: Verification) -> str:
    """What the simulator finds: the ratios to the executed times."""
    ratios = []
    for row in result.results:
        if row.simulated_s is not None and row.time_s:
            ratios.append(row.simulated_s / row.time_s.executed_s)
    if not ratios:
        return ""
    span = span_text(format_factor(min(ratios)), format_factor(max(ratios)))
    schedules = counted(len(ratios), "schedule")
    return f" {result.simulator} finds {span} the executed time of {schedules}."


def _summary(result: Verification) -> str:
    return f"executed: {_counts(result)}"


# --- every step of a schedule

_SENT = (
    "0>1:2+ is chunk 2 from rank 0, which rank 1 adds to its own; without + it takes its place. "
)
_SUMS = f"{_SENT}2:013 is chunk 2 summed over ranks 0, 1 and 3"
_MANY_SUMS = f"{_SENT}2:0-3+12 is chunk 2 summed over ranks 0 to 3 and 12"
_ONE_DIGIT = 10  # ranks that have one
_PIECES = "0>1:2 is chunk 2 from rank 0 to rank 1"


def _legend(trace: Trace) -> str:
    if not trace.summed:
        return _PIECES
    return _SUMS if trace.ranks <= _ONE_DIGIT else _MANY_SUMS


class _TraceRow(NamedTuple):
    """The state after a step; step 0 is the start."""

    step: int
    traced: TracedStep | None
    holds: Holdings

    @property
    def messages(self) -> str:
        return _merged(self.traced.messages) if self.traced else ""


_MOVED: Columns[_TraceRow] = (
    number("step_n_alpha", "n_alpha", format_count, drop=2, path="traced.n_alpha"),
    number("step_n_beta", "n_beta", format_count, drop=2, path="traced.n_beta"),
    label("messages", fold=12),
)
_NODES_A_PAGE = 4  # that fit beside the messages on 80 columns


def _trace_tables(row: Verified, trace: Trace) -> Iterator[Table]:
    """The steps with what every rank holds, some ranks to a table: a table that is too wide would
    lose some."""
    nodes = range(len(trace.start))
    for first in nodes[::_NODES_A_PAGE]:
        yield _trace_table(row, trace, nodes[first : first + _NODES_A_PAGE])


def _trace_table(row: Verified, trace: Trace, nodes: range) -> Table:
    """The steps with what some nodes hold after each; the first table also has the messages."""
    states = [_TraceRow(0, traced=None, holds=trace.start)]
    for at, step in enumerate(trace.steps, start=1):
        states.append(_TraceRow(at, step, step.holds))
    moved = _MOVED if nodes.start == 0 else ()
    held = (_holdings_column(trace, node) for node in nodes)
    columns: Columns[_TraceRow] = (number("step"), *moved, *held)
    return Table(columns, tuple(states), title=_trace_title(row, trace, nodes))


def _trace_title(row: Verified, trace: Trace, nodes: range) -> str:
    chunks = "one chunk of M"
    if len(trace.chunk_bytes) > 1:
        sizes = sorted({f"M/{1 / size:g}" for size in trace.chunk_bytes})
        chunks = f"{len(trace.chunk_bytes)} chunks of {' and '.join(sizes)}"
    where = f"{row.primitive.label} on {row.fabric}, {row.group.label}"
    title = f"{row.algorithm}, {where}: {chunks}"
    if len(nodes) == len(trace.start):
        return title
    ranks = f"ranks {nodes[0]} to {nodes[-1]}" if len(nodes) > 1 else f"rank {nodes[0]}"
    return f"{title}; {ranks}"


def _holdings_column(trace: Trace, node: int) -> Column[_TraceRow]:
    """The column of what a rank, or a switch after the ranks, holds."""

    def chunks(row: _TraceRow) -> str:
        return " ".join(_chunk(held, trace) for held in row.holds[node])

    title = f"rank {node}" if node < trace.ranks else f"node {node}"
    return label(f"rank_{node}", title, get=chunks, fold=6)


def _chunk(held: TracedChunk, trace: Trace) -> str:
    if trace.summed and not held.values:
        return f"{held.chunk}:{_summed(held.ranks, trace.ranks)}"
    return _numbered(held)


def _summed(ranks: Sequence[int], of: int) -> str:
    """The ranks in a sum: ``013``; with numbers of two digits around, ``0-3+12``."""
    if of <= _ONE_DIGIT:
        return "".join(map(str, ranks))
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return "+".join("-".join(dict.fromkeys((str(run[0]), str(run[-1])))) for run in runs)


def _merged(messages: Sequence[Message]) -> str:
    """Messages, merged by sender and receiver: ``0>1:2+ 1>0:0,1+``."""
    carried: dict[tuple[str, str], list[str]] = {}
    for message in messages:
        pair = f"{message.src}>{message.dst}"
        carried.setdefault((pair, "+" if message.add else ""), []).append(_numbered(message))
    return " ".join(f"{pair}:{','.join(chunks)}{add}" for (pair, add), chunks in carried.items())


def _numbered(sent: Message | TracedChunk) -> str:
    """A chunk, with its numbers if the run is on numbers: ``2(5)``."""
    if not sent.values:
        return str(sent.chunk)
    return f"{sent.chunk}({' '.join(f'{value:g}' for value in sent.values)})"


# --- documents

# A count or time of the formula beside that of the execution is an object of two keys in JSON. Records
# have other names for them (``price_s``), and so are written as these.


class FormulaAndRun(NamedTuple):
    """A count of the formula, if there is one, and that of the execution."""

    formula: float | None
    executed: float


class PriceAndRun(NamedTuple):
    """The price by the formula, and the executed time."""

    price: float
    executed: float


class MessageDocument(Document, extends=Message):
    """A chunk on its way; ``add``: the receiver adds it to its own."""

    values: list[float] = optional("values")


class HeldDocument(Document, extends=TracedChunk):
    """A chunk that a node holds, and the ranks that it is summed over."""

    values: list[float] = optional("values")


class StepDocument(Document):
    """A step, and what every node holds after it; switches follow the ranks."""

    step: int
    n_alpha: float
    n_beta: float
    messages: list[MessageDocument]
    holds: list[list[HeldDocument]]


class StepsDocument(Document, of=Trace):
    """Every step of a schedule."""

    chunks: list[float] = derived("chunk_bytes")
    start: list[list[HeldDocument]]
    steps: list[StepDocument] = derived(
        lambda trace: tuple(
            StepDocument.of(step, step=at) for at, step in enumerate(trace.steps, start=1)
        )
    )


def _price_and_run(row: Verified) -> PriceAndRun | None:
    return PriceAndRun(*row.time_s) if row.time_s else None


class VerifiedDocument(Document, of=Verified):
    """A formula, and the execution of its schedule."""

    primitive: str
    algorithm: str
    fabric: str
    ranks: int
    group: GroupDocument
    verdict: str
    n_alpha: FormulaAndRun = derived(lambda row: FormulaAndRun(*row.n_alpha))
    n_beta: FormulaAndRun = derived(lambda row: FormulaAndRun(*row.n_beta))
    post_condition: bool
    time_s: PriceAndRun | None = derived(_price_and_run)
    note: str
    spec: str
    simulated_s: float = optional("simulated_s")
    trace: StepsDocument = optional("trace")


class VerdictDocument(Document):
    """Whether no formula is contradicted, which stands first."""

    holds: bool


class VerifyDocument(VerdictDocument, OverridesDocument):
    """Formulas against executed schedules."""

    simulator: str = optional("simulator")
    results: list[VerifiedDocument]
    skipped: list[Infeasible]


VIEWS = {Verification: View("verify", _blocks, VerifyDocument.of, _table, _summary)}
