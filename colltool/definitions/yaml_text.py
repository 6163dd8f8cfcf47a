"""YAML text to plain data with the place of every key and value; the only module of definitions
that reads yaml.

Scalars resolve as in the YAML 1.2 core schema: ``yes``, ``on`` and ``12:30`` are text, ``1e9`` is a
number; a version is text as it is written. Tags, anchors, aliases, merge keys, second documents and
repeated keys are refused. Reading parser events rather than nodes refuses a file that nests too
deep before anything recurses, and shows anchors even if unused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import yaml

from colltool.base.errors import ColltoolError, ManyErrors, clipped, printable, quote
from colltool.base.files import BOUNDS
from colltool.definitions.source import (
    MAX_DIGITS,
    MAX_ERRORS,
    MAX_NESTING,
    MAX_VALUES,
    MORE_ERRORS,
    TOO_DEEP,
    TOO_MANY,
    KeyPath,
    Position,
    Problem,
    Refused,
    dotted,
    place_text,
)

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML built without libyaml: the same events, slower
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

# Keys whose values are words: version 2.30 is not the number 2.3.
WORD_KEYS = frozenset({"version"})

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# what YAML allows in no text: control characters, surrogates, and two at the end of the plane
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_SAME_COLUMN = "check the indentation: the keys of one mapping start in the same column"
# A part of the parser's message, and the fix; the first that matches counts.
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


class YamlReader:
    """Reads one document; ``positions``, ``keys`` and ``problems`` are filled by :meth:`document`.

    Args:
        name: of the file, for errors.
        with_lines: whether errors have a line and column.
        key: the key whose value the whole document is, if any.
    """

    def __init__(self, name: str, *, with_lines: bool = True, key: str = "") -> None:
        self.name = name
        self.with_lines = with_lines
        self.key = key
        self.positions: dict[KeyPath, Position] = {}
        self.keys: dict[KeyPath, Position] = {}
        self.problems: list[Problem] = []
        self.events: Iterator[yaml.Event] = iter(())

    def document(self, text: str) -> Any:
        """Return the data of the only document of a text; values that were refused are
        ``Refused``."""
        text = text.removeprefix("\ufeff")
        self._check_text(text)
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
        # the last two: an escape such as "\UFFFFFFFF"
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            raise self.error(Position(1, 1), f"not valid YAML: {printable(str(error))}") from error
        return data

    def _check_text(self, text: str) -> None:
        """Raise an error for a text that is too large or has control characters."""
        bound = BOUNDS["definition"]
        if len(text) > bound.limit:
            raise ColltoolError(
                f"is larger than {bound.limit // 2**20} MiB: {bound.larger}",
                where=self.name,
                fix=bound.smaller,
            )
        found = _UNPRINTABLE.search(text)
        if found:
            before = text[: found.start()]
            place = Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
            raise self.error(
                place,
                f"not a text file: it holds the control character U+{ord(found[0]):04X}",
                "remove it",
            )

    def _value(self, event: yaml.Event, path: KeyPath) -> Any:
        """The value that starts with an event, and its position."""
        place = self.positions[path] = _start(event)
        if len(self.positions) > MAX_VALUES:
            raise self.error(place, *TOO_MANY)
        refused = self._refuse_extras(event, path)
        if isinstance(event, yaml.CollectionStartEvent) and len(path) >= MAX_NESTING:
            raise self.error(place, *TOO_DEEP)
        value: Any = None
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event, path)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence(path)
        elif isinstance(event, yaml.MappingStartEvent):
            value = self._mapping(path)
        return Refused() if refused else value

    def _sequence(self, path: KeyPath) -> list[Any]:
        """The items up to the end of a list."""
        items: list[Any] = []
        for event in self.events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self._value(event, (*path, len(items))))
        return items

    def _mapping(self, path: KeyPath) -> dict[str, Any]:
        """The keys and values up to the end of a mapping; a key that stands twice is a problem."""
        data: dict[str, Any] = {}
        for event in self.events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key = self._key(event, path)
            if key is None:
                # Its value is read all the same, for the errors in it and to reach the next key.
                self._value(next(self.events), (*path, ""))
                continue
            child = (*path, key)
            if key in data:
                self._refuse_repeated(child, _start(event))
            self.keys[child] = _start(event)
            data[key] = self._value(next(self.events), child)
        return data

    def _refuse_repeated(self, path: KeyPath, place: Position) -> None:
        """Note that a key stands twice in a mapping; ``place``: of the second."""
        first = ""
        if self.with_lines:
            first = f", first given at {place_text(self.name, self.keys[path])}"
        self._refuse(
            path, place, f"key {quote(path[-1])} is repeated{first}", "keep one of the two"
        )

    def _key(self, event: yaml.Event, path: KeyPath) -> str | None:
        """Return a key; None where it was refused."""
        place = _start(event)
        if not isinstance(event, yaml.ScalarEvent):
            if not isinstance(event, yaml.AliasEvent):
                self._refuse(path, place, "a list or mapping cannot be a key", "a key is text")
            # No path of a file has "": what stands below a refused key is never looked up.
            self._value(event, (*path, ""))
            return None
        if self._refuse_extras(event, (*path, event.value)):
            return None
        if event.style:  # quoted
            return str(event.value)
        value = _resolve(event.value)
        if value == "<<":
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
        """A plain value: text, or what YAML makes of it, as far as colltool takes that."""
        text: str = event.value
        value = text if event.style else _resolve(text)
        key = path[-1] if path else self.key
        if key in WORD_KEYS and type(value) in (int, float):
            return text
        if isinstance(value, float) and not math.isfinite(value):
            self._refuse(
                path,
                _start(event),
                f"{clipped(text)} is not a finite number",
                "write a number, or quote it if it is text",
            )
            return Refused()
        return value

    def _refuse_extras(self, event: yaml.Event, path: KeyPath) -> bool:
        """Report an alias, anchor or tag; return True if the value cannot be known without it."""
        anchor = getattr(event, "anchor", None)
        tag = getattr(event, "tag", None)
        if anchor is None and tag is None:  # nearly all events
            return False
        place = _start(event)
        if isinstance(event, yaml.AliasEvent):
            what = f"aliases ('*{clipped(str(anchor))}') are not supported"
            self._refuse(path, place, what, "write the value out")
            return True
        if anchor:
            what = f"anchors ('&{clipped(anchor)}') are not supported"
            self._refuse(path, place, what, "remove it; write values out where needed")
        if tag:
            short = clipped(tag.replace("tag:yaml.org,2002:", "!!"))
            what = f"tags ('{short}') are not supported"
            self._refuse(path, place, what, "remove it; quote the value if it is text")
        return bool(tag)

    def _refuse(self, path: KeyPath, place: Position, what: str, fix: str) -> None:
        """Note a problem; raise all of them once there are more than ``MAX_ERRORS``."""
        whole = f"{dotted(path)}: {what}" if dotted(path) else what
        self.problems.append(Problem(path, place, self.error(place, whole, fix)))
        if len(self.problems) > MAX_ERRORS:
            worth_reading = sorted(self.problems[:MAX_ERRORS], key=attrgetter("position"))
            errors = [problem.error for problem in worth_reading]
            raise ManyErrors([*errors, ColltoolError(MORE_ERRORS, where=printable(self.name))])

    def error(self, place: Position, what: str, fix: str = "") -> ColltoolError:
        """Return an error at a place of this text."""
        where = place_text(self.name, place) if self.with_lines else self.name
        return ColltoolError(what, where=where, fix=fix)

    def _syntax_error(self, error: yaml.MarkedYAMLError, text: str) -> ColltoolError:
        """The error for text that is no YAML, with a fix where the parser's words tell one."""
        mark: Any = error.problem_mark or error.context_mark
        place = Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)
        problem = printable(" ".join(filter(None, (error.problem, error.context))))
        # libyaml from 0.2.6 on has a limit of its own, which comes before ours
        if "maximum nesting depth" in problem:
            return self.error(place, *TOO_DEEP)
        fix = next((hint for part, hint in _HINTS if part in problem), "")
        line = text.split("\n")[place.line - 1 : place.line]
        if line and "\t" in line[0][: place.column]:
            fix = "indent with spaces, not tabs"
        return self.error(place, f"not valid YAML: {problem}", fix)


def _resolve(text: str) -> Any:
    """Return the value of a plain scalar by the YAML 1.2 core schema; infinity for every number
    that is not finite (``.inf``, ``.nan``, ``1e999``) or has too many digits: the caller refuses
    them alike."""
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
    """Where an event starts; the parser counts lines and columns from 0."""
    mark: Any = event.start_mark  # always there on an event of the parser
    return Position(mark.line + 1, mark.column + 1)
