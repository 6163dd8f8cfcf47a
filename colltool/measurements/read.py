"""Reads benchmark logs of any known format and merges them into series."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

from colltool.base.errors import ColltoolError, ManyErrors
from colltool.base.primitives import Primitive
from colltool.measurements import osu, plain_csv
from colltool.measurements.log import Format, Log, Note, ParsedLog, Record, UserHints, agree, open_log
from colltool.measurements.nccl_tests import json_report
from colltool.measurements.nccl_tests import text as nccl_tests_text
from colltool.measurements.series import Measurements, Point, Series, Skipped, check_timing


def read_logs(
    paths: Sequence[str | os.PathLike[str]],
    *,
    ranks: int | None = None,
    primitive: Primitive | None = None,
    nodes: int | None = None,
    in_place: bool = False,
) -> Measurements:
    """All measurements of all files, as series of points.

    ``ranks``, ``primitive`` and ``nodes`` supply what logs do not say. ``in_place`` takes nccl-tests' in-place times instead of
    out-of-place ones. Raises ColltoolError, naming ``file:line``, for a file that cannot be read or holds no usable table, for
    times that no hardware takes, and where a log contradicts the arguments.
    """
    stated = _stated(ranks, primitive, nodes, in_place)
    if not paths:
        raise ColltoolError("no log given", fix=f"give one or more of: {', '.join(one.known_by for one in FORMATS)}")
    readings: list[ParsedLog] = []
    problems: list[ColltoolError] = []
    for path in paths:
        try:
            readings.append(_read(os.fspath(path), stated))
        except ManyErrors as error:
            problems += error.problems
        except ColltoolError as error:
            problems.append(error)
    if problems:
        raise problems[0] if len(problems) == 1 else ManyErrors(problems)
    timings = (timing for reading in readings for timing in reading.timings)
    return Measurements(series_of(timings), skipped_of(note for reading in readings for note in reading.notes))


def _stated(ranks: int | None, primitive: Primitive | None, nodes: int | None, in_place: bool) -> UserHints:
    if ranks is not None and ranks < 2:
        raise ColltoolError(f"{ranks} ranks communicate with nobody", argument="ranks", fix="2 or more")
    if nodes is not None and (nodes < 1 or nodes > (ranks or nodes)):
        raise ColltoolError(f"{nodes} nodes cannot hold the ranks", argument="nodes", fix="1 to the number of ranks")
    return UserHints(ranks, primitive, nodes, in_place)


def _read(path: str, stated: UserHints) -> ParsedLog:
    log = open_log(path)
    readings = [one.read(log, stated) for one in _formats_of(log)]
    if not readings:
        known = ", ".join(one.known_by for one in FORMATS)
        raise ColltoolError("no table of measurements found", where=f"{path}:1", fix=f"known: {known}")
    timings = tuple(timing for reading in readings for timing in reading.timings)
    for one in timings:
        check_timing(one)
        # whatever the reader already checked
        for argument, found in (("ranks", one.ranks), ("primitive", one.primitive), ("nodes", one.nodes)):
            agree(found, getattr(stated, argument), f"{argument}:", argument, one.where)
    return ParsedLog(timings, tuple(note for reading in readings for note in reading.notes))


def _formats_of(log: Log) -> list[Format]:
    first = next((one for one in FORMATS if one.recognises(log)), None)
    if first is None or not first.shares:
        return [first] if first else []
    return [one for one in FORMATS if one is first or (one.shares and one.recognises(log))]


_ORDER = {primitive: at for at, primitive in enumerate(Primitive)}

_Key = tuple[int, int, int, str, str]


def series_of(timings: Iterable[Record]) -> tuple[Series, ...]:
    """A series per primitive, rank count, nodes, dtype and library, in that order."""
    groups: dict[_Key, list[Record]] = defaultdict(list)
    for one in timings:
        groups[(_ORDER[one.primitive], one.ranks, one.nodes or 0, one.dtype, one.library)].append(one)
    return tuple(_series(groups[key]) for key in sorted(groups))


def _series(timings: list[Record]) -> Series:
    by_size: dict[float, list[Record]] = defaultdict(list)
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


def _point(repeats: list[Record]) -> Point:
    times = [one.seconds for one in repeats]
    first = min(repeats, key=lambda one: (one.file, one.line, one.seconds))
    return Point(first.bytes, statistics.median(times), min(times), max(times), len(times), first.where)


def skipped_of(notes: Iterable[Note]) -> tuple[Skipped, ...]:
    """Notes grouped by reason, in order of their first place."""
    by_reason: dict[str, list[Note]] = defaultdict(list)
    for note in sorted(notes, key=lambda note: (note.file, note.line, note.reason)):
        by_reason[note.reason].append(note)
    return tuple(Skipped(reason, len(all_), all_[0].where, all_[0].used) for reason, all_ in by_reason.items())


# the first that recognises a log reads it, along with any others that share logs with it
FORMATS: tuple[Format, ...] = (json_report.FORMAT, osu.FORMAT, nccl_tests_text.FORMAT, plain_csv.FORMAT)
