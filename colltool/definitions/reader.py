"""The one reader of definitions: YAML or a mapping becomes a pydantic model, or a report with every
error at its place.

reading = read(LadderFile, text, "mine.yaml", ["size=1MB"])
if reading.sound(("rungs",)): ...           # checks beyond the model add what they find with
reading.refuse ladder = reading.result()                   # the model, or ManyErrors

What-if overrides, ``KEY=VALUE`` options or a mapping, are applied to the data before validation.
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
    clipped,
    given,
    nearest,
    printable,
    shown,
)
from colltool.definitions.field_types import keys_at, spot_at
from colltool.definitions.source import (
    MORE,
    MOST,
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

Overrides = Sequence[str] | Mapping[str, Any]
"""``KEY=VALUE`` texts, of which a later one wins; or values by key, where a text is parsed as
YAML."""

_MOST_SHOWN = 200
_AFTER_THE_FILE = 2**31  # the line of what an override did


class Override(NamedTuple):
    """One override as made; ``where`` is what errors call it, ``argument`` the one that gave it."""

    where: str
    key: str
    value: str
    path: KeyPath
    argument: str = "overrides"


class Shorthand(NamedTuple):
    """What a key may omit: with ``items="tiers"``, ``nvlink.alpha`` is ``tiers.nvlink.alpha``; the
    rest is for errors."""

    items: str = ""
    item: str = ""
    example: str = "KEY=VALUE"
    argument: str = "overrides"


class Reading(Generic[M]):
    """A definition after validation: its ``source``, the ``data`` with overrides applied, and the
    errors so far.

    ``overrides``: key and value as text, the last of each key, without the first ``own``.
    ``model``: None if validation failed.
    """

    def __init__(
        self,
        kind: type[M],
        source: Source,
        data: dict[str, Any],
        applied: list[Override],
        own: int = 0,
    ) -> None:
        self.source, self.data, self.applied = source, data, applied
        self.overrides = tuple({one.key: one.value for one in applied[own:]}.items())
        self.model: M | None = None
        self._placed: list[tuple[tuple[int, int], ColltoolError]] = []
        self._refused: set[KeyPath] = set()
        self._around: set[KeyPath] = set()
        try:
            self.model = kind.model_validate(data)
        except ValidationError as error:
            # the words of mistakes, for files that have any
            from colltool.definitions.error_messages import findings

            for one in findings(kind, error, data):
                around = (value_at(one.path[:end], data) for end in range(len(one.path) + 1))
                if not any(isinstance(value, Refused) for value in around):  # by the parser already
                    self._add(one)

    def sound(self, path: KeyPath) -> bool:
        """Whether nothing at, above or below a path was refused, so that its data has the types of
        the model."""
        return path not in self._around and not any(
            path[:end] in self._refused for end in range(len(path))
        )

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
        """The model; raises ManyErrors, in the order of the file, then of the overrides, if
        anything was refused."""
        if self._placed:
            errors = [error for _, error in sorted(self._placed, key=lambda one: one[0])]
            more = (
                [ColltoolError(MORE, where=printable(self.source.name))]
                if len(errors) > MOST
                else []
            )
            raise ManyErrors(errors[:MOST] + more)
        assert self.model is not None  # nothing was refused
        return self.model

    def _put(self, path: KeyPath | None, position: tuple[int, int], error: ColltoolError) -> None:
        self._placed.append((position, error))
        if path is not None:
            self._refused.add(path)
            self._around |= {path[:end] for end in range(len(path) + 1)}

    def _add(self, finding: Finding) -> None:
        """Report at the override that set the value, else at its line and column."""
        path, what, key = finding.path, printable(finding.what), finding.about_key
        # control characters are escaped, the marks of base.errors.given kept
        fix = "".join(
            piece if piece in MARKS else printable(piece)
            for piece in re.split(f"([{MARKS}])", finding.fix)
        )
        for number, override in reversed(list(enumerate(self.applied))):
            above = override.path[: len(path)] == path
            if path[: len(override.path)] == override.path or (
                above and path not in self.source.positions
            ):
                where = (
                    f"{override.where}: {dotted(path)}" if path != override.path else override.where
                )
                self._put(
                    path,
                    Position(_AFTER_THE_FILE, number),
                    ColltoolError(what, where=where, fix=fix),
                )
                return
        part = path if finding.part is None else finding.part
        within = [override for override in self.applied if override.path[: len(part)] == part]
        if within:
            made = [clipped(f"{one.key}={one.value}", _MOST_SHOWN) for one in within]
            what += (
                " (with"
                f" {given(within[0].argument, made, text=clipped(', '.join(made), _MOST_SHOWN))})"
            )
        self._put(
            path,
            self.source.position(path, key=key),
            ColltoolError(what, where=self.source.at(path, key=key), fix=fix),
        )


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
    """The data of YAML text or a mapping before validation, and its problems."""
    return from_mapping(content) if isinstance(content, Mapping) else scan(content, name)


def read_source(
    kind: type[M],
    source: Source,
    problems: Sequence[Problem],
    overrides: Overrides = (),
    short: Shorthand | None = None,
    kept: Sequence[tuple[str, str, Any]] = (),
) -> Reading[M]:
    """As :func:`read`. ``kept``: overrides that are part of the definition: the place for errors,
    key and value of each."""
    setter = _Setter(kind, source.data, short or Shorthand())
    setter.apply(kept, read=False)
    own = len(setter.applied)
    setter.apply(_pairs(overrides, setter.short.argument))
    reading = Reading(kind, source, setter.data, setter.applied, own)
    for problem in problems:
        reading._put(problem.path, problem.position, problem.error)
    for number, error in enumerate(setter.unusable):
        reading._put(None, Position(_AFTER_THE_FILE + 1, number), error)
    return reading


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
    listed = isinstance(overrides, Sequence | Set | Iterator) and not isinstance(
        overrides, str | bytes
    )
    options = list(overrides) if listed else [overrides]
    wrong = [option for option in options if not (listed and isinstance(option, str))]
    if wrong:
        fix = f"write {given('overrides', ['nvlink.alpha=1us'])}, or a mapping of values by key"
        raise ColltoolError(
            f"expected a list of KEY=VALUE, got {shown(wrong[0])}", argument="overrides", fix=fix
        )
    return options


def spelt(value: str) -> str:
    """``8x8x4`` as the list ``[8, 8, 4]``; anything else as it is."""
    sizes = value.strip().split("x")
    return (
        f"[{', '.join(sizes)}]"
        if len(sizes) > 1 and all(one.isascii() and one.isdecimal() for one in sizes)
        else value
    )


def _pairs(overrides: Overrides, argument: str) -> list[tuple[str, str, Any]]:
    if isinstance(overrides, Mapping):
        return [(f"overrides[{shown(key)}]", str(key), value) for key, value in overrides.items()]
    parted = [(option, *option.partition("=")) for option in texts_of(overrides)]
    return [
        (given(argument, [clipped(option, _MOST_SHOWN)]), key, text if equals else None)
        for option, key, equals, text in parted
    ]


class _Setter:
    """Puts overrides into the data of a definition: those that were ``applied``, and the errors of
    the others."""

    def __init__(self, model: type[BaseModel], data: dict[str, Any], short: Shorthand) -> None:
        self.model, self.data, self.short = model, data, short
        self.applied: list[Override] = []
        self.unusable: list[ColltoolError] = []
        self.where = ""

    def apply(self, pairs: Sequence[tuple[str, str, Any]], *, read: bool = True) -> None:
        """Where each stands for errors, its key and its value; ``read``: a text is YAML still to be
        read."""
        if pairs:
            self.data = deepcopy(self.data)
        for where, key, value in pairs:
            self.where, key = where, key.strip()
            try:
                path = self._set(key, value, read=read)
            except ColltoolError as error:
                self.unusable.append(error)
                continue
            said = (
                value.strip()
                if isinstance(value, str)
                else shown(value)
                if isinstance(value, bool)
                else str(value)
            )
            self.applied.append(Override(where, key, said, path, self.short.argument))

    def _set(self, key: str, value: Any, *, read: bool) -> KeyPath:
        if not key or value is None or (isinstance(value, str) and not value.strip()):
            raise self._error(
                "expected KEY=VALUE", f"write {given(self.short.argument, [self.short.example])}"
            )
        if isinstance(value, str) and read:
            plain = read_value(spelt(value), self.where, key.rpartition(".")[2])
        else:
            source, problems = from_mapping({"value": value})
            if problems:
                raise self._error(problems[0].error.what, problems[0].error.fix)
            plain = source.data["value"]
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
            elif (key := self._plain_key(path)) and not isinstance(inner, dict | list):
                inner = target[step] = {key: inner}
            if not isinstance(inner, dict | list):
                what = (
                    f"'{clipped('.'.join(parts[: depth + 1]))}' has no keys: it is {shown(inner)}"
                )
                raise self._error(what, "set it as a whole, without the rest of the key")
            target = inner
        return path

    def _put_at(self, target: Any, path: KeyPath, plain: Any) -> KeyPath:
        """Sets the end of a path; where a plain value may stand for a mapping, beside the keys
        already there."""
        step, key = path[-1], self._plain_key(path)
        before = target.get(step) if key else None
        if before is None or isinstance(plain, list):
            target[step] = plain
            return path
        put = plain if isinstance(plain, dict) else {key: plain}
        target[step] = (before if isinstance(before, dict) else {key: before}) | put
        return (*path, key) if put is not plain else path

    def _plain_key(self, path: KeyPath) -> str:
        """The key that a plain value at a path is short for, else empty."""
        spot = spot_at(self.model, path, self.data)
        return spot.accepted.plain if spot and spot.accepted else ""

    def _spelt_out(self, parts: list[str]) -> list[str]:
        top, (items, item, *_) = keys_at(self.model, (), self.data), self.short
        every = _names(self.data.get(items))
        names = [name for name in every if name]
        if len(parts) > 1 and parts[0] in names:
            return [items, *parts]
        if parts[0] in top:
            return parts
        if parts[0] in names:
            raise self._error(
                f"'{parts[0]}' is a {item}, not a value",
                f"name one of its keys: {parts[0]}.KEY=VALUE",
            )
        known = [key for key in top if key != items] + [f"{name}.KEY" for name in names]
        if len(parts) > 1 and item:
            raise self._unknown(item, parts[0], names)
        owners = (
            name
            for at, name in enumerate(every)
            if parts[0] in keys_at(self.model, (items, at), self.data)
        )
        owner = next(owners, "")
        raise self._unknown(
            "key", parts[0], known, f"name the {item}: {owner}.{parts[0]};" if owner else ""
        )

    def _index(self, items: list[Any], part: str, path: KeyPath) -> int:
        names = _names(items)
        hits = {index for index, name in enumerate(names) if name == part}
        if part.isascii() and part.isdecimal() and len(part) < 10 and int(part) < len(items):
            hits.add(int(part))
        if len(hits) == 1:
            return hits.pop()
        last = str(path[-1])
        kind = last.removesuffix("s") if any(names) else f"item of {last}"
        if hits:
            raise self._error(
                f"'{part}' is more than one {kind}",
                "give its index, or each a name of its own in the file",
            )
        known = [name for name in names if name] or [
            str(index) for index in range(min(len(items), 20))
        ]
        raise self._unknown(kind, part, known)

    def _new_mapping(self, path: KeyPath) -> dict[str, Any]:
        """A mapping for a part that the file leaves out, such as ``eta``; lists must be there to be
        changed."""
        if path == (self.short.items,):
            raise self._error(
                f"the file has no {path[0]}", "only those that it gives can be changed"
            )
        if path[0] == self.short.items and path[2:] == ("levels",):
            tier = shown(_names(self.data["tiers"])[int(path[1])])
            raise self._error(
                f"tier {tier} has no levels", "an override can only change those in the file"
            )
        if path[0] == self.short.items and path[2:] == ("protocols",):
            tier = str(_names(self.data["tiers"])[int(path[1])])
            fix = (
                f"{tier}.alpha, {tier}.bandwidth and {tier}.eta.beta act under every protocol: set"
                " one of these"
            )
            raise self._error(f"tier {shown(tier)} has no protocols of its own", fix)
        return {}

    def _unknown(self, kind: str, part: str, known: list[str], hint: str = "") -> ColltoolError:
        return self._error(
            f"unknown {kind} {shown(part)}",
            f"{hint or nearest(part, known)} known: {', '.join(known)}".strip(),
        )

    def _error(self, what: str, fix: str) -> ColltoolError:
        return ColltoolError(what, where=self.where, fix=fix)


def _names(items: Any) -> list[str]:
    listed = items if isinstance(items, list) else []
    return [str(item.get("name", "")) if isinstance(item, dict) else "" for item in listed]
