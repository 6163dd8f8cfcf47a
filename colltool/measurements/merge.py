"""Timings of all files as series: repeats of a size become one point, whatever the order of the files."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable

from colltool.base.primitives import Primitive
from colltool.measurements.series import Point, Series, Skipped
from colltool.measurements.timing import Note, Timing

_ORDER = {primitive: at for at, primitive in enumerate(Primitive)}

_Key = tuple[int, int, int, str, str]


def series_of(timings: Iterable[Timing]) -> tuple[Series, ...]:
    """One series for every primitive, ranks, nodes, element type and library, in that order."""
    groups: dict[_Key, list[Timing]] = defaultdict(list)
    for one in timings:
        groups[(_ORDER[one.primitive], one.ranks, one.nodes or 0, one.dtype, one.library)].append(one)
    return tuple(_series(groups[key]) for key in sorted(groups))


def _series(timings: list[Timing]) -> Series:
    by_size: dict[float, list[Timing]] = defaultdict(list)
    for one in timings:
        by_size[one.bytes].append(one)
    points = tuple(_point(by_size[size]) for size in sorted(by_size))
    versions = ", ".join(sorted({one.version for one in timings if one.version}))
    files = tuple(sorted({one.file for one in timings}))
    first = timings[0]
    return Series(
        primitive=first.primitive,
        ranks=first.ranks,
        nodes=first.nodes,
        points=points,
        library=first.library,
        version=versions,
        dtype=first.dtype,
        files=files,
    )


def _point(repeats: list[Timing]) -> Point:
    """One size of a series; its place is that of the first repeat by file and line."""
    times = [one.seconds for one in repeats]
    first = min(repeats, key=lambda one: (one.file, one.line, one.seconds))
    return Point(first.bytes, statistics.median(times), min(times), max(times), len(times), first.where)


def skipped_of(notes: Iterable[Note]) -> tuple[Skipped, ...]:
    """Notes by reason, with their number and the first place; in the order of those places."""
    by_reason: dict[str, list[Note]] = defaultdict(list)
    for note in sorted(notes, key=lambda note: (note.file, note.line, note.reason)):
        by_reason[note.reason].append(note)
    return tuple(Skipped(reason, len(all_), all_[0].where, all_[0].used) for reason, all_ in by_reason.items())
