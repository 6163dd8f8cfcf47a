"""The only module that opens files for users: it reads a file or pipe within a size limit per kind of
input, and writes whole files.

Too large a file is refused before it is read, a device, folder or socket before it is opened.
Within :func:`remembering` every opened file is known by its inode, so that output never overwrites
it and a pipe can be read again. Output goes next to the target, then onto it; several files together
or not at all.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
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
    """Size limit of a kind of input in bytes, and the words of its errors: a noun for it, what a
    larger file is, and the fix."""

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

# Device and inode.
Identity = tuple[int, int]


@dataclass(frozen=True)
class Inputs:
    """Every opened file, the content of pipes, and why a file that is going to be written is not
    read."""

    files: set[Identity] = field(default_factory=set)
    pipes: dict[Identity, bytes] = field(default_factory=dict)
    written: dict[Identity, ColltoolError] = field(default_factory=dict)

    def close(self, path: AnyPath, why: ColltoolError) -> None:
        """Refuse to read a file, if there is one, from now on."""
        with suppress(OSError, ValueError):
            self.written[_identity(os.stat(path))] = why

    def hold(self, path: AnyPath) -> bool:
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
    token = _INPUTS.set(inputs := Inputs())
    try:
        yield inputs
    finally:
        _INPUTS.reset(token)


def read_text(path: AnyPath, kind: Kind, name: str = "") -> str:
    """Return the text of a UTF-8 file or pipe without its byte order mark; ``name``: for errors,
    default: the path."""
    content = read_bytes(path, kind, name)
    where = printable(_name(path, name))
    if not content and os.fsdecode(path) == STANDARD_INPUT:
        fix = "does the file that is piped in exist?"
        raise ColltoolError("nothing arrived", where=STANDARD_INPUT, fix=fix)
    # UTF-16 of plain letters, which has a zero in every other byte, is valid UTF-8 too
    if b"\0" in content and _encoding(content).startswith("UTF"):
        raise not_utf8(content, where, where)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise not_utf8(content, f"{where}:{line}:{column}", where) from error


def read_bytes(path: AnyPath, kind: Kind, name: str = "") -> bytes:
    """Return the content of a file or pipe; an error if it is missing, unreadable, a folder, device
    or socket, or above the limit of its kind."""
    bound = BOUNDS[kind]
    where = printable(_name(path, name))
    with _read_errors(bound, where):
        status = _checked(path, bound, where)
        inputs = _note(status)
        # a pipe gives its content once
        pipes = {} if inputs is None else inputs.pipes
        content = pipes.get(_identity(status))
        if content is None:
            with open(path, "rb") as stream:
                content = stream.read(bound.limit + 1)
            if stat.S_ISFIFO(status.st_mode):
                pipes[_identity(status)] = content
    if len(content) > bound.limit:  # a pipe, or a file that grew
        raise _too_large(bound, where)
    return content


@contextmanager
def opened(path: AnyPath, bound: Bound) -> Iterator[tuple[BufferedReader, str]]:
    """Open a file or pipe to stream; returns the stream and its name for errors. Errors are those
    of :func:`read_bytes`, also when reading fails later."""
    name = _name(path, "")
    where = printable(name)
    with _read_errors(bound, where):
        status = _checked(path, bound, where)
        inputs = _INPUTS.get()
        opened_before = inputs is not None and _identity(status) in inputs.files
        if opened_before and stat.S_ISFIFO(status.st_mode):
            # it has nothing more, and would be waited for without end
            fix = "name it once, or save what it gives as a file"
            raise ColltoolError("is a pipe that was read already", where=where, fix=fix)
        _note(status)
        stream = open(path, "rb")  # noqa: SIM115 - closed below
    with stream, _read_errors(bound, where, bad_name=()):
        yield stream, name


@contextmanager
def _read_errors(
    bound: Bound, where: str, bad_name: type[ValueError] | tuple[()] = ValueError
) -> Iterator[None]:
    """Turn an OSError, and a ``bad_name``, into an error for the user."""
    fix = f"give the path of {bound.noun}"
    try:
        yield
    except OSError as error:
        raise ColltoolError(
            f"cannot be read: {error.strerror or error}", where=where, fix=fix
        ) from error
    except bad_name as error:  # a NUL in the name, or a character that no file system has
        raise ColltoolError("is not the name of a file", where=where, fix=fix) from error


def _checked(path: AnyPath, bound: Bound, where: str) -> os.stat_result:
    """The status of a file or pipe; an error if it may not be read."""
    confine(path, where)
    status = os.stat(path)
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


def _too_large(bound: Bound, where: str) -> ColltoolError:
    return ColltoolError(
        f"is larger than {bound.limit // MIB} MiB: {bound.larger}", where=where, fix=bound.smaller
    )


def _note(status: os.stat_result) -> Inputs | None:
    """Note that a file is opened; an error if it is going to be written."""
    inputs = _INPUTS.get()
    if inputs is not None:
        identity = _identity(status)
        inputs.files.add(identity)
        if identity in inputs.written:
            raise inputs.written[identity]
    return inputs


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def _name(path: AnyPath, name: str) -> str:
    # bytes that are not UTF-8 stay in it as surrogates, escaped where text leaves
    return name or os.fsdecode(path)


def not_utf8(content: bytes, where: str, name: str) -> ColltoolError:
    """Return the error for content that is gzip, in another encoding, or binary."""
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
    even, odd = head[::2], head[1::2]
    if _are_zeros(odd) and even.count(0) < 0.1 * len(even):
        return "UTF-16LE"
    if _are_zeros(even) and odd.count(0) < 0.1 * len(odd):
        return "UTF-16BE"
    if any(byte < 32 and byte not in b"\t\n\v\f\r\x1b" for byte in head):
        return ""
    return "WINDOWS-1252" if any(128 <= byte < 160 for byte in head) else "ISO-8859-1"


def _are_zeros(part: bytes) -> bool:
    return part.count(0) > 0.7 * len(part)


_FIX = "name a file in a folder that you can write to"
# Temporary files that are written but not yet moved into place.
_staged: set[str] = set()


def write_file(path: Path, content: bytes) -> None:
    """Write one file or change nothing; through a symbolic link to its target, to a device or pipe
    in place."""
    write_files({path: content})


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Write several files, or change none of them."""
    moves: list[tuple[Path, str, str]] = []
    streams = [path for path in contents if _is_stream(path)]
    try:
        for path, content in contents.items():
            if path not in streams:
                target = _target_of(path)
                moves.append((path, _stage(path, target, content), target))
        for path in streams:
            with _write_errors(path), open(path, "wb", buffering=0) as stream:
                view = memoryview(contents[path])
                while view:
                    view = view[stream.write(view) :]
        _move(moves)
    finally:
        for _, part, _ in moves:
            _discard(part)


