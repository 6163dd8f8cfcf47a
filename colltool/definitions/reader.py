"""The one reader of definitions: YAML or a mapping becomes a pydantic model, or a report with every error at its place.

reading = read(LadderFile, text, "mine.yaml", ["size=1MB"])
if reading.sound(("rungs",)): ...           # checks beyond the model add what they find with reading.refuse
ladder = reading.result()                   # the model, or ManyErrors
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from colltool.base.errors import MARKS, ColltoolError, ManyErrors, given
from colltool.base.quoting import clipped, printable
from colltool.definitions.overrides import MOST_SHOWN, Override, Overrides, Shorthand, apply
from colltool.definitions.source import scan
from colltool.definitions.source_map import (
    MORE,
    MOST,
    Finding,
    KeyPath,
    Position,
    Refused,
    Source,
    dotted,
    from_mapping,
    value_at,
)

M = TypeVar("M", bound=BaseModel)

_AFTER_THE_FILE = 2**31  # the line of what an override did


class _PlacedError(NamedTuple):
    order: tuple[int, int]
    error: ColltoolError


class Reading(Generic[M]):
    """A definition after validation: its ``source``, the ``data`` with overrides applied, and the errors so far.

    ``overrides``: key and value as text, the last of each key. ``model``: None if validation failed.
    """

    def __init__(self, kind: type[M], source: Source, data: dict[str, Any], applied: list[Override]) -> None:
        self.source, self.data, self.applied = source, data, applied
        self.overrides = tuple({one.key: one.value for one in applied}.items())
        self.model: M | None = None
        self._placed: list[_PlacedError] = []
        self._refused: set[KeyPath] = set()
        self._around: set[KeyPath] = set()
        try:
            self.model = kind.model_validate(data)
        except ValidationError as error:
            from colltool.definitions.error_messages import findings  # the words of mistakes, for files that have any

            for finding in findings(kind, error, data):
                if not self._covered(finding.path):
                    self._add(finding)

    def sound(self, path: KeyPath) -> bool:
        """Whether nothing at, above or below a path was refused, so that its data has the types of the model."""
        return path not in self._around and not any(path[:end] in self._refused for end in range(len(path)))

    def refuse(self, path: KeyPath, what: str, fix: str = "", *, about_key: bool = False) -> None:
        """Add an error that the model cannot find."""
        self._add(Finding(path, what, fix, about_key))

    def pass_on(self, path: KeyPath, error: ColltoolError) -> None:
        """Add an error that has its own place, such as in another file named here."""
        self._put(path, self.source.position(path), error)

    @property
    def enough(self) -> bool:
        """Whether further errors would not be printed."""
        return len(self._placed) > MOST

    def result(self) -> M:
        """The model; raises ManyErrors, in the order of the file, then of the overrides, if anything was refused."""
        if self._placed:
            errors = [one.error for one in sorted(self._placed, key=lambda one: one.order)]
            more = [ColltoolError(MORE, where=printable(self.source.name))] if len(errors) > MOST else []
            raise ManyErrors(errors[:MOST] + more)
        assert self.model is not None  # nothing was refused
        return self.model

    def _put(self, path: KeyPath | None, position: tuple[int, int], error: ColltoolError) -> None:
        self._placed.append(_PlacedError(position, error))
        if path is not None:
            self._refused.add(path)
            self._around |= {path[:end] for end in range(len(path) + 1)}

    def _covered(self, path: KeyPath) -> bool:
        """Whether the parser already refused a value here or around it."""
        return any(isinstance(value_at(path[:end], self.data), Refused) for end in range(len(path) + 1))

    def _add(self, finding: Finding) -> None:
        """Report at the override that set the value, else at its line and column."""
        path, what, fix = finding.path, printable(finding.what), _printable(finding.fix)
        for number, override in reversed(list(enumerate(self.applied))):
            above = override.path[: len(path)] == path
            if path[: len(override.path)] == override.path or (above and path not in self.source.positions):
                where = f"{override.where}: {dotted(path)}" if path != override.path else override.where
                self._put(path, Position(_AFTER_THE_FILE, number), ColltoolError(what, where=where, fix=fix))
                return
        part = path if finding.part is None else finding.part
        within = [override for override in self.applied if override.path[: len(part)] == part]
        if within:
            made = [clipped(f"{one.key}={one.value}", MOST_SHOWN) for one in within]
            what += f" (with {given(within[0].argument, made, text=clipped(', '.join(made), MOST_SHOWN))})"
        error = ColltoolError(what, where=self.source.at(path, key=finding.about_key), fix=fix)
        self._put(path, self.source.position(path, key=finding.about_key), error)


def _printable(text: str) -> str:
    """Escapes control characters, but keeps the marks of :func:`colltool.base.errors.given`."""
    return "".join(piece if piece in MARKS else printable(piece) for piece in re.split(f"([{MARKS}])", text))


def read(
    kind: type[M], content: str | Mapping[str, Any], name: str = "", overrides: Overrides = (), short: Shorthand | None = None
) -> Reading[M]:
    """Read YAML text or a mapping; raises at once only for what is no YAML, empty, no mapping, too deep or too large."""
    source, problems = from_mapping(content) if isinstance(content, Mapping) else scan(content, name)
    data, applied, unusable = apply(kind, source.data, overrides, short or Shorthand())
    reading = Reading(kind, source, data, applied)
    for problem in problems:
        reading._put(problem.path, problem.position, problem.error)
    for number, error in enumerate(unusable):
        reading._put(None, Position(_AFTER_THE_FILE + 1, number), error)
    return reading


FILES = {
    "fabric": "A fabric: its tiers, innermost first, with the latency and bandwidth of each.",
    "ladder": "A ladder: a list of prices to follow, all at one size.",
    "layout": "A layout: which ranks form which groups, what each runs, and where each rank sits.",
    "job": "A job: what a training step computes, how its ranks are cut, what it sends and what hides.",
}


def json_schema(model: type[BaseModel], word: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one of :data:`FILES`, for editors.

    It covers keys, types, bounds and units; relations between values (nested groups, distinct names) only the reader checks.
    """
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:colltool:{word}:1",
        "title": f"colltool {word}",
        "description": FILES[word],
    }
    return head | {key: value for key, value in model.model_json_schema(by_alias=True).items() if key not in head}
