"""The one reader of definitions: YAML or a mapping becomes a pydantic model, or a report with every
error at its place.

    reading = read(LadderFile, text, "mine.yaml", ["size=1MB"])
    if reading.is_valid(("rungs",)):
        ...  # checks beyond the model add what they find with reading.refuse
    ladder = reading.result()  # the model, or ManyErrors

What-if overrides, ``KEY=VALUE`` options or a mapping, are applied to the data before validation
(:mod:`colltool.definitions.overrides`). An error about a value that an override set names the override
instead of the file.

The mistakes that pydantic finds are ``Finding``s of ``error_messages``; the parser's are ``Problem``s. Both
become errors with a position (line and column), by which they are sorted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from colltool.base.errors import (
    MARKS,
    ColltoolError,
    ManyErrors,
    argument_text,
    clipped,
    printable,
)
from colltool.definitions.overrides import (
    LONGEST_OVERRIDE,
    Override,
    Overrides,
    Requested,
    Setter,
    Shorthand,
    requested,
)
from colltool.definitions.source import (
    MAX_ERRORS,
    MORE_ERRORS,
    Finding,
    KeyPath,
    Position,
    Problem,
    Refused,
    Source,
    dotted,
    from_mapping,
    scan,
    value_at,
)

M = TypeVar("M", bound=BaseModel)

# The line of errors about overrides, whose column is the override's number: they sort behind those of the
# file. Overrides that could not be set at all come one line further.
_AFTER_THE_FILE = 2**31


class Reading(Generic[M]):
    """A definition after validation, and the errors so far.

    Attributes:
        source: the definition as it was parsed, with the place of everything.
        data: with overrides applied.
        applied: the overrides, those that the definition itself states (``from_file``) first.
        overrides: of the others key and value as text, the last of each key.
        model: None if validation failed.
    """

    def __init__(
        self,
        kind: type[M],
        source: Source,
        data: dict[str, Any],
        applied: list[Override],
        from_file: int = 0,
    ) -> None:
        self.source = source
        self.data = data
        self.applied = applied
        last_of_each = {override.key: override.value for override in applied[from_file:]}
        self.overrides = tuple(last_of_each.items())
        self.model: M | None = None
        # each error with its line and column
        self._placed: list[tuple[tuple[int, int], ColltoolError]] = []
        # paths of the values that errors are about
        self._refused: set[KeyPath] = set()
        # every refused path, and those of the mappings and lists around it
        self._with_errors: set[KeyPath] = set()
        try:
            self.model = kind.model_validate(data)
        except ValidationError as error:
            # imported only for files that have mistakes
            from colltool.definitions.error_messages import findings

            for finding in findings(kind, error, data):
                path = finding.path
                around = (value_at(path[:end], data) for end in range(len(path) + 1))
                # what the parser refused is reported already
                if not any(isinstance(value, Refused) for value in around):
                    self._add(finding)

    def is_valid(self, path: KeyPath) -> bool:
        """Whether nothing at, above or below a path was refused, so that its data has the types of
        the model."""
        above = (path[:end] for end in range(len(path)))
        # a path with an error at or below it is in ``_with_errors``
        return path not in self._with_errors and self._refused.isdisjoint(above)

    def refuse(self, path: KeyPath, what: str, fix: str = "", *, about_key: bool = False) -> None:
        """Add an error that the model cannot find."""
        self._add(Finding(path, what, fix, about_key))

    def add_error(self, path: KeyPath, error: ColltoolError) -> None:
        """Add an error that has its own place, such as in another file named here."""
        self._put(path, self.source.position(path), error)

    @property
    def has_enough_errors(self) -> bool:
        """Whether further errors would not be printed."""
        return len(self._placed) > MAX_ERRORS

    def result(self) -> M:
        """Return the model; raises ManyErrors, in the order of the file, then of the overrides, if
        there are any errors."""
        if self._placed:
            self._placed.sort(key=lambda placed: placed[0])
            errors = [error for _, error in self._placed]
            if self.has_enough_errors:
                errors[MAX_ERRORS:] = [
                    ColltoolError(MORE_ERRORS, where=printable(self.source.name))
                ]
            raise ManyErrors(errors)
        assert self.model is not None  # nothing was refused
        return self.model

    def _put(self, path: KeyPath | None, position: tuple[int, int], error: ColltoolError) -> None:
        """Add an error at a position; ``path`` None: it is about no value of the data."""
        self._placed.append((position, error))
        if path is not None:
            self._refused.add(path)
            self._with_errors |= {path[:end] for end in range(len(path) + 1)}

    def _add(self, finding: Finding) -> None:
        """Report a mistake at the override that set the value, else at the value's line and column."""
        path = finding.path
        key = finding.about_key
        what = printable(finding.what)
        fix = _printable_fix(finding.fix)
        number = self._override_of(path)
        if number is not None:
            override = self.applied[number]
            where = override.where
            if path != override.path:
                where += f": {dotted(path)}"
            place = Position(_AFTER_THE_FILE, number)
            self._put(path, place, ColltoolError(what, where=where, fix=fix))
            return
        # a validator of several keys may have compared the file's value with one of an override
        part = path if finding.part is None else finding.part
        within = [override for override in self.applied if override.path[: len(part)] == part]
        if within:
            texts = []
            for override in within:
                texts.append(clipped(f"{override.key}={override.value}", LONGEST_OVERRIDE))
            listed = clipped(", ".join(texts), LONGEST_OVERRIDE)
            what += f" (with {argument_text(within[0].argument, texts, text=listed)})"
        where = self.source.at(path, key=key)
        error = ColltoolError(what, where=where, fix=fix)
        self._put(path, self.source.position(path, key=key), error)

    def _override_of(self, path: KeyPath) -> int | None:
        """The number of the last override that set the value at a path or around it, or made a mapping
        there which the file does not have; None if none did."""
        for number in reversed(range(len(self.applied))):
            set_path = self.applied[number].path
            is_made = set_path[: len(path)] == path and path not in self.source.positions
            if is_made or path[: len(set_path)] == set_path:
                return number
        return None


