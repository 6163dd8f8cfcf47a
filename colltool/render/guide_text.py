"""Chapters of the manual, which are Markdown, for a terminal (:func:`to_guide`, which
``colltool guide`` prints)."""

from __future__ import annotations

import re
from io import StringIO
from textwrap import wrap

from colltool.render.text import Screen

_FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# the tests of the guides save the block below it under this name: <!-- file: mine.yaml -->
_FILE_NAME = re.compile(r"^<!-- file: (\S+) -->$", re.MULTILINE)
_MOST_WIDTH = 120  # characters; longer lines are hard to read
# ANSI styles
_COMMAND = "1;36"  # bold cyan
_OUTPUT = "36"  # cyan


def to_guide(text: str, screen: Screen) -> str:
    """Markdown rendered for a terminal; unchanged on one without Unicode.

    Long commands are wrapped with a backslash, so that they can still be pasted.
    """
    if not screen.unicode:
        return text
    parts = _FENCED.split(_FILE_NAME.sub(r"`\1`:", text))
    rendered = []
    for number, part in enumerate(parts):
        # prose and fenced blocks in turn: split() returns what its group matched as well
        part_text = _fenced_text(part, screen) if number % 2 else _prose_text(part, screen)
        if part_text.strip():
            rendered.append(part_text)
    return "\n".join(rendered)


def _prose_text(markdown: str, screen: Screen) -> str:
    """Markdown without fenced blocks as text for a terminal."""
    # rich for Markdown alone: our tables drop and fold columns, which its tables do not
    from rich.console import Console
    from rich.markdown import Markdown

    file = StringIO()
    console = Console(
        file=file,
        width=min(screen.width or _MOST_WIDTH, _MOST_WIDTH),
        height=100,
        color_system="standard" if screen.colour else None,
        force_terminal=screen.colour,
        no_color=not screen.colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    console.print(Markdown(markdown))
    lines = map(str.rstrip, file.getvalue().splitlines())
    return "\n".join(lines).strip("\n") + "\n"


def _fenced_text(block: str, screen: Screen) -> str:
    """The text of a fenced block: commands with their output, indented and wrapped to the screen, or
    a file, which is never wrapped."""
    lines = block.splitlines()
    indent = "  "
    if screen.width:
        width = screen.width - len(indent)
        if any(map(_is_command, lines)):
            pieces = []
            for line in lines:
                pieces += _pieces(line, width)
            lines = pieces
        if max(map(len, lines), default=0) > width:
            indent = ""
    out = ""
    for line in lines:
        style = _COMMAND if _is_command(line) else _OUTPUT
        out += screen.paint(f"{indent}{line}".rstrip(), style) + "\n"
    return out


def _is_command(line: str) -> bool:
    return line.startswith("$ ")


def _pieces(line: str, width: int) -> list[str]:
    """A command or a line of output in pieces that fit; rows of tables stay whole.

    A command has a backslash after each piece but the last.
    """
    words = line.lstrip()
    if len(line) <= width or words.startswith(("|", "+")):
        return [line]
    indent = line[: len(line) - len(words)]
    is_command = _is_command(line)
    if is_command:
        # room for the blank and the backslash at its end
        width -= 2
    pieces = wrap(
        words,
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    if not is_command:
        return pieces
    return [f"{piece} \\" for piece in pieces[:-1]] + pieces[-1:]
