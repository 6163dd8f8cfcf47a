"""What does not fit together in a job: the record that checks yield and job files report."""

from __future__ import annotations

from typing import NamedTuple

from colltool.definitions.source import KeyPath


class Violation(NamedTuple):
    """What does not fit, at its key path, with a fix."""

    path: KeyPath
    what: str
    fix: str
