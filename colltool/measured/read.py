"""Benchmark logs as series: each file's format by its content, all files merged."""

from __future__ import annotations

import os
from collections.abc import Sequence

from colltool.errors import ColltoolError, ManyErrors
from colltool.measured import osu, plain_csv
from colltool.measured.merge import series_of, skipped_of
from colltool.measured.nccl import json_report
from colltool.measured.nccl import text as nccl_text
from colltool.measured.rows import Reading, Stated
from colltool.measured.series import Measurements
from colltool.measured.text import read_text
from colltool.primitives import Primitive

_KNOWN = (
    "known: nccl-tests and rccl-tests text ('#  size  count  type ...'), nccl-tests -J ('{'), "
    "OSU ('# OSU MPI Allreduce Latency Test'), CSV ('collective,ranks,bytes,time_us')"
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

    Args:
        paths: logs of nccl-tests or rccl-tests (text, or JSON of ``-J``), of OSU micro-benchmarks, or plain CSV.
        ranks, primitive, nodes: what the logs do not say; an error where they say otherwise.
        in_place: take the in-place times of nccl-tests; without it, those of distinct buffers.

    Returns:
        Series by primitive, ranks and nodes, and what was left out or used with a reservation.

    Raises:
        ColltoolError: a file that cannot be read or holds no usable table; the message names ``file:line``.
    """
    stated = _stated(ranks, primitive, nodes, in_place)
    if not paths:
        raise ColltoolError("no log given", fix="give one or more logs of nccl-tests, rccl-tests or OSU, or a CSV")
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
    rows = [row for reading in readings for row in reading.rows]
    return Measurements(series_of(rows), skipped_of(note for reading in readings for note in reading.notes))


def _stated(ranks: int | None, primitive: Primitive | None, nodes: int | None, in_place: bool) -> Stated:
    if ranks is not None and ranks < 2:
        raise ColltoolError(f"{ranks} ranks communicate with nobody", where="--ranks", fix="2 or more")
    if nodes is not None and (nodes < 1 or nodes > (ranks or nodes)):
        raise ColltoolError(f"{nodes} nodes cannot hold the ranks", where="--nodes", fix="1 to the number of ranks")
    return Stated(ranks, primitive, nodes, in_place)


def _read(path: str, stated: Stated) -> Reading:
    text = read_text(path)
    if json_report.recognises(text):
        return json_report.read(text, path, stated)
    lines = text.split("\n")
    logs = [reader.read for reader in (osu, nccl_text) if reader.recognises(text)]
    if not logs and plain_csv.recognises(lines):
        logs = [plain_csv.read]
    if not logs:
        raise ColltoolError("no table of measurements found", where=f"{path}:1", fix=_KNOWN)
    readings = [read(lines, path, stated) for read in logs]
    rows, notes = ([item for one in readings for item in one[at]] for at in (0, 1))
    return Reading(tuple(rows), tuple(notes))
