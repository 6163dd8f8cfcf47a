"""A guide on a terminal: prose set to its width, commands and their outputs as they are."""

from __future__ import annotations

import re
from io import StringIO

from rich.console import Console
from rich.markdown import Markdown

from colltool.render.text import Screen

_FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^<!-- file: (\S+) -->$", re.MULTILINE)
MAX_WIDTH = 120
"""Columns: longer lines of prose are hard to follow."""
_COMMAND, _OUTPUT = "1;36", "36"


def to_guide(text: str, screen: Screen) -> str:
    """Markdown as text for a screen; where that has no Unicode, as it stands.

    What stands between fences is never broken: a terminal shows the long lines of a table as it shows those of the command.
    """
    if not screen.unicode:
        return text
    parts = _FENCED.split(_COMMENT.sub(r"`\1`:", text))  # prose and fenced in turn
    drawn = [_verbatim(part, screen) if number % 2 else _prose(part, screen) for number, part in enumerate(parts)]
    return "\n".join(part for part in drawn if part.strip())


def _prose(part: str, screen: Screen) -> str:
    file = StringIO()
    console = Console(
        file=file,
        width=min(screen.width or MAX_WIDTH, MAX_WIDTH),
        height=100,
        color_system="standard" if screen.colour else None,
        force_terminal=screen.colour,
        no_color=not screen.colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    console.print(Markdown(part))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()).strip("\n") + "\n"


def _verbatim(part: str, screen: Screen) -> str:
    lines = (screen.paint(f"  {line}".rstrip(), _COMMAND if line.startswith("$ ") else _OUTPUT) for line in part.splitlines())
    return "".join(f"{line}\n" for line in lines)
