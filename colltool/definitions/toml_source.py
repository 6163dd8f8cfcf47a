"""TOML text to plain data with the place of every key, for the same reader as YAML.

``tomllib`` keeps no places, so they are found again line by line; text it takes and the search does
not (a key in quotes or with a dot) has the place of the table around it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

from colltool.base.errors import ColltoolError, printable
from colltool.base.files import BOUNDS
from colltool.definitions.source import KeyPath, Position, Problem, Source

_TABLE = re.compile(r"\s*(\[\[?)\s*([\w.-]+)\s*\]\]?")
_KEY = re.compile(r"\s*([\w-]+)\s*=\s*")
_INSIDE = re.compile(r"[{,]\s*([\w-]+)\s*=\s*")
_PLACED = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)")


def scan_toml(text: str, name: str) -> tuple[Source, list[Problem]]:
    """As :func:`colltool.definitions.source.scan`, of TOML; what is no TOML is an error at its line
    and column."""
    bound = BOUNDS["definition"]
    if len(text) > bound.limit:
        raise ColltoolError(
            f"is larger than {bound.limit // 2**20} MiB", where=name, fix=bound.smaller
        )
    try:
        data = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        found = _PLACED.search(str(error))
        line, column = (
            (found[1], found[2]) if found and found[1] else (str(text.count("\n") + 1), "1")
        )
        what = printable(_PLACED.sub("", str(error)))
        raise ColltoolError(f"not valid TOML: {what}", where=f"{name}:{line}:{column}") from error
    except RecursionError as error:
        raise ColltoolError("nested too deep", where=name, fix="close a bracket") from error
    places = dict(_places(text))
    return Source(name, data, {(): Position(1, 1)} | places, places), []


def _places(text: str) -> Iterator[tuple[KeyPath, Position]]:
    table: KeyPath = ()
    counts: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if found := _TABLE.match(line):
            table = (*found[2].split("."),)
            if found[1] == "[[":
                counts[found[2]] = counts.get(found[2], -1) + 1
                table = (*table, counts[found[2]])
            yield table, Position(number, found.start(1) + 1)
        elif found := _KEY.match(line):
            yield (*table, found[1]), Position(number, found.start(1) + 1)
            for inner in _INSIDE.finditer(line, found.end()):
                yield (*table, found[1], inner[1]), Position(number, inner.start(1) + 1)
