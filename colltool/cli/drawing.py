"""``colltool fabric draw``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from colltool.base.errors import ColltoolError
from colltool.cli import options as o
from colltool.cli import values
from colltool.cli.command import Out, command, to_file
from colltool.cli.completion import words

DRAW_EXAMPLES = """
\b
Examples:
  colltool fabric draw nvl72 -o nvl72.svg
  colltool fabric draw clos-4to1 --set fabric.levels.core.oversubscription=2 -o half.svg
  colltool fabric draw torus512
"""
SUFFIX = ".svg"
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


class DrawFormat(StrEnum):
    """How a drawing is written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    HTML = "html"
    SVG = "svg"


DRAW_FORMATS = tuple(str(one.value) for one in DrawFormat)


@command()
def draw(
    fabric: Annotated[
        str, typer.Argument(help="A fabric file, or the name of a shipped one.", autocompletion=o.complete_fabric), o.READ
    ],
    set_: o.SetOption = None,
    form: Annotated[
        DrawFormat | None,
        typer.Option(
            "--format",
            metavar="|".join(DRAW_FORMATS),
            help="How to write it. [default: the tree of fabric show, or by the suffix of -o]",
            parser=values.choice("format", DrawFormat),
            autocompletion=words(DRAW_FORMATS),
        ),
    ] = None,
    output: o.OutputOption = None,
    columns: o.ColumnsOption = None,
    everything: o.AllOption = False,
) -> None:
    """A fabric as a drawing: tiers, levels of switches, ports, oversubscription, lattices; in the terminal as a tree."""
    import colltool
    from colltool.cli.output import BY_SUFFIX
    from colltool.cli.written import write

    path = to_file(output)
    suffix = path.suffix.lower() if path is not None else ""
    if form is None and path is not None and suffix not in (SUFFIX, *BY_SUFFIX):
        fix = f"name it {path.stem}{SUFFIX}, or end it in {', '.join(filter(None, BY_SUFFIX))}; --format writes any name"
        raise ColltoolError(f"a drawing is an SVG file, got {path}", argument="output", fix=fix)
    drawn = colltool.draw_fabric(colltool.load_fabric(fabric, set_ or ()))
    if form is not DrawFormat.SVG and (form is not None or suffix != SUFFIX):
        Out(None if form is None else o.OutputFormat(form.value), path, columns, everything).emit(drawn)
        return
    if columns is not None:
        raise ColltoolError("a drawing has no columns", argument="columns", fix="leave it out, or --format csv")
    write(f"{_HEAD}{drawn.svg}\n", path)
