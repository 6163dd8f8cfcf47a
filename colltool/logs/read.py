"""Read benchmark logs of any known format and merge them into series."""

from __future__ import annotations

import os
from collections.abc import Sequence

from colltool.base.errors import ColltoolError, problems_of
from colltool.base.primitives import P2P, Primitive
from colltool.logs import (
    all_reduce_bench,
    csv_log,
    flight_recorder,
    inspector_prom,
    intel_mpi,
    nccl_inspector,
    nccl_profiler,
    nccl_tests_json,
    nccl_tests_text,
    nccom,
    osu,
    perftest,
    torchcomms,
    ucc_perftest,
)
from colltool.logs.log_file import Log, open_log
from colltool.logs.pytorch_trace import is_chakra_file
from colltool.logs.rank_calls import join_calls
from colltool.logs.records import (
    Format,
    NoTable,
    Note,
    ParsedLog,
    Record,
    UserHints,
    agree,
    one_error,
)
from colltool.logs.series import Measurements, check_timing, series_of, skipped_of

# The first that recognises a log reads it, along with any others that share logs with it.
# tests/logs/test_formats.py asks for an example of each, and for a line of the guide and the help.
FORMATS: tuple[Format, ...] = (
    nccl_inspector.FORMAT,
    inspector_prom.FORMAT,
    nccl_profiler.FORMAT,
    flight_recorder.FORMAT,
    perftest.FORMAT,
    nccl_tests_json.FORMAT,
    osu.FORMAT,
    intel_mpi.FORMAT,
    ucc_perftest.FORMAT,
    nccom.FORMAT,
    nccl_tests_text.FORMAT,
    all_reduce_bench.FORMAT,
    torchcomms.FORMAT,
    csv_log.FORMAT,
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
        ranks, primitive, nodes: supply what logs do not say.
        in_place: take nccl-tests' in-place times instead of out-of-place ones.

    Raises:
        ColltoolError: naming ``file:line``: a file cannot be read or holds no usable table, times
            are none that hardware takes, or a log contradicts the arguments; all files that fail
            at once.
    """
    if ranks is not None and ranks < 2:
        raise ColltoolError(
            f"a group of {ranks} has no communication", argument="ranks", fix="2 or more"
        )
    if nodes is not None and (nodes < 1 or nodes > (ranks or nodes)):
        raise ColltoolError(
            f"{nodes} nodes cannot hold the ranks", argument="nodes", fix="1 to the number of ranks"
        )
    if not paths:
        raise ColltoolError("no log given", fix=f"give one or more of: {_known()}")
    hints = UserHints(ranks, primitive, nodes, in_place)
    records: list[Record] = []
    notes: list[Note] = []
    problems: list[ColltoolError] = []
    for path in paths:
        try:
            log = _read(os.fspath(path), hints)
        except ColltoolError as error:
            problems += problems_of(error)
        else:
            records += log.timings
            notes += log.notes
    if problems:
        raise one_error(problems)
    joined = join_calls(records)
    series = [
        one_series._replace(joined=not joined.files.isdisjoint(one_series.files))
        for one_series in series_of(joined.records)
    ]
    return Measurements(tuple(series), tuple(skipped_of([*notes, *joined.notes])))


def _known() -> str:
    """The formats that are read, in words."""
    return ", ".join(format_.known_by for format_ in FORMATS)


def _read(path: str, hints: UserHints) -> ParsedLog:
    """One log in all formats that it holds, checked against the caller's hints."""
    if is_chakra_file(path):
        raise ColltoolError(
            "is a Chakra execution trace, not a log of a benchmark",
            where=path,
            fix=f"colltool trace reads it: colltool trace {path}",
        )
    log = open_log(path)
    records: list[Record] = []
    notes: list[Note] = []
    for format_ in _formats_of(log):
        parsed = format_.read(log, hints)
        records += parsed.timings
        notes += parsed.notes
    has_stated_ranks = any(record.ranks == hints.ranks for record in records)
    for record in records:
        check_timing(record.bytes, record.seconds, record.where)
        # again what a reader may have checked already; the caller's ranks need not be those of a
        # ping-pong, if they are those of other tests of the log
        arguments = ["ranks", "primitive", "nodes"]
        if has_stated_ranks and record.primitive is P2P and record.ranks == 2:
            arguments.remove("ranks")
        for argument in arguments:
            in_log = getattr(record, argument)
            agree(in_log, getattr(hints, argument), f"{argument}:", argument, record.where)
    return ParsedLog(records, notes)


def _formats_of(log: Log) -> list[Format]:
    """The format of a log; several where tables of formats that share a log follow each other.
    NoTable for a log of no known format."""
    first = next((format_ for format_ in FORMATS if format_.recognises(log)), None)
    if first is None:
        raise NoTable(
            "no table of measurements found", where=f"{log.file}:1", fix=f"known: {_known()}"
        )
    if not first.shares:
        return [first]
    sharing = [format_ for format_ in FORMATS if format_.shares]
    return [format_ for format_ in sharing if format_.recognises(log)]
