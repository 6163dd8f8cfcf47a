"""``colltool diff``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colltool.base.errors import EXIT_CHECK_FAILED, called
from colltool.cli import options as o
from colltool.cli.command import command
from colltool.cli.groups import Out

if TYPE_CHECKING:
    from colltool.analysis.diff import Diff

DEFAULT_RTOL = 1e-6

EXAMPLES = """
\b
Examples:
  colltool diff old.json new.json
  colltool diff old.json new.json --rtol 0.01 --format markdown
"""


@command()
def diff(
    old: Annotated[Path, o.option("files", "A JSON output of colltool.", metavar="OLD"), o.READ],
    new: Annotated[Path, o.option("files", "A later output of the same command.", metavar="NEW"), o.READ],
    rtol: o.Rtol = None,
    *,
    out: Out,
) -> None:
    """What moved between two JSON outputs of the same command; exit 1 if anything did.

    Rows are matched by what they are, not by where they stand.
    """
    import colltool
    from colltool.analysis.diff import read_document

    with called("shell", old=str(old), new=str(new)):
        found = colltool.diff(read_document(old), read_document(new), DEFAULT_RTOL if rtol is None else rtol)
    finish(found, out)


def finish(result: Diff, out: Out) -> None:
    """Write a comparison; exit 1 where something moved."""
    out.emit(result)
    if result.moved:
        raise typer.Exit(EXIT_CHECK_FAILED)
