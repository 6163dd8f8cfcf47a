"""``fabric check`` and ``job check``: the values read from each file, and warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from colltool.base.formatting import counted
from colltool.render.blocks import Block, Lines, Table, label
from colltool.render.view import Document, View


class _Said(NamedTuple):
    file: str
    kind: str
    what: str
    where: str = ""
    why: str = ""


_COLUMNS = (label("file", "file"), label("kind", "kind"), label("where", "where"), label("what", "what"), label("why", "why"))


def checked_subject(noun: str, kind: str, values: Callable[[Any], Iterable[str]]) -> View:
    """The view of checked files: ``noun`` is what they are, ``kind`` the row type of their ``values`` in tables."""

    def table(result: Any) -> Table:
        said = []
        for one in result.checks:
            said += [_Said(one.file, kind, line) for line in values(one)]
            said += [_Said(one.file, "warning", odd.what, odd.where, odd.why) for odd in one.warnings]
        return Table(_COLUMNS, tuple(said))

    def blocks(result: Any) -> list[Block]:
        return [Lines(f"{one.file}: ok", (*values(one), *_warnings(one))) for one in result.checks]

    def summary(result: Any) -> str:
        odd = sum(len(one.warnings) for one in result.checks)
        warned = f", {counted(odd, 'warning')}" if odd else ""
        return f"{counted(len(result.checks), noun)} ok{warned}: {', '.join(one.file for one in result.checks)}"

    return View(f"{noun}-check", blocks, _document, table, summary)


def _warnings(one: Any) -> list[str]:
    return [f"warning: {odd.where}: {odd.what} ({odd.why})" for odd in one.warnings]


def _document(result: Any) -> Document:
    odd = [
        {"file": one.file, "where": odd.where, "what": odd.what, "why": odd.why} for one in result.checks for odd in one.warnings
    ]
    return {"valid": [one.file for one in result.checks], "warnings": odd}