def _printable_fix(fix: str) -> str:
    """Escape control characters, and keep the marks of
    :func:`colltool.base.errors.argument_text`."""
    pieces = re.split(f"([{MARKS}])", fix)
    return "".join(piece if piece in MARKS else printable(piece) for piece in pieces)


def read(
    kind: type[M],
    content: str | Mapping[str, Any],
    name: str = "",
    overrides: Overrides = (),
    short: Shorthand | None = None,
) -> Reading[M]:
    """Read and validate YAML text or a mapping; :meth:`Reading.result` raises what is wrong in it. Raises at
    once only for what is no YAML, empty, no mapping, too deep or too large.

    Args:
        kind: the model.
        name: of the file, for errors; empty for a mapping.
        short: what keys of overrides may omit.
    """
    return read_source(kind, *sourced(content, name), overrides, short)


def sourced(content: str | Mapping[str, Any], name: str = "") -> tuple[Source, list[Problem]]:
    """Return the data of YAML text or a mapping before validation, and its problems."""
    return from_mapping(content) if isinstance(content, Mapping) else scan(content, name)


def read_source(
    kind: type[M],
    source: Source,
    problems: Sequence[Problem],
    overrides: Overrides = (),
    short: Shorthand | None = None,
    stated: Sequence[Requested] = (),
) -> Reading[M]:
    """Validate what was parsed, as :func:`read` does.

    Args:
        problems: of the parser, reported with the errors of validation.
        short: what keys of overrides may omit.
        stated: overrides that are part of the definition, set before the others.
    """
    setter = Setter(kind, source.data, short or Shorthand())
    setter.apply(stated, read=False)
    from_file = len(setter.applied)
    setter.apply(requested(overrides, setter.short.argument))
    reading = Reading(kind, source, setter.data, setter.applied, from_file)
    for problem in problems:
        reading._put(problem.path, problem.position, problem.error)
    for number, error in enumerate(setter.unusable):
        reading._put(None, Position(_AFTER_THE_FILE + 1, number), error)
    return reading
