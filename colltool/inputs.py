"""Any file that colltool reads, through one door: a regular file or a pipe, never more of it than a person can mean.

What is larger than the limit of its kind is refused before it is read, a device, a folder or a socket before it is opened: a
zero device never ends, and a folder has no text. A pipe (``<(zcat log.gz)``, ``/dev/stdin``) does as well as a file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from typing import Literal, NamedTuple

from colltool.errors import ColltoolError, either
from colltool.shown import printable

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
TRACE = Bound(64 * 1024 * MIB, "a trace", "not a trace that a profiler wrote", "profile fewer steps")
"""What is read piece by piece, and may be larger than memory."""


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
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        place = f"{printable(_name(path, name))}:{line}:{column}"
        raise ColltoolError("is not UTF-8 text", where=place, fix="save it as UTF-8") from error


def read_bytes(path: AnyPath, kind: Kind, name: str = "") -> bytes:
    """As :func:`read_text`, for a caller that knows how to decode.

    Raises:
        ColltoolError: missing, unreadable, a folder, a device, a socket, or above the limit of its kind.
    """
    bound, where = BOUNDS[kind], printable(_name(path, name))
    try:
        _check(os.stat(path), bound, where)
        with open(path, "rb") as stream:
            content = stream.read(bound.limit + 1)
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
        _check(os.stat(path), bound, printable(name))
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
