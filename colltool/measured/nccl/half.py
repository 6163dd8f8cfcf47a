"""Of every row of a test the half that is used, out-of-place or in-place, with a time and a result that can be trusted."""

from typing import NamedTuple

from colltool.errors import ColltoolError
from colltool.measured.nccl.run import Run
from colltool.measured.nccl.table import EITHER, IN, OUT, Line
from colltool.measured.rows import Note, Printed, Unusable, message_size, positive_time, printed

# What the `error` column of old versions may reach: rounding, by the element type (nccl-tests' own limits).
_ROUNDING = {"double": 1e-12, "float64": 1e-12, "float": 1e-5, "float32": 1e-5}
_ROUGH_ROUNDING = 1e-2
_AGREES = 0.05  # of the time that size/algbw gives


class Chosen(NamedTuple):
    """The half of a row that is used."""

    line: Line
    label: str
    size: float
    time: Printed
    algbw: Printed | None
    busbw: Printed | None


def choose(test: Run, in_place: bool) -> tuple[list[Chosen], list[Note]]:
    """The wanted half of every row, or the other where that one was not printed.

    Raises:
        ColltoolError: no row can be used.
    """
    wanted, other = (IN, OUT) if in_place else (OUT, IN)
    # One half in every row and no blank: rccl-tests -O 0. In one row alone it is where the log was cut.
    only_half = len(test.lines) > 1 and all(EITHER in line.halves for line in test.lines)
    chosen: list[Chosen] = []
    notes = list(test.bad)
    for line in test.lines:
        halves = {IN: line.halves[EITHER]} if only_half else line.halves
        label = wanted if wanted in halves else other
        try:
            if label not in halves:
                raise Unusable("truncated: fewer values than columns")
            chosen.append(_half(line, label, halves[label]))
        except Unusable as error:
            notes.append(test.note(str(error), line))
        else:
            if label != wanted:
                notes.append(test.note(f"{label} half used: the log has no {wanted} time", line, used=True))
    chosen = _timed(test, chosen, notes)
    if not chosen:
        first = min(notes, key=lambda note: note.line)
        what = f"no row of this table can be used; the first: {first.reason}"
        raise ColltoolError(what, where=first.where, fix=f"the table starts at line {test.table}; measure it again")
    return chosen, notes


def _half(line: Line, label: str, cells: dict[str, str]) -> Chosen:
    size = message_size(line.size)
    time = positive_time(next((cells[name] for name in ("time", "cputime") if name in cells), ""))
    _check_result(cells, line.dtype)
    row = Chosen(line, label, size, time, printed(cells.get("algbw", "")), printed(cells.get("busbw", "")))
    if line.joined and "time" in cells and _consistent(row) is False:
        raise Unusable("garbled: time and algbw do not fit the size")
    return row


def _check_result(cells: dict[str, str], dtype: str) -> None:
    """``#wrong`` counts wrong elements; ``error``, before 2.12, is the largest deviation, where rounding is allowed."""
    for name, limit in (("wrong", 0.0), ("error", _ROUNDING.get(dtype, _ROUGH_ROUNDING))):
        text = cells.get(name, "N/A")
        if text == "N/A":
            continue
        count = printed(text)
        if count is None or count.value > limit:
            raise Unusable(f"the result is wrong, or not readable: #{name} is not 0")


def _timed(test: Run, chosen: list[Chosen], notes: list[Note]) -> list[Chosen]:
    """Rows with the time of the collective. ``cputime`` (-C 1) is what the launch took; algbw still tells the real time."""
    if test.time == "time" or (all(_consistent(row) is not False for row in chosen) and any(_consistent(row) for row in chosen)):
        for row in chosen:
            if _consistent(row) is False:
                notes.append(test.note("time used although size/algbw says otherwise", row.line, used=True))
        return chosen
    timed = []
    for row in chosen:
        if row.algbw is not None and row.algbw.value > 0 and row.algbw.half <= 0.01 * row.algbw.value:
            time = Printed(row.size / row.algbw.value / 1e3, 0.0)
            timed.append(row._replace(time=time))
            notes.append(test.note("time taken from size/algbw: cputime is the launch alone", row.line, used=True))
        else:
            notes.append(test.note("cputime is the launch alone, and algbw has too few digits to give the time", row.line))
    return timed


def _consistent(row: Chosen) -> bool | None:
    """Whether time x algbw is the size, within rounding; None where algbw has too few digits to say."""
    if row.algbw is None or row.algbw.value <= 0 or row.algbw.half > 0.1 * row.algbw.value:
        return None
    low, high = row.algbw.low * row.time.low * 1e3, row.algbw.high * row.time.high * 1e3
    return low * (1 - _AGREES) <= row.size <= high * (1 + _AGREES)
