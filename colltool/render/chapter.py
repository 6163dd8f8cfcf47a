"""A chapter of the manual on a terminal: prose set to its width, commands and their outputs as they are."""

from __future__ import annotations

import re

from rich.markdown import Markdown
from rich.text import Text

from colltool.render.text import Screen, console_of, written

_FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^<!-- file: (\S+) -->$", re.MULTILINE)
MAX_WIDTH = 120
"""Columns: longer lines of prose are hard to follow."""


def to_chapter(text: str, screen: Screen) -> str:
    """Markdown as text for a screen; where that has no Unicode, as it stands.

    What stands between fences is never broken: a terminal shows the long lines of a table as it shows those of the command.
    """
    if not screen.unicode:
        return text
    parts = _FENCED.split(_COMMENT.sub(r"`\1`:", text))  # prose and fenced in turn
    drawn = [_verbatim(part, screen) if number % 2 else _prose(part, screen) for number, part in enumerate(parts)]
    return "\n".join(part for part in drawn if part.strip())


def _prose(part: str, screen: Screen) -> str:
    console = console_of(min(screen.width or MAX_WIDTH, MAX_WIDTH), screen)
    console.print(Markdown(part))
    return written(console).strip("\n") + "\n"


def _verbatim(part: str, screen: Screen) -> str:
    console = console_of(screen.width or MAX_WIDTH, screen)
    for line in part.splitlines():
        style = "bold cyan" if line.startswith("$ ") else "cyan"
        console.print(Text(f"  {line}".rstrip(), style=style), soft_wrap=True)
    return written(console)
