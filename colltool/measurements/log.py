"""Log files as bounded, decoded lines, and the interface of every log format's reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from colltool.base.errors import ColltoolError, given
from colltool.base.files import not_utf8, read_bytes
from colltool.base.primitives import Primitive

MAX_LINE = 4096  # characters of a line that are looked at
_BOMS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))  # PowerShell writes UTF-16


class Log(NamedTuple):
    """A file that may hold measurements; ``content`` is UTF-8 bytes, a quarter of the memory that text can take."""

    file: str
    content: bytes

    def lines(self) -> Iterator[str]:
        """Every line without its end, cut one character beyond :data:`MAX_LINE`."""
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
    """A log format. ``known_by``: name and sign, for error messages. ``read`` raises ColltoolError where no row is usable.
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
    if "NCCL" in line:
        line = line[: _message_start(line)]
    if ":" in line and (label := _LABEL.match(line)):
        line = line[label.end() :]
    return line


def _message_start(line: str) -> int:
    """Where NCCL's message starts, which reaches to the end of the line; else the line's length."""
    version = line.find("NCCL version ")
    start = version if version >= 0 else len(line)
    place = _NCCL_PLACE.search(line)
    if place is None or line.rfind("NCCL") < place.end():
        return start
    first = max(0, place.start() - _LONGEST_HOST)
    host = _HOST.search(line[first : place.start()])
    return min(start, first + host.start()) if host else start
