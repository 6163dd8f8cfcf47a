"""The one reader of definitions: YAML or a mapping becomes a pydantic model, or a report with every
error at its place.

    reading = read(LadderFile, text, "mine.yaml", ["size=1MB"])
    if reading.is_valid(("rungs",)):
        ...  # checks beyond the model add what they find with reading.refuse
    ladder = reading.result()  # the model, or ManyErrors

What-if overrides, ``KEY=VALUE`` options or a mapping, are applied to the data before validation, by
``_Setter``. An error about a value that an override set names the override instead of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from copy import deepcopy
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from colltool.base.errors import (
    MARKS,
    ColltoolError,
    ManyErrors,
    argument_text,
    clipped,
    nearest,
    printable,
    quote,
)
from colltool.definitions.field_types import keys_at, place_at
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
    read_value,
    scan,
    value_at,
)

M = TypeVar("M", bound=BaseModel)

# ``KEY=VALUE`` texts, of which a later one wins; or values by key, where a text is parsed as YAML.
Overrides = Sequence[str] | Mapping[str, Any]

_SHAPE = re.compile("[0-9]+(x[0-9]+)+")
# Characters of an override that an error repeats.
_LONGEST_OVERRIDE = 200
# The line of errors about overrides, so that they sort behind those of the file.
_AFTER_THE_FILE = 2**31


class Override(NamedTuple):
    """An override that was applied; ``where`` is its place for errors, ``argument`` the argument
    that it came with."""

    where: str
    key: str
    value: str
    path: KeyPath
    argument: str = "overrides"


class Shorthand(NamedTuple):
    """What a key may omit: with ``items="tiers"``, ``nvlink.alpha`` is ``tiers.nvlink.alpha``.

    ``item``: the noun for one of the items; ``example`` and ``argument``: an override and the
    argument that takes it. These three are for errors.
    """

    items: str = ""
    item: str = ""
    example: str = "KEY=VALUE"
    argument: str = "overrides"


class Reading(Generic[M]):
    """A definition after validation: its ``source``, the ``data`` with overrides applied, and the
    errors so far.

    ``overrides``: key and value as text, the last of each key, without the first ``from_file``,
    which the definition itself states. ``model``: None if validation failed.
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
        self._placed: list[tuple[tuple[int, int], ColltoolError]] = []
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
                parents = (value_at(path[:end], data) for end in range(len(path) + 1))
                # what the parser refused is reported already
                if not any(isinstance(value, Refused) for value in parents):
                    self._add(finding)

    def is_valid(self, path: KeyPath) -> bool:
        """Whether nothing at, above or below a path was refused, so that its data has the types of
        the model."""
        above = (path[:end] for end in range(len(path)))
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
        """Add an error at a position; no path: it is about no value of the data."""
        self._placed.append((position, error))
        if path is not None:
            self._refused.add(path)
            self._with_errors |= {path[:end] for end in range(len(path) + 1)}

    def _add(self, finding: Finding) -> None:
        """Report at the override that set the value, else at its line and column."""
        path, key = finding.path, finding.about_key
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
            made = [f"{override.key}={override.value}" for override in within]
            made = [clipped(text, _LONGEST_OVERRIDE) for text in made]
            listed = clipped(", ".join(made), _LONGEST_OVERRIDE)
            what += f" (with {argument_text(within[0].argument, made, text=listed)})"
        where = self.source.at(path, key=key)
        error = ColltoolError(what, where=where, fix=fix)
        self._put(path, self.source.position(path, key=key), error)

    def _override_of(self, path: KeyPath) -> int | None:
        """Number of the last override that set the value at a path, or made what is below it."""
        for number in reversed(range(len(self.applied))):
            set_path = self.applied[number].path
            below = set_path[: len(path)] == path and path not in self.source.positions
            if below or path[: len(set_path)] == set_path:
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
    """Read YAML text or a mapping; raises at once only for what is no YAML, empty, no mapping, too
    deep or too large."""
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
    stated: Sequence[tuple[str, str, Any]] = (),
) -> Reading[M]:
    """Validate what was parsed, as :func:`read` does.

    ``stated``: overrides that are part of the definition: the place for errors, key and value of
    each.
    """
    setter = _Setter(kind, source.data, short or Shorthand())
    setter.apply(stated, read=False)
    from_file = len(setter.applied)
    setter.apply(_pairs(overrides, setter.short.argument))
    reading = Reading(kind, source, setter.data, setter.applied, from_file)
    for problem in problems:
        reading._put(problem.path, problem.position, problem.error)
    for number, error in enumerate(setter.unusable):
        reading._put(None, Position(_AFTER_THE_FILE + 1, number), error)
    return reading


