"""Writes whole files: one or several, all of them or none (:func:`write_files`).

Each is first written to a temporary file next to its target, then moved onto it, so that a reader sees
the old content or the new and a full disk changes nothing. Devices and pipes are written in place.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from colltool.base.errors import ColltoolError

_FIX = "name a file in a folder that you can write to"
# Paths of temporary files that are written but not yet moved into place.
_staged: set[str] = set()


class _StagedFile(NamedTuple):
    """A file to be written: the path as typed, the temporary file that has its content, and the target
    with all links resolved, next to which it lies."""

    path: Path
    part: str
    target: str


def write_file(path: Path, content: bytes) -> None:
    """Write one file or change nothing; through a symbolic link to its target, to a device or pipe
    in place."""
    write_files({path: content})


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Write several files, or change none of them; what went to devices and pipes cannot be taken back.

    Raises:
        ColltoolError: one cannot be written.
    """
    files: list[_StagedFile] = []
    streams = [path for path in contents if _is_stream(path)]
    try:
        for path, content in contents.items():
            if path not in streams:
                files.append(_stage(path, content))
        for path in streams:
            with _write_errors(path), open(path, "wb", buffering=0) as stream:
                # an unbuffered stream may take a part
                view = memoryview(contents[path])
                while view:
                    view = view[stream.write(view) :]
        _move(files)
    finally:
        for file in files:
            _discard(file.part)


def discard_staged() -> None:
    """Remove temporary files that are not yet moved into place, before the process ends."""
    for part in list(_staged):
        _discard(part)


@contextmanager
def new_folders(folders: Sequence[Path]) -> Iterator[None]:
    """Make those folders that are not there; remove them again if something fails within the block."""
    made: list[Path] = []
    try:
        for folder in folders:
            if not os.path.isdir(folder):
                _make_folder(folder)
                made.append(folder)
        yield
    except BaseException:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        raise


def _make_folder(folder: Path) -> None:
    """Make a folder in one that exists; an error if that fails."""
    try:
        folder.mkdir()
    except (OSError, ValueError) as error:
        # a ValueError has none
        reason = getattr(error, "strerror", None) or error
        raise ColltoolError(
            f"cannot make a folder: {reason}",
            where=str(folder),
            fix="name a folder",
        ) from error


def _is_stream(path: Path) -> bool:
    """Whether it is a device or a pipe: nothing can be moved into its target."""
    with suppress(OSError, ValueError):
        mode = os.stat(path).st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def _target_of(path: Path) -> str:
    """The path that a file is written to, with all links resolved; an error if there can be no such
    file."""
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


def _stage(path: Path, content: bytes) -> _StagedFile:
    """Write content to a temporary file next to the target of a path, with the target's mode and
    owner."""
    target = _target_of(path)
    if os.path.isdir(target):
        raise ColltoolError(
            "cannot write: is a directory", where=str(path), fix="name a file in it"
        )
    part = _temporary_name(target, "part")
    try:
        with _write_errors(path):
            old = os.stat(target) if os.path.exists(target) else None
            if old is not None and not os.access(target, os.W_OK):
                raise PermissionError(errno.EACCES, "Permission denied")
            _staged.add(part)
            with open(part, "xb") as stream:
                if old is not None:
                    os.fchmod(stream.fileno(), stat.S_IMODE(old.st_mode))
                    with suppress(PermissionError):
                        os.fchown(stream.fileno(), old.st_uid, old.st_gid)
                stream.write(content)
                stream.flush()
                # some network file systems report a full disk late
                if os.fstat(stream.fileno()).st_size != len(content):
                    raise OSError(errno.ENOSPC, "No space left on device")
    except BaseException:
        _discard(part)
        raise
    return _StagedFile(path, part, target)


def _move(files: Sequence[_StagedFile]) -> None:
    """Move each temporary file to its target; if one fails, restore the targets before it."""
    # targets, with their backups: None where there was no file
    moved: list[tuple[str, str | None]] = []
    backup: str | None = None
    try:
        for path, part, target in files:
            with _write_errors(path):
                # a single file needs none: nothing comes after it that may fail
                backup = _backup(target) if len(files) > 1 else None
                os.replace(part, target)
            _staged.discard(part)
            moved.append((target, backup))
    except BaseException:
        for target, old in moved:
            with suppress(OSError):
                if old is None:
                    os.unlink(target)
                else:
                    os.replace(old, target)
        raise
    finally:
        # the last one may not be among them
        for old in (backup, *(old for _, old in moved)):
            if old is not None:
                _discard(old)


def _backup(target: str) -> str | None:
    """The path of a new backup of the file at a target; None if there is no file."""
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
    """A new hidden path in the folder of a target."""
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name[:100]}.{os.urandom(6).hex()}.{suffix}")


def _discard(part: str) -> None:
    """Remove a temporary file or a backup, if it is there."""
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
