"""Of every row of a run the half that is used, out-of-place or in-place, with a time and a result that can be trusted."""

from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.measurements.nccl_tests.run import Run
from colltool.measurements.nccl_tests.table import EITHER, IN, OUT, Cells, TableRow
from colltool.measurements.printed import Printed, Unusable, message_size, positive_time, printed
from colltool.measurements.rank_count import Ratio, ratio
from colltool.measurements.timing import Note

# What the `error` column of old versions may reach: rounding, by the element type (nccl-tests' own limits).
_ROUNDING = {"double": 1e-12, "float64": 1e-12, "float": 1e-5, "float32": 1e-5}
_ROUGH_ROUNDING = 1e-2
_AGREES = 0.05  # of the time that size/algbw gives


class Chosen(NamedTuple):
    """The half of a row that is used.

    Args:
        row: which.
        dtype, label: of its elements; of the half.
        size: bytes.
        seconds: as its time column has it.
        algbw_seconds: as size/algbw gives it; None where algbw has too few digits.
        consistent: whether time x algbw is the size, within rounding; None where algbw has too few digits to say.
        ratio: busbw/algbw; None where one was not printed.
    """

    row: TableRow
    dtype: str
    label: str
    size: float
    seconds: float
    algbw_seconds: float | None
    consistent: bool | None
    ratio: Ratio | None


def choose(run: Run, in_place: bool) -> tuple[list[Chosen], list[Note]]:
    """The wanted half of every row, or the other where that one was not printed.

    Raises:
        ColltoolError: no row can be used.
    """
    wanted, other = (IN, OUT) if in_place else (OUT, IN)
    # One half in every row and no blank: rccl-tests -O 0. In one row alone it is where the log was cut.
    only_half = len(run.rows) > 1 and all(EITHER in row.cells().halves for row in run.rows)
    chosen: list[Chosen] = []
    notes = list(run.bad)
    for row in run.rows:
        cells = row.cells()
        halves = {IN: cells.halves[EITHER]} if only_half else cells.halves
        label = wanted if wanted in halves else other
        try:
            if label not in halves:
                raise Unusable("truncated: fewer values than columns")
            chosen.append(_half(run, row, cells, label, dict(halves[label])))
        except Unusable as error:
            notes.append(run.note(str(error), row))
        else:
            if label != wanted:
                notes.append(run.note(f"{label} half used: the log has no {wanted} time", row, used=True))
    chosen = _timed(run, chosen, notes)
    if not chosen:
        first = min(notes, key=lambda note: note.line)
        what = f"no row of this table can be used; the first: {first.reason}"
        raise ColltoolError(what, where=first.where, fix=f"the table starts at line {run.table}; measure it again")
    return chosen, notes


def _half(run: Run, row: TableRow, cells: Cells, label: str, half: dict[str, str]) -> Chosen:
    size = message_size(cells.size)
    time = positive_time(half.get("time") or half.get("cputime") or "")
    _check_result(half, cells.dtype)
    algbw, busbw = printed(half.get("algbw", "")), printed(half.get("busbw", ""))
    consistent = _consistent(size, time, algbw)
    if row.joined and "time" in half and consistent is False:
        raise Unusable("garbled: time and algbw do not fit the size")
    exact = algbw is not None and algbw.value > 0 and algbw.half <= 0.01 * algbw.value
    return Chosen(
        row=row,
        dtype=cells.dtype,
        label=label,
        size=size,
        seconds=time.value / 1e6,
        algbw_seconds=size / algbw.value / 1e3 / 1e6 if algbw and exact else None,
        consistent=consistent,
        ratio=ratio(algbw, busbw, run.place(row)),
    )


def _check_result(half: dict[str, str], dtype: str) -> None:
    """``#wrong`` counts wrong elements; ``error``, before 2.12, is the largest deviation, where rounding is allowed."""
    for name, limit in (("wrong", 0.0), ("error", _ROUNDING.get(dtype, _ROUGH_ROUNDING))):
        text = half.get(name, "N/A")
        if text == "N/A":
            continue
        count = printed(text)
        if count is None or count.value > limit:
            raise Unusable(f"the result is wrong, or not readable: #{name} is not 0")


def _timed(run: Run, chosen: list[Chosen], notes: list[Note]) -> list[Chosen]:
    """Halves with the time of the collective. ``cputime`` (-C 1) is what the launch took; algbw still tells the real time."""
    if run.time == "time" or (all(one.consistent is not False for one in chosen) and any(one.consistent for one in chosen)):
        for one in chosen:
            if one.consistent is False:
                notes.append(run.note("time used although size/algbw says otherwise", one.row, used=True))
        return chosen
    timed = []
    for one in chosen:
        if one.algbw_seconds is not None:
            timed.append(one._replace(seconds=one.algbw_seconds))
            notes.append(run.note("time taken from size/algbw: cputime is the launch alone", one.row, used=True))
        else:
            notes.append(run.note("cputime is the launch alone, and algbw has too few digits to give the time", one.row))
    return timed


def _consistent(size: float, time: Printed, algbw: Printed | None) -> bool | None:
    """Whether time x algbw is the size, within rounding; None where algbw has too few digits to say."""
    if algbw is None or algbw.value <= 0 or algbw.half > 0.1 * algbw.value:
        return None
    low, high = algbw.low * time.low * 1e3, algbw.high * time.high * 1e3
    return low * (1 - _AGREES) <= size <= high * (1 + _AGREES)
