"""A run of nccl-tests: its table, by the header line, and its timings, checked against its own
numbers and the caller's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, given
from colltool.base.primitives import Primitive, parse_primitive
from colltool.measurements.busbw_ratio import (
    Ratio,
    UnusableRow,
    message_size,
    positive_time,
    ranks_of,
    ratio,
    rounding_interval,
)
from colltool.measurements.series import Note, Record, UserHints, agree, place
from colltool.measurements.which_collective import SeenRow, collective_of


class NotModelled(ColltoolError):
    """A run of something other than the seven primitives; an error only if the file holds nothing
    else."""


def records_of(run: TestRun, stated: UserHints) -> tuple[list[Record], list[Note]]:
    """The usable rows of a run, with everything checked that can be, and notes on the others."""
    # as the program announced itself, else the only one that command lines above name
    name = run.started or (next(iter(run.mentions)) if len(run.mentions) == 1 else "")
    if not name and stated.primitive is None:
        name = str(collective_of(_seen(run)) or "")
    primitive = _primitive(name, run, stated)
    chosen, notes = used_rows(run, stated.in_place)
    ratios = [half.ratio for half in chosen if half.ratio]
    ranks = _listed_ranks(run)
    source, where = (
        ("the Rank lines list", f"{run.file}:{run.devices[0].line}")
        if ranks
        else (f"{given('ranks')} is", run.where)
    )
    nodes = (
        len({device.host for device in run.devices if device.group == run.devices[0].group})
        if ranks
        else None
    )
    agreed = agree(ranks, stated.ranks, "ranks:", "ranks", where)
    agreed, garbled = ranks_of(primitive, ratios, agreed, source, run.where, named=bool(name))
    _check_ranks(run, agreed, where)
    nodes = agree(nodes, stated.nodes, "nodes:", "nodes", where)
    groups = len({device.group for device in run.devices})
    timings = []
    for half in chosen:
        if garbled and run.place(half.row) in garbled:
            notes.append(run.note("busbw and algbw do not fit the rank count: garbled", half.row))
            continue
        timings.append(
            Record(
                primitive,
                agreed,
                nodes,
                half.size,
                half.seconds,
                half.dtype,
                library=run.library,
                version=run.library_version or run.tests_version,
                file=run.file,
                line=half.row.number,
                item=half.row.item,
            )
        )
        if groups > 1:
            what = f"used as measured: {groups} groups ran this at the same time (NCCL_TESTS_SPLIT)"
            notes.append(run.note(what, half.row, used=True))
    return timings, notes


def _seen(run: TestRun) -> Iterator[SeenRow]:
    for row in run.rows:
        cells = row.cells()
        halves = {label: dict(half) for label, half in cells.halves.items()}
        known = next(iter(halves.values()), {})
        size, count = (
            rounding_interval(text) for text in (cells.size, cells.before.get("count", ""))
        )
        shown = ratio(
            rounding_interval(known.get("algbw", "")),
            rounding_interval(known.get("busbw", "")),
            run.place(row),
        )
        yield SeenRow(
            size=size.value if size else 0.0,
            elements=count.value if count else 0.0,
            dtype=cells.dtype,
            redop=cells.before.get("redop", ""),
            root=cells.before.get("root", ""),
            ratio=(shown.low + shown.high) / 2 if shown else None,
            in_place_wrong=halves.get(IN, {}).get("wrong", ""),
        )


def _primitive(name: str, run: TestRun, stated: UserHints) -> Primitive:
    if not name and stated.primitive is None:
        what = "the log does not say which collective this table measures"
        raise ColltoolError(
            what, where=run.where, fix=f"say it: {given('primitive', 'all_reduce')}"
        )
    try:
        found = parse_primitive(name.rpartition("/")[2]) if name else None
    except ColltoolError as error:
        what = f"'{name}' is not one of the seven modelled primitives"
        raise NotModelled(what, where=run.where, fix=error.fix) from error
    agreed = agree(found, stated.primitive, "the collective is", "primitive", run.where)
    assert agreed is not None
    return agreed


def _listed_ranks(run: TestRun) -> int | None:
    owners: dict[int, Device] = {}
    for device in run.devices:
        first = owners.setdefault(device.rank, device)
        if (first.pid, first.host) != (device.pid, device.host):
            what = f"Rank {device.rank} is listed twice, by process {first.pid} and {device.pid}"
            fix = (
                "either logs ran together: split them; or nccl-tests was built without MPI=1 and"
                " measured no communication"
            )
            raise ColltoolError(what, where=f"{run.file}:{device.line}", fix=fix)
    if (
        not owners
        or run.devices_cut
        or set(owners) != set(range(len(owners)))
        or len(owners) % (run.per_process or 1)
    ):
        return None
    sizes = {
        group: sum(one.group == group for one in owners.values())
        for group in {one.group for one in owners.values()}
    }
    if len(set(sizes.values())) > 1:
        what = (
            "groups of different sizes ran at once:"
            f" {', '.join(f'{size}' for size in sorted(sizes.values()))} ranks"
        )
        where = f"{run.file}:{run.devices[0].line}"
        raise ColltoolError(
            what,
            where=where,
            fix="the table does not say whose times it prints; measure equal groups",
        )
    return sizes[run.devices[0].group]


def _check_ranks(run: TestRun, ranks: int, where: str) -> None:
    if ranks < 2:
        fix = "run nccl-tests on two ranks or more, built with MPI=1 across processes"
        raise ColltoolError(f"{ranks} rank: nothing was communicated", where=where, fix=fix)
    if (
        len({device.rank for device in run.devices}) > ranks
        and len({device.group for device in run.devices}) == 1
    ):
        what = f"the log lists {len(run.devices)} ranks, {given('ranks')} says {ranks}"
        fix = f"leave {given('ranks')} out, or correct it"
        raise ColltoolError(what, where=f"{run.file}:{run.devices[0].line}", fix=fix)


# What the `error` column of old versions may reach: rounding, by the element type (nccl-tests' own
# limits).
_ROUNDING = {"double": 1e-12, "float64": 1e-12, "float": 1e-5, "float32": 1e-5}
_ROUGH_ROUNDING = 1e-2
_AGREES = 0.05  # of the time that size/algbw gives


class UsedRow(NamedTuple):
    """The half of a row (in-place or out-of-place) that is used.

    ``algbw_seconds`` is size/algbw, ``consistent`` whether that agrees with the time within
    rounding; both are None where algbw has too few digits. ``ratio`` is busbw/algbw, None where one
    is missing.
    """

    row: TableRow
    dtype: str
    size: float
    seconds: float
    algbw_seconds: float | None
    consistent: bool | None
    ratio: Ratio | None


def used_rows(run: TestRun, in_place: bool) -> tuple[list[UsedRow], list[Note]]:
    """The wanted half of every row, or the other one where that was not printed."""
    wanted, other = (IN, OUT) if in_place else (OUT, IN)
    # One half in every row and no blank: rccl-tests -O 0. In one row alone it is where the log was
    # cut.
    only_half = len(run.rows) > 1 and all(EITHER in row.cells().halves for row in run.rows)
    chosen: list[UsedRow] = []
    notes = list(run.bad)
    for row in run.rows:
        cells = row.cells()
        halves = {IN: cells.halves[EITHER]} if only_half else cells.halves
        label = wanted if wanted in halves else other
        try:
            if label not in halves:
                raise UnusableRow("truncated: fewer values than columns")
            chosen.append(_half(run, row, cells, dict(halves[label])))
        except UnusableRow as error:
            notes.append(run.note(str(error), row))
        else:
            if label != wanted:
                notes.append(
                    run.note(f"{label} half used: the log has no {wanted} time", row, used=True)
                )
    chosen = _timed(run, chosen, notes)
    if not chosen:
        first = min(notes, key=lambda note: note.line)
        what = f"no row of this table can be used; the first: {first.reason}"
        raise ColltoolError(
            what, where=first.where, fix=f"the table starts at line {run.table}; measure it again"
        )
    return chosen, notes


def _half(run: TestRun, row: TableRow, cells: Cells, half: dict[str, str]) -> UsedRow:
    size = message_size(cells.size)
    time = positive_time(half.get("time") or half.get("cputime") or "")
    # `#wrong` counts wrong elements; `error`, before 2.12, is the largest deviation, where rounding
    # is allowed
    for name, limit in (("wrong", 0.0), ("error", _ROUNDING.get(cells.dtype, _ROUGH_ROUNDING))):
        count = rounding_interval(half.get(name, "0").replace("N/A", "0"))
        if count is None or count.value > limit:
            raise UnusableRow(f"the result is wrong, or not readable: #{name} is not 0")
    algbw, busbw = (
        rounding_interval(half.get("algbw", "")),
        rounding_interval(half.get("busbw", "")),
    )
    consistent, told = None, algbw is not None and algbw.value > 0
    if algbw and told and algbw.half <= 0.1 * algbw.value:
        low, high = algbw.low * time.low * 1e3, algbw.high * time.high * 1e3
        consistent = low * (1 - _AGREES) <= size <= high * (1 + _AGREES)
    if row.joined and "time" in half and consistent is False:
        raise UnusableRow("garbled: time and algbw do not fit the size")
    by_rate = (
        size / algbw.value / 1e3 / 1e6
        if algbw and told and algbw.half <= 0.01 * algbw.value
        else None
    )
    shown = ratio(algbw, busbw, run.place(row))
    return UsedRow(row, cells.dtype, size, time.value / 1e6, by_rate, consistent, ratio=shown)


def _timed(run: TestRun, chosen: list[UsedRow], notes: list[Note]) -> list[UsedRow]:
    """Rows with the collective's own time. ``cputime`` (-C 1) is only the launch; algbw still gives
    the real time."""
    if run.time == "time" or (
        all(one.consistent is not False for one in chosen) and any(one.consistent for one in chosen)
    ):
        for one in chosen:
            if one.consistent is False:
                notes.append(
                    run.note("time used although size/algbw says otherwise", one.row, used=True)
                )
        return chosen
    timed = []
    for one in chosen:
        if one.algbw_seconds is not None:
            timed.append(one._replace(seconds=one.algbw_seconds))
            notes.append(
                run.note(
                    "time taken from size/algbw: cputime is the launch alone", one.row, used=True
                )
            )
        else:
            notes.append(
                run.note(
                    "cputime is the launch alone, and algbw has too few digits to give the time",
                    one.row,
                )
            )
    return timed


OUT, IN, EITHER = "out-of-place", "in-place", "one half"
_WIDE_GAP = 20  # spaces where a half was left blank; columns that are printed are at most 8 apart
_GAP = re.compile(rf"(?<!\s)\s{{{_WIDE_GAP},}}+[\d.]")


class Cells(NamedTuple):
    """A row's size and dtype as printed, for each half, by label, its columns and their text, and
    what stands before them."""

    size: str
    dtype: str
    halves: dict[str, Iterable[tuple[str, str]]]
    before: dict[str, str]  # count, redop, root


class TableRow(NamedTuple):
    """A row, cut into cells only when used, so that a log of a million rows takes no more memory
    than its text. ``joined``:
    pieced together from several lines. ``item``: its path in a JSON report."""

    number: int
    content: Any
    cut: Callable[[Any], Cells]
    joined: bool = False
    item: str = ""

    def cells(self) -> Cells:
        return self.cut(self.content)


class Columns(NamedTuple):
    """A table's columns. ``starts``: where each half starts in ``names``, ``width``: its columns.
    ``values``: of a full row, where a timestamp counts as two. ``without_redop``: rows may leave
    the redop cell blank, as old tests without a reduction do."""

    line: int
    names: tuple[str, ...]
    labels: tuple[str, ...]
    starts: tuple[int, ...]
    width: int
    values: int
    without_redop: bool

    def words(self, text: str) -> list[str]:
        words = text.split(None, self.values + 1)
        if self.without_redop and len(words) > 3 and rounding_interval(words[3]) is not None:
            words.insert(3, "")
        return words

    def cut(self, text: str) -> Cells:
        words = self.words(text)
        if len(words) == self.values:
            halves = {
                label: self._half(words[at:])
                for label, at in zip(self.labels, self.starts, strict=True)
            }
        else:
            halves = {IN if _GAP.search(text) else EITHER: self._half(words[self.starts[0] :])}
        return Cells(
            words[0], words[2], halves, dict(zip(self.names[: self.starts[0]], words, strict=False))
        )

    def _half(self, words: list[str]) -> Iterable[tuple[str, str]]:
        first = self.starts[0]
        return zip(self.names[first : first + self.width], words, strict=False)


class Device(NamedTuple):
    """A Rank line: one rank, and the process that drives it."""

    rank: int
    group: str
    pid: str
    host: str
    line: int


@dataclass
class TestRun:
    """What the report of one run says.

    ``started``: the program as it announces itself; ``mentions``: programs named above the table.
    ``devices_cut``: a Rank line is broken, so their number is unknown. ``per_process``: nThread x
    nGpus, 0 if unknown. ``table``: line of the header, 0 without one.
    """

    file: str
    started: str = ""
    mentions: set[str] = field(default_factory=set)
    per_process: int = 0
    devices: list[Device] = field(default_factory=list)
    devices_cut: bool = False
    library: str = ""
    library_version: str = ""
    tests_version: str = ""
    table: int = 0
    time: str = "time"
    closed: bool = False
    rows: list[TableRow] = field(default_factory=list)
    bad: list[Note] = field(default_factory=list)

    @property
    def where(self) -> str:
        return f"{self.file}:{self.table}"

    def place(self, row: TableRow) -> str:
        return place(self.file, row.number, row.item)

    def note(self, reason: str, row: TableRow, *, used: bool = False) -> Note:
        return Note(reason, self.file, row.number, row.item, used)
