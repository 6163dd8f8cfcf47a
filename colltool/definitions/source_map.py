"""Where each part of a definition stands, in a file or in a Python mapping, and what was refused there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.quoting import clipped, printable, shown

MOST = 100  # refusals worth reading in one go
MAX_NESTING = 32
MAX_VALUES = 100_000  # more takes seconds; in a layout a pattern stands for a long list

# What is said of them, and the cure.
TOO_DEEP = f"nested deeper than {MAX_NESTING} levels", "close a bracket, or leave inner parts out"
TOO_MANY = f"holds more than {MAX_VALUES} values", "keep what is priced; a pattern stands for a long list of ranks"
_LARGEST = 1e100  # a larger number is no quantity
MORE = "more errors follow these"

KeyPath = tuple[str | int, ...]


class Position(NamedTuple):
    """Both counted from 1."""

    line: int
    column: int


class Problem(NamedTuple):
    """A value or key that was refused, and the error to report."""

    path: KeyPath
    position: Position
    error: ColltoolError


class Refused:
    """Placeholder for a refused value, so that validation does not take it for a good one."""


class Source(NamedTuple):
    """A definition's data with the place of every part; ``name`` is empty for a Python mapping, whose errors name key paths.

    ``positions``: of values by key path, ``()`` for the whole; ``keys``: of keys, by the path of their value.
    """

    name: str
    data: dict[str, Any]
    positions: Mapping[KeyPath, Position]
    keys: Mapping[KeyPath, Position]

    def position(self, path: KeyPath, *, key: bool = False) -> Position:
        """Of the value at ``path`` (with ``key`` its key), else of its nearest ancestor in the file."""
        for end in range(len(path), -1, -1):
            if key and path[:end] in self.keys:
                return self.keys[path[:end]]
            if path[:end] in self.positions:
                return self.positions[path[:end]]
        return Position(1, 1)

    def where(self, path: KeyPath, *, key: bool = False) -> str:
        """``name:line:column``; for a Python mapping the key path."""
        return place_text(self.name, self.position(path, key=key)) if self.name else dotted(path)

    def at(self, path: KeyPath, *, key: bool = False) -> str:
        """:meth:`where`, followed by the key path."""
        place = self.where(path, key=key)
        return f"{place}: {dotted(path)}" if self.name and path else place


class Finding(NamedTuple):
    """One mistake; ``about_key``: of the key rather than its value; ``part``: path of the whole that a validator looked at."""

    path: KeyPath
    what: str
    fix: str
    about_key: bool = False
    part: KeyPath | None = None


def place_text(name: str, position: Position) -> str:
    return f"{printable(name)}:{position.line}:{position.column}"


def dotted(path: KeyPath) -> str:
    """``tiers.0.alpha``: a key path as errors and ``--set`` have it."""
    return ".".join(clipped(str(step)) for step in path)


def value_at(path: KeyPath, data: Any) -> Any:
    for step in path:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def from_mapping(mapping: Mapping[str, Any]) -> tuple[Source, list[Problem]]:
    """A Python mapping as the data of a definition, copied, and its problems, as :func:`colltool.definitions.source.scan`."""
    plain = _Plain()
    data = plain.value(mapping, ())
    return Source("", data, plain.positions, plain.positions), plain.problems


class _Plain:
    def __init__(self) -> None:
        self.positions: dict[KeyPath, Position] = {}
        self.problems: list[Problem] = []

    def value(self, value: Any, path: KeyPath) -> Any:
        self.positions[path] = place = Position(len(self.positions), 0)  # there is no line: the order tells
        if len(self.positions) > MAX_VALUES:
            raise ColltoolError(TOO_MANY[0], fix=TOO_MANY[1])
        if len(path) > MAX_NESTING:
            raise ColltoolError(TOO_DEEP[0], fix=TOO_DEEP[1])
        if isinstance(value, Mapping):
            return {str(key): self._under(key, inner, path) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(inner, (*path, index)) for index, inner in enumerate(value)]
        if hasattr(value, "tolist") and hasattr(value, "dtype"):  # numpy's numbers and arrays
            value = value.tolist()
            if isinstance(value, list):
                return [self.value(inner, (*path, index)) for index, inner in enumerate(value)]
        if value is None or isinstance(value, str | bool):
            return value
        if isinstance(value, int | float) and abs(value) < _LARGEST:  # NaN is not
            return value
        number = isinstance(value, int | float)
        what = f"{shown(value)} is not a finite number" if number else f"no definition holds {shown(value)}"
        return self._refuse(path, place, what, "a definition holds text, finite numbers, true, false, lists and mappings")

    def _under(self, key: Any, value: Any, path: KeyPath) -> Any:
        if isinstance(key, str):
            return self.value(value, (*path, key))
        return self._refuse((*path, str(key)), self.positions[path], f"the key {shown(key)} is not text", "a key is text")

    def _refuse(self, path: KeyPath, place: Position, what: str, fix: str) -> Refused:
        self.problems.append(Problem(path, place, ColltoolError(what, where=dotted(path), fix=fix)))
        return Refused()
