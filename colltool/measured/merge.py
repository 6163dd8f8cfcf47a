"""Rows of all files as series: repeats of a size become one point, whatever the order of the files."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable

from colltool.measured.rows import Note, Timing
from colltool.measured.series import Point, Series, Skipped
from colltool.primitives import Primitive

_ORDER = {primitive: at for at, primitive in enumerate(Primitive)}

_Key = tuple[int, int, int, str, str]


def series_of(rows: Iterable[Timing]) -> tuple[Series, ...]:
    """One series for every primitive, ranks, nodes, element type and library, in that order."""
    groups: dict[_Key, list[Timing]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.file, row.line, row.seconds)):
        groups[(_ORDER[row.primitive], row.ranks, row.nodes or 0, row.dtype, row.library)].append(row)
    return tuple(_series(groups[key]) for key in sorted(groups))


def _series(rows: list[Timing]) -> Series:
    by_size: dict[float, list[Timing]] = defaultdict(list)
    for row in rows:
        by_size[row.bytes].append(row)
    points = tuple(_point(by_size[size]) for size in sorted(by_size))
    versions = ", ".join(sorted({row.version for row in rows if row.version}))
    first = rows[0]
    files = tuple(sorted({row.file for row in rows}))
    return Series(first.primitive, first.ranks, first.nodes, points, first.library, versions, first.dtype, files)


def _point(rows: list[Timing]) -> Point:
    times = [row.seconds for row in rows]
    return Point(rows[0].bytes, statistics.median(times), min(times), max(times), len(times), rows[0].where)


def skipped_of(notes: Iterable[Note]) -> tuple[Skipped, ...]:
    """Notes by reason, with their number and the first place; in the order of those places."""
    by_reason: dict[str, list[Note]] = defaultdict(list)
    for note in sorted(notes, key=lambda note: (note.file, note.line, note.reason)):
        by_reason[note.reason].append(note)
    return tuple(Skipped(reason, len(all_), all_[0].where, all_[0].used) for reason, all_ in by_reason.items())
