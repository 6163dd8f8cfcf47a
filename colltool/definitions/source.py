"""Plain data with the place of every key and value, from YAML text or a Python mapping.

:func:`scan` reads text, :func:`from_mapping` copies a mapping; both return a :class:`Source` and the
:class:`Problem` of each value that no definition can hold. A :class:`Finding` is a mistake that is
found later, in data that could be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, clipped, printable, quote

# Errors that are worth reading in one go; more are cut off with a last line.
MAX_ERRORS = 100
MORE_ERRORS = "more errors follow these"
# Deeper than any definition, well within Python's recursion limit.
MAX_NESTING = 32
# More takes seconds to read; in a layout a pattern replaces a long list.
MAX_VALUES = 100_000
# A number with more digits is no quantity, and takes quadratic time to read.
MAX_DIGITS = 100
# A larger number is no quantity.
_LARGEST = 1e100

# What is wrong, and the fix.
TOO_DEEP = f"nested deeper than {MAX_NESTING} levels", "close a bracket, or leave inner parts out"
TOO_MANY = (
    f"holds more than {MAX_VALUES} values",
    "keep what is priced; a pattern stands for a long list of ranks",
)

KeyPath = tuple[str | int, ...]


class Position(NamedTuple):
    """A place in a text; line and column are counted from 1."""

    line: int
    column: int


class Problem(NamedTuple):
    """A value or key that no definition can hold, and the error to report."""

    path: KeyPath
    position: Position
    error: ColltoolError


class Refused:
    """Stands in the data for a refused value, so that validation does not take it for a good one."""


class Source(NamedTuple):
    """A definition's data with the place of every part; ``name`` is empty for a Python mapping,
    whose errors name key paths.

    ``positions``: of values by key path, ``()`` for the whole; ``keys``: of keys, by the path of
    their value.
    """

    name: str
    data: dict[str, Any]
    positions: Mapping[KeyPath, Position]
    keys: Mapping[KeyPath, Position]

    def position(self, path: KeyPath, *, key: bool = False) -> Position:
        """Return the place of the value at ``path`` (with ``key`` of its key), else of the nearest mapping
        or list around it that the file has."""
        for end in range(len(path), -1, -1):
            if key and path[:end] in self.keys:
                return self.keys[path[:end]]
            if path[:end] in self.positions:
                return self.positions[path[:end]]
        return Position(1, 1)

    def where(self, path: KeyPath, *, key: bool = False) -> str:
        """Return ``name:line:column`` of :meth:`position`; for a Python mapping the key path."""
        if not self.name:
            return dotted(path)
        return place_text(self.name, self.position(path, key=key))

    def at(self, path: KeyPath, *, key: bool = False) -> str:
        """Return :meth:`where` followed by the key path, once."""
        place = self.where(path, key=key)
        return f"{place}: {dotted(path)}" if self.name and path else place


class Finding(NamedTuple):
    """One mistake in a definition.

    ``about_key``: it concerns the key rather than its value; ``part``: path of the mapping that the
    validator checked, if it found the mistake by comparing several keys.
    """

    path: KeyPath
    what: str
    fix: str
    about_key: bool = False
    part: KeyPath | None = None


def place_text(name: str, position: Position) -> str:
    """Return ``name:line:column``."""
    return f"{printable(name)}:{position.line}:{position.column}"


def dotted(path: KeyPath) -> str:
    """Return a key path as errors and ``--set`` write it: ``tiers.0.alpha``."""
    return ".".join(clipped(str(step)) for step in path)


def value_at(path: KeyPath, data: Any) -> Any:
    """Return the value at a key path; None where there is none, as for a value that is None."""
    for step in path:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def scan(text: str, name: str) -> tuple[Source, list[Problem]]:
    """Read YAML text: its data with the place of every part, and the problems; a refused value is
    ``Refused`` in the data.

    Raises ManyErrors beyond ``MAX_ERRORS`` problems, ColltoolError for what is no YAML, empty, no
    mapping, too deep or too large.
    """
    if len(text) > MAX_CACHED_TEXT:
        return _scanned(text, name)
    source, problems = _cached(text, name)
    return source._replace(data=deepcopy(source.data)), list(problems)


# Characters of a file whose data is cached; larger files are read once.
MAX_CACHED_TEXT = 2**16


@lru_cache(maxsize=64)
def _cached(text: str, name: str) -> tuple[Source, list[Problem]]:
    """What :func:`_scanned` returns, which a caller must not change. A process loads the same fabrics again
    and again, and reading YAML is most of the work."""
    return _scanned(text, name)


def _scanned(text: str, name: str) -> tuple[Source, list[Problem]]:
    """YAML text as data with the place of every key, and its problems."""
    # importing yaml takes a twentieth of the time of a price, and a fabric that was kept needs no YAML
    from colltool.definitions.yaml_text import YamlReader

    reader = YamlReader(name)
    data = reader.document(text)
    if not isinstance(data, dict):
        if reader.problems:
            raise reader.problems[0].error
        found = f"expected keys and values, got {quote(data)}"
        if data is None:
            found = "the file is empty, expected keys and values"
        raise reader.error(reader.positions.get((), Position(1, 1)), found, "write 'key: value'")
    problems = sorted(reader.problems, key=attrgetter("position"))
    return Source(name, data, reader.positions, reader.keys), problems


def read_value(text: str, where: str, key: str = "") -> Any:
    """Return the data of one value as a file would have it after ``key``: of ``4``, ``1us``, ``[8, 8, 4]``;
    raises the first ColltoolError in it, at ``where``."""
    from colltool.definitions.yaml_text import YamlReader

    reader = YamlReader(where, with_lines=False, key=key)
    value = reader.document(text)
    if reader.problems:
        raise reader.problems[0].error
    return value


def from_mapping(mapping: Mapping[str, Any]) -> tuple[Source, list[Problem]]:
    """Return a copy of a Python mapping as the data of a definition, and its problems, as
    :func:`scan`."""
    reader = _MappingReader()
    data = reader.plain(mapping, ())
    return Source("", data, reader.positions, reader.positions), reader.problems


class _MappingReader:
    """Copies Python data. As there are no lines, a position's line is the number of the value in the order
    of reading, so that errors sort by it."""

    def __init__(self) -> None:
        self.positions: dict[KeyPath, Position] = {}
        self.problems: list[Problem] = []

    def plain(self, value: Any, path: KeyPath) -> Any:
        """Return a copy of a value in which whatever no file can hold is ``Refused``."""
        self.positions[path] = Position(len(self.positions), 0)
        if len(self.positions) > MAX_VALUES:
            raise ColltoolError(TOO_MANY[0], fix=TOO_MANY[1])
        if len(path) > MAX_NESTING:
            raise ColltoolError(TOO_DEEP[0], fix=TOO_DEEP[1])
        if isinstance(value, Mapping):
            return self._mapping(value, path)
        if hasattr(value, "tolist") and hasattr(value, "dtype"):  # numpy's numbers and arrays
            value = value.tolist()
        if isinstance(value, list | tuple):
            return [self.plain(item, (*path, index)) for index, item in enumerate(value)]
        if value is None or isinstance(value, str | bool):
            return value
        what = f"no definition holds {quote(value)}"
        if isinstance(value, int | float):
            # false for NaN too
            if abs(value) < _LARGEST:
                return value
            what = f"{quote(value)} is not a finite number"
        fix = "a definition holds text, finite numbers, true, false, lists and mappings"
        return self._refuse(path, self.positions[path], what, fix)

    def _mapping(self, mapping: Mapping[Any, Any], path: KeyPath) -> dict[str, Any]:
        place = self.positions[path]
        found: dict[str, Any] = {}
        for key, value in mapping.items():
            child = (*path, str(key))
            if isinstance(key, str):
                found[key] = self.plain(value, child)
            else:
                what = f"the key {quote(key)} is not text"
                found[str(key)] = self._refuse(child, place, what, "a key is text")
        return found

    def _refuse(self, path: KeyPath, place: Position, what: str, fix: str) -> Refused:
        error = ColltoolError(what, where=dotted(path), fix=fix)
        self.problems.append(Problem(path, place, error))
        return Refused()
