"""Measured series in SI units, with sizes as nccl-tests counts them.

:func:`series_of` makes :class:`Series` of the records of all logs, each a :class:`Point` a size;
:func:`log_library` reads the library's name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from statistics import median
from typing import Literal, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.formatting import counted, format_bytes, format_rate, format_time
from colltool.base.primitives import Primitive, busbw_factor
from colltool.base.statements import Statement
from colltool.logs.records import Note, Record


class LogLibrary(Enum):
    """The library that ran, as a log calls it."""

    NCCL, RCCL, MPI, OTHER, UNKNOWN = "NCCL", "RCCL", "MPI", "other", ""

    @property
    def may_be_nccl(self) -> bool:
        """Whether it is NCCL, or the log does not say."""
        return self in (LogLibrary.NCCL, LogLibrary.UNKNOWN)

    @property
    def launches_kernels(self) -> bool:
        """Whether calls are kernels of a device: those of MPI are messages of the host."""
        return self is not LogLibrary.MPI

    @property
    def in_fabrics(self) -> Literal["nccl", "rccl", "mpi"] | None:
        """Its name in fabric files; None of one that they do not have."""
        return _IN_FABRICS.get(self)


_IN_FABRICS: Mapping[LogLibrary, Literal["nccl", "rccl", "mpi"]] = {
    LogLibrary.NCCL: "nccl",
    LogLibrary.RCCL: "rccl",
    LogLibrary.MPI: "mpi",
}
# a word of a library's name; the first that is in it
_BY_WORD = {
    "NCCL": LogLibrary.NCCL,
    "RCCL": LogLibrary.RCCL,
    "MPI": LogLibrary.MPI,
    "MVAPICH": LogLibrary.MPI,
}


def log_library(name: str) -> LogLibrary:
    """``RCCL 2.22`` is RCCL, ``MVAPICH`` an MPI, ``oneCCL`` OTHER, no name UNKNOWN."""
    for word, library in _BY_WORD.items():
        if word in name.upper():
            return library
    return LogLibrary.OTHER if name else LogLibrary.UNKNOWN


def on_devices(library: str) -> bool:
    """Whether buffers are on devices: those of MPI are on hosts, of MPI-CUDA and its like not."""
    return log_library(library).launches_kernels or library.startswith("MPI-")


class Point(NamedTuple):
    """The times of one size."""

    bytes: float
    seconds: float  # the median of its repeats
    low_s: float  # the shortest of its repeats
    high_s: float  # the longest of its repeats
    repeats: int
    where: str  # ``file:line`` of the first
    message: float = 0.0  # bytes of each message where ``bytes`` are a stream of several, else 0

    @property
    def shown_bytes(self) -> float:
        """The size as the log has it."""
        return self.message or self.bytes


def point_of(size: float, times: Sequence[float], where: str, message: float = 0.0) -> Point:
    """The point of repeats of one size."""
    return Point(
        bytes=size,
        seconds=median(times),
        low_s=min(times),
        high_s=max(times),
        repeats=len(times),
        where=where,
        message=message,
    )


class Series(NamedTuple):
    """Points of one collective on one group, ascending in size, each size once."""

    primitive: Primitive
    ranks: int
    nodes: int | None  # None where the log lists no hosts
    points: tuple[Point, ...]
    library: str = ""  # as the log gives it, empty where it does not
    version: str = ""  # of the library, else of the benchmark
    dtype: str = ""  # as the log gives it, empty where it does not
    files: tuple[str, ...] = ()  # that its records stand in
    run: str = ""  # the file of a run that is kept apart from others of its kind, else empty
    joined: bool = False  # its times are of calls that the files of several ranks recorded

    @property
    def title(self) -> str:
        """``all-reduce, 16 ranks on 2 nodes``, and the run if there are several."""
        return f"{self.primitive.label}, {self.who}"

    @property
    def who(self) -> str:
        """``16 ranks on 2 nodes``, and the run if there are several."""
        who = f"{self.ranks} ranks"
        if self.nodes:
            who += f" on {counted(self.nodes, 'node')}"
        return f"{who}, {self.run}" if self.run else who

    @property
    def ranks_per_host(self) -> int | None:
        """Ranks on each of several hosts. None on one, or where they are not spread evenly."""
        if not self.nodes or self.nodes == 1 or self.ranks % self.nodes:
            return None
        return self.ranks // self.nodes

    def busbw_Bps(self, point: Point, seconds: float | None = None) -> float:
        """Bus bandwidth in bytes/s, at the measured time or at ``seconds``."""
        return point.bytes / (seconds or point.seconds) * busbw_factor(self.primitive, self.ranks)


class Skipped(NamedTuple):
    """Rows that were left out, or used with a reservation."""

    reason: Statement
    rows: int  # how many
    where: str  # ``file:line`` of the first
    used: bool = False  # with a reservation


class Measurements(NamedTuple):
    """All series of all logs, and the rows that were skipped or doubted."""

    series: tuple[Series, ...]
    skipped: tuple[Skipped, ...]


LEAST_S = 1e-8  # light takes as long for three metres
MOST_S = 1e5  # more than a day
MOST_BPS = 1e14  # a hundred times the ports of 2026


def check_timing(size: float, seconds: float, where: str) -> None:
    """Refuse a time that no hardware takes for so many bytes."""
    is_possible = LEAST_S <= seconds <= MOST_S
    if is_possible and size <= MOST_BPS * seconds:
        return
    what = f"implausible times: {format_bytes(size)} in {format_time(seconds, 3)}"
    if is_possible:
        what += f", {format_rate(size / seconds, 3)}"
    raise ColltoolError(what, where=where, fix="check the unit of the times in the logs")


_ORDER = {primitive: place for place, primitive in enumerate(Primitive)}


def series_of(timings: Iterable[Record]) -> tuple[Series, ...]:
    """A series per primitive, rank count, nodes, dtype and library, in that order."""
    groups: dict[tuple[int, int, int, str, str], list[Record]] = defaultdict(list)
    for record in timings:
        order = _ORDER[record.primitive]
        key = (order, record.ranks, record.nodes or 0, record.dtype, record.library)
        groups[key].append(record)
    return tuple(_series(groups[key]) for key in sorted(groups))


def _series(records: Sequence[Record]) -> Series:
    """The series of records that are alike in all but size."""
    by_size: dict[float, list[Record]] = defaultdict(list)
    for record in records:
        by_size[record.bytes].append(record)
    points = []
    for size, repeats in sorted(by_size.items()):
        # of equal lines, as of a JSON report, the fastest: the same whatever the order of records
        first = min(repeats, key=lambda record: (record.file, record.line, record.seconds))
        times = [record.seconds for record in repeats]
        points.append(point_of(size, times, first.where, first.message))
    versions = {record.version for record in records if record.version}
    any_record = records[0]  # the library, dtype and group are the same in all of them
    return Series(
        any_record.primitive,
        any_record.ranks,
        any_record.nodes,
        points=tuple(points),
        library=any_record.library,
        version=", ".join(sorted(versions)),
        dtype=any_record.dtype,
        files=tuple(sorted({record.file for record in records})),
    )


def skipped_of(notes: Iterable[Note]) -> Iterator[Skipped]:
    """What was left out or doubted, by reason, in the order of the first row of each."""
    by_reason: dict[Statement, list[Note]] = defaultdict(list)
    for note in sorted(notes, key=lambda note: (note.file, note.line, str(note.reason))):
        by_reason[note.reason].append(note)
    for reason, rows in by_reason.items():
        yield Skipped(reason, len(rows), rows[0].where, rows[0].used)
