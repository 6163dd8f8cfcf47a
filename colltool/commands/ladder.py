"""A list of prices to compare, and to hold CI to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import colltool
from colltool.base.errors import ColltoolError, given
from colltool.commands import options as o
from colltool.commands.command import command
from colltool.commands.options import Out, Without
from colltool.estimate.assumptions import Readings, checked

if TYPE_CHECKING:
    from colltool.commands.reading import AnyPath
    from colltool.estimate.results import Ladder
    from colltool.fabric.ladder import LadderDefinition


def ladder(
    definition: LadderDefinition | AnyPath = "n512",
    *,
    readings: Readings | None = None,
    **parts: Any,
) -> Ladder:
    """Price a ladder, ideal beside realistic. A rung that cannot be priced is an error.

    Args:
        definition: a path, or the name of a shipped ladder.
        readings, **parts: of the model, and single ones by name in place of those.
    """
    from colltool.commands import reading as v
    from colltool.estimate.price import climb
    from colltool.fabric.ladder import LadderDefinition, load_ladder

    reading = checked(readings, **parts)
    if isinstance(definition, LadderDefinition):
        return climb(definition, reading)
    if not isinstance(definition, str | os.PathLike):
        raise v.wrong(
            definition,
            "definition",
            "a ladder",
            'give a path, or the name of a shipped ladder ("n512")',
        )
    return climb(load_ladder(definition), reading)


@command(old="--check")
def ladder_command(
    file: Annotated[
        str,
        o.option("files", "A ladder file, or the name of a shipped one.", metavar="FILE"),
        o.READ,
    ] = "n512",
    check: Annotated[Path | None, o.option("check"), o.READ] = None,
    rtol: o.Rtol = None,
    schema: Annotated[bool, o.schema_option("ladder", "colltool.fabric.ladder:LadderFile")] = False,  # noqa: ARG001 - has printed and stopped
    *,
    out: Out,
    readings: Annotated[Readings, Without("ideal")],
) -> None:
    """A list of prices, ideal beside realistic, with the gap to the best: the N=512 ladder, or one
    of your own.

    Examples:
      colltool ladder
      colltool ladder --format json -o ladder.json
      colltool ladder --check ladder.json --rtol 0.001
      colltool ladder my-ladder.yaml --format markdown
    """
    from colltool.commands.diff import DEFAULT_RTOL, finish

    if check is None and rtol is not None:
        raise ColltoolError(
            "compares with an earlier run", argument="rtol", fix=f"add {given('check', 'OLD.json')}"
        )
    priced = colltool.ladder(file, readings=readings)
    if check is None:
        out.emit(priced)
        return
    from colltool.analysis.diff import read_document
    from colltool.render.dispatch import document

    finish(
        colltool.diff(
            read_document(check), document(priced), DEFAULT_RTOL if rtol is None else rtol
        ),
        out,
    )
