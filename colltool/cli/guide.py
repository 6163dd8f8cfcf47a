"""``colltool guide``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from colltool.cli import options as o
from colltool.cli.command import command, to_file
from colltool.cli.completion import words
from colltool.guides import TOPICS

EXAMPLES = """
\b
Examples:
  colltool guide
  colltool guide fabrics
  colltool guide model -o model.md
"""


@command()
def guide(
    topic: Annotated[
        str | None,
        typer.Argument(metavar="TOPIC", help="One of those that colltool guide lists.", autocompletion=words(TOPICS)),
    ] = None,
    output: o.OutputOption = None,
) -> None:
    """The manual, a chapter a topic: set for a terminal, Markdown in a pipe or file."""
    from colltool.cli.output import screen_of
    from colltool.cli.written import write
    from colltool.guides import contents, read_guide

    text, file = contents() if topic is None else read_guide(topic), to_file(output)
    if file is None and sys.stdout is not None and sys.stdout.isatty():
        from colltool.render.guide import to_guide

        text = to_guide(text, screen_of(to_file=False))
    write(text, file)