def discard_staged() -> None:
    """Remove temporary files that are not yet moved into place, before the process ends."""
    for part in list(_staged):
        _discard(part)


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


@contextmanager
def new_folders(folders: Sequence[Path]) -> Iterator[None]:
    """Make folders; remove the new ones again if something fails within the block."""
    made: list[Path] = []
    try:
        for folder in folders:
            if not os.path.isdir(folder):
                try:
                    folder.mkdir()
                except (OSError, ValueError) as error:
                    raise ColltoolError(
                        f"cannot make a folder: {getattr(error, 'strerror', None) or error}",
                        where=str(folder),
                        fix="name a folder",
                    ) from error
                made.append(folder)
        yield
    except BaseException:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        raise


def _is_stream(path: Path) -> bool:
    """Whether it is a device or a pipe: nothing can be moved into its target."""
    with suppress(OSError, ValueError):
        mode = os.stat(path).st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def _target_of(path: Path) -> str:
    """The path that a file is written to, with all links resolved."""
    if not path.name:
        raise ColltoolError("is not the name of a file", where=str(path), fix=_FIX)
    try:
        return str(path.resolve(strict=True))
    except FileNotFoundError:
        return os.path.realpath(path)
    # links that loop: an OSError, before Python 3.13 a RuntimeError
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "the links lead nowhere"
        raise ColltoolError(f"cannot write: {reason}", where=str(path), fix=_FIX) from error


def _stage(path: Path, target: str, content: bytes) -> str:
    """Write content to a temporary file next to its target, with the target's mode and owner; return
    its path."""
    if os.path.isdir(target):
        raise ColltoolError(
            "cannot write: is a directory", where=str(path), fix="name a file in it"
        )
    part = _temporary_name(target, "part")
    try:
        with _write_errors(path):
            old = os.stat(target) if os.path.exists(target) else None
            if old is not None and not os.access(target, os.W_OK):
                raise PermissionError(13, "Permission denied")
            _staged.add(part)
            with open(part, "xb") as stream:
                if old is not None:
                    os.fchmod(stream.fileno(), stat.S_IMODE(old.st_mode))
                    with suppress(PermissionError):
                        os.fchown(stream.fileno(), old.st_uid, old.st_gid)
                stream.write(content)
                stream.flush()
                if os.fstat(stream.fileno()).st_size != len(content):
                    raise OSError(28, "No space left on device")
    except BaseException:
        _discard(part)
        raise
    return part


def _move(moves: list[tuple[Path, str, str]]) -> None:
    """Move each temporary file to its target; if one fails, restore the targets before it.

    ``moves``: the path as typed, the temporary file, the target.
    """
    done: list[tuple[str, str | None]] = []
    kept: str | None = None
    try:
        for path, part, target in moves:
            with _write_errors(path):
                kept = _backup(target) if len(moves) > 1 else None
                os.replace(part, target)
            _staged.discard(part)
            done.append((target, kept))
    except BaseException:
        for target, copy in done:
            with suppress(OSError):
                os.unlink(target) if copy is None else os.replace(copy, target)
        raise
    finally:
        for copy in (kept, *(copy for _, copy in done)):
            if copy is not None:
                _discard(copy)


def _backup(target: str) -> str | None:
    """A backup of the file at a target; None if there is none."""
    if not os.path.lexists(target):
        return None
    copy = _temporary_name(target, "old")
    _staged.add(copy)
    try:
        os.link(target, copy)
    except OSError:  # a file system without hard links
        # importing it takes longer than this whole module
        import shutil

        shutil.copy2(target, copy)
    return copy


def _temporary_name(target: str, suffix: str) -> str:
    """A new name next to a target."""
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name[:100]}.{os.urandom(6).hex()}.{suffix}")


def _discard(part: str) -> None:
    with suppress(OSError):
        os.unlink(part)
    _staged.discard(part)


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into an error for the user."""
    try:
        yield
    except OSError as error:
        raise ColltoolError(
            f"cannot write: {error.strerror or error}", where=str(path), fix=_FIX
        ) from error
