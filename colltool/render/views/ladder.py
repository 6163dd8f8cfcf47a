"""``ladder``: a fixed list of prices to compare over time.

:func:`_blocks` is the screen, :func:`_table` the rows of CSV. A rung is a row: a primitive with an
algorithm on a fabric, priced without contention (``ideal``) and with (``realistic``), both an
``AlgorithmEstimate`` at one size. A gap is its time over the fastest of the same primitive and size, 1 for that
one itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from colltool.base.errors import localize
from colltool.base.formatting import (
    counted,
    format_count,
    format_gap,
    sentence,
    title_size,
    whole_bytes,
    whole_percent,
)
from colltool.base.primitives import SHORT
from colltool.estimate.algorithm_estimate import AlgorithmEstimate, PhaseCost
from colltool.estimate.assumptions import USUAL
from colltool.estimate.results import Infeasible, Ladder, Rung
from colltool.render.blocks import (
    Block,
    Column,
    Columns,
    Headline,
    Lines,
    Table,
    label,
    lines_by_names,
    names_by_text,
    number,
    span_text,
)
from colltool.render.dispatch import View, listed
from colltool.render.documents import LEFT_OUT, Document, derived, optional
from colltool.render.estimates import ModelDocument, readings_block
from colltool.render.shared_documents import whole_size


def _first_phase(rung: Rung) -> PhaseCost:
    """The phase whose etas CSV has; JSON has etas only where they are the same in all phases."""
    return rung.realistic.phases[0]


def _compression(rung: Rung) -> float:
    """The gap with contention over that without, below 1 where contention brings rows closer."""
    return rung.gap_realistic / rung.gap_ideal


_COLUMNS: Columns[Rung] = (
    label("primitive", "primitive", lambda primitive: primitive.label),
    label("fabric"),
    label("name", path="realistic.name"),
    label("algorithm"),
    label("protocol", drop=4, path="realistic.protocol"),
    number("ranks", drop=7),
    number("bytes", "size", title_size, hidden=True, path="realistic.bytes", whole=True),
    number("n_alpha", "n_alpha", format_count, drop=5, path="ideal.n_alpha"),
    number("n_beta", "n_beta", format_count, drop=6, path="ideal.n_beta"),
    number("ideal_s", "ideal", path="ideal.total_s"),
    number(
        "eta_alpha",
        "eta_a",
        format_count,
        drop=8,
        get=lambda rung: float(_first_phase(rung).eta_alpha),
    ),
    number(
        "eta_beta",
        "eta_b",
        format_count,
        drop=9,
        get=lambda rung: float(_first_phase(rung).eta_beta),
    ),
    number("realistic_s", "realistic", path="realistic.total_s"),
    number("gap_ideal", "gap ideal", format_gap, drop=4),
    number("gap_realistic", "gap real", format_gap, drop=1),
    number("compression", "contention's share", format_gap, drop=4, get=_compression),
    number("ideal_alpha_s", "ideal alpha", drop=2, path="ideal.alpha_s"),
    number("ideal_bandwidth_s", "ideal BW", drop=2, path="ideal.bandwidth_s"),
    label("spec", drop=10, hidden=True, path="realistic.spec"),
)


# columns as people read them, where CSV has longer names
_FOR_PEOPLE: dict[str, Column[Rung]] = {
    "primitive": label("primitive", "PRIM", SHORT.__getitem__),
    "name": label("algorithm", path="realistic.name"),
    "ideal_s": number("ideal_s", "without contention", path="ideal.total_s"),
    "realistic_s": number("realistic_s", "with contention", path="realistic.total_s"),
    "gap_ideal": number("gap_ideal", "times the fastest without", format_gap, drop=4),
    "gap_realistic": number("gap_realistic", "times the fastest", format_gap),
}
_PARTS: dict[str, Columns[Rung]] = {
    "ideal_s": (
        number("ideal_alpha_s", "alpha without", drop=3, path="ideal.alpha_s"),
        number("ideal_bandwidth_s", "BW without", drop=3, path="ideal.bandwidth_s"),
    ),
    "realistic_s": (
        number("alpha_s", "alpha with", drop=2, path="realistic.alpha_s"),
        number("bandwidth_s", "BW with", drop=2, path="realistic.bandwidth_s"),
    ),
}
"""The parts of a total, by its column."""
_LEGEND = (
    "times the fastest: of its primitive and size; contention's share: that with contention over"
    " that without, below 1 where contention brings the rows closer; with and without: contention"
)
_FIRST_ROWS = 10  # shown without --all
_MOST_NAMED = 3  # collectives that a sentence lists


def _table(result: Ladder) -> Table:
    return Table(_COLUMNS, result.rows).without_empty("protocol")


def _table_for_people(result: Ladder) -> Table:
    """The table in the library's names, with parts beside each total."""
    table = _table(result)
    columns: list[Column[Rung]] = []
    for column in table.columns:
        # our name is for CSV; the parts come from _PARTS
        if column.key in ("algorithm", "ideal_alpha_s", "ideal_bandwidth_s"):
            continue
        columns.append(_FOR_PEOPLE.get(column.key, column))
        columns += _PARTS.get(column.key, ())
    table = table._replace(columns=tuple(columns))
    return table.with_shown("bytes") if _has_several_sizes(result) else table


def _has_several_sizes(result: Ladder) -> bool:
    """Whether rungs differ in size; else all have the ladder's."""
    return len({rung.realistic.bytes for rung in result.rows}) > 1


