"""Measured series in SI units, with sizes as nccl-tests counts them."""

from __future__ import annotations

from enum import Enum
from typing import Literal, NamedTuple, assert_never

from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_bytes, format_rate, format_time
from colltool.base.primitives import Primitive, busbw_factor
from colltool.measurements.log import Record


class LogLibrary(Enum):
    """The library that ran, as a log calls it."""

    NCCL, RCCL, MPI, OTHER, UNKNOWN = "NCCL", "RCCL", "MPI", "other", ""

    @property
    def may_be_nccl(self) -> bool:
        return self in (LogLibrary.NCCL, LogLibrary.UNKNOWN)

    @property
    def launches_kernels(self) -> bool:
        """MPI calls are host messages; all others run on devices."""
        return self is not LogLibrary.MPI

    @property
    def in_fabrics(self) -> Literal["nccl", "rccl", "mpi"] | None:
        """As a fabric file names it; None where no fabric file could."""
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
    """``RCCL 2.22`` is RCCL, ``MVAPICH`` an MPI, ``oneCCL`` OTHER, no name UNKNOWN."""
    known = {"NCCL": LogLibrary.NCCL, "RCCL": LogLibrary.RCCL, "MPI": LogLibrary.MPI, "MVAPICH": LogLibrary.MPI}
    return next((one for word, one in known.items() if word in name.upper()), LogLibrary.OTHER if name else LogLibrary.UNKNOWN)


class Point(NamedTuple):
    """One size: the median of its repeats and their range; ``where`` is ``file:line`` of the first."""

    bytes: float
    seconds: float
    low_s: float
    high_s: float
    repeats: int
    where: str


class Series(NamedTuple):
    """Points of one collective on one group, ascending in size, each size once.

    ``nodes`` is None where the log lists no hosts; ``library``, ``version`` (else of the benchmark) and ``dtype`` are as the log
    gives them, empty where it does not. ``run`` tells apart runs that are kept separate.
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
        """``all-reduce, 16 ranks on 2 nodes``, and the run if there are several."""
        return f"{self.primitive.spoken}, {self.who}"

    @property
    def who(self) -> str:
        """``16 ranks on 2 nodes``, and the run."""
        nodes = f" on {self.nodes} node{'s' * (self.nodes != 1)}" if self.nodes else ""
        return f"{self.ranks} ranks{nodes}{', ' * bool(self.run)}{self.run}"

    def busbw_Bps(self, point: Point, seconds: float | None = None) -> float:
        """busbw in bytes/s, at the measured time or at ``seconds``."""
        return point.bytes / (seconds or point.seconds) * busbw_factor(self.primitive, self.ranks)


class Skipped(NamedTuple):
    """Rows left out, or ``used`` with a reservation; ``where`` is ``file:line`` of the first."""

    reason: str
    rows: int
    where: str
    used: bool = False


class Measurements(NamedTuple):
    """All series of all logs, and the rows that were skipped or doubted."""

    series: tuple[Series, ...]
    skipped: tuple[Skipped, ...]


LEAST_S = 1e-8  # light takes as long for three metres
MOST_S = 1e5  # more than a day
MOST_BPS = 1e14  # a hundred times the ports of 2026


def check_timing(one: Record) -> None:
    if not LEAST_S <= one.seconds <= MOST_S or one.bytes > MOST_BPS * one.seconds:
        raise _refusal(one.bytes, one.seconds, one.where)


def check_series(series: Series) -> None:
    """Refuse times that no hardware takes, in any repeat."""
    for point in series.points:
        for seconds in (point.seconds, point.low_s, point.high_s):
            if not LEAST_S <= seconds <= MOST_S or point.bytes > MOST_BPS * seconds:
                raise _refusal(point.bytes, seconds, point.where)


def _refusal(size: float, seconds: float, where: str) -> ColltoolError:
    rate = f", {format_rate(size / seconds, 3)}" if LEAST_S <= seconds <= MOST_S else ""
    what = f"implausible times: {format_bytes(size)} in {format_time(seconds, 3)}{rate}"
    return ColltoolError(what, where=where, fix="check the unit of the times in the logs")
