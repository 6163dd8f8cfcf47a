"""The command line as the tests of commands run it."""

from __future__ import annotations

from tests.commands.conftest import _run, _spawn, documents, folder

__all__ = ["_run", "_spawn", "documents", "folder"]
