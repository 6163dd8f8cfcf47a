"""Reads benchmark logs of any known format and merges them into series."""

import os
from collections.abc import Sequence

from colltool.base.errors import ColltoolError, ManyErrors
from colltool.base.primitives import Primitive
from colltool.measurements import json_records, nccl_tests, tables
from colltool.measurements import other_formats as osu
from colltool.measurements import other_formats as plain_csv
from colltool.measurements.series import (
    Format,
    Measurements,
    ParsedLog,
    UserHints,
    agree,
    check_timing,
    open_log,
    series_of,
    skipped_of,
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

    ``ranks``, ``primitive`` and ``nodes`` supply what logs do not say. ``in_place`` takes
    nccl-tests' in-place times instead of out-of-place ones. Raises ColltoolError, naming
    ``file:line``, for a file that cannot be read or holds no usable table, for times that no
    hardware takes, and where a log contradicts the arguments.
    """
    if ranks is not None and ranks < 2:
        raise ColltoolError(
            f"{ranks} ranks communicate with nobody", argument="ranks", fix="2 or more"
        )
    if nodes is not None and (nodes < 1 or nodes > (ranks or nodes)):
        raise ColltoolError(
            f"{nodes} nodes cannot hold the ranks", argument="nodes", fix="1 to the number of ranks"
        )
    stated = UserHints(ranks, primitive, nodes, in_place)
    if not paths:
        raise ColltoolError(
            "no log given", fix=f"give one or more of: {', '.join(one.known_by for one in FORMATS)}"
        )
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
    return Measurements(
        series_of(timings), skipped_of(note for reading in readings for note in reading.notes)
    )


def _read(path: str, stated: UserHints) -> ParsedLog:
    log = open_log(path)
    first = next((one for one in FORMATS if one.recognises(log)), None)
    shared = [
        one
        for one in FORMATS
        if first and (one is first or (first.shares and one.shares and one.recognises(log)))
    ]
    readings = [one.read(log, stated) for one in shared]
    if not readings:
        known = ", ".join(one.known_by for one in FORMATS)
        raise ColltoolError(
            "no table of measurements found", where=f"{path}:1", fix=f"known: {known}"
        )
    timings = tuple(timing for reading in readings for timing in reading.timings)
    for one in timings:
        check_timing(one.bytes, one.seconds, one.where)
        # whatever the reader already checked
        for argument, found in (
            ("ranks", one.ranks),
            ("primitive", one.primitive),
            ("nodes", one.nodes),
        ):
            agree(found, getattr(stated, argument), f"{argument}:", argument, one.where)
    return ParsedLog(timings, tuple(note for reading in readings for note in reading.notes))


# the first that recognises a log reads it, along with any others that share logs with it
FORMATS: tuple[Format, ...] = (
    json_records.INSPECTOR,
    json_records.PROFILER,
    json_records.FLIGHT_RECORDER,
    nccl_tests.REPORT,
    tables.OSU_RATES,
    osu.OSU,
    tables.IMB,
    tables.PERFTEST,
    tables.NCCOM,
    nccl_tests.FORMAT,
    tables.STAS,
    tables.TORCHCOMMS,
    plain_csv.CSV,
)
