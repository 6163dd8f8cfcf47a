"""Measured series in SI units, with sizes as nccl-tests counts them; logs as bounded lines, and
what their readers give."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from statistics import median
from typing import Literal, NamedTuple, TypeVar, assert_never

from colltool.base.errors import ColltoolError, given
from colltool.base.files import not_utf8, read_bytes
from colltool.base.formatting import counted, format_bytes, format_rate, format_time
from colltool.base.primitives import Primitive, busbw_factor


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
        match self:
            case LogLibrary.NCCL:
                return "nccl"
            case LogLibrary.RCCL:
                return "rccl"
            case LogLibrary.MPI:
                return "mpi"
            case LogLibrary.OTHER | LogLibrary.UNKNOWN:
                return None
        assert_never(self)


def log_library(name: str) -> LogLibrary:
    """``RCCL 2.22`` is RCCL, ``MVAPICH`` an MPI, ``oneCCL`` OTHER, no name UNKNOWN."""
    known = {
        "NCCL": LogLibrary.NCCL,
        "RCCL": LogLibrary.RCCL,
        "MPI": LogLibrary.MPI,
        "MVAPICH": LogLibrary.MPI,
    }
    return next(
        (one for word, one in known.items() if word in name.upper()),
        LogLibrary.OTHER if name else LogLibrary.UNKNOWN,
    )


class Point(NamedTuple):
    """One size: the median of its repeats and their range; ``where`` is ``file:line`` of the
    first."""

    bytes: float
    seconds: float
    low_s: float
    high_s: float
    repeats: int
    where: str


class Series(NamedTuple):
    """Points of one collective on one group, ascending in size, each size once.

    ``nodes`` is None where the log lists no hosts; ``library``, ``version`` (else of the benchmark)
    and ``dtype`` are as the log gives them, empty where it does not. ``run`` tells apart runs that
    are kept separate.
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
        nodes = f" on {counted(self.nodes, 'node')}" if self.nodes else ""
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


def check_timing(size: float, seconds: float, where: str) -> None:
    if not LEAST_S <= seconds <= MOST_S or size > MOST_BPS * seconds:
        rate = f", {format_rate(size / seconds, 3)}" if LEAST_S <= seconds <= MOST_S else ""
        what = f"implausible times: {format_bytes(size)} in {format_time(seconds, 3)}{rate}"
        raise ColltoolError(what, where=where, fix="check the unit of the times in the logs")


MAX_LINE = 4096  # characters of a line that are looked at
# PowerShell writes UTF-16
_BOMS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))


class Log(NamedTuple):
    """A file that may hold measurements; ``content`` is UTF-8 bytes, a quarter of the memory that
    text can take."""

    file: str
    content: bytes

    def lines(self) -> Iterator[str]:
        """Every line without its end, cut one character beyond :data:`MAX_LINE`."""
        start, content, size = 0, self.content, len(self.content)
        while start <= size:
            end = content.find(b"\n", start)
            end = size if end < 0 else end
            # a character has at most 4 bytes
            line = content[start : min(end, start + 4 * MAX_LINE)]
            yield line.removesuffix(b"\r").decode("utf-8", "replace")[: MAX_LINE + 1]
            start = end + 1

    def text(self) -> str:
        return self.content.decode("utf-8", "replace").replace("\r\n", "\n")


class Format(NamedTuple):
    """A log format. ``known_by``: name and sign, for error messages. ``read`` raises ColltoolError
    where no row is usable.
    ``shares``: a log may also hold tables of other such formats."""

    known_by: str
    recognises: Callable[[Log], bool]
    read: Callable[[Log, UserHints], ParsedLog]
    shares: bool = False


def open_log(path: str) -> Log:
    content = _content(path)
    if not content or content.isspace():
        raise ColltoolError("is empty", where=path, fix="give the output of a benchmark")
    return Log(path, content)


def is_empty(path: str) -> bool:
    """Whether a readable file holds nothing, as that of a killed run."""
    try:
        content = _content(path)
    except ColltoolError:
        return False
    return not content or content.isspace()


def _content(path: str) -> bytes:
    content = read_bytes(path, "log")
    encoding = next((name for bom, name in _BOMS if content.startswith(bom)), "utf-8")
    if (encoding != "utf-16" and b"\0" in content) or content.startswith(b"\x1f\x8b"):
        raise not_utf8(content, path, path)
    if encoding != "utf-8":
        content = content.decode(encoding, errors="replace").encode()
    return content


_T = TypeVar("_T")


class UserHints(NamedTuple):
    """What the caller says about the logs; None leaves it to the logs."""

    ranks: int | None = None
    primitive: Primitive | None = None
    nodes: int | None = None
    in_place: bool = False


