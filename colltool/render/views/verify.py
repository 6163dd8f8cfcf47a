"""``verify``: formulas against executed schedules.

:func:`_answer` is the headline, :func:`_blocks` the screen, :func:`_table` the rows; documents stand
last. The steps of ``--trace`` are in ``verify_trace``. A schedule of one's own has no formula: its
result is what is proved. Verdicts are those of ``VERDICTS``, from the best to the worst: a formula is idealised
where it holds on idle wires only, and of "counts only" no time was compared.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from colltool.algorithms.trace import Message, Trace, TracedChunk
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
from colltool.render.views.verify_trace import trace_legend, trace_tables
from colltool.verification.verdicts import VERDICTS
from colltool.verification.verify import Verification, Verified


class _VerdictWords(NamedTuple):
    """A verdict as people read it; CSV and JSON keep the words that scripts know.

    Args:
        execution: in the column of formulas, such as ``matches``.
        of_several: of several formulas: ``2 match``; ``of_one``: ``1 matches``.
        result: where there is no formula to match, and the result of the schedule is what is proved.
    """

    execution: str
    of_several: str
    of_one: str
    result: str


# by verdict, as in VERDICTS
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


_QUESTION: Columns[Verified] = (
    label("primitive", "primitive", lambda primitive: primitive.label),
    label("fabric", drop=7),
    label("algorithm"),
    number("ranks", drop=6),
)
_PRICE: Column[Verified] = number("price_s", "price", format_time, drop=8, path="time_s.price_s")
_NOTE: Column[Verified] = label("note", hidden=True)
_COLUMNS: Columns[Verified] = (
    *_QUESTION,
    label("verdict", "execution", lambda verdict: _WORDS[verdict].execution),
    number("n_alpha_formula", "n_alpha", format_count, drop=4, path="n_alpha.formula"),
    number("n_alpha_executed", "executed", format_count, drop=5, path="n_alpha.executed"),
    number("n_beta_formula", "n_beta", format_count, drop=2, path="n_beta.formula"),
    number("n_beta_executed", "executed", format_count, drop=3, path="n_beta.executed"),
    _PRICE,
    number("executed_s", "executed", format_time, drop=9, path="time_s.executed_s"),
)
# of algorithms without a formula
_WITHOUT_FORMULA: Columns[Verified] = (
    *_QUESTION,
    label("verdict", "result", lambda verdict: _WORDS[verdict].result),
    number("n_alpha_executed", "n_alpha", format_count, drop=5, path="n_alpha.executed"),
    number("n_beta_executed", "n_beta", format_count, drop=3, path="n_beta.executed"),
    _PRICE,
    number("executed_s", "takes", format_time, drop=9, path="time_s.executed_s"),
)


def _formulas(result: Verification) -> list[Verified]:
    """The results that have a formula: all but those of schedules of one's own."""
    return [row for row in result.results if row.n_alpha.formula is not None]


def _table(result: Verification) -> Table:
    """The rows that were executed, with the columns of formulas where any has one."""
    overrides = context(result.overrides)
    if not _formulas(result):
        return Table((*_WITHOUT_FORMULA, _NOTE, *overrides), result.results)
    columns = list(_COLUMNS)
    if result.simulator:
        columns.append(number("simulated_s", result.simulator, format_time))
    groups = group_columns(result.results[0].group, lambda row: row.group)
    return Table((*columns, _NOTE, *groups, *overrides), result.results)


def _counts(result: Verification) -> str:
    """``86 match, 2 match only on idle wires; 1 not executed``."""
    counts = Counter(row.verdict for row in result.results)
    of_formulas = bool(_formulas(result))
    texts = []
    for verdict in VERDICTS:
        if verdict in counts:
            texts.append(_count_text(counts[verdict], verdict, of_formulas=of_formulas))
    parts = [", ".join(texts)]
    stride = result.results[0].group.stride
    if result.skipped:
        parts.append(f"{len(result.skipped)} not executed")
    if stride > 1:
        parts.append(f"every {ordinal(stride)} rank")
    if result.overrides:
        parts.append(f"with {set_text(result.overrides)}")
    return "; ".join(parts)


