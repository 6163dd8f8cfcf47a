"""Escaping of foreign text (names, notes, paths), done once by each format as it writes.

Unprintable characters (control, line ends, bidi marks, lone surrogates) become ``\\x1b``, ``\\u202e``, ``\\udc80``.
"""

from __future__ import annotations

import re

from colltool.base.errors import printable

_SURROGATE = re.compile("[\ud800-\udfff]")
_MARKDOWN = re.compile(r"([\\`*|<]|\](?=[(\[]))")
_FORMULA = ("=", "+", "-", "@")


def printable_lines(text: str) -> str:
    """Like :func:`printable`, but keeps line ends."""
    return "\n".join(printable(line) for line in text.split("\n"))


def markdown(text: str) -> str:
    """Printable, with Markdown markup escaped."""
    return _MARKDOWN.sub(r"\\\1", printable(text))


def html(text: str) -> str:
    """Printable, with HTML escaped."""
    from html import escape

    return escape(printable(text))


def csv_text(text: str) -> str:
    """Printable, and with an apostrophe before what a spreadsheet would run as a formula."""
    shown = printable(text)
    return f"'{shown}" if shown.startswith(_FORMULA) and len(shown) > 1 else shown


def json_text(text: str) -> str:
    r"""JSON with what is not printable as ``\uXXXX``; a lone surrogate, which UTF-8 cannot hold, becomes the text ``\udc80``."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(char if char == "\n" or char.isprintable() else _in_json(char) for char in text)


def _in_json(char: str) -> str:
    if _SURROGATE.match(char):
        return f"\\\\u{ord(char):04x}"
    pairs = char.encode("utf-16-be")
    return "".join(f"\\u{pairs[at]:02x}{pairs[at + 1]:02x}" for at in range(0, len(pairs), 2))