# What each kind of file describes; the description of its JSON schema.
FILES = {
    "fabric": "A fabric: its tiers, innermost first, with the latency and bandwidth of each.",
    "ladder": "A ladder: a list of prices to follow, all at one size.",
    "machine": (
        "Measured rows of one machine, by which its prices are corrected; colltool calibrate writes"
        " them."
    ),
    "layout": "A layout: which ranks form which groups, what each runs, and where each rank sits.",
    "algorithm": "An algorithm: who sends which chunk to whom, step by step.",
    "job": (
        "A job: what a training step computes, how its ranks are cut, what it sends and what hides."
    ),
    "library": (
        "A library: kernels as laws with measured numbers, and which of them it takes at which"
        " size."
    ),
}


def json_schema(model: type[BaseModel], word: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one of :data:`FILES`, for editors.

    It covers keys, types, bounds and units; relations between values (nested groups, distinct
    names) only the reader checks.
    """
    schema = model.model_json_schema(by_alias=True)
    for part in [schema, *schema.get("$defs", {}).values()]:
        if "description" in part:
            part["description"] = _unwrapped(part["description"])
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:colltool:{word}:1",
        "title": f"colltool {word}",
        "description": FILES[word],
    }
    return head | {key: value for key, value in schema.items() if key not in head}


def _unwrapped(description: str) -> str:
    """Paragraphs of a docstring as one line each: an editor breaks them where its window ends."""
    paragraphs = description.split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def texts_of(overrides: Any) -> list[str]:
    """Overrides that are no mapping as a list; refuses anything but texts."""
    if overrides is None:
        return []
    is_list = isinstance(overrides, Sequence | Set | Iterator)
    if isinstance(overrides, str | bytes) or not is_list:
        raise _no_list(overrides)
    options = list(overrides)
    for option in options:
        if not isinstance(option, str):
            raise _no_list(option)
    return options


def _no_list(found: Any) -> ColltoolError:
    return ColltoolError(
        f"expected a list of KEY=VALUE, got {quote(found)}",
        argument="overrides",
        fix=f"write {argument_text('overrides', ['nvlink.alpha=1us'])}, or a mapping of values by key",
    )


def shape_as_list(value: str) -> str:
    """Return ``8x8x4`` as the list ``[8, 8, 4]``; anything else as it is."""
    if _SHAPE.fullmatch(value.strip()):
        return f"[{value.strip().replace('x', ', ')}]"
    return value


def _pairs(overrides: Overrides, argument: str) -> list[tuple[str, str, Any]]:
    """The place for errors, key and value of each override; the value is None without a ``=``."""
    if isinstance(overrides, Mapping):
        return [(f"overrides[{quote(key)}]", str(key), value) for key, value in overrides.items()]
    pairs: list[tuple[str, str, Any]] = []
    for option in texts_of(overrides):
        key, equals, text = option.partition("=")
        where = argument_text(argument, [clipped(option, _LONGEST_OVERRIDE)])
        pairs.append((where, key, text if equals else None))
    return pairs


class _Setter:
    """Puts overrides into a copy of the data of a definition.

    ``applied``: overrides that could be set; ``unusable``: the errors of the others; ``where``: the
    place of the present override, for its errors.
    """

    def __init__(self, model: type[BaseModel], data: dict[str, Any], short: Shorthand) -> None:
        self.model = model
        self.data = data
        self.short = short
        self.applied: list[Override] = []
        self.unusable: list[ColltoolError] = []
        self.where = ""

    def apply(self, pairs: Sequence[tuple[str, str, Any]], *, read: bool = True) -> None:
        """Set overrides as (place for errors, key, value); ``read``: parse texts as YAML."""
        if pairs:
            self.data = deepcopy(self.data)
        for where, key, value in pairs:
            self.where, key = where, key.strip()
            try:
                path = self._set(key, value, read=read)
            except ColltoolError as error:
                self.unusable.append(error)
                continue
            text = quote(value) if isinstance(value, bool) else str(value).strip()
            self.applied.append(Override(where, key, text, path, self.short.argument))

    def _set(self, key: str, value: Any, *, read: bool) -> KeyPath:
        """Put one value at its key, and return the path where it is now."""
        if not key or value is None or (isinstance(value, str) and not value.strip()):
            example = argument_text(self.short.argument, [self.short.example])
            raise self._error("expected KEY=VALUE", f"write {example}")
        plain = self._plain(key, value, read=read)
        parts = self._spelt_out(key.split("."))
        target: Any = self.data
        path: KeyPath = ()
        for depth, part in enumerate(parts):
            step: Any = self._index(target, part, path) if isinstance(target, list) else part
            path = (*path, step)
            if depth == len(parts) - 1:
                return self._put_at(target, path, plain)
            inner = target[step] if isinstance(target, list) else target.get(step)
            if inner is None:
                inner = target[step] = self._new_mapping(path)
            elif not isinstance(inner, dict | list):
                plain_key = self._plain_key(path)
                if not plain_key:
                    before = clipped(".".join(parts[: depth + 1]))
                    what = f"'{before}' has no keys: it is {quote(inner)}"
                    raise self._error(what, "set it as a whole, without the rest of the key")
                inner = target[step] = {plain_key: inner}
            target = inner
        return path

    def _plain(self, key: str, value: Any, *, read: bool) -> Any:
        """A value as a file has it: text is YAML, anything else is copied."""
        if isinstance(value, str) and read:
            return read_value(shape_as_list(value), self.where, key.rpartition(".")[2])
        source, problems = from_mapping({"value": value})
        if problems:
            raise self._error(problems[0].error.what, problems[0].error.fix)
        return source.data["value"]

    def _put_at(self, target: Any, path: KeyPath, plain: Any) -> KeyPath:
        """Set the value at the end of a path and return the path that was set.

        A plain value that is short for a mapping goes next to the keys that are already there.
        """
        step = path[-1]
        key = self._plain_key(path)
        before = target.get(step) if key else None
        if before is None or isinstance(plain, list):
            target[step] = plain
            return path
        if not isinstance(before, dict):
            before = {key: before}
        if isinstance(plain, dict):
            target[step] = before | plain
            return path
        target[step] = before | {key: plain}
        return (*path, key)

    def _plain_key(self, path: KeyPath) -> str:
        """The key that a plain value at a path is short for. Empty if it is none."""
        place = place_at(self.model, path, self.data)
        return place.hint.short_for if place and place.hint else ""

    def _spelt_out(self, parts: list[str]) -> list[str]:
        """The steps of a key, with the list of items before them if the first names an item."""
        top = keys_at(self.model, (), self.data)
        items, item = self.short.items, self.short.item
        every = _names(self.data.get(items))
        names = [name for name in every if name]
        first = parts[0]
        if len(parts) > 1 and first in names:
            return [items, *parts]
        if first in top:
            return parts
        if first in names:
            fix = f"name one of its keys: {first}.KEY=VALUE"
            raise self._error(f"'{first}' is a {item}, not a value", fix)
        if len(parts) > 1 and item:
            raise self._unknown(item, first, names)
        hint = ""
        for number, name in enumerate(every):
            if first in keys_at(self.model, (items, number), self.data):
                hint = f"name the {item}: {name}.{first};" if name else ""
                break
        known = [key for key in top if key != items]
        known += [f"{name}.KEY" for name in names]
        raise self._unknown("key", first, known, hint)

    def _index(self, items: list[Any], part: str, path: KeyPath) -> int:
        """The index of an item that a step of a key names, by its name or its number."""
        names = _names(items)
        hits = {index for index, name in enumerate(names) if name == part}
        if part.isascii() and part.isdecimal() and len(part) < 10 and int(part) < len(items):
            hits.add(int(part))
        if len(hits) == 1:
            return hits.pop()
        last = str(path[-1])
        kind = last.removesuffix("s") if any(names) else f"item of {last}"
        if hits:
            fix = "give its index, or each a name of its own in the file"
            raise self._error(f"'{part}' is more than one {kind}", fix)
        known = [name for name in names if name]
        raise self._unknown(kind, part, known or list(map(str, range(len(items))))[:20])

    def _new_mapping(self, path: KeyPath) -> dict[str, Any]:
        """Return a mapping for a part that the file leaves out, such as ``eta``; a list must be in
        the file to be changed."""
        if path == (self.short.items,):
            fix = "only those that it gives can be changed"
            raise self._error(f"the file has no {path[0]}", fix)
        part = path[2:] if path[0] == self.short.items else ()
        if part in (("levels",), ("protocols",)):
            tier = _names(self.data["tiers"])[int(path[1])]
            if part == ("levels",):
                fix = "an override can only change those in the file"
                raise self._error(f"tier {quote(tier)} has no levels", fix)
            fix = (
                f"{tier}.alpha, {tier}.bandwidth and {tier}.eta.beta act under every protocol: set"
                " one of these"
            )
            raise self._error(f"tier {quote(tier)} has no protocols of its own", fix)
        return {}

    def _unknown(self, kind: str, part: str, known: list[str], hint: str = "") -> ColltoolError:
        fix = f"{hint or nearest(part, known)} known: {', '.join(known)}".strip()
        return self._error(f"unknown {kind} {quote(part)}", fix)

    def _error(self, what: str, fix: str) -> ColltoolError:
        return ColltoolError(what, where=self.where, fix=fix)


def _names(items: Any) -> list[str]:
    """Names of the items of a list; empty for an item without one."""
    listed = items if isinstance(items, list) else []
    mappings = [item if isinstance(item, dict) else {} for item in listed]
    return [str(item.get("name", "")) for item in mappings]
