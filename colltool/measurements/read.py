"""Benchmark logs as series: each file's format by its content, all files merged."""

from __future__ import annotations

import os
from collections.abc import Sequence

from colltool.base.errors import ColltoolError, ManyErrors
from colltool.base.primitives import Primitive
from colltool.measurements.formats import FORMATS
from colltool.measurements.log import Format, Log, open_log
from colltool.measurements.merge import series_of, skipped_of
from colltool.measurements.plausible import check_timing
from colltool.measurements.series import Measurements
from colltool.measurements.timing import Reading, Stated


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
        paths: logs of any format of :data:`colltool.measurements.formats.FORMATS`.
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
    readings: list[Reading] = []
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


def _stated(ranks: int | None, primitive: Primitive | None, nodes: int | None, in_place: bool) -> Stated:
    if ranks is not None and ranks < 2:
        raise ColltoolError(f"{ranks} ranks communicate with nobody", argument="ranks", fix="2 or more")
    if nodes is not None and (nodes < 1 or nodes > (ranks or nodes)):
        raise ColltoolError(f"{nodes} nodes cannot hold the ranks", argument="nodes", fix="1 to the number of ranks")
    return Stated(ranks, primitive, nodes, in_place)


def _read(path: str, stated: Stated) -> Reading:
    log = open_log(path)
    readings = [one.read(log, stated) for one in _formats_of(log)]
    if not readings:
        known = ", ".join(one.known_by for one in FORMATS)
        raise ColltoolError("no table of measurements found", where=f"{path}:1", fix=f"known: {known}")
    timings = tuple(timing for reading in readings for timing in reading.timings)
    for timing in timings:
        check_timing(timing)
    return Reading(timings, tuple(note for reading in readings for note in reading.notes))


def _formats_of(log: Log) -> list[Format]:
    """The first format that recognises a log; where that one shares logs, the others that do and recognise it, too."""
    first = next((one for one in FORMATS if one.recognises(log)), None)
    if first is None or not first.shares:
        return [first] if first else []
    return [one for one in FORMATS if one is first or (one.shares and one.recognises(log))]
