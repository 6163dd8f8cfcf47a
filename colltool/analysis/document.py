"""A JSON document of colltool from a file, refused where it holds what no output of colltool holds."""

from __future__ import annotations

import json
import os
import re
from math import isfinite
from typing import Any

from colltool.base.errors import ColltoolError, either
from colltool.base.inputs import read_text

_FIX = f"write one with {either(shell='--format json -o FILE', python='colltool price --format json -o FILE')}"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN|-?\d[\d.eE+-]*')
_MOST_DIGITS = 300  # of a whole number: no size, count or time has more, and a float holds 308


def read_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A document as ``--format json`` writes them.

    Raises:
        ColltoolError: cannot be read, not a JSON object of colltool, or with a number that is not finite or a character that
            is none; with the place.
    """
    name = os.fspath(path)
    text = read_text(path, "document", name)
    try:
        content = json.loads(text, parse_constant=_not_finite, parse_float=_float, parse_int=_int)
    except _Unusable:
        raise _refused(text, name) from None
    except (json.JSONDecodeError, RecursionError) as error:
        place = f"{name}:{error.lineno}:{error.colno}" if isinstance(error, json.JSONDecodeError) else name
        raise ColltoolError(f"not JSON: {getattr(error, 'msg', 'nested too deeply')}", where=place, fix=_FIX) from error
    if "\\ud" in text or "\\uD" in text:
        error_or_none = _surrogate(text, name)
        if error_or_none is not None:
            raise error_or_none
    if not isinstance(content, dict) or not str(content.get("schema", "")).startswith("colltool."):
        raise ColltoolError("not a JSON document of colltool", where=name, fix=_FIX)
    return content


class _Unusable(Exception):
    """A number that no output holds; the reader of JSON does not say where it stands."""


def _not_finite(_: str) -> Any:
    raise _Unusable


def _float(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise _Unusable
    return number


def _int(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise _Unusable
    return int(digits)


def _refused(text: str, name: str) -> ColltoolError:
    """The error for the first number that no output holds, with its place."""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token[0] == '"':
            continue
        if token in ("NaN", "Infinity", "-Infinity"):
            return _error(text, name, match.start(), f"{token} is no number that can be compared")
        try:
            (_int if token.lstrip("-").isdigit() else _float)(token)
        except _Unusable:
            what = "a number that is too large to compare" if len(token) > 40 else f"{token} is too large to compare"
            return _error(text, name, match.start(), what)
        except ValueError:
            continue
    return ColltoolError("holds a number that cannot be compared", where=name, fix=_FIX)


def _surrogate(text: str, name: str) -> ColltoolError | None:
    """The error for half of a surrogate pair, where a text has one."""
    for match in _TOKEN.finditer(text):
        if match[0][0] == '"' and any("\ud800" <= char <= "\udfff" for char in json.loads(match[0], strict=False)):
            return _error(text, name, match.start(), "a text with half of a surrogate pair, which is no character")
    return None


def _error(text: str, name: str, at: int, what: str) -> ColltoolError:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return ColltoolError(what, where=f"{name}:{line}:{column}", fix=_FIX)
