"""Reads the files and pipes that users name, each within the size limit of its kind
(:func:`read_text`, :func:`read_bytes`; :func:`opened` streams).

Too large a file is refused before it is read, a device, folder or socket before it is opened.
Within :func:`remembering` every opened file is known by its inode, so that output never overwrites
it and a pipe can be read again. Output is written by :mod:`colltool.base.whole_files`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Literal, NamedTuple

from colltool.base.errors import ColltoolError, either, printable
from colltool.base.reach import confine, is_confined

MIB = 2**20
STANDARD_INPUT = "/dev/stdin"
"""The file that ``-`` stands for."""
# Suffix of files of measured rows, next to the fabric's file.
MACHINE_SUFFIX = ".machine.yaml"

Kind = Literal["definition", "algorithm", "config", "matrix", "document", "log", "topology"]
AnyPath = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class Bound(NamedTuple):
    """The size limit of a kind of input, and the words of its errors.

    Attributes:
        limit: bytes.
        noun: a file of the kind, with its article.
        larger: what a larger file is, to follow "is larger than 1 MiB: ".
        smaller: the fix for a larger one.
    """

    limit: int
    noun: str
    larger: str
    smaller: str


_WRITER = either(shell="--format json", python="colltool price --format json")

BOUNDS: dict[Kind, Bound] = {
    "definition": Bound(
        MIB,
        "a YAML file",
        "not a file that a person wrote",
        "keep what is priced; long lists are patterns, comments notes",
    ),
    "algorithm": Bound(
        16 * MIB,
        "an algorithm file",
        "not a schedule that can be followed",
        "fewer ranks, chunks or channels",
    ),
    "config": Bound(
        MIB,
        "a config.json",
        "not the shape of a model",
        "give the config.json beside the weights, not an index",
    ),
    "matrix": Bound(
        64 * MIB,
        "a CSV file",
        "not a traffic matrix",
        "one row per sender, one column per receiver, nothing else",
    ),
    "document": Bound(
        64 * MIB, "a JSON file", "not a result of colltool", f"give a file that {_WRITER} wrote"
    ),
    "log": Bound(
        64 * MIB,
        "a log",
        "not a benchmark's log",
        "keep the tables and the lines above them: grep away NCCL INFO",
    ),
    "topology": Bound(
        64 * MIB,
        "a file that describes a machine",
        "not one machine or network",
        "dump one node, or one subnet",
    ),
}
# A trace is streamed, so it may be larger than memory.
TRACE = Bound(
    64 * 1024 * MIB, "a trace", "not a trace that a profiler wrote", "profile fewer steps"
)

# Device and inode, by which a file is known under all of its names.
Identity = tuple[int, int]


@dataclass(frozen=True)
class Inputs:
    """The files that were opened so far, each by its identity.

    Attributes:
        files: all of them.
        pipes: the content of those that are pipes, which give it once.
        refused: the errors of files that are going to be written, and so must not be read.
    """

    files: set[Identity] = field(default_factory=set)
    pipes: dict[Identity, bytes] = field(default_factory=dict)
    refused: dict[Identity, ColltoolError] = field(default_factory=dict)

    def refuse(self, path: AnyPath, why: ColltoolError) -> None:
        """Refuse to read the file at a path, if there is one, from now on: raise ``why`` instead."""
        with suppress(OSError, ValueError):
            self.refused[_identity(os.stat(path))] = why

    def has_opened(self, path: AnyPath) -> bool:
        """Whether a path leads to a file that was opened."""
        try:
            return _identity(os.stat(path)) in self.files
        except (OSError, ValueError):
            return False


_INPUTS: ContextVar[Inputs | None] = ContextVar("inputs", default=None)


@contextmanager
def remembering() -> Iterator[Inputs]:
    """Note every file opened within; nested uses share the outer one."""
    outer = _INPUTS.get()
    if outer is not None:
        yield outer
        return
    inputs = Inputs()
    token = _INPUTS.set(inputs)
    try:
        yield inputs
    finally:
        _INPUTS.reset(token)


def read_text(path: AnyPath, kind: Kind, name: str = "") -> str:
    """Return the text of a UTF-8 file or pipe without its byte order mark; ``name``: for errors,
    default: the path.

    Raises:
        ColltoolError: as :func:`read_bytes`; no UTF-8 text, or an empty standard input.
    """
    content = read_bytes(path, kind, name)
    where = _place(path, name)
    if not content and os.fsdecode(path) == STANDARD_INPUT:
        fix = "does the file that is piped in exist?"
        raise ColltoolError("nothing arrived", where=STANDARD_INPUT, fix=fix)
    # UTF-16 of plain letters, which has a zero in every other byte, would decode as UTF-8 too
    if b"\0" in content and _encoding(content).startswith("UTF"):
        raise not_utf8(content, where, where)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig")
        line = before.count("\n") + 1
        # from 1; without a line break rfind is -1
        column = len(before) - before.rfind("\n")
        raise not_utf8(content, f"{where}:{line}:{column}", where) from error


def read_bytes(path: AnyPath, kind: Kind, name: str = "") -> bytes:
    """Return the content of a file or pipe; ``name``: for errors, default: the path.

    Raises:
        ColltoolError: it is missing, unreadable, a folder, device or socket, above the limit of its
            kind, or going to be written.
    """
    bound = BOUNDS[kind]
    where = _place(path, name)
    with _read_errors(bound, where):
        status = _readable_status(path, bound, where)
        inputs = _note_opened(status)
        # a pipe gives its content once; nobody asks again outside of remembering()
        pipes = {} if inputs is None else inputs.pipes
        content = pipes.get(_identity(status))
        if content is None:
            with open(path, "rb") as stream:
                # a byte more than the limit tells what is too large
                content = stream.read(bound.limit + 1)
            if stat.S_ISFIFO(status.st_mode):
                pipes[_identity(status)] = content
    if len(content) > bound.limit:  # a pipe, or a file that grew
        raise _too_large(bound, where)
    return content


@contextmanager
def opened(path: AnyPath, bound: Bound) -> Iterator[tuple[BufferedReader, str]]:
    """Open a file or pipe to stream; yields the stream and its path as text, in which control characters are
    not escaped. Errors are those of :func:`read_bytes`, also when reading fails within the block."""
    where = _place(path, "")
    with _read_errors(bound, where):
        status = _readable_status(path, bound, where)
        inputs = _INPUTS.get()
        opened_before = inputs is not None and _identity(status) in inputs.files
        if opened_before and stat.S_ISFIFO(status.st_mode):
            # it has nothing more, and would be waited for without end
            fix = "name it once, or save what it gives as a file"
            raise ColltoolError("is a pipe that was read already", where=where, fix=fix)
        _note_opened(status)
        stream = open(path, "rb")  # noqa: SIM115 - closed below
    with stream, _read_errors(bound, where):
        yield stream, os.fsdecode(path)


@contextmanager
def _read_errors(bound: Bound, where: str) -> Iterator[None]:
    """Turn an OSError into an error for the user."""
    try:
        yield
    except OSError as error:
        raise ColltoolError(
            f"cannot be read: {error.strerror or error}", where=where, fix=_path_fix(bound)
        ) from error


def _readable_status(path: AnyPath, bound: Bound, where: str) -> os.stat_result:
    """The status of a file or pipe; an error if it may not be read, or a file is above the limit (a pipe
    tells its size only when it is read)."""
    confine(path, where)
    try:
        status = os.stat(path)
    except ValueError as error:  # a NUL in the name, or a character that no file system has
        raise ColltoolError(
            "is not the name of a file", where=where, fix=_path_fix(bound)
        ) from error
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        what = f"is a directory, expected {bound.noun}"
        raise ColltoolError(what, where=where, fix="give a file in it")
    if stat.S_ISFIFO(mode):
        if is_confined():
            what = "is a pipe, which may never be written to"
            raise ColltoolError(what, where=where, fix="give a regular file")
    elif not stat.S_ISREG(mode):
        what = f"is {'a socket' if stat.S_ISSOCK(mode) else 'a device'}, expected {bound.noun}"
        raise ColltoolError(what, where=where, fix="give a regular file or a pipe")
    elif status.st_size > bound.limit:
        raise _too_large(bound, where)
    return status


def _path_fix(bound: Bound) -> str:
    return f"give the path of {bound.noun}"


def _too_large(bound: Bound, where: str) -> ColltoolError:
    return ColltoolError(
        f"is larger than {bound.limit // MIB} MiB: {bound.larger}", where=where, fix=bound.smaller
    )


def _note_opened(status: os.stat_result) -> Inputs | None:
    """Note that a file is opened, and return all that were; None outside of :func:`remembering`. An error if
    the file is going to be written."""
    inputs = _INPUTS.get()
    if inputs is not None:
        identity = _identity(status)
        inputs.files.add(identity)
        if identity in inputs.refused:
            raise inputs.refused[identity]
    return inputs


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def _place(path: AnyPath, name: str) -> str:
    """The place for errors: the name of a file, else its path; control characters and bytes that are no text
    are escaped."""
    return printable(name or os.fsdecode(path))


def not_utf8(content: bytes, where: str, name: str) -> ColltoolError:
    """Return the error for content that is gzip, in another encoding, or binary.

    Args:
        where: the place, ``FILE`` or ``FILE:LINE:COLUMN``.
        name: the file, for a command in the fix.
    """
    if content.startswith(b"\x1f\x8b"):
        fix = f"unpack it: gunzip -c {name} > FILE"
        return ColltoolError("is gzipped, not text", where=where, fix=fix)
    encoding = _encoding(content)
    if not encoding:
        fix = "give the text itself, unpacked and in UTF-8"
        return ColltoolError("is binary, not text", where=where, fix=fix)
    fix = f"convert it: iconv -f {encoding} -t UTF-8 {name} > FILE"
    return ColltoolError(f"is not UTF-8 text, but looks like {encoding}", where=where, fix=fix)


def _encoding(content: bytes) -> str:
    """The likely encoding of text that is not UTF-8 by its first bytes, as iconv calls it. Empty
    for binary."""
    head = content[:4096]
    if head.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "UTF-32"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    # of plain letters in UTF-16 every other byte is zero
    even = head[::2]
    odd = head[1::2]
    if _are_zeros(odd) and even.count(0) < 0.1 * len(even):
        return "UTF-16LE"
    if _are_zeros(even) and odd.count(0) < 0.1 * len(odd):
        return "UTF-16BE"
    # any control character but tabs, line ends and the escapes of colours: no text
    if any(byte < 32 and byte not in b"\t\n\v\f\r\x1b" for byte in head):
        return ""
    # of the two 8-bit encodings only the first has letters there
    if any(128 <= byte < 160 for byte in head):
        return "WINDOWS-1252"
    return "ISO-8859-1"


def _are_zeros(part: bytes) -> bool:
    """Whether nearly all bytes are zero, as the upper halves of plain letters."""
    return part.count(0) > 0.7 * len(part)


def same_file(first: Path, second: Path) -> bool:
    """Whether two names lead to one existing file."""
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):
        return False


def same_place(first: Path, second: Path) -> bool:
    """Whether two names lead to one path, even if no file exists there."""
    with suppress(OSError, ValueError):
        return os.path.samefile(first, second)
    with suppress(OSError, ValueError):
        return os.path.realpath(first) == os.path.realpath(second)
    return first == second
