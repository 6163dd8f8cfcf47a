"""A log on its way from a file to a reader: bounded, decoded, line by line; and what every reader of a format offers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from colltool.base.errors import ColltoolError, given
from colltool.base.inputs import not_utf8, read_bytes
from colltool.base.primitives import Primitive

MAX_LINE = 4096
"""Characters of a line that can be a row or a header of one; what stands beyond is never looked at."""

_BOMS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))  # PowerShell writes UTF-16


class Log(NamedTuple):
    """A file that may hold measurements.

    Args:
        file: as the user named it.
        content: in UTF-8; bytes, which take a quarter of the memory that text takes where one character is rare.
    """

    file: str
    content: bytes

    def lines(self) -> Iterator[str]:
        """Every line, its end left out, and no more of it than one character beyond :data:`MAX_LINE`."""
        start, content, size = 0, self.content, len(self.content)
        while start <= size:
            end = content.find(b"\n", start)
            end = size if end < 0 else end
            line = content[start : min(end, start + 4 * MAX_LINE)]  # a character has at most 4 bytes
            yield line.removesuffix(b"\r").decode("utf-8", "replace")[: MAX_LINE + 1]
            start = end + 1

    def text(self) -> str:
        return self.content.decode("utf-8", "replace").replace("\r\n", "\n")


class Format(NamedTuple):
    """A format of logs: what each reader offers to :data:`colltool.measurements.read.FORMATS`.

    Args:
        known_by: its name, and what a file of it shows; for people whose file is none.
        recognises: whether a log holds measurements of this format.
        read: all of them. Raises ColltoolError, with the place, where none can be used.
        shares: whether a log may hold tables of other such formats, too.
    """

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
    """Whether a file can be read and holds nothing, as that of a run that was killed."""
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
    """What the caller says about the logs; None where the logs must say it themselves."""

    ranks: int | None = None
    primitive: Primitive | None = None
    nodes: int | None = None
    in_place: bool = False


def place(file: str, line: int, item: str) -> str:
    return f"{file}:{line}: {item}" if item else f"{file}:{line}"


class Record(NamedTuple):
    """One measured time of one size, in SI units and by nccl-tests' size convention; most readers find one in each row."""

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
    """A row that was left out, or ``used`` with a reservation: the reason, and where."""

    reason: str
    file: str
    line: int
    item: str = ""
    used: bool = False

    @property
    def where(self) -> str:
        return place(self.file, self.line, self.item)


class ParsedLog(NamedTuple):
    """What one reader found in one file."""

    timings: tuple[Record, ...]
    notes: tuple[Note, ...]


def agree(found: _T | None, stated: _T | None, what: str, argument: str, where: str) -> _T | None:
    """The one of log and caller that says something; both must say the same."""
    if found is not None and stated is not None and found != stated:
        what = f"the log says {what} {found}, {given(argument)} says {stated}"
        raise ColltoolError(what, where=where, fix=f"leave {given(argument)} out, or correct it")
    return stated if found is None else found


_ANSI = re.compile(r"\x1b(?:\[[0-9;?]{0,40}[A-Za-z]|\][^\x07]{0,200}\x07)")
_MPIRUN_TAG = re.compile(r"\[[^\[\]\s]*\d,\d+\]<std\w+>:?")
_NCCL_PLACE = re.compile(r":\d+:\d+ \[-?\d+\]")  # process, thread and device, behind a host's name
_HOST = re.compile(r"(?:\[[^\[\]]{1,40}\]\s*)?[A-Za-z][\w.-]*\Z")
_LABEL = re.compile(r"\s*[\w.-]{1,80}:\s+(?=[#\d.]|N/A)")  # "0: " of srun -l, "node03: " of pdsh
_LONGEST_HOST = 300


def clean(line: str) -> str:
    """A line without colours, mpirun's tags and NCCL's messages, wherever in the line they stand."""
    line = line[:MAX_LINE]
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "<std" in line:
        line = _MPIRUN_TAG.sub(" ", line)
    if "NCCL" in line:
        line = line[: _message_start(line)]
    if ":" in line and (label := _LABEL.match(line)):
        line = line[label.end() :]
    return line


def _message_start(line: str) -> int:
    """Where a message of NCCL begins, which reaches to the end of the line; the length of the line where there is none."""
    version = line.find("NCCL version ")
    start = version if version >= 0 else len(line)
    place = _NCCL_PLACE.search(line)
    if place is None or line.rfind("NCCL") < place.end():
        return start
    first = max(0, place.start() - _LONGEST_HOST)
    host = _HOST.search(line[first : place.start()])
    return min(start, first + host.start()) if host else start
