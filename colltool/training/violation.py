"""What does not fit together in a job: the record that checks yield and job files report."""

from __future__ import annotations

from typing import NamedTuple

from colltool.definitions.source import KeyPath


class Violation(NamedTuple):
    """What does not fit, at its key path, with a fix."""

    path: KeyPath  # of the key at fault in a job file, such as ("layout", "tp")
    what: str  # what is wrong, as users read it
    fix: str  # what to write instead; empty where only its number counts, as in a search