def _count_text(count: int, verdict: str, *, of_formulas: bool) -> str:
    """``2 match only on idle wires``, of one ``1 matches``; without formulas ``2 proved``."""
    words = _WORDS[verdict]
    if not of_formulas:
        return f"{count} {words.result}"
    if count == 1:
        return f"{count} {words.of_one}"
    return f"{count} {words.of_several}"


_MOST_ROWS = 10  # shown without --all; more where more are not proved
_LIMITS = (
    "A step waits for its busiest port or link, and for its longest way; flows of a domain are"
    " spread evenly over its uplinks. For packets, queues and adaptive routing turn to a"
    " packet-level simulator (ns-3, htsim, SST) or to ASTRA-sim."
)


def _blocks(result: Verification) -> list[Block]:
    """The answer, the rows with the worst first, the steps of traces, and notes."""
    worst_first = sorted(result.results, key=lambda row: VERDICTS.index(row.verdict), reverse=True)
    unproved = sum(row.verdict != "proved" for row in worst_first)
    rows = max(unproved, _MOST_ROWS)
    table = _table(result)._replace(records=tuple(worst_first), first=rows)
    traces: list[Block] = []
    legends: dict[str, None] = {}
    for row in result.results:
        if row.trace is not None:
            traces += trace_tables(row, row.trace)
            legends[trace_legend(row.trace)] = None
    notes = []
    for row in worst_first:
        if row.note:
            notes.append((row.note, f"{row.algorithm} ({row.primitive.label}, {row.fabric})"))
    skipped = ((row.reason, row.algorithm) for row in result.skipped)
    return [
        Headline(_answer(result)),
        table,
        *traces,
        *listed("how to read the steps", legends),
        Lines("notes", (*lines_by_text(notes), _LIMITS), first=0),
        *listed("not executed", lines_by_text(skipped), first=0),
    ]


def _answer(result: Verification) -> str:
    """How many formulas hold when executed; of schedules without one that their result is right."""
    formulas = _formulas(result)
    if not formulas:
        names = ", ".join(dict.fromkeys(row.algorithm for row in result.results))
        primitives = " and ".join(dict.fromkeys(row.primitive.label for row in result.results))
        proved = f"{names}: proved, every rank ends with what {primitives} promises."
        return f"{proved} {sentence(_counts(result))}."
    verdicts = [row.verdict for row in formulas]
    wrong = verdicts.count("mismatch")
    proved_count = verdicts.count("proved")
    formula_count = counted(len(verdicts), "formula")
    if wrong:
        verb = "does" if wrong == 1 else "do"
        return f"{wrong} of {formula_count} {verb} not hold: {_counts(result)}."
    if proved_count < len(verdicts):
        text = f"{proved_count} of {formula_count} hold"
    elif proved_count == 1:
        text = "The formula holds"
    else:
        text = f"All {formula_count} hold"
    return f"{text} exactly when executed: {_counts(result)}.{_simulator_text(result)}"


def _simulator_text(result: Verification) -> str:
    """What the simulator finds: the range of ratios to the executed times. Empty without one."""
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
            StepDocument.of(step, step=index) for index, step in enumerate(trace.steps, start=1)
        )
    )


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
    time_s: PriceAndRun | None = derived(
        lambda row: PriceAndRun(*row.time_s) if row.time_s else None
    )
    note: str
    spec: str
    simulated_s: float = optional("simulated_s")
    trace: StepsDocument = optional("trace")


class VerdictDocument(Document):
    """Whether no formula is contradicted; a base of its own, so that it is the first key."""

    holds: bool


class VerifyDocument(VerdictDocument, OverridesDocument):
    """Formulas against executed schedules."""

    simulator: str = optional("simulator")
    results: list[VerifiedDocument]
    skipped: list[Infeasible]


VIEWS = {Verification: View("verify", _blocks, VerifyDocument.of, _table, _summary)}
