"""``colltool guide``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from colltool.cli import options as o

EXAMPLES = """
\b
Examples:
  colltool guide
  colltool guide fabrics
  colltool guide model -o model.md
"""


def complete_topic(incomplete: str) -> list[str]:
    """Topics of the manual."""
    from colltool.guides import TOPICS

    return [topic for topic in TOPICS if topic.startswith(incomplete)]


def guide(
    topic: Annotated[
        str | None,
        typer.Argument(metavar="TOPIC", help="One of those that colltool guide lists.", autocompletion=complete_topic),
    ] = None,
    output: o.OutputOption = None,
) -> None:
    """The manual, a chapter a topic: set for a terminal, Markdown in a pipe or file."""
    from colltool.cli.output import screen, write
    from colltool.guides import contents, read_guide

    text = contents() if topic is None else read_guide(topic)
    if output is None and sys.stdout is not None and sys.stdout.isatty():
        from colltool.render.chapter import to_chapter

        text = to_chapter(text, screen())
    write(text, output)
