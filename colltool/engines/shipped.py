"""Names and versions of the shipped library files, without what reads them: a shell completes these
names at every keystroke."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "data"
SUFFIX = ".toml"


@cache
def shipped_libraries() -> tuple[tuple[str, str], ...]:
    """Return the name and version of every shipped file, versions ascending: ``("vllm", "0.27.0")``."""
    # vllm-0.27.0, nccl-window-2.30; not _template, which has no version
    matches = [
        re.fullmatch(r"([a-z][a-z-]*[a-z])-(\d.*)", file.stem) for file in FOLDER.glob(f"*{SUFFIX}")
    ]
    libraries = [(match[1], match[2]) for match in matches if match]
    return tuple(sorted(libraries, key=lambda library: (library[0], version_key(library[1]))))


def version_key(version: str) -> list[tuple[int, str]]:
    """Sort key of a version: ``0.9`` before ``0.24.0``; ``1.3.0rc20`` is 1, 3, 0 with ``rc``, 20.

    A part is a number (-1 if it has none) with the word that follows it.
    """
    return [
        (int(number or -1), word)
        for number, word in re.findall(r"(\d*)([^\d.]*)", version)
        if number or word
    ]


def shipped_path(name: str, version: str) -> Path:
    """Return the file that holds a version of a shipped library; where no file has the version's name
    the library's newest, which may hold several versions."""
    path = FOLDER / f"{name}-{version}{SUFFIX}"
    if path.exists():
        return path
    # of several versions of a name dict() keeps the last, which is the newest
    newest = dict(shipped_libraries())[name]
    return FOLDER / f"{name}-{newest}{SUFFIX}"


def shipped_file(name: str, version: str) -> dict[str, Any]:
    """Return what a shipped file says, unchecked."""
    return tomllib.loads(shipped_path(name, version).read_text(encoding="utf-8"))
