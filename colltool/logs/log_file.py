"""A log as bounded lines of UTF-8, without what launchers, CI and NCCL's own messages add to
them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from itertools import islice
from typing import NamedTuple

from colltool.base.errors import ColltoolError, printable
from colltool.base.files import not_utf8, read_bytes
from colltool.logs.plain_pickle import is_pickle, pickle_as_json

MAX_LINE = 4096  # characters of a line that are looked at
# PowerShell writes UTF-16
_ENCODINGS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
_GZIP = b"\x1f\x8b"


class Log(NamedTuple):
    """A file that may hold measurements."""

    file: str  # its path
    content: bytes  # in UTF-8, a quarter of the memory that text can take

    def lines(self) -> Iterator[str]:
        """Every line without its end, cut one character beyond :data:`MAX_LINE`."""
        for line in BytesIO(self.content):
            # a character has at most 4 bytes
            start = line[: 4 * MAX_LINE].rstrip(b"\r\n")
            yield start.decode("utf-8", "replace")[: MAX_LINE + 1]

    def clean_lines(self) -> Iterator[tuple[int, str]]:
        """Every line with its number, after :func:`clean` and :func:`unstamped`, without blanks at
        its ends."""
        for number, line in enumerate(self.lines(), 1):
            yield number, unstamped(clean(line)).strip()

    def text(self) -> str:
        """The whole file, with line ends of Unix."""
        return self.content.decode("utf-8", "replace").replace("\r\n", "\n")

    def json_text(self) -> str:
        """The whole file without a byte order mark, which JSON does not allow."""
        return self.text().lstrip("\ufeff")

    def contains(self, *words: bytes) -> bool:
        """Whether all of these words stand in the file."""
        return all(word in self.content for word in words)


def open_log(path: str) -> Log:
    """A log by path; ColltoolError if it is empty, binary or unreadable."""
    content = _content(path)
    if not content or content.isspace():
        raise ColltoolError("is empty", where=path, fix="give the output of a benchmark")
    return Log(path, content)


def each_line(
    paths: Sequence[str | os.PathLike[str]],
    begin: Callable[[str], None],
    take: Callable[[str], None],
    *,
    most: int,
    longest: int,
) -> None:
    """Hand logs to a reader, one after the other, since they may be large: ``begin`` gets the name
    of each, ``take`` its lines, of all logs at most ``most``, each cut to ``longest`` characters.
    ColltoolError for one that is empty, binary or unreadable."""
    lines_left = most
    for path in paths:
        name = os.fspath(path)
        log = open_log(name)
        begin(printable(name))
        for line in islice(log.lines(), lines_left):
            lines_left -= 1
            take(line[:longest])


def is_empty(path: str) -> bool:
    """Whether a readable file holds nothing, as that of a killed run."""
    try:
        content = _content(path)
    except ColltoolError:
        return False
    return not content or content.isspace()


def is_text(path: str) -> bool:
    """Whether a file can be opened as a log."""
    try:
        open_log(path)
    except ColltoolError:
        return False
    return True


def _content(path: str) -> bytes:
    """A file as UTF-8, a pickle as JSON; ColltoolError if it is binary or packed."""
    content = read_bytes(path, "log")
    if is_pickle(content):
        return pickle_as_json(content, path)
    if content.startswith(_GZIP):
        raise not_utf8(content, path, path)
    encoding = "utf-8"
    for mark, marked in _ENCODINGS.items():
        if content.startswith(mark):
            encoding = marked
    # text in UTF-16 has zeros, any other text none
    if encoding != "utf-16" and b"\0" in content:
        raise not_utf8(content, path, path)
    if encoding == "utf-8":
        return content
    return content.decode(encoding, errors="replace").encode()


# colours, and titles of a terminal window
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]{0,40}[A-Za-z]|\][^\x07]{0,200}\x07)")
# "[1,0]<stdout>:" of mpirun --tag-output
_MPIRUN_TAG = re.compile(r"\[[^\[\]\s]*\d,\d+\]<std\w+>:?")
# ":4711:4790 [3]": process, thread and device, behind a host's name
_NCCL_PLACE = re.compile(r":\d+:\d+ \[-?\d+\]")
# "node01", "[node01] node01"; what is left of a line before a place
_HOST = re.compile(r"(?:\[[^\[\]]{1,40}\]\s*)?[A-Za-z][\w.-]*\Z")
_LABEL = re.compile(r"\s*[\w.-]{1,80}:\s+(?=[#\d.]|N/A)")  # "0: " of srun -l, "node03: " of pdsh
_LONGEST_HOST = 300  # characters before a place in which its host's name may stand


def clean(line: str) -> str:
    """A line without ANSI colours, mpirun tags, launcher labels and NCCL messages."""
    line = line[:MAX_LINE]
    # looking for a word is far cheaper than a pattern, and few lines have any of these
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "<std" in line:
        line = _MPIRUN_TAG.sub(" ", line)
    if "NCCL" in line:
        line = line[: _start_of_message(line)]
    label = _LABEL.match(line) if ":" in line else None
    return line[label.end() :] if label else line


# What CI, container engines and loggers put before a line, an alternative a kind:
#   "2026-11-27T15:02:23.123Z ", "15:02:23,5 "                    a time
#   "Nov 27 15:02:23 node01 slurmstepd[77]: "                     syslog
#   "[trainer-0] "                                                a pod or a container
#   "worker-1  | "                                                docker compose
#   "stdout F "                                                   Kubernetes
#   "INFO - "                                                     Python's logging
#   "rank 3: "                                                    torchrun
_STAMP = re.compile(
    r"""\s*(?:
    \d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[ ]?[+-]\d\d:?\d\d)?(?=[\s:|\]])
    | \d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?=[\s:|\]])
    | [A-Z][a-z]{2}[ ]{1,2}\d{1,2}[ ]\d\d:\d\d:\d\d[ ][\w.-]{1,80}[ ][\w./-]{1,80}(?:\[\d{1,9}\])?:
    | \[[^\[\]]{1,100}\](?=\s*[:#\d\s\[]|$)
    | [A-Za-z][\w.-]{0,80}[ ]{1,40}\|(?=\s)
    | (?:stdout|stderr)[ ][FP](?=\s)
    | -?[ ]?(?:DEBUG|INFO|NOTICE|WARNING)(?=[\s:-])
    | [Rr]ank[ ]?\d{1,7}:
    )\s*[:|-]?""",
    re.VERBOSE,
)
_MOST_STAMPS = 5  # labels and times that launchers put before a line, one on another
_STAMPED = re.compile(r"[\d\[A-Za-z\s-]")  # how a line with a stamp may begin


def unstamped(line: str) -> str:
    """A line without what CI, container engines and loggers put before it."""
    # rows of numbers begin as stamps do, and have none of these
    if (":" not in line and "[" not in line and "|" not in line) or not _STAMPED.match(line):
        return line
    for _ in range(_MOST_STAMPS):
        stamp = _STAMP.match(line)
        if stamp is None:
            break
        line = line[stamp.end() :]
    label = _LABEL.match(line)
    return line[label.end() :] if label else line


def _start_of_message(line: str) -> int:
    """Where a message of NCCL begins, which reaches to the end of the line: at the host's name
    before its place (``node1:4711:4790 [3] NCCL``), or at a version; the end where there is none."""
    version = line.find("NCCL version ")
    start = version if version >= 0 else len(line)
    place = _NCCL_PLACE.search(line)
    if place is None or line.rfind("NCCL") < place.end():
        return start
    first = max(0, place.start() - _LONGEST_HOST)
    host = _HOST.search(line[first : place.start()])
    return min(start, first + host.start()) if host else start
