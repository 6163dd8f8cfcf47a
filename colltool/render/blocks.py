"""Results as blocks: titles, tables and lists. What a table shows is decided here, how it is drawn in the format's own file."""

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any

from colltool.pricing.results import Breakdown, Crossover, Infeasible, Ladder, Model, Phase, Price, PriceList, Row
from colltool.render.parts import Block, Cell, Column, Lines, Table, gathered, plain
from colltool.study.results import Diff
from colltool.units import format_bytes, format_rate, format_size, format_time


@singledispatch
def blocks(result: Any) -> list[Block]:
    """A result as blocks, the main table first among tables."""
    raise TypeError(f"no blocks for {type(result).__name__}")


def _count(value: Any) -> Cell:
    return Cell("-" if value is None else f"{value:.6g}", value)


def _time(value: Any) -> Cell:
    return Cell(format_time(float(value)), float(value))


def _rate(value: Any) -> Cell:
    return Cell(format_rate(float(value)), float(value))


def _share(value: float) -> Cell:
    return Cell(f"{100 * value:.0f}%", value)


def _size_text(size: float) -> str:
    exact = format_size(size)
    return exact if len(exact) <= 8 else format_bytes(size).replace(" ", "")


def _under(protocol: str) -> Cell:
    return Cell(protocol or "-", protocol or None)


def _listed(names: Sequence[str]) -> Cell:
    return Cell(", ".join(names) or "-", ", ".join(names) or None)


_RowColumn = tuple[Column, Callable[[Row], Cell]]

_ROW_COLUMNS: tuple[_RowColumn, ...] = (
    (Column("algorithm", "algorithm", right=False), lambda row: Cell(row.title, row.title)),
    (Column("protocol", "protocol", 5, right=False), lambda row: _under(row.protocol)),
    (Column("n_alpha", "n_alpha", 6), lambda row: _count(row.n_alpha)),
    (Column("n_beta", "n_beta", 7), lambda row: _count(row.n_beta)),
    (Column("alpha_s", "alpha", 2), lambda row: _time(row.alpha_s)),
    (Column("bandwidth_s", "bandwidth", 1), lambda row: _time(row.bandwidth_s)),
    (Column("overhead_s", "overhead", 5), lambda row: _time(row.overhead_s)),
    (Column("total_s", "total"), lambda row: _time(row.total_s)),
    (Column("alpha_share", "alpha%", 9), lambda row: _share(float(row.alpha_s / row.total_s))),
    (Column("bandwidth_share", "bw%", 10), lambda row: _share(float(row.bandwidth_s / row.total_s))),
    (Column("algbw_Bps", "algbw", 8), lambda row: _rate(row.algbw_Bps)),
    (Column("busbw_Bps", "busbw", 3), lambda row: _rate(row.busbw_Bps)),
    (Column("status", "status", 4, right=False), lambda row: plain(row.status)),
    (
        Column("shipped_by", "shipped by", 11, right=False),
        lambda row: _listed(row.shipped_by),
    ),
)


def _row_table(results: Sequence[tuple[Price, Row]], best: Row | None, title: str = "", *, with_size: bool = False) -> Table:
    """Rows with what they are rows of; hidden: a launch overhead that is nowhere paid, protocols where there are none."""
    idle = {key for key in ("overhead_s", "protocol") if not any(getattr(row, key) for _, row in results)}
    context = (
        Column("fabric", "fabric", hidden=True),
        Column("primitive", "primitive", hidden=True),
        Column("ranks", "ranks", hidden=True),
        Column("bytes", "size", hidden=not with_size),
    )
    own = tuple(column._replace(hidden=column.key in idle) for column, _ in _ROW_COLUMNS)
    rows = tuple((*_context(one), *(cell(row) for _, cell in _ROW_COLUMNS)) for one, row in results)
    at = next((i for i, (_, row) in enumerate(results) if row is best), None)
    return Table((*context, *own), rows, at, title)


def _context(one: Price) -> tuple[Cell, ...]:
    size = float(one.bytes)
    size_cell = Cell(_size_text(size), int(size) if size.is_integer() else size)
    return (plain(one.fabric), plain(str(one.primitive)), plain(one.ranks), size_cell)


def _heading(result: Price) -> str:
    name = result.primitive.spoken
    return f"{name} on {result.fabric}, {result.ranks} ranks, {_size_text(float(result.bytes))} per rank, {result.mode}"


def _notes(rows: Sequence[Row], model: Model) -> list[Block]:
    by_note = gathered((note, row.title) for row in rows for note in row.notes)
    lines = [f"{note}: {', '.join(titles)}" for note, titles in by_note.items()]
    readings = [f"{name}={value}" for name, value in model.unusual().items()]
    extra = [f"readings: {', '.join(readings)}"] if readings else []
    return [Lines("notes", (*extra, *lines))] if extra or lines else []


