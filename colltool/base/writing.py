"""Atomic file writes: beside the target, then moved onto it; several files together or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from colltool.base.errors import ColltoolError

_FIX = "name a file in a folder that you can write to"
_staged: set[str] = set()  # written but not yet moved; an interrupt removes it


def write_file(path: Path, content: bytes) -> None:
    """Write one file or change nothing; through a symbolic link to its target, to a device or pipe in place."""
    write_files({path: content})


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Write several files, or change none of them."""
    moves: list[tuple[Path, str, str]] = []
    streams = [path for path in contents if _is_stream(path)]
    try:
        for path, content in contents.items():
            if path not in streams:
                place = _place(path)
                moves.append((path, _stage(path, place, content), place))
        for path in streams:
            _pour(path, contents[path])
        _move(moves)
    finally:
        for _, part, _ in moves:
            _discard(part)


def abandon() -> None:
    """Remove what is written but not yet moved, before the process ends."""
    for part in list(_staged):
        _discard(part)


def same_file(one: Path, other: Path) -> bool:
    """Whether two names lead to one existing file."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def same_place(one: Path, other: Path) -> bool:
    """Whether two names lead to one place, even if no file exists there."""
    with suppress(OSError, ValueError):
        return os.path.samefile(one, other)
    with suppress(OSError, ValueError):
        return os.path.realpath(one) == os.path.realpath(other)
    return one == other


@contextmanager
def making(folders: Sequence[Path]) -> Iterator[None]:
    """Make folders; remove the new ones again if something fails within."""
    made: list[Path] = []
    try:
        for folder in folders:
            if not os.path.isdir(folder):
                try:
                    folder.mkdir()
                except (OSError, ValueError) as error:
                    reason = getattr(error, "strerror", None) or error
                    raise ColltoolError(f"cannot make a folder: {reason}", where=str(folder), fix="name a folder") from error
                made.append(folder)
        yield
    except BaseException:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        raise


def _place(path: Path) -> str:
    if not path.name:
        raise ColltoolError("is not the name of a file", where=str(path), fix=_FIX)
    try:
        return str(path.resolve(strict=True))
    except FileNotFoundError:
        return os.path.realpath(path)
    except (OSError, RuntimeError, ValueError) as error:  # links that loop: an OSError, before Python 3.13 a RuntimeError
        reason = getattr(error, "strerror", None) or "the links lead nowhere"
        raise ColltoolError(f"cannot write: {reason}", where=str(path), fix=_FIX) from error


def _is_stream(path: Path) -> bool:
    # a device or a pipe: nothing can be moved into its place
    with suppress(OSError, ValueError):
        mode = os.stat(path).st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def _pour(path: Path, content: bytes) -> None:
    try:
        with open(path, "wb", buffering=0) as stream:
            view = memoryview(content)
            while view:
                view = view[stream.write(view) :]
    except OSError as error:
        raise _failed(path, error) from error


def _stage(path: Path, place: str, content: bytes) -> str:
    if os.path.isdir(place):
        raise ColltoolError("cannot write: is a directory", where=str(path), fix="name a file in it")
    part = _beside(place, "part")
    try:
        old = os.stat(place) if os.path.exists(place) else None
        if old is not None and not os.access(place, os.W_OK):
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
    except OSError as error:
        _discard(part)
        raise _failed(path, error) from error
    except BaseException:
        _discard(part)
        raise
    return part


def _move(moves: list[tuple[Path, str, str]]) -> None:
    """Move each part into its place; if one fails, restore those before it."""
    done: list[tuple[str, str | None]] = []
    kept: str | None = None
    try:
        for path, part, place in moves:
            try:
                kept = _kept(place) if len(moves) > 1 else None
                os.replace(part, place)
            except OSError as error:
                raise _failed(path, error) from error
            _staged.discard(part)
            done.append((place, kept))
    except BaseException:
        for place, copy in done:
            with suppress(OSError):
                os.unlink(place) if copy is None else os.replace(copy, place)
        raise
    finally:
        for copy in (kept, *(copy for _, copy in done)):
            if copy is not None:
                _discard(copy)


def _kept(place: str) -> str | None:
    """A copy of what is at a place, to restore it; None where there is nothing."""
    if not os.path.lexists(place):
        return None
    copy = _beside(place, "old")
    _staged.add(copy)
    try:
        os.link(place, copy)
    except OSError:  # a file system without hard links
        import shutil  # costs more than all of this module

        shutil.copy2(place, copy)
    return copy


def _beside(place: str, suffix: str) -> str:
    folder, name = os.path.split(place)
    return os.path.join(folder, f".{name[:100]}.{os.urandom(6).hex()}.{suffix}")


def _discard(part: str) -> None:
    with suppress(OSError):
        os.unlink(part)
    _staged.discard(part)


def _failed(path: Path, error: OSError) -> ColltoolError:
    return ColltoolError(f"cannot write: {error.strerror or error}", where=str(path), fix=_FIX)
