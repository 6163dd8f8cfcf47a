"""Text of others where it leaves the program: names, notes and paths that a screen, a table or a parser could take for more.

Every format escapes once, in its own file, with the functions here; nothing is escaped before. What is not printable
(control characters, line ends, marks of direction, lone surrogates) stands as ``\\x1b``, ``\\u202e``, ``\\udc80``.
"""

from __future__ import annotations

import re

from colltool.base.quoting import printable

_SURROGATE = re.compile("[\ud800-\udfff]")
_MARKDOWN = re.compile(r"([\\`*|<]|\](?=[(\[]))")
_FORMULA = ("=", "+", "-", "@")


def printable_lines(text: str) -> str:
    """The same for text of several lines, whose line ends stay."""
    return "\n".join(printable(line) for line in text.split("\n"))


def markdown(text: str) -> str:
    """Printable, and no markup: bars, backticks, stars, tags, links."""
    return _MARKDOWN.sub(r"\\\1", printable(text))


def html(text: str) -> str:
    """Printable, and no markup."""
    from html import escape

    return escape(printable(text))


def csv_text(text: str) -> str:
    """Printable (so one line), and no formula: where a spreadsheet would compute the text, an apostrophe goes before it."""
    shown = printable(text)
    return f"'{shown}" if shown.startswith(_FORMULA) and len(shown) > 1 else shown


def json_text(text: str) -> str:
    r"""A written JSON document with what is not printable as ``\uXXXX``, line ends between its fields apart.

    What reads it gets the same characters. A lone surrogate is no character of UTF-8: it stays as the text ``\udc80``.
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(char if char == "\n" or char.isprintable() else _in_json(char) for char in text)


def _in_json(char: str) -> str:
    if _SURROGATE.match(char):
        return f"\\\\u{ord(char):04x}"
    pairs = char.encode("utf-16-be")
    return "".join(f"\\u{pairs[at]:02x}{pairs[at + 1]:02x}" for at in range(0, len(pairs), 2))
