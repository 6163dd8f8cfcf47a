"""Keeps data that is slow to read in the user's cache folder: :func:`keep` and :func:`recall`.

Entries are JSON, which cannot run code. An entry is used only for exactly the text that it was made
from; one that is broken, old or another user's is ignored and replaced. Without a usable folder
everything is read again. Entries are of the package's own files alone, never of a user's.
"""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from colltool import __version__
from colltool.base.errors import ColltoolError

# Bytes: entries have some 100 kB; a larger file is not one.
_LARGEST = 2**24


def cache_folder() -> Path:
    """Return the folder of this version's entries, by the XDG base directory specification; it may not be
    there yet."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    # the specification has relative paths ignored
    if not os.path.isabs(home):
        home = os.path.expanduser("~/.cache")
    return Path(home, "colltool", __version__)


def recall(name: str, made_from: str) -> Any:
    """Return the data kept under ``name`` for the text ``made_from``. None without a sound entry."""
    try:
        with open(cache_folder() / f"{name}.json", "rb") as stream:
            if not _is_ours(os.fstat(stream.fileno())):
                return None
            # a line with the checksum, then the JSON
            checksum, _, content = stream.read().partition(b"\n")
        if checksum != _checksum(content):
            return None
        entry = json.loads(content)
        return entry["data"] if entry["made_from"] == made_from else None
    # no such file, no such folder, no JSON, or JSON of another form
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def keep(name: str, made_from: str, data: Any) -> None:
    """Keep JSON data under ``name`` for the text ``made_from``; do nothing where that fails."""
    from colltool.base.whole_files import write_file

    content = json.dumps({"made_from": made_from, "data": data}).encode()
    with suppress(OSError, ColltoolError):
        folder = cache_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(folder / f"{name}.json", _checksum(content) + b"\n" + content)


@cache
def newest_change_ns(*folders: str) -> int:
    """Return when the newest module in some folders of the package was written, in nanoseconds."""
    newest = 0
    for folder in folders:
        # a package in an archive has no folders, and does not change
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    newest = max(newest, entry.stat().st_mtime_ns)
    return newest


def packaged_toml(path: Path) -> Any:
    """Return the data of a TOML file of the package, from the cache if its text is the same.

    ``tomllib`` is written in Python, and takes five times as long as JSON does.
    """
    text = path.read_text(encoding="utf-8")
    # files of several folders have the same name
    name = f"toml-{path.parent.name}-{path.stem}"
    data = recall(name, text)
    if data is None:
        import tomllib

        data = tomllib.loads(text)
        keep(name, text, data)
    return data


def _is_ours(status: os.stat_result) -> bool:
    """Whether a file can be an entry: owned by the user, where files have owners, and not too large."""
    own = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    return own and status.st_size <= _LARGEST


def _checksum(content: bytes) -> bytes:
    """A checksum, eight hexadecimal digits, that tells a file that was cut or damaged; it is no protection
    from others, which :func:`_is_ours` is."""
    return b"%08x" % zlib.crc32(content)
