"""Which files may be opened: all of them, or, within :func:`confined` as in a server, those of some
folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from colltool.base.errors import ColltoolError

AnyPath = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class _Reach(NamedTuple):
    """The folders whose files may be opened, and the fix for other paths."""

    folders: tuple[str, ...]
    fix: str


_REACH: ContextVar[_Reach | None] = ContextVar("reach", default=None)


@contextmanager
def confined(folders: Iterable[AnyPath], fix: str) -> Iterator[None]:
    """Within the block open no file outside of these folders, and no pipe; ``..`` and links are
    resolved, and whether other files exist is not told.

    ``fix``: of errors about other paths.
    """
    places = tuple(os.path.realpath(os.fsdecode(folder)) for folder in folders)
    token = _REACH.set(_Reach(places, fix))
    try:
        yield
    finally:
        _REACH.reset(token)


def is_confined() -> bool:
    """Whether only some folders are within reach."""
    return _REACH.get() is not None


def within_reach(path: AnyPath) -> bool:
    """Return whether the file at a path may be opened, if there is one."""
    reach = _REACH.get()
    if reach is None:
        return True
    try:
        place = os.path.realpath(os.fsdecode(path))
    except ValueError:  # a NUL in the name
        return False
    # with a slash at the end: /data is not around /database
    inside = tuple(os.path.join(folder, "") for folder in reach.folders)
    return place in reach.folders or place.startswith(inside)


def confine(path: AnyPath, where: str) -> None:
    """Raise an error for a path that may not be opened, whether it exists or not."""
    reach = _REACH.get()
    if reach is not None and not within_reach(path):
        raise ColltoolError("is no file that may be read here", where=where, fix=reach.fix)
