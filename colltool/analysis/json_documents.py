"""JSON documents of colltool, read back: :func:`read_document` refuses what cannot be compared, and
says where it stands."""

from __future__ import annotations

import json
import os
import re
from math import isfinite
from typing import Any

from colltool.base.errors import ColltoolError, either
from colltool.base.files import read_text

_COMPARE_FABRICS = "fabric files are compared by colltool compare; for CI, see colltool guide ci"
WRITE_ONE = (
    "write one with"
    f" {either(shell='--format json -o FILE', python='colltool price --format json -o FILE')}"
)
# A string or a number of JSON text, to find where one stands.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN|-?\d[\d.eE+-]*')
# Digits of an integer, so that it can always be turned into a float: these hold 308.
_MOST_DIGITS = 300


def read_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a document that ``--format json`` wrote.

    Raises:
        ColltoolError: no such document, or a number that cannot be compared, with its line.
    """
    name = os.fspath(path)
    text = read_text(path, "document", name)
    try:
        content = json.loads(
            text, parse_constant=_checked_float, parse_float=_checked_float, parse_int=_checked_int
        )
    except _NotComparable:
        raise _number_error(text, name) from None
    except json.JSONDecodeError as error:
        raise ColltoolError(
            f"not JSON: {error.msg}",
            where=f"{name}:{error.lineno}:{error.colno}",
            fix=_COMPARE_FABRICS if name.endswith((".yaml", ".yml")) else WRITE_ONE,
        ) from error
    except RecursionError as error:
        raise ColltoolError("not JSON: nested too deeply", where=name, fix=WRITE_ONE) from error
    _check_characters(text, name)
    if not isinstance(content, dict) or not str(content.get("schema", "")).startswith("colltool."):
        raise ColltoolError("not a JSON document of colltool", where=name, fix=WRITE_ONE)
    return content


class _NotComparable(Exception):
    """A number that no output contains; the JSON reader does not say where it is."""


def _checked_float(digits: str) -> float:
    """A number of JSON text, or one of its constants such as NaN, which is refused."""
    number = float(digits)
    if not isfinite(number):
        raise _NotComparable
    return number


def _checked_int(digits: str) -> int:
    """A whole number of JSON text that a float can hold."""
    if len(digits) > _MOST_DIGITS:
        raise _NotComparable
    return int(digits)


def _check_characters(text: str, name: str) -> None:
    r"""Refuse half of a surrogate pair (``"\ud83d"`` alone), which JSON can write and no text can
    hold."""
    if "\\ud" not in text and "\\uD" not in text:
        return
    for match in _TOKEN.finditer(text):
        if match[0][0] != '"':
            continue
        characters = json.loads(match[0], strict=False)
        if any("\ud800" <= char <= "\udfff" for char in characters):
            error_words = "a text with half of a surrogate pair, which is no character"
            raise _error(text, name, match.start(), error_words)


def _number_error(text: str, name: str) -> ColltoolError:
    """The error of the first number that cannot be compared, with its place."""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token[0] == '"':
            continue
        if token in ("NaN", "Infinity", "-Infinity"):
            return _error(text, name, match.start(), f"{token} cannot be compared")
        parse = _checked_int if token.lstrip("-").isdigit() else _checked_float
        try:
            parse(token)
        except _NotComparable:
            number_text = token if len(token) <= 40 else "a number that"
            return _error(text, name, match.start(), f"{number_text} is too large to compare")
        except ValueError:
            continue
    return ColltoolError("holds a number that cannot be compared", where=name, fix=WRITE_ONE)


def _error(text: str, name: str, at: int, what: str) -> ColltoolError:
    """An error at an offset of the text, with its line and column."""
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return ColltoolError(what, where=f"{name}:{line}:{column}", fix=WRITE_ONE)
