"""``colltool guide``."""

from __future__ import annotations

import os
import sys
from typing import Annotated

from colltool.cli import options as o
from colltool.cli.command import command
from colltool.cli.groups import to_file
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
    topic: Annotated[str | None, o.option("topic", words=TOPICS)] = None,
    no_pager: Annotated[bool, o.option("no_pager")] = False,
    output: o.Output = None,
) -> None:
    """The manual, a chapter a topic: set for a terminal and its pager, Markdown in a pipe or file."""
    from colltool.cli.output import screen_of, write
    from colltool.guides import contents, read_guide

    text, file = contents() if topic is None else read_guide(topic), to_file(output)
    if file is not None or sys.stdout is None or not sys.stdout.isatty():
        write(text, file)
        return
    from colltool.render.text import to_guide

    screen = screen_of(to_file=False)
    text = to_guide(text, screen)
    if no_pager or text.count("\n") < os.get_terminal_size().lines or not screen.unicode:
        write(text, None)
        return
    import pydoc

    os.environ.setdefault("LESS", "-RFS")  # colours as they are, wide outputs cut and not wrapped: arrow keys show the rest
    pydoc.pager(text)
