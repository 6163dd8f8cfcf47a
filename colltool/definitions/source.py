"""YAML text to plain data with the line and column of every key and value; the only module that reads yaml.

Scalars resolve as in the YAML 1.2 core schema: ``yes``, ``on`` and ``12:30`` are text, ``1e9`` is a number. Tags, anchors,
aliases, merge keys, second documents and repeated keys are refused. Reading parser events rather than nodes refuses a file that
nests too deep before anything recurses, and shows anchors even if unused.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from colltool.base.errors import ColltoolError, ManyErrors
from colltool.base.inputs import BOUNDS
from colltool.base.quoting import clipped, printable, shown
from colltool.definitions.source_map import (
    MAX_NESTING,
    MAX_VALUES,
    MORE,
    MOST,
    TOO_DEEP,
    TOO_MANY,
    KeyPath,
    Position,
    Problem,
    Refused,
    Source,
    dotted,
    place_text,
)

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML built without libyaml: the same events, slower
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

MAX_DIGITS = 100  # a longer number is no quantity, and costs quadratic time to read

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_HINTS = (
    ("mapping values are not allowed", "check the indentation; a text that contains ': ' needs quotes"),
    ("cannot start any token", "a text that starts with this character needs quotes"),
    ("expected key", "check the indentation: the keys of one mapping start in the same column"),
    ("block end", "check the indentation: the keys of one mapping start in the same column"),
    ("end of stream", "close the quote or bracket"),
    ("expected ':'", "write 'key: value'"),
    ("expected ','", "close the bracket, or separate the items with commas"),
)


def scan(text: str, name: str) -> tuple[Source, list[Problem]]:
    """The data of a file with the place of every part, and the problems; a refused value is ``Refused`` in the data.

    Raises ManyErrors beyond ``MOST`` problems, ColltoolError for what is no YAML, empty, no mapping, too deep or too large.
    """
    builder = _Builder(name)
    data = builder.document(text)
    start = builder.positions.get((), Position(1, 1))
    if data is None:
        what = "the file is empty, expected keys and values"
        raise ColltoolError(what, where=place_text(name, start), fix="write 'key: value'")
    if not isinstance(data, dict):
        if builder.problems:
            raise builder.problems[0].error
        fix = "write 'key: value'"
        raise ColltoolError(f"expected keys and values, got {shown(data)}", where=place_text(name, start), fix=fix)
    return Source(name, data, builder.positions, builder.keys), sorted(builder.problems, key=lambda problem: problem.position)


def read_value(text: str, where: str) -> Any:
    """One value as a file would have it: ``4``, ``1us``, ``[8, 8, 4]``."""
    builder = _Builder(where, place=False)
    value = builder.document(text)
    if builder.problems:
        raise builder.problems[0].error
    return value


class _Builder:
    def __init__(self, name: str, *, place: bool = True) -> None:
        self.name = name
        self.place = place
        self.positions: dict[KeyPath, Position] = {}
        self.keys: dict[KeyPath, Position] = {}
        self.problems: list[Problem] = []
        self.events: Iterator[yaml.Event] = iter(())

    def document(self, text: str) -> Any:
        text = text.removeprefix("\ufeff")
        self._check_text(text)
        self.events = iter(yaml.parse(text, Loader=_Loader))
        data = None
        try:
            for event in self.events:
                if isinstance(event, yaml.DocumentStartEvent):
                    if () in self.positions:
                        raise self._error(_start(event), "a second document starts here", "one file holds one document")
                    data = self._value(next(self.events), ())
        except yaml.MarkedYAMLError as error:
            raise self._syntax_error(error, text) from error
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: an escape such as "\\UFFFFFFFF"
            raise self._error(Position(1, 1), f"not valid YAML: {printable(str(error))}") from error
        return data

    def _check_text(self, text: str) -> None:
        bound = BOUNDS["definition"]
        if len(text) > bound.limit:
            raise ColltoolError(f"is larger than {bound.limit // 2**20} MiB: {bound.larger}", where=self.name, fix=bound.smaller)
        if found := _UNPRINTABLE.search(text):
            place = _position_at(text, found.start())
            raise self._error(place, f"not a text file: it holds the control character U+{ord(found[0]):04X}", "remove it")

    def _value(self, event: yaml.Event, path: KeyPath) -> Any:
        self.positions[path] = place = _start(event)
        if len(self.positions) > MAX_VALUES:
            raise self._error(place, *TOO_MANY)
        if isinstance(event, yaml.ScalarEvent) and event.anchor is None and event.tag is None:
            return self._scalar(event, path)  # nearly all events
        refused = self._refuse_extras(event, path)
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event, path)
        elif isinstance(event, yaml.AliasEvent):
            value = None
        elif len(path) >= MAX_NESTING:
            raise self._error(place, *TOO_DEEP)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence(path)
        else:
            value = self._mapping(path)
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
            child = (*path, key)
            if key in data:
                first = self.keys[child]
                self._refuse(child, _start(event), f"key {shown(key)} is repeated{self._first_at(first)}", "keep one of the two")
            self.keys[child] = _start(event)
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
        if event.style:
            return str(event.value)
        if event.value == "<<":
            self._refuse((*path, "<<"), place, "merge keys ('<<') are not supported", "write the keys out")
            return None
        value = _resolve(event.value)
        if isinstance(value, str):
            return value
        if event.value == "":
            self._refuse(path, place, "a value without a key", "write 'key: value'")
        else:
            text = clipped(event.value)
            self._refuse((*path, event.value), place, f"the key {text} is not text", f"""quote it: "{text}":""")
        return None

    def _scalar(self, event: yaml.ScalarEvent, path: KeyPath) -> Any:
        if event.style:
            return event.value
        value = _resolve(event.value)
        if isinstance(value, float) and not math.isfinite(value):
            text = clipped(event.value)
            self._refuse(path, _start(event), f"{text} is not a finite number", "write a number, or quote it if it is text")
            return Refused()
        return value

    def _refuse_extras(self, event: yaml.Event, path: KeyPath) -> bool:
        """Report an alias, anchor or tag; True when the value cannot be known without it."""
        place = _start(event)
        if isinstance(event, yaml.AliasEvent):
            self._refuse(path, place, f"aliases ('*{clipped(str(event.anchor))}') are not supported", "write the value out")
            return True
        if anchor := getattr(event, "anchor", None):
            what = f"anchors ('&{clipped(anchor)}') are not supported"
            self._refuse(path, place, what, "remove it; write values out where needed")
        if tag := getattr(event, "tag", None):
            fix = "remove it; quote the value if it is text"
            self._refuse(path, place, f"tags ('{clipped(tag.replace('tag:yaml.org,2002:', '!!'))}') are not supported", fix)
            return True
        return False

    def _refuse(self, path: KeyPath, place: Position, what: str, fix: str) -> None:
        key_path = dotted(path)
        self.problems.append(Problem(path, place, self._error(place, f"{key_path}: {what}" if key_path else what, fix)))
        if len(self.problems) > MOST:
            told = [problem.error for problem in sorted(self.problems[:MOST], key=lambda problem: problem.position)]
            raise ManyErrors([*told, ColltoolError(MORE, where=printable(self.name))])

    def _error(self, place: Position, what: str, fix: str = "") -> ColltoolError:
        return ColltoolError(what, where=place_text(self.name, place) if self.place else self.name, fix=fix)

    def _first_at(self, first: Position) -> str:
        return f", first given at {place_text(self.name, first)}" if self.place else ""

    def _syntax_error(self, error: yaml.MarkedYAMLError, text: str) -> ColltoolError:
        mark: Any = error.problem_mark or error.context_mark
        place = Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)
        problem = printable(" ".join(filter(None, (error.problem, error.context))))
        line = text.split("\n")[place.line - 1 : place.line]
        if line and "\t" in line[0][: place.column]:
            return self._error(place, f"not valid YAML: {problem}", "indent with spaces, not tabs")
        fix = next((hint for part, hint in _HINTS if part in problem), "")
        return self._error(place, f"not valid YAML: {problem}", fix)


def _resolve(text: str) -> Any:
    """A plain scalar by the YAML 1.2 core schema; infinity for every number that is not finite: ``.inf``, ``.nan``, ``1e999``."""
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
    if not is_int:
        return float(text)
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


def _start(event: yaml.Event) -> Position:
    mark: Any = event.start_mark  # always there on an event of the parser
    return Position(mark.line + 1, mark.column + 1)


def _position_at(text: str, offset: int) -> Position:
    before = text[:offset]
    return Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
