"""What every log becomes: series of measured points in SI units, by nccl-tests' size convention."""

from __future__ import annotations

from enum import Enum
from typing import Literal, NamedTuple, assert_never

from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_bytes, format_rate, format_time
from colltool.base.primitives import Primitive, busbw_factor
from colltool.measurements.log import Record


class LogLibrary(Enum):
    """The library that ran, by what a log calls it."""

    NCCL, RCCL, MPI, OTHER, UNKNOWN = "NCCL", "RCCL", "MPI", "other", ""

    @property
    def may_be_nccl(self) -> bool:
        return self in (LogLibrary.NCCL, LogLibrary.UNKNOWN)

    @property
    def launches_kernels(self) -> bool:
        """MPI's calls are messages of the host; what else there is runs on devices."""
        return self is not LogLibrary.MPI

    @property
    def in_fabrics(self) -> Literal["nccl", "rccl", "mpi"] | None:
        """As a fabric's file names it; None where the log names none that a file could."""
        match self:
            case LogLibrary.NCCL:
                return "nccl"
            case LogLibrary.RCCL:
                return "rccl"
            case LogLibrary.MPI:
                return "mpi"
            case LogLibrary.OTHER | LogLibrary.UNKNOWN:
                return None
            case _:
                assert_never(self)


def log_library(name: str) -> LogLibrary:
    """``RCCL 2.22`` is RCCL, ``MVAPICH`` an MPI, ``oneCCL`` another one; no name is unknown."""
    known = {"NCCL": LogLibrary.NCCL, "RCCL": LogLibrary.RCCL, "MPI": LogLibrary.MPI, "MVAPICH": LogLibrary.MPI}
    return next((one for word, one in known.items() if word in name.upper()), LogLibrary.OTHER if name else LogLibrary.UNKNOWN)


class Point(NamedTuple):
    """One size of a series.

    Args:
        bytes: M by nccl-tests' convention.
        seconds: the median of all repeats.
        low_s, high_s: the fastest and the slowest repeat.
        repeats: how many there were.
        where: ``file:line`` of the first.
    """

    bytes: float
    seconds: float
    low_s: float
    high_s: float
    repeats: int
    where: str


class Series(NamedTuple):
    """Points of one collective on one group, ascending in size, each size once.

    Args:
        primitive, ranks: what ran, and on how many.
        nodes: hosts of the ranks, as the log lists them; None where it does not.
        points: at least one.
        library: who ran it: ``NCCL``, ``RCCL``, ``MPI``; empty where the log does not say.
        version: of the library or else of the benchmark, as the log gives it.
        dtype: of the elements, as the log gives it.
        files: the logs it comes from, as the user named them.
        run: which of several runs of the same, where they are kept apart; empty where they are one series.
    """

    primitive: Primitive
    ranks: int
    nodes: int | None
    points: tuple[Point, ...]
    library: str = ""
    version: str = ""
    dtype: str = ""
    files: tuple[str, ...] = ()
    run: str = ""

    @property
    def title(self) -> str:
        """``all-reduce, 16 ranks on 2 nodes``; behind it the run, where there are several."""
        return f"{self.primitive.spoken}, {self.who}"

    @property
    def who(self) -> str:
        """``16 ranks on 2 nodes``, and the run."""
        nodes = f" on {self.nodes} node{'s' * (self.nodes != 1)}" if self.nodes else ""
        return f"{self.ranks} ranks{nodes}{', ' * bool(self.run)}{self.run}"

    def busbw_Bps(self, point: Point, seconds: float | None = None) -> float:
        """busbw of a point, bytes/s; at another time than the measured one where ``seconds`` is given."""
        return point.bytes / (seconds or point.seconds) * busbw_factor(self.primitive, self.ranks)


class Skipped(NamedTuple):
    """Rows that were left out, or ``used`` with a reservation: why, how many, and ``file:line`` of the first."""

    reason: str
    rows: int
    where: str
    used: bool = False


class Measurements(NamedTuple):
    """All series of all logs, by primitive, ranks and nodes, and what was left out or used with a reservation."""

    series: tuple[Series, ...]
    skipped: tuple[Skipped, ...]


LEAST_S = 1e-8
"""No message crosses a wire faster: light takes as long for three metres."""

MOST_S = 1e5
"""Nobody waits longer for one call: more than a day."""

MOST_BPS = 1e14
"""No rank sends or receives faster: a hundred times the ports of 2026."""


def check_timing(one: Record) -> None:
    """Refuse a time that no hardware takes."""
    if not LEAST_S <= one.seconds <= MOST_S or one.bytes > MOST_BPS * one.seconds:
        raise _refusal(one.bytes, one.seconds, one.where)


def check_series(series: Series) -> None:
    """The same for a series, whoever made it: its fastest and slowest repeats."""
    for point in series.points:
        for seconds in (point.seconds, point.low_s, point.high_s):
            if not LEAST_S <= seconds <= MOST_S or point.bytes > MOST_BPS * seconds:
                raise _refusal(point.bytes, seconds, point.where)


def _refusal(size: float, seconds: float, where: str) -> ColltoolError:
    rate = f", {format_rate(size / seconds, 3)}" if LEAST_S <= seconds <= MOST_S else ""
    what = f"implausible times: {format_bytes(size)} in {format_time(seconds, 3)}{rate}"
    return ColltoolError(what, where=where, fix="check the unit of the times in the logs")
