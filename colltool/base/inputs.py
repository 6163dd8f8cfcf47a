"""Any file that colltool reads, through one door: a regular file or a pipe, never more of it than a person can mean.

What is larger than the limit of its kind is refused before it is read, a device, a folder or a socket before it is opened: a
zero device never ends, and a folder has no text. A pipe (``<(zcat log.gz)``, ``/dev/stdin``) does as well as a file.

Within :func:`remembering` every file that was opened is known, however it was named, so that nothing is written over it; and
a pipe, which gives its content once, can be read again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Literal, NamedTuple

from colltool.base.errors import ColltoolError, either
from colltool.base.quoting import printable

MIB = 2**20

Kind = Literal["definition", "config", "matrix", "document", "log"]
AnyPath = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class Bound(NamedTuple):
    """What one kind of input may be: at most ``limit`` bytes; ``noun`` and ``larger`` say it, ``smaller`` is the cure."""

    limit: int
    noun: str
    larger: str
    smaller: str


_WRITER = either(shell="--format json", python="colltool price --format json")

BOUNDS: dict[Kind, Bound] = {
    "definition": Bound(
        MIB, "a YAML file", "not a file that a person wrote", "keep what is priced; long lists are patterns, comments notes"
    ),
    "config": Bound(MIB, "a config.json", "not the shape of a model", "give the config.json beside the weights, not an index"),
    "matrix": Bound(64 * MIB, "a CSV file", "not a traffic matrix", "one row per sender, one column per receiver, nothing else"),
    "document": Bound(64 * MIB, "a JSON file", "not a result of colltool", f"give a file that {_WRITER} wrote"),
    "log": Bound(64 * MIB, "a log", "not a benchmark's log", "keep the tables and the lines above them: grep away NCCL INFO"),
}
_GZIP = b"\x1f\x8b"
_LOOKED_AT = 4096  # bytes, to tell an encoding
TRACE = Bound(64 * 1024 * MIB, "a trace", "not a trace that a profiler wrote", "profile fewer steps")
"""What is read piece by piece, and may be larger than memory."""


Identity = tuple[int, int]
"""Device and inode: one file under all its names."""


@dataclass(frozen=True)
class Inputs:
    """What was opened: every file, and of pipes the content."""

    files: set[Identity] = field(default_factory=set)
    pipes: dict[Identity, bytes] = field(default_factory=dict)

    def hold(self, path: AnyPath) -> bool:
        """Whether a path leads to a file that was opened."""
        try:
            return _identity(os.stat(path)) in self.files
        except (OSError, ValueError):
            return False


_INPUTS: ContextVar[Inputs | None] = ContextVar("inputs", default=None)


@contextmanager
def remembering() -> Iterator[Inputs]:
    """Within it every file that is opened is noted; one within another notes in the outer."""
    outer = _INPUTS.get()
    if outer is not None:
        yield outer
        return
    token = _INPUTS.set(inputs := Inputs())
    try:
        yield inputs
    finally:
        _INPUTS.reset(token)


def read_text(path: AnyPath, kind: Kind, name: str = "") -> str:
    """The text of a file or pipe in UTF-8, without a byte order mark.

    Args:
        path: of the file.
        kind: what it should hold, which says how large it may be.
        name: what errors call it; the path when empty.

    Raises:
        ColltoolError: as :func:`read_bytes`, or not UTF-8, with line and column.
    """
    content = read_bytes(path, kind, name)
    if b"\0" in content and _encoding(content[:_LOOKED_AT]).startswith("UTF"):  # plain letters with zeros between are UTF-8 too
        raise not_utf8(content, printable(_name(path, name)), printable(_name(path, name)))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        place = f"{printable(_name(path, name))}:{line}:{column}"
        raise not_utf8(content, place, printable(_name(path, name))) from error


def read_bytes(path: AnyPath, kind: Kind, name: str = "") -> bytes:
    """As :func:`read_text`, for a caller that knows how to decode.

    Raises:
        ColltoolError: missing, unreadable, a folder, a device, a socket, or above the limit of its kind.
    """
    bound, where = BOUNDS[kind], printable(_name(path, name))
    try:
        status = os.stat(path)
        _check(status, bound, where)
        content = _content(path, status, bound)
    except OSError as error:
        fix = f"give the path of {bound.noun}"
        raise ColltoolError(f"cannot be read: {error.strerror or error}", where=where, fix=fix) from error
    except ValueError as error:  # a NUL in the name, or a character that no file system has
        raise ColltoolError("is not the name of a file", where=where, fix=f"give the path of {bound.noun}") from error
    if len(content) > bound.limit:  # a pipe, or a file that grew
        raise _too_large(bound, where)
    return content


@contextmanager
def opened(path: AnyPath, bound: Bound) -> Iterator[tuple[BufferedReader, str]]:
    """A file or pipe to be read piece by piece, and what errors call it: for what does not fit into memory.

    Raises:
        ColltoolError: as :func:`read_bytes`, also where reading fails later on.
    """
    name = _name(path, "")
    fix = f"give the path of {bound.noun}"
    try:
        status = os.stat(path)
        _check(status, bound, printable(name))
        _once(status, printable(name))
        stream = open(path, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise ColltoolError(f"cannot be read: {error.strerror or error}", where=printable(name), fix=fix) from error
    except ValueError as error:
        raise ColltoolError("is not the name of a file", where=printable(name), fix=fix) from error
    with stream:
        try:
            yield stream, name
        except OSError as error:
            raise ColltoolError(f"cannot be read: {error.strerror or error}", where=printable(name), fix=fix) from error


def not_utf8(content: bytes, where: str, name: str) -> ColltoolError:
    """The error for what is no text in UTF-8: packed, in another encoding, or no text at all."""
    if content.startswith(_GZIP):
        return ColltoolError("is gzipped, not text", where=where, fix=f"unpack it: gunzip -c {name} > FILE")
    encoding = _encoding(content[:_LOOKED_AT])
    if not encoding:
        return ColltoolError("is binary, not text", where=where, fix="give the text itself, unpacked and in UTF-8")
    fix = f"convert it: iconv -f {encoding} -t UTF-8 {name} > FILE"
    return ColltoolError(f"is not UTF-8 text, but looks like {encoding}", where=where, fix=fix)


def _encoding(head: bytes) -> str:
    """What a text that is not UTF-8 looks to be in, by its mark or its zeros, as iconv calls it; empty for no text."""
    if head.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "UTF-32"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    for name, zeros, letters in (("UTF-16LE", head[1::2], head[::2]), ("UTF-16BE", head[::2], head[1::2])):
        if zeros and zeros.count(0) > 0.7 * len(zeros) and letters.count(0) < 0.1 * len(letters):
            return name
    if any(byte < 32 and byte not in b"\t\n\v\f\r\x1b" for byte in head):
        return ""
    return "WINDOWS-1252" if any(128 <= byte < 160 for byte in head) else "ISO-8859-1"


def _content(path: AnyPath, status: os.stat_result, bound: Bound) -> bytes:
    """All of a file, or of a pipe what it gave before."""
    inputs = _note(status)
    if inputs is not None and (known := inputs.pipes.get(_identity(status))) is not None:
        return known
    with open(path, "rb") as stream:
        content = stream.read(bound.limit + 1)
    if inputs is not None and stat.S_ISFIFO(status.st_mode):
        inputs.pipes[_identity(status)] = content
    return content


def _once(status: os.stat_result, where: str) -> None:
    """Refuse a pipe that was read piece by piece, or otherwise: it has nothing more, and would be waited for without end."""
    inputs = _INPUTS.get()
    if inputs is not None and stat.S_ISFIFO(status.st_mode) and _identity(status) in inputs.files:
        raise ColltoolError("is a pipe that was read already", where=where, fix="name it once, or save what it gives as a file")
    _note(status)


def _note(status: os.stat_result) -> Inputs | None:
    inputs = _INPUTS.get()
    if inputs is not None:
        inputs.files.add(_identity(status))
    return inputs


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def _check(status: os.stat_result, bound: Bound, where: str) -> None:
    """Refuses what is no file of a person by its kind and size alone."""
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        raise ColltoolError(f"is a directory, expected {bound.noun}", where=where, fix="give a file in it")
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        what = "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise ColltoolError(f"is {what}, expected {bound.noun}", where=where, fix="give a regular file or a pipe")
    if stat.S_ISREG(mode) and status.st_size > bound.limit:
        raise _too_large(bound, where)


def _too_large(bound: Bound, where: str) -> ColltoolError:
    what = f"is larger than {bound.limit // MIB} MiB: {bound.larger}"
    return ColltoolError(what, where=where, fix=bound.smaller)


def _name(path: AnyPath, name: str) -> str:
    """What errors call a file: bytes that are no UTF-8 stay in it as surrogates, and are escaped where text leaves."""
    return name or os.fsdecode(path)
