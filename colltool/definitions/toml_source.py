"""TOML text to plain data with the place of every key, for the same reader as YAML.

``tomllib`` keeps no places, so :func:`_places` finds them again line by line. A key that the search
does not see (in quotes or with a dot) has the place of the table around it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator

from colltool.base.errors import ColltoolError, printable
from colltool.base.files import BOUNDS
from colltool.definitions.source import KeyPath, Position, Problem, Source

# [table] or [[array of tables]]
_TABLE = re.compile(r"\s*(?P<open>\[\[?)\s*(?P<path>[\w.-]+)\s*\]\]?")
# key = value
_KEY = re.compile(r"\s*(?P<key>[\w-]+)\s*=\s*")
# the keys of {key = value, key = value}
_INLINE_KEY = re.compile(r"[{,]\s*(?P<key>[\w-]+)\s*=\s*")
# a number that Python's int() refuses to read
_MANY_DIGITS = re.compile(rf"[\d_]{{{sys.int_info.default_max_str_digits},}}")
# tomllib's own words at the end of an error: (at line 3, column 5)
_TOMLLIB_PLACE = re.compile(
    r"\s*\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)"
)


def scan_toml(text: str, name: str) -> tuple[Source, list[Problem]]:
    """Read TOML as :func:`colltool.definitions.source.scan` reads YAML, which has problems where TOML
    has none.

    Raises:
        ColltoolError: no TOML, at its line and column; too large or nested too deep.
    """
    bound = BOUNDS["definition"]
    if len(text) > bound.limit:
        what = f"is larger than {bound.limit // 2**20} MiB"
        raise ColltoolError(what, where=name, fix=bound.smaller)
    try:
        data = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        # without a place the end of the document is meant
        line = str(text.count("\n") + 1)
        column = "1"
        place = _TOMLLIB_PLACE.search(str(error))
        if place and place["line"]:
            line = place["line"]
            column = place["column"]
        what = printable(_TOMLLIB_PLACE.sub("", str(error)))
        raise ColltoolError(f"not valid TOML: {what}", where=f"{name}:{line}:{column}") from error
    except RecursionError as error:
        raise ColltoolError("nested too deep", where=name, fix="close a bracket") from error
    except ValueError as error:
        # tomllib leaves numbers to int(), which refuses thousands of digits.
        where = f"{name}:{_line_of_digits(text)}"
        raise ColltoolError(
            "a number of thousands of digits", where=where, fix="a shorter one"
        ) from error
    places = dict(_places(text))
    return Source(name, data, {(): Position(1, 1)} | places, places), []


def _line_of_digits(text: str) -> int:
    """The line of the first number with too many digits, from 1."""
    number = _MANY_DIGITS.search(text)
    if number is None:
        return 1
    return text.count("\n", 0, number.start()) + 1


def _places(text: str) -> Iterator[tuple[KeyPath, Position]]:
    """The key paths of a text, line by line, and where each is: tables, keys, and keys of a mapping in
    braces on the same line."""
    table: KeyPath = ()
    # items so far of each array of tables
    counts: Counter[str] = Counter()
    for number, line in enumerate(text.split("\n"), 1):
        header = _TABLE.match(line)
        if header:
            name = header["path"]
            table = tuple(name.split("."))
            if header["open"] == "[[":
                table = (*table, counts[name])
                counts[name] += 1
            yield table, Position(number, header.start("open") + 1)
            continue
        key = _KEY.match(line)
        if key:
            path = (*table, key["key"])
            yield path, Position(number, key.start("key") + 1)
            for inner in _INLINE_KEY.finditer(line, key.end()):
                yield (*path, inner["key"]), Position(number, inner.start("key") + 1)
