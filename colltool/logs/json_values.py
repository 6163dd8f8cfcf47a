"""JSON of logs: values that follow each other in a file, and what is believed of a value.

Nothing is believed of a value but what its type allows: :func:`as_mapping`, :func:`as_list`,
:func:`as_whole` and :func:`as_positive` give nothing for a value of another type, so that a reader leaves
such a record out with a note.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from colltool.base.errors import ColltoolError
from colltool.logs.log_file import Log

_MOST_VALUES = 1_000_000  # read of a file: a hostile one ends
_MOST_BROKEN = 1000  # lines of a file that are no JSON: after so many the rest is left
_MOST = 1e18  # of a number that is believed


def as_mapping(value: object) -> Mapping[str, Any]:
    """An object of JSON; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> Sequence[Any]:
    """A list of JSON; an empty one for anything else."""
    return value if isinstance(value, list) else []


def as_whole(value: object) -> int | None:
    """A whole number from 0 on; None for anything else."""
    if type(value) is not int or not 0 <= value < _MOST:
        return None
    return value


def as_positive(value: object) -> float:
    """A number above 0; 0 for anything else."""
    # not True, which is an int, too
    if type(value) is int or type(value) is float:
        return float(value) if 0 < value < _MOST else 0.0
    return 0.0


def json_values(log: Log) -> Iterator[tuple[int, Any]]:
    """Read JSON values that follow each other, mostly one a line, each with its line. A process
    that was killed leaves a broken one: what is no JSON is skipped up to the end of its line."""
    text = log.json_text()
    decoder = json.JSONDecoder()
    start = 0
    line = 1
    counted_to = 0
    broken = 0
    for _ in range(_MOST_VALUES):
        start = _blank_end(text, start)
        if start == len(text):
            return
        line += text.count("\n", counted_to, start)
        counted_to = start
        try:
            value, start = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            broken += 1
            end = text.find("\n", start)
            if end < 0 or broken > _MOST_BROKEN:
                return
            start = end
            continue
        yield line, value


def _blank_end(text: str, start: int) -> int:
    """Where the next value begins: behind blanks, and commas and the bracket of a list that has a
    value a line."""
    while start < len(text) and text[start] in " \t\r\n,":
        start += 1
    return start


def json_document(log: Log, what: str) -> Any:
    """The one JSON value of a file, which ``what`` names in errors: ColltoolError where it is cut
    or broken."""
    try:
        return json.loads(log.json_text())
    except RecursionError as error:
        raise ColltoolError(
            f"{what} nested too deeply", where=f"{log.file}:1", fix="write it again"
        ) from error
    except json.JSONDecodeError as error:
        raise ColltoolError(
            f"{what} that is cut off or broken: {error.msg}",
            where=f"{log.file}:{error.lineno}:{error.colno}",
            fix="write it again, to the end",
        ) from error
    except ValueError as error:  # a number of too many digits
        raise ColltoolError(
            f"{what} with a number that is none: {error}",
            where=f"{log.file}:1",
            fix="write it again",
        ) from error
