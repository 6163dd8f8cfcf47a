"""YAML text, or a Python mapping, to plain data with the place of every key and value; the only
module that reads yaml.

Scalars resolve as in the YAML 1.2 core schema: ``yes``, ``on`` and ``12:30`` are text, ``1e9`` is a
number; a version is text as it is written. Tags, anchors,
aliases, merge keys, second documents and repeated keys are refused. Reading parser events rather
than nodes refuses a file that nests too deep before anything recurses, and shows anchors even if
unused.
"""

import math
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Any, NamedTuple

import yaml

from colltool.base.errors import ColltoolError, ManyErrors, clipped, printable, shown
from colltool.base.files import BOUNDS

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML built without libyaml: the same events, slower
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

MOST = 100  # refusals worth reading in one go
MORE = "more errors follow these"
MAX_NESTING = 32
MAX_VALUES = 100_000  # more takes seconds; in a layout a pattern stands for a long list
MAX_DIGITS = 100  # a longer number is no quantity, and costs quadratic time to read
_LARGEST = 1e100  # a larger number is no quantity
WORD_KEYS = frozenset({"version"})  # their values are words: version 2.30 is not the number 2.3

# What is said of them, and the cure.
_TOO_DEEP = f"nested deeper than {MAX_NESTING} levels", "close a bracket, or leave inner parts out"
_TOO_MANY = (
    f"holds more than {MAX_VALUES} values",
    "keep what is priced; a pattern stands for a long list of ranks",
)

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
        """Of the value at ``path`` (with ``key`` its key), else of its nearest ancestor in the
        file."""
        for end in range(len(path), -1, -1):
            if key and path[:end] in self.keys:
                return self.keys[path[:end]]
            if path[:end] in self.positions:
                return self.positions[path[:end]]
        return Position(1, 1)

    def where(self, path: KeyPath, *, key: bool = False) -> str:
        """``name:line:column``; for a Python mapping the key path."""
        return _place_text(self.name, self.position(path, key=key)) if self.name else dotted(path)

    def at(self, path: KeyPath, *, key: bool = False) -> str:
        """:meth:`where`, followed by the key path."""
        place = self.where(path, key=key)
        return f"{place}: {dotted(path)}" if self.name and path else place


class Finding(NamedTuple):
    """One mistake; ``about_key``: of the key rather than its value; ``part``: path of the whole
    that a validator looked at."""

    path: KeyPath
    what: str
    fix: str
    about_key: bool = False
    part: KeyPath | None = None


def _place_text(name: str, position: Position) -> str:
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


_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_SAME_COLUMN = "check the indentation: the keys of one mapping start in the same column"
_HINTS = (
    (
        "mapping values are not allowed",
        "check the indentation; a text that contains ': ' needs quotes",
    ),
    ("cannot start any token", "a text that starts with this character needs quotes"),
    ("expected key", _SAME_COLUMN),
    ("block end", _SAME_COLUMN),
    ("end of stream", "close the quote or bracket"),
    ("expected ':'", "write 'key: value'"),
    ("expected ','", "close the bracket, or separate the items with commas"),
)


def scan(text: str, name: str) -> tuple[Source, list[Problem]]:
    """The data of a file with the place of every part, and the problems; a refused value is
    ``Refused`` in the data.

    Raises ManyErrors beyond ``MOST`` problems, ColltoolError for what is no YAML, empty, no
    mapping, too deep or too large.
    """
    if len(text) > MOST_KEPT:
        return _scanned(text, name)
    source, problems = _kept(text, name)
    return source._replace(data=deepcopy(source.data)), list(problems)


MOST_KEPT = 2**16  # characters of a file whose content is remembered


@lru_cache(maxsize=64)
def _kept(text: str, name: str) -> tuple[Source, list[Problem]]:
    """A process meets the same fabrics again and again, and reading YAML is most of the work."""
    return _scanned(text, name)


def _scanned(text: str, name: str) -> tuple[Source, list[Problem]]:
    builder = _Builder(name)
    data = builder.document(text)
    if not isinstance(data, dict):
        if builder.problems:
            raise builder.problems[0].error
        found = (
            "the file is empty, expected keys and values"
            if data is None
            else f"expected keys and values, got {shown(data)}"
        )
        raise builder.error(builder.positions.get((), Position(1, 1)), found, "write 'key: value'")
    return Source(name, data, builder.positions, builder.keys), sorted(
        builder.problems, key=lambda problem: problem.position
    )


def read_value(text: str, where: str, key: str = "") -> Any:
    """One value as a file would have it after ``key``: ``4``, ``1us``, ``[8, 8, 4]``."""
    builder = _Builder(where, place=False, key=key)
    value = builder.document(text)
    if builder.problems:
        raise builder.problems[0].error
    return value