def _blocks(result: Ladder) -> Iterator[Block]:
    """The answer and the rungs first; what the ladder is, model options and the legend after them."""
    left_out = [(localize(rung.reason), rung.algorithm) for rung in result.skipped]
    yield Headline(_answer(result))
    yield _table_for_people(result)._replace(first=_FIRST_ROWS)
    if result.description:
        yield Lines(result.description, (), first=0)
    yield from readings_block(result.readings)
    yield from listed("left out", lines_by_names(left_out))
    yield Lines(_LEGEND, (), first=0)


def _answer(result: Ladder) -> str:
    """Say who is the fastest of most primitives and sizes, and what contention costs."""
    added = [float(rung.realistic.total_s / rung.ideal.total_s) - 1 for rung in result.rows]
    shares = span_text(whole_percent(min(added)), whole_percent(max(added)))
    rows = counted(len(result.rows), "row")
    if not _has_several_sizes(result):
        rows += f" at {title_size(result.bytes)} per rank"
    fastest = _fastest_text(result)
    return f"{fastest}. Contention adds {shares} to the time. Ladder {result.name}, {rows}."


def _fastest_text(result: Ladder) -> str:
    """``Ring on star512 is the fastest for all-reduce, Tree on nvl72 for broadcast``."""
    several_sizes = _has_several_sizes(result)
    wins = []
    for rung in result.rows:
        # exactly 1: the fastest is divided by itself
        if rung.gap_realistic == 1:
            question = rung.primitive.label
            if several_sizes:
                question += f" of {title_size(float(rung.realistic.bytes))}"
            wins.append((f"{rung.algorithm} on {rung.fabric}", question))
    # those who win most come first; each primitive and size has a winner, so there is one
    winners = sorted(names_by_text(wins).items(), key=lambda winner: -len(winner[1]))
    (first, won_by_first), *others = winners
    questions = ", ".join(won_by_first)
    if len(won_by_first) > _MOST_NAMED:
        noun = "sizes" if several_sizes else "primitives"
        questions = f"{len(won_by_first)} of {len(wins)} {noun}"
    text = f"{sentence(first)} is the fastest for {questions}"
    if others:
        second, won_by_second = others[0]
        text += f", {second} for {', '.join(won_by_second[:_MOST_NAMED])}"
    if len(others) > 1:
        text += f" and {len(others) - 1} more for the others"
    return text


def _summary(result: Ladder) -> str:
    rows = counted(len(result.rows), "row")
    return f"ladder {result.name}, {title_size(result.bytes)} per rank, {rows}"


class IdealDocument(Document):
    """The price of a row without contention."""

    alpha_s: float
    bandwidth_s: float
    total_s: float
    lower_bound_s: float | None
    overhead_s: float = optional(lambda row: row.overhead_s or LEFT_OUT)
    software_s: float = optional(lambda row: row.software_s or LEFT_OUT)
    protocol: str = optional("protocol")


def _of_all_phases(row: AlgorithmEstimate, attribute: str) -> Any:
    """A number of the phases; None where it is not the same in all."""
    value, *others = {getattr(phase, attribute) for phase in row.phases}
    return None if others else value


class RealisticDocument(IdealDocument):
    """The price of a row with contention."""

    eta_alpha: float | None = derived(lambda row: _of_all_phases(row, "eta_alpha"))
    eta_beta: float | None = derived(lambda row: _of_all_phases(row, "eta_beta"))


class RungDocument(Document):
    """A row of a ladder; its size where that is not the ladder's."""

    primitive: str
    fabric: str
    name: str = derived("realistic.name")
    algorithm: str
    spec: str = derived("realistic.spec")
    ranks: int
    bytes: float = optional("bytes")
    n_alpha: float | None = derived("ideal.n_alpha")
    n_beta: float | None = derived("ideal.n_beta")
    ideal: IdealDocument = derived(lambda rung: IdealDocument.of(rung.ideal))
    realistic: RealisticDocument = derived(lambda rung: RealisticDocument.of(rung.realistic))
    gap_ideal: float
    gap_realistic: float
    compression: float = derived(_compression)


def _rungs(result: Ladder) -> Iterator[dict[str, Any]]:
    """The rows, each with its size where that is not the ladder's."""
    for rung in result.rows:
        size = rung.realistic.bytes
        rung_bytes = LEFT_OUT if size == result.bytes else whole_bytes(size)
        yield RungDocument.of(rung, bytes=rung_bytes)


def _unusual_model(result: Ladder) -> Any:
    """The options of the model, left out if they are the usual ones, so that a document can be compared with
    one of a version that had no options."""
    return result.readings.echo() if result.readings.unlike(USUAL) else LEFT_OUT


def _skipped_rungs(result: Ladder) -> Any:
    """What cannot run, and why; left out where all can."""
    skipped = tuple(Infeasible(rung.algorithm, localize(rung.reason)) for rung in result.skipped)
    return skipped or LEFT_OUT


class LadderDocument(Document):
    """Prices to follow."""

    ladder: str = derived("name")
    description: str
    bytes: float = derived(whole_size)
    model: ModelDocument = optional(_unusual_model)
    rows: list[RungDocument] = derived(_rungs)
    skipped: list[Infeasible] = optional(_skipped_rungs)


VIEWS = {Ladder: View("ladder", _blocks, LadderDocument.of, _table, _summary)}
