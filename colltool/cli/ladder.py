"""``colltool ladder``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colltool.cli import options as o
from colltool.cli.schemas import LadderSchemaOption
from colltool.errors import ColltoolError

EXAMPLES = """
\b
Examples:
  colltool ladder
  colltool ladder --format json -o ladder.json
  colltool ladder --check ladder.json --rtol 0.001
  colltool ladder my-ladder.yaml --format markdown
"""


def ladder(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A ladder file, or the name of a shipped one.")] = "n512",
    check: Annotated[
        Path | None, typer.Option("--check", help="Compare with this JSON output of an earlier run; exit 1 where a price moved.")
    ] = None,
    rtol: o.RtolOption = None,
    form: o.FormatOption = None,
    output: o.OutputOption = None,
    pipelining: o.PipeliningOption = "asymptotic",
    placement: o.PlacementOption = o.Placement.PACKED,
    ring_alpha: o.RingAlphaOption = o.RingAlpha.MEAN,
    tree_beta: o.TreeBetaOption = 2.0,
    schema: LadderSchemaOption = False,  # noqa: ARG001 - has printed and stopped
) -> None:
    """A list of prices, ideal beside realistic, with the gap to the best: the N=512 ladder, or one of your own."""
    from colltool import api
    from colltool.cli.diff import DEFAULT_RTOL, finish, read_document
    from colltool.cli.output import emit

    reading = o.model(False, pipelining, None, placement, ring_alpha, tree_beta)
    if check is None and rtol is not None:
        raise ColltoolError("compares with an earlier run", where="--rtol", fix="add --check OLD.json")
    climbed = api.ladder(file, **reading)
    if check is None:
        emit(climbed, form, output)
        return
    from colltool.render.documents import document

    finish(api.diff(read_document(check), document(climbed), DEFAULT_RTOL if rtol is None else rtol), form, output)
