"""A ladder: a fixed list of prices, to compare with each other and to check in CI."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colltool.base.errors import ColltoolError, argument_text
from colltool.commands.command import command
from colltool.commands.diff import DEFAULT_RTOL, diff, emit_difference
from colltool.commands.options import RESULT, Out, option, readings_options, schema_option
from colltool.commands.output import chosen_format, say
from colltool.commands.shell import command_line
from colltool.estimate.assumptions import ModelOptions, checked

if TYPE_CHECKING:
    from colltool.commands.reading import AnyPath
    from colltool.estimate.results import Ladder
    from colltool.fabric.ladder import LadderDefinition


def ladder(
    definition: LadderDefinition | AnyPath = "n512",
    *,
    readings: ModelOptions | None = None,
    **parts: Any,
) -> Ladder:
    """Price the rows of a ladder, with and without contention. A row that cannot be priced is an
    error.

    Args:
        definition: a path of a ladder, or the name of a shipped one; or a path or shipped name
            of a fabric, every collective on which is then priced at three sizes.
        readings, **parts: options of the model, all together or one by one by name.

    Raises:
        ColltoolError: a ladder that cannot be read, or a row that cannot be priced.
    """
    from colltool.commands.reading import wrong
    from colltool.estimate.ladder import climb
    from colltool.fabric.ladder import LadderDefinition, load_ladder

    model = checked(readings, **parts)
    if isinstance(definition, LadderDefinition):
        return climb(definition, model)
    if not isinstance(definition, str | os.PathLike):
        raise wrong(
            definition,
            "definition",
            "a ladder",
            'give a path, or the name of a shipped ladder ("n512")',
        )
    return climb(load_ladder(definition), model)


@command(
    [
        option(
            "files",
            "A ladder file, a fabric (every collective on it at three sizes), or the name of a shipped"
            " ladder.",
            metavar="FILE",
            many=False,
            python="definition",
        ),
        "check",
        "rtol",
        schema_option("ladder", "colltool.fabric.ladder:LadderFile"),
        RESULT,
        readings_options(without="ideal"),
    ],
    public=ladder,
    old="--check",
)
def ladder_command(
    out: Out, check: Path | None = None, rtol: float | None = None, **arguments: Any
) -> None:
    """Print a fixed list of prices, with and without contention, each compared with the fastest: the
    N=512 ladder, or a list of your own.

    Examples:
      colltool ladder
      colltool ladder --format json -o ladder.json
      colltool ladder --check ladder.json --rtol 0.001
      colltool ladder my-ladder.yaml --format markdown
      colltool ladder cluster.yaml --check prices.json --rtol 2%
    """
    from colltool.analysis.json_documents import read_document
    from colltool.render.dispatch import document

    # a tolerance needs something to compare with
    if check is None and rtol is not None:
        raise ColltoolError(
            "compares with an earlier run",
            argument="rtol",
            fix=f"add {argument_text('check', 'OLD.json')}",
        )
    priced = ladder(**arguments)
    if check is None:
        out.emit(priced)
        _say_how_to_check(out, arguments.get("definition"))
    else:
        tolerance = DEFAULT_RTOL if rtol is None else rtol
        emit_difference(diff(read_document(check), document(priced), tolerance), out)


def _say_how_to_check(out: Out, definition: str | None) -> None:
    """Say, after prices were written as JSON, with which command a later run is held to them."""
    if out.path is None or chosen_format(out.form, out.path) != "json":
        return
    files = [] if definition is None else [str(definition)]
    typed = command_line("ladder", *files, options={"check": out.path, "rtol": "2%"})
    say(f"note: to fail where a price moves by more than 2%: {typed}")
