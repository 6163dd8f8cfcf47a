"""Reads benchmark logs of any known format and merges them into series; devices and hosts that they name."""

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from colltool.base.errors import ColltoolError, ManyErrors, printable
from colltool.base.primitives import Primitive
from colltool.measurements import nccl_tests
from colltool.measurements import other_formats as osu
from colltool.measurements import other_formats as plain_csv
from colltool.measurements.series import (
    Format,
    Log,
    Measurements,
    Note,
    ParsedLog,
    Point,
    Record,
    Series,
    Skipped,
    UserHints,
    agree,
    check_timing,
    clean,
    open_log,
)


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
    if ranks is not None and ranks < 2:
        raise ColltoolError(f"{ranks} ranks communicate with nobody", argument="ranks", fix="2 or more")
    if nodes is not None and (nodes < 1 or nodes > (ranks or nodes)):
        raise ColltoolError(f"{nodes} nodes cannot hold the ranks", argument="nodes", fix="1 to the number of ranks")
    stated = UserHints(ranks, primitive, nodes, in_place)
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


def _read(path: str, stated: UserHints) -> ParsedLog:
    log = open_log(path)
    first = next((one for one in FORMATS if one.recognises(log)), None)
    shared = [one for one in FORMATS if first and (one is first or (first.shares and one.shares and one.recognises(log)))]
    readings = [one.read(log, stated) for one in shared]
    if not readings:
        known = ", ".join(one.known_by for one in FORMATS)
        raise ColltoolError("no table of measurements found", where=f"{path}:1", fix=f"known: {known}")
    timings = tuple(timing for reading in readings for timing in reading.timings)
    for one in timings:
        check_timing(one.bytes, one.seconds, one.where)
        # whatever the reader already checked
        for argument, found in (("ranks", one.ranks), ("primitive", one.primitive), ("nodes", one.nodes)):
            agree(found, getattr(stated, argument), f"{argument}:", argument, one.where)
    return ParsedLog(timings, tuple(note for reading in readings for note in reading.notes))


def series_of(timings: Iterable[Record]) -> tuple[Series, ...]:
    """A series per primitive, rank count, nodes, dtype and library, in that order."""
    order = {primitive: at for at, primitive in enumerate(Primitive)}
    groups: dict[tuple[int, int, int, str, str], dict[float, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for one in timings:
        key = (order[one.primitive], one.ranks, one.nodes or 0, one.dtype, one.library)
        groups[key][one.bytes].append(one)
    found = []
    for _, by_size in sorted(groups.items(), key=lambda group: group[0]):
        points = []
        for _, repeats in sorted(by_size.items()):
            times, one = [repeat.seconds for repeat in repeats], min(repeats, key=lambda one: (one.file, one.line, one.seconds))
            points.append(Point(one.bytes, median(times), min(times), max(times), len(times), one.where))
        several = [one for repeats in by_size.values() for one in repeats]
        said = ", ".join(sorted({one.version for one in several if one.version}))
        files, one = tuple(sorted({one.file for one in several})), several[0]
        found.append(Series(one.primitive, one.ranks, one.nodes, tuple(points), one.library, said, dtype=one.dtype, files=files))
    return tuple(found)


def skipped_of(notes: Iterable[Note]) -> tuple[Skipped, ...]:
    by_reason: dict[str, list[Note]] = defaultdict(list)
    for note in sorted(notes, key=lambda note: (note.file, note.line, note.reason)):
        by_reason[note.reason].append(note)
    return tuple(Skipped(reason, len(all_), all_[0].where, all_[0].used) for reason, all_ in by_reason.items())


# the first that recognises a log reads it, along with any others that share logs with it
FORMATS: tuple[Format, ...] = (nccl_tests.REPORT, osu.OSU, nccl_tests.FORMAT, plain_csv.CSV)
_RANK = re.compile(r"Rank +\d{1,9} .*\bon +(\S+) +device +\d+ +\[[^\]]{1,40}\] +(\S.*)")


class LoggedHardware(NamedTuple):
    """Device and host names, each once, in the order met."""

    devices: tuple[str, ...]
    hosts: tuple[str, ...]


def logged_hardware(paths: Sequence[str | os.PathLike[str]]) -> LoggedHardware:
    """Devices and hosts of logs; formats such as OSU's name none."""
    named = [pair for path in paths for pair in _named(open_log(os.fspath(path)))]
    hosts, devices = (tuple(dict.fromkeys(filter(None, side))) for side in zip(*named, strict=True)) if named else ((), ())
    return LoggedHardware(devices, hosts)


def _named(log: Log) -> Iterator[tuple[str, str]]:
    if not nccl_tests.is_report(log):
        for line in log.lines():
            if "device" in line and "Rank" in line and (match := _RANK.search(clean(line))):
                yield match[1], _short(match[2])
        return
    try:
        report = json.loads(log.text().lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return  # the reader of timings says what is wrong
    config = report.get("config")
    listed = report.get("devices") or (config.get("devices") if isinstance(config, dict) else None)
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, dict):
            yield _short(one.get("hostname", "")), _short(one.get("device_info", ""))


def _short(value: object) -> str:
    return printable(str(value)).strip()[:100]