class _Builder:
    def __init__(self, name: str, *, place: bool = True, key: str = "") -> None:
        """``key``: what the whole document is the value of."""
        self.name = name
        self.place = place
        self.key = key
        self.positions: dict[KeyPath, Position] = {}
        self.keys: dict[KeyPath, Position] = {}
        self.problems: list[Problem] = []
        self.events: Iterator[yaml.Event] = iter(())

    def document(self, text: str) -> Any:
        text, bound = text.removeprefix("\ufeff"), BOUNDS["definition"]
        if len(text) > bound.limit:
            raise ColltoolError(
                f"is larger than {bound.limit // 2**20} MiB: {bound.larger}",
                where=self.name,
                fix=bound.smaller,
            )
        if found := _UNPRINTABLE.search(text):
            before = text[: found.start()]
            place = Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
            raise self.error(
                place,
                f"not a text file: it holds the control character U+{ord(found[0]):04X}",
                "remove it",
            )
        self.events = iter(yaml.parse(text, Loader=_Loader))
        data = None
        try:
            for event in self.events:
                if isinstance(event, yaml.DocumentStartEvent):
                    if () in self.positions:
                        raise self.error(
                            _start(event),
                            "a second document starts here",
                            "one file holds one document",
                        )
                    data = self._value(next(self.events), ())
        except yaml.MarkedYAMLError as error:
            raise self._syntax_error(error, text) from error
        except (
            yaml.YAMLError,
            ValueError,
            OverflowError,
        ) as error:  # the last two: an escape such as "\\UFFFFFFFF"
            raise self.error(Position(1, 1), f"not valid YAML: {printable(str(error))}") from error
        return data

    def _value(self, event: yaml.Event, path: KeyPath) -> Any:
        self.positions[path] = place = _start(event)
        if len(self.positions) > MAX_VALUES:
            raise self.error(place, *_TOO_MANY)
        if isinstance(event, yaml.ScalarEvent) and event.anchor is None and event.tag is None:
            return self._scalar(event, path)  # nearly all events
        refused = self._refuse_extras(event, path)
        value: Any = None
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event, path)
        elif not isinstance(event, yaml.AliasEvent):
            if len(path) >= MAX_NESTING:
                raise self.error(place, *_TOO_DEEP)
            value = (
                self._sequence(path)
                if isinstance(event, yaml.SequenceStartEvent)
                else self._mapping(path)
            )
        return Refused() if refused else value

    def _sequence(self, path: KeyPath) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self._value(event, (*path, len(items))))
        return items

    def _mapping(self, path: KeyPath) -> dict[str, Any]:
        data: dict[str, Any] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self._key(event, path)
            if key is None:
                self._value(next(self.events), (*path, ""))
                continue
            child, place = (*path, key), _start(event)
            if key in data:
                first = (
                    f", first given at {_place_text(self.name, self.keys[child])}"
                    if self.place
                    else ""
                )
                self._refuse(
                    child, place, f"key {shown(key)} is repeated{first}", "keep one of the two"
                )
            self.keys[child] = place
            data[key] = self._value(next(self.events), child)
        return data

    def _key(self, event: yaml.Event, path: KeyPath) -> str | None:
        place = _start(event)
        if not isinstance(event, yaml.ScalarEvent):
            if not isinstance(event, yaml.AliasEvent):
                self._refuse(path, place, "a list or mapping cannot be a key", "a key is text")
            self._value(event, (*path, ""))
            return None
        if self._refuse_extras(event, (*path, event.value)):
            return None
        value = event.value if event.style else _resolve(event.value)
        if event.value == "<<" and not event.style:
            self._refuse(
                (*path, "<<"), place, "merge keys ('<<') are not supported", "write the keys out"
            )
        elif isinstance(value, str):
            return value
        elif event.value == "":
            self._refuse(path, place, "a value without a key", "write 'key: value'")
        else:
            text = clipped(event.value)
            self._refuse(
                (*path, event.value),
                place,
                f"the key {text} is not text",
                f"""quote it: "{text}":""",
            )
        return None

    def _scalar(self, event: yaml.ScalarEvent, path: KeyPath) -> Any:
        value = event.value if event.style else _resolve(event.value)
        key = path[-1] if path else self.key
        if key in WORD_KEYS and isinstance(value, int | float) and not isinstance(value, bool):
            return event.value  # as it is written
        if isinstance(value, float) and not math.isfinite(value):
            text = clipped(event.value)
            self._refuse(
                path,
                _start(event),
                f"{text} is not a finite number",
                "write a number, or quote it if it is text",
            )
            return Refused()
        return value

    def _refuse_extras(self, event: yaml.Event, path: KeyPath) -> bool:
        """Report an alias, anchor or tag; True when the value cannot be known without it."""
        place = _start(event)
        if isinstance(event, yaml.AliasEvent):
            self._refuse(
                path,
                place,
                f"aliases ('*{clipped(str(event.anchor))}') are not supported",
                "write the value out",
            )
            return True
        if anchor := getattr(event, "anchor", None):
            what = f"anchors ('&{clipped(anchor)}') are not supported"
            self._refuse(path, place, what, "remove it; write values out where needed")
        if tag := getattr(event, "tag", None):
            fix = "remove it; quote the value if it is text"
            self._refuse(
                path,
                place,
                f"tags ('{clipped(tag.replace('tag:yaml.org,2002:', '!!'))}') are not supported",
                fix,
            )
        return bool(tag)

    def _refuse(self, path: KeyPath, place: Position, what: str, fix: str) -> None:
        key_path = dotted(path)
        self.problems.append(
            Problem(
                path, place, self.error(place, f"{key_path}: {what}" if key_path else what, fix)
            )
        )
        if len(self.problems) > MOST:
            told = [
                problem.error
                for problem in sorted(self.problems[:MOST], key=lambda problem: problem.position)
            ]
            raise ManyErrors([*told, ColltoolError(MORE, where=printable(self.name))])

    def error(self, place: Position, what: str, fix: str = "") -> ColltoolError:
        return ColltoolError(
            what, where=_place_text(self.name, place) if self.place else self.name, fix=fix
        )

    def _syntax_error(self, error: yaml.MarkedYAMLError, text: str) -> ColltoolError:
        mark: Any = error.problem_mark or error.context_mark
        place = Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)
        problem = printable(" ".join(filter(None, (error.problem, error.context))))
        # libyaml from 0.2.6 on has a limit of its own, and meets it before we are asked
        if "maximum nesting depth" in problem:
            return self.error(place, *_TOO_DEEP)
        line = text.split("\n")[place.line - 1 : place.line]
        fix = next((hint for part, hint in _HINTS if part in problem), "")
        if line and "\t" in line[0][: place.column]:
            fix = "indent with spaces, not tabs"
        return self.error(place, f"not valid YAML: {problem}", fix)