def place(file: str, line: int, item: str) -> str:
    return f"{file}:{line}: {item}" if item else f"{file}:{line}"


class Record(NamedTuple):
    """One measured time of one size, in SI units; ``bytes`` as nccl-tests counts them."""

    primitive: Primitive
    ranks: int
    nodes: int | None
    bytes: float
    seconds: float
    dtype: str
    library: str
    version: str
    file: str
    line: int
    item: str = ""

    @property
    def where(self) -> str:
        return place(self.file, self.line, self.item)


class Note(NamedTuple):
    """A row that was left out, or ``used`` with a reservation."""

    reason: str
    file: str
    line: int
    item: str = ""
    used: bool = False

    @property
    def where(self) -> str:
        return place(self.file, self.line, self.item)


class ParsedLog(NamedTuple):
    timings: tuple[Record, ...]
    notes: tuple[Note, ...]


def agree(found: _T | None, stated: _T | None, what: str, argument: str, where: str) -> _T | None:
    """Whichever of log and caller says something; an error where they differ."""
    if found is not None and stated is not None and found != stated:
        what = f"the log says {what} {found}, {given(argument)} says {stated}"
        raise ColltoolError(what, where=where, fix=f"leave {given(argument)} out, or correct it")
    return stated if found is None else found


def series_of(timings: Iterable[Record]) -> tuple[Series, ...]:
    """A series per primitive, rank count, nodes, dtype and library, in that order."""
    order = {primitive: at for at, primitive in enumerate(Primitive)}
    groups: dict[tuple[int, int, int, str, str], dict[float, list[Record]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for one in timings:
        key = (order[one.primitive], one.ranks, one.nodes or 0, one.dtype, one.library)
        groups[key][one.bytes].append(one)
    found = []
    for _, by_size in sorted(groups.items(), key=lambda group: group[0]):
        points = []
        for _, repeats in sorted(by_size.items()):
            times, one = (
                [repeat.seconds for repeat in repeats],
                min(repeats, key=lambda one: (one.file, one.line, one.seconds)),
            )
            points.append(
                Point(one.bytes, median(times), min(times), max(times), len(times), one.where)
            )
        several = [one for repeats in by_size.values() for one in repeats]
        said = ", ".join(sorted({one.version for one in several if one.version}))
        files, one = tuple(sorted({one.file for one in several})), several[0]
        found.append(
            Series(
                one.primitive,
                one.ranks,
                one.nodes,
                tuple(points),
                one.library,
                said,
                dtype=one.dtype,
                files=files,
            )
        )
    return tuple(found)


def skipped_of(notes: Iterable[Note]) -> tuple[Skipped, ...]:
    by_reason: dict[str, list[Note]] = defaultdict(list)
    for note in sorted(notes, key=lambda note: (note.file, note.line, note.reason)):
        by_reason[note.reason].append(note)
    return tuple(
        Skipped(reason, len(all_), all_[0].where, all_[0].used)
        for reason, all_ in by_reason.items()
    )


_ANSI = re.compile(r"\x1b(?:\[[0-9;?]{0,40}[A-Za-z]|\][^\x07]{0,200}\x07)")
_MPIRUN_TAG = re.compile(r"\[[^\[\]\s]*\d,\d+\]<std\w+>:?")
_NCCL_PLACE = re.compile(r":\d+:\d+ \[-?\d+\]")  # process, thread and device, behind a host's name
_HOST = re.compile(r"(?:\[[^\[\]]{1,40}\]\s*)?[A-Za-z][\w.-]*\Z")
_LABEL = re.compile(r"\s*[\w.-]{1,80}:\s+(?=[#\d.]|N/A)")  # "0: " of srun -l, "node03: " of pdsh
_LONGEST_HOST = 300


def clean(line: str) -> str:
    """A line without ANSI colours, mpirun tags, launcher labels and NCCL messages."""
    line = line[:MAX_LINE]
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "<std" in line:
        line = _MPIRUN_TAG.sub(" ", line)
    if "NCCL" in line:  # a message of NCCL reaches to the end of the line
        version = line.find("NCCL version ")
        start = version if version >= 0 else len(line)
        place = _NCCL_PLACE.search(line)
        if place is not None and line.rfind("NCCL") >= place.end():
            first = max(0, place.start() - _LONGEST_HOST)
            host = _HOST.search(line[first : place.start()])
            start = min(start, first + host.start()) if host else start
        line = line[:start]
    if ":" in line and (label := _LABEL.match(line)):
        line = line[label.end() :]
    return line
