"""A log on its way from a file to a reader: bounded, decoded, line by line; and what every reader of a format offers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.inputs import not_utf8, read_bytes
from colltool.measurements.timing import Reading, Stated

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
        """All of it, lines ending in ``\\n``."""
        return self.content.decode("utf-8", "replace").replace("\r\n", "\n")


class Format(NamedTuple):
    """A format of logs: what each reader offers to :data:`colltool.measurements.formats.FORMATS`.

    Args:
        known_by: its name, and what a file of it shows; for people whose file is none.
        recognises: whether a log holds measurements of this format.
        read: all of them. Raises ColltoolError, with the place, where none can be used.
        shares: whether a log may hold tables of other such formats, too.
    """

    known_by: str
    recognises: Callable[[Log], bool]
    read: Callable[[Log, Stated], Reading]
    shares: bool = False


def open_log(path: str) -> Log:
    """The content of a file.

    Raises:
        ColltoolError: missing, unreadable, a folder, too large, binary, empty.
    """
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
    """In UTF-8, without a byte order mark."""
    content = read_bytes(path, "log")
    encoding = next((name for bom, name in _BOMS if content.startswith(bom)), "utf-8")
    if (encoding != "utf-16" and b"\0" in content) or content.startswith(b"\x1f\x8b"):
        raise not_utf8(content, path, path)
    if encoding != "utf-8":
        content = content.decode(encoding, errors="replace").encode()
    return content
