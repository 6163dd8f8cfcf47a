"""Guides on a terminal: prose wrapped, commands and output as they are."""

from __future__ import annotations

import re
from io import StringIO
from textwrap import wrap

from rich.console import Console
from rich.markdown import Markdown

from colltool.render.text import Screen

_FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^<!-- file: (\S+) -->$", re.MULTILINE)
MAX_WIDTH = 120  # characters; longer lines are hard to read
_COMMAND, _OUTPUT = "1;36", "36"


def to_guide(text: str, screen: Screen) -> str:
    """Markdown rendered for a terminal; unchanged on one without Unicode.

    Long commands are wrapped with a backslash, so that they can still be pasted.
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
    lines = part.splitlines()
    if screen.width and any(line.startswith("$ ") for line in lines):
        lines = [piece for line in lines for piece in _wrapped(line, screen.width - 2)]
    indent = "" if screen.width and max(map(len, lines), default=0) > screen.width - 2 else "  "
    painted = (screen.paint(f"{indent}{line}".rstrip(), _COMMAND if line.startswith("$ ") else _OUTPUT) for line in lines)
    return "".join(f"{line}\n" for line in painted)


def _wrapped(line: str, width: int) -> list[str]:
    """A command or output line in pieces that fit; table rows stay whole."""
    if len(line) <= width or line.lstrip()[:1] in ("|", "+"):
        return [line]
    command, rest = line.startswith("$ "), line.lstrip()
    before = line[: len(line) - len(rest)]
    more = f"{before}    "
    pieces = wrap(rest, width - 2 * command, initial_indent=before, subsequent_indent=more, break_long_words=False,
                  break_on_hyphens=False)  # fmt: skip
    return [f"{piece} \\" for piece in pieces[:-1]] + pieces[-1:] if command else pieces