def _cannot(infeasible: Sequence[Infeasible]) -> list[Block]:
    """Why the others cannot run, one line for each reason."""
    by_reason = gathered((one.reason, one.algorithm) for one in infeasible)
    lines = tuple(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
    return [Lines("cannot run here", lines)] if lines else []


@blocks.register
def _price(result: Price) -> list[Block]:
    best = result.best
    table = _row_table([(result, row) for row in result.results], best, _heading(result))
    return [table, *_fastest(result, best), *_notes(result.results, result.model), *_cannot(result.infeasible)]


def _fastest(result: Price, best: Row) -> list[Block]:
    """One sentence where the first row is no schedule that somebody could run."""
    if result.results[0] is best:
        return []
    return [Lines(f"fastest that exists: {best.title}, {format_time(float(best.total_s))}", ())]


@blocks.register
def _price_list(result: PriceList) -> list[Block]:
    if not result.winners_only:
        return _several(result.prices)
    first = result.prices[0]
    columns = (
        Column("bytes", "size"),
        Column("fastest", "fastest", right=False),
        Column("total_s", "total"),
        Column("busbw_Bps", "busbw", 3),
        Column("bound", "bound by", 4, right=False),
        Column("protocol", "protocol", 5, right=False, hidden=not any(one.results[0].protocol for one in result.prices)),
        Column("runner_up", "runner-up", 1, right=False),
        Column("runner_up_s", "its total", 2),
    )
    name = first.primitive.spoken
    title = f"{name} on {first.fabric}, {first.ranks} ranks, {first.mode}"
    notes = _notes([row for one in result.prices for row in one.results], first.model)
    return [Table(columns, tuple(_winner(one) for one in result.prices), None, title), *notes]


def _winner(one: Price) -> tuple[Cell, ...]:
    best, second = one.results[0], one.results[1] if len(one.results) > 1 else None
    size = float(one.bytes)
    price = (_time(best.total_s), _rate(best.busbw_Bps), plain(best.bound), _under(best.protocol))
    cells = (Cell(_size_text(size), size), plain(best.title), *price)
    if second is None:
        return (*cells, Cell("-", None), Cell("-", None))
    return (*cells, plain(second.title), _time(second.total_s))


def _several(prices: Sequence[Price]) -> list[Block]:
    """One table of all sizes, for CSV and for reading down a column."""
    if len(prices) == 1:
        return blocks(prices[0])
    first = prices[0]
    every = [row for one in prices for row in one.results]
    name = first.primitive.spoken
    title = f"{name} on {first.fabric}, {first.ranks} ranks, {len(prices)} sizes, {first.mode}"
    table = _row_table([(one, row) for one in prices for row in one.results], None, title, with_size=True)
    return [table, *_notes(every, first.model), *_cannot(first.infeasible)]


_PHASE_COLUMNS: tuple[tuple[Column, Callable[[Phase], Cell]], ...] = (
    (Column("tier", "tier", right=False), lambda p: plain(p.tier)),
    (Column("level", "level", 5, right=False), lambda p: plain(p.level)),
    (Column("primitive", "phase", right=False), lambda p: plain(p.primitive.spoken)),
    (Column("algorithm", "algorithm", right=False), lambda p: plain(p.algorithm)),
    (Column("label", "step", 4, right=False), lambda p: Cell(p.label or "-", p.label or None)),
    (Column("ranks", "ranks", 7), lambda p: plain(p.ranks)),
    (Column("bytes", "payload", 6), lambda p: Cell(format_bytes(float(p.bytes)), float(p.bytes))),
    (Column("n_alpha", "n_alpha", 9), lambda p: _count(p.n_alpha)),
    (Column("n_beta", "n_beta", 10), lambda p: _count(p.n_beta)),
    (Column("alpha_s", "alpha", 2), lambda p: _time(p.alpha_s)),
    (Column("bandwidth_s", "bandwidth", 1), lambda p: _time(p.bandwidth_s)),
    (Column("eta_alpha", "eta_a", 11), lambda p: _count(p.eta_alpha)),
    (Column("eta_beta", "eta_b", 12), lambda p: _count(p.eta_beta)),
)


@blocks.register
def _breakdown(result: Breakdown) -> list[Block]:
    row = result.price.results[0]
    share = Column("share", "of total")
    columns = (*(column for column, _ in _PHASE_COLUMNS), share)
    cells = tuple(
        (*(cell(phase) for _, cell in _PHASE_COLUMNS), _share(float(phase.total_s / row.total_s))) for phase in row.phases
    )
    title = f"{row.title}: {_heading(result.price)}"
    sums = f"total {format_time(float(row.total_s))}: alpha {format_time(float(row.alpha_s))}"
    sums += f" + bandwidth {format_time(float(row.bandwidth_s))}"
    sums += f" + launch overhead {format_time(float(row.overhead_s))}" if row.overhead_s else ""
    sums += f", bound by {row.bound}" + (f", under protocol {row.protocol}" if row.protocol else "")
    out: list[Block] = [Table(columns, cells, None, title), Lines(sums, ())]
    if float(sum(phase.bandwidth_s for phase in row.phases)) > float(row.bandwidth_s) * (1 + 1e-9):
        out.append(Lines("phases stream through each other: only the busiest tier's bandwidth counts", ()))
    if result.baselines:
        out.append(_row_table([(result.price, row) for row in result.baselines], None, "flat baselines"))
    return out + _notes([row], result.price.model)


@blocks.register
def _crossover(result: Crossover) -> list[Block]:
    columns = (
        Column("a", "a", right=False),
        Column("b", "b", right=False),
        Column("bytes", "crossover"),
        Column("faster_below", "faster below", 4, right=False),
        Column("faster_above", "faster above", 3, right=False),
        Column("N*alpha*BW/log2N", "~N*alpha*BW/log2N", 5),
        Column("N*alpha*BW", "~N*alpha*BW", 6),
    )
    rows = []
    for pair in result.pairs:
        near = tuple(_optional_size(pair.approximations.get(key)) for key in ("N*alpha*BW/log2N", "N*alpha*BW"))
        names = (plain(pair.a), plain(pair.b))
        rows += [(*names, _optional_size(c.bytes), plain(c.faster_below), plain(c.faster_above), *near) for c in pair.crossings]
        if pair.dominates is not None:
            rows.append((*names, Cell("none", None), plain(pair.dominates), plain(pair.dominates), *near))
    name = result.primitive.spoken
    title = f"crossovers of {name} on {result.fabric}, {result.ranks} ranks, {result.mode}"
    return [Table(columns, tuple(rows), None, title), _winners(result), *_notes([], result.model)]


def _optional_size(size: float | None) -> Cell:
    return Cell("-" if size is None else format_bytes(size), size)


def _winners(result: Crossover) -> Block:
    columns = (
        Column("from_bytes", "from"),
        Column("to_bytes", "to"),
        Column("algorithm", "fastest of all", right=False),
        Column("protocol", "under protocol", right=False, hidden=not any(one.protocol for one in result.winners)),
    )
    rows = tuple(
        (_optional_size(one.from_bytes), _optional_size(one.to_bytes), plain(one.algorithm), _under(one.protocol))
        for one in result.winners
    )
    name = result.primitive.spoken
    return Table(columns, rows, None, f"who wins at which size: {name} on {result.fabric}, {result.ranks} ranks, {result.mode}")


@blocks.register
def _ladder(result: Ladder) -> list[Block]:
    columns = (
        Column("primitive", "primitive", right=False),
        Column("fabric", "fabric", right=False),
        Column("algorithm", "algorithm", right=False),
        Column("protocol", "protocol", 4, right=False, hidden=not any(rung.realistic.protocol for rung in result.rows)),
        Column("ranks", "ranks", 7),
        Column("n_alpha", "n_alpha", 5),
        Column("n_beta", "n_beta", 6),
        Column("ideal_s", "ideal"),
        Column("eta_alpha", "eta_a", 8),
        Column("eta_beta", "eta_b", 9),
        Column("realistic_s", "realistic"),
        Column("gap_ideal", "gap ideal", 2),
        Column("gap_realistic", "gap real", 1),
        Column("compression", "margin", 3),
    )
    rows = tuple(
        (
            plain(rung.primitive.spoken),
            plain(rung.fabric),
            plain(rung.algorithm),
            _under(rung.realistic.protocol),
            plain(rung.ranks),
            _count(rung.ideal.n_alpha),
            _count(rung.ideal.n_beta),
            _time(rung.ideal.total_s),
            _count(rung.realistic.phases[0].eta_alpha),
            _count(rung.realistic.phases[0].eta_beta),
            _time(rung.realistic.total_s),
            _times(rung.gap_ideal),
            _times(rung.gap_realistic),
            _times(rung.gap_realistic / rung.gap_ideal),
        )
        for rung in result.rows
    )
    title = f"ladder {result.name}, {_size_text(result.bytes)} per rank"
    legend = "gap: times the fastest rung of its primitive; margin: gap real / gap ideal, below 1 where contention compresses it"
    described = [Lines(result.description, ())] if result.description else []
    return [Table(columns, rows, None, title), *described, Lines(legend, ())]


def _times(value: float) -> Cell:
    return Cell(f"{value:.2f}x", value)


@blocks.register
def _diff(result: Diff) -> list[Block]:
    columns = (
        Column("where", "where", right=False),
        Column("old", "old", 2),
        Column("new", "new", 1),
        Column("relative", "change"),
    )
    rows = tuple(
        (
            plain(change.where),
            Cell(_short(change.old), change.old),
            Cell(_short(change.new), change.new),
            Cell("-" if change.relative is None else f"{100 * change.relative:+.3g}%", change.relative),
        )
        for change in result.changed
    )
    out: list[Block] = [Table(columns, rows, None, f"changed by more than {result.rtol:g}")]
    out += [Lines(name, lines) for name, lines in (("added", result.added), ("removed", result.removed)) if lines]
    return out if result.moved else [*out, Lines(f"nothing moved by more than {result.rtol:g}", ())]


def _short(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)