def _resolve(text: str) -> Any:
    """A plain scalar by the YAML 1.2 core schema; infinity for every number that is not finite:
    ``.inf``, ``.nan``, ``1e999``."""
    if text.isdecimal() and text.isascii() and len(text) < MAX_DIGITS:
        return int(text)  # nearly all of a long list
    if text in _WORDS:
        return _WORDS[text]
    if _NOT_FINITE.fullmatch(text):
        return math.inf
    is_int = _INT.fullmatch(text)
    if not is_int and not _FLOAT.fullmatch(text):
        return text
    if len(text) > MAX_DIGITS:
        return math.inf
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)) if is_int else float(text)


def _start(event: yaml.Event) -> Position:
    mark: Any = event.start_mark  # always there on an event of the parser
    return Position(mark.line + 1, mark.column + 1)


def from_mapping(mapping: Mapping[str, Any]) -> tuple[Source, list[Problem]]:
    """A Python mapping as the data of a definition, copied, and its problems, as :func:`scan`."""
    positions: dict[KeyPath, Position] = {}
    problems: list[Problem] = []

    def refuse(path: KeyPath, place: Position, what: str, fix: str) -> Refused:
        problems.append(Problem(path, place, ColltoolError(what, where=dotted(path), fix=fix)))
        return Refused()

    def plain(value: Any, path: KeyPath) -> Any:
        positions[path] = place = Position(len(positions), 0)  # there is no line: the order tells
        if len(positions) > MAX_VALUES or len(path) > MAX_NESTING:
            what, fix = _TOO_MANY if len(positions) > MAX_VALUES else _TOO_DEEP
            raise ColltoolError(what, fix=fix)
        if isinstance(value, Mapping):
            found: dict[str, Any] = {}
            for key, inner in value.items():
                inside = (*path, str(key))
                said = f"the key {shown(key)} is not text"
                found[str(key)] = (
                    plain(inner, inside)
                    if isinstance(key, str)
                    else refuse(inside, place, said, "a key is text")
                )
            return found
        if hasattr(value, "tolist") and hasattr(value, "dtype"):  # numpy's numbers and arrays
            value = value.tolist()
        if isinstance(value, list | tuple):
            return [plain(inner, (*path, index)) for index, inner in enumerate(value)]
        number = isinstance(value, int | float)
        # NaN is not
        if value is None or isinstance(value, str | bool) or (number and abs(value) < _LARGEST):
            return value
        what = (
            f"{shown(value)} is not a finite number"
            if number
            else f"no definition holds {shown(value)}"
        )
        return refuse(
            path,
            place,
            what,
            "a definition holds text, finite numbers, true, false, lists and mappings",
        )

    data = plain(mapping, ())
    return Source("", data, positions, positions), problems
