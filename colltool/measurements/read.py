"""Benchmark logs as series: each file's format by its content, all files merged."""

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

    Args:
        paths: logs of any format of :data:`colltool.measurements.read.FORMATS`.
        ranks, primitive, nodes: what the logs do not say; an error where they say otherwise.
        in_place: take the in-place times of nccl-tests; without it, those of distinct buffers.

    Returns:
        Series by primitive, ranks and nodes, and what was left out or used with a reservation.

    Raises:
        ColltoolError: a file that cannot be read or holds no usable table, a time that no hardware takes; the message names
            ``file:line``.
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
        for argument, found in (
            ("ranks", one.ranks),
            ("primitive", one.primitive),
            ("nodes", one.nodes),
        ):  # whatever a reader heeds
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
    """One series for every primitive, ranks, nodes, element type and library, in that order."""
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
    """Notes by reason, with their number and the first place; in the order of those places."""
    by_reason: dict[str, list[Note]] = defaultdict(list)
    for note in sorted(notes, key=lambda note: (note.file, note.line, note.reason)):
        by_reason[note.reason].append(note)
    return tuple(Skipped(reason, len(all_), all_[0].where, all_[0].used) for reason, all_ in by_reason.items())


FORMATS: tuple[Format, ...] = (
    json_report.FORMAT,
    osu.FORMAT,
    nccl_tests_text.FORMAT,
    plain_csv.FORMAT,
)
"""The first that recognises a log reads it, together with the others that share logs if it does, too."""
