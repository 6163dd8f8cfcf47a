"""User input quoted in errors: on one line, clipped, control characters escaped."""

from __future__ import annotations

from typing import Any

LONGEST = 60


def shown(value: Any) -> str:
    """A value as an error names it: text in quotes, ``true``, ``nothing``, ``a list``."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{clipped(value)}'"
    if isinstance(value, list | tuple | dict):
        kind = "mapping" if isinstance(value, dict) else "list"
        return f"a {kind}" if value else f"an empty {kind}"
    if isinstance(value, int) and abs(value) >= 10**LONGEST:
        return f"a number of more than {LONGEST} digits"  # repr takes quadratic time, and refuses 5,000 digits
    if isinstance(value, int | float):
        return repr(value)
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def clipped(text: str, longest: int = LONGEST) -> str:
    return printable(text if len(text) <= longest else f"{text[: longest - 3]}...")


def printable(text: str) -> str:
    """Escape control characters, line breaks and lone surrogates."""
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
