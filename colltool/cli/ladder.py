"""``colltool ladder``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from colltool.base.errors import ColltoolError, given
from colltool.cli import options as o
from colltool.cli.command import command
from colltool.cli.groups import Out, Without
from colltool.estimate.assumptions import Readings

EXAMPLES = """
\b
Examples:
  colltool ladder
  colltool ladder --format json -o ladder.json
  colltool ladder --check ladder.json --rtol 0.001
  colltool ladder my-ladder.yaml --format markdown
"""


@command(old="--check")
def ladder(
    file: Annotated[str, o.option("files", "A ladder file, or the name of a shipped one.", metavar="FILE"), o.READ] = "n512",
    check: Annotated[Path | None, o.option("check"), o.READ] = None,
    rtol: o.Rtol = None,
    schema: o.LadderSchema = False,  # noqa: ARG001 - has printed and stopped
    *,
    out: Out,
    readings: Annotated[Readings, Without(("ideal",))],
) -> None:
    """A list of prices, ideal beside realistic, with the gap to the best: the N=512 ladder, or one of your own."""
    import colltool
    from colltool.fabric.ladder import load_ladder

    if check is None and rtol is not None:
        raise ColltoolError("compares with an earlier run", argument="rtol", fix=f"add {given('check', 'OLD.json')}")
    priced = colltool.ladder(load_ladder(file), readings=readings)
    if check is None:
        out.emit(priced)
        return
    from colltool.analysis.diff import read_document
    from colltool.cli.diff import DEFAULT_RTOL, finish
    from colltool.render.dispatch import document

    finish(colltool.diff(read_document(check), document(priced), DEFAULT_RTOL if rtol is None else rtol), out)
