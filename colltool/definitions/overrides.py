"""What-if overrides, ``KEY=VALUE`` texts or values by key, put into the data of a definition before it
is validated: :class:`Setter`.

A key is a path with dots, ``tiers.1.eta.beta``; an item of a list is named by its number or its
``name``, and a key may omit what its :class:`Shorthand` says: ``ib.eta.beta``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from copy import deepcopy
from typing import Any, NamedTuple

from pydantic import BaseModel

from colltool.base.errors import (
    ColltoolError,
    argument_text,
    clipped,
    nearest,
    quote,
)
from colltool.definitions.source import (
    KeyPath,
    from_mapping,
    read_value,
    value_at,
)

# ``KEY=VALUE`` texts, of which a later one wins; or values by key, where a text is parsed as YAML.
Overrides = Sequence[str] | Mapping[str, Any]
# 8x8x4
_SHAPE = re.compile("[0-9]+(x[0-9]+)+")
# Characters of an override that an error repeats.
LONGEST_OVERRIDE = 200
# Indices of a list that an error names.
_MOST_INDICES = 20


class Requested(NamedTuple):
    """An override as it was typed: its place for errors, its key, and its value, text or data; the value
    is None where a text has no ``=``."""

    where: str
    key: str
    value: Any


class Override(NamedTuple):
    """An override that was applied: its key and value as text, and the ``path`` where the data has it now.
    ``where`` is its place for errors, ``argument`` the argument that it came with."""

    where: str
    key: str
    value: str
    path: KeyPath
    argument: str = "overrides"


class Shorthand(NamedTuple):
    """What a key may omit: with ``items="tiers"``, ``nvlink.alpha`` is ``tiers.nvlink.alpha``.

    ``items`` is empty where keys are written in full. ``item``: the noun for one of the items;
    ``example`` and ``argument``: an override and the argument that takes it. These three are for errors.
    """

    items: str = ""
    item: str = ""
    example: str = "KEY=VALUE"
    argument: str = "overrides"


def requested(overrides: Overrides, argument: str) -> list[Requested]:
    """Return each override with its place for errors, in the order given; ``argument``: the one that they
    came with.

    Raises:
        ColltoolError: it is neither a mapping nor a list of texts.
    """
    found = []
    if isinstance(overrides, Mapping):
        for key, value in overrides.items():
            found.append(Requested(f"overrides[{quote(key)}]", str(key), value))
        return found
    for option in texts_of(overrides):
        key, equals, text = option.partition("=")
        where = argument_text(argument, [clipped(option, LONGEST_OVERRIDE)])
        found.append(Requested(where, key, text if equals else None))
    return found


class Setter:
    """Puts overrides into a copy of the data of a definition: :meth:`apply`. Results are in ``data``,
    ``applied`` and ``unusable``."""

    def __init__(self, model: type[BaseModel], data: dict[str, Any], short: Shorthand) -> None:
        self.model = model
        self.data = data
        self.short = short
        self.applied: list[Override] = []  # those that could be set
        self.unusable: list[ColltoolError] = []  # the errors of the others
        self.where = ""  # the place of the present override, for its errors

    def apply(self, overrides: Sequence[Requested], *, read: bool = True) -> None:
        """Set overrides, one after the other; what cannot be set goes to ``unusable``. ``read``: parse texts
        as YAML."""
        # whoever gave the data keeps it as it is
        if overrides:
            self.data = deepcopy(self.data)
        for where, typed_key, value in overrides:
            self.where = where
            key = typed_key.strip()
            try:
                path = self._set(key, value, read=read)
            except ColltoolError as error:
                self.unusable.append(error)
                continue
            text = str(value).strip()
            if isinstance(value, bool):
                text = quote(value)
            self.applied.append(Override(where, key, text, path, self.short.argument))

    def _set(self, key: str, value: Any, *, read: bool) -> KeyPath:
        """Put one value at its key, and return the path where it is now.

        The walk goes down the steps of the key: ``target`` is the mapping or list so far, ``path`` the way
        to it. Mappings on the way that the data lacks are made; a plain value on the way that is short
        for a mapping (``price: 600`` for ``price: {price: 600}``) becomes one.
        """
        if not key or value is None or (isinstance(value, str) and not value.strip()):
            example = argument_text(self.short.argument, [self.short.example])
            raise self._error("expected KEY=VALUE", f"write {example}")
        data = self._as_data(key, value, read=read)
        parts = self._full_steps(key.split("."))
        target: Any = self.data
        path: KeyPath = ()
        for depth, part in enumerate(parts):
            step: str | int = part
            if isinstance(target, list):
                step = self._index(target, part, path)
            path = (*path, step)
            if depth == len(parts) - 1:
                return self._put_at(target, path, data)
            inner = value_at((step,), target)
            if inner is None:
                inner = target[step] = self._new_mapping(path)
            elif not isinstance(inner, dict | list):
                implied_key = self._implied_key(path)
                if not implied_key:
                    before = clipped(".".join(parts[: depth + 1]))
                    what = f"'{before}' has no keys: it is {quote(inner)}"
                    raise self._error(what, "set it as a whole, without the rest of the key")
                inner = target[step] = {implied_key: inner}
            target = inner
        return path  # not reached: a key has a step, and the last one returns

    def _as_data(self, key: str, value: Any, *, read: bool) -> Any:
        """A value as a file has it: text is parsed as YAML if ``read``, anything else is copied."""
        if isinstance(value, str) and read:
            return read_value(shape_as_list(value), self.where, key.rpartition(".")[2])
        # it takes mappings alone
        source, problems = from_mapping({"value": value})
        if problems:
            error = problems[0].error
            raise self._error(error.what, error.fix)
        return source.data["value"]

    def _put_at(self, target: Any, path: KeyPath, data: Any) -> KeyPath:
        """Set the value at the end of a path, whose last step is one of ``target``, to ``data``, and return
        the path that was set.

        Where a plain value is short for a mapping, old and new value add up: ``switch=600`` after
        ``switch: {draws: 12W}`` is ``{draws: 12W, price: 600}``, and ``{draws: 12W}`` after ``600`` too.
        """
        step = path[-1]
        implied_key = self._implied_key(path)
        before = value_at((step,), target)
        if not implied_key or before is None or isinstance(data, list):
            target[step] = data
            return path
        if not isinstance(before, dict):
            before = {implied_key: before}
        if isinstance(data, dict):
            target[step] = before | data
            return path
        target[step] = {**before, implied_key: data}
        return (*path, implied_key)

    def _implied_key(self, path: KeyPath) -> str:
        """The key of a mapping that a plain value at a path is short for, such as ``price``. Empty if the
        value is short for none."""
        from colltool.definitions.places import place_at

        place = place_at(self.model, path, self.data)
        if place is None or place.hint is None:
            return ""
        return place.hint.short_for

    def _full_steps(self, parts: list[str]) -> list[str]:
        """The steps of a key, with the list of items before them if the first names an item. Raises an error
        unless the first is a key of the file or an item.

        An item goes before a key of the same name if more steps follow: ``ib.alpha`` is the tier's.
        """
        # only overrides of what a file holds need the walk through its model
        from colltool.definitions.places import keys_at

        top_keys = keys_at(self.model, (), self.data)
        items = self.short.items
        item_noun = self.short.item
        # in the order of the list: empty for an item without a name
        item_names = _names_of_items(self.data.get(items))
        names = list(filter(None, item_names))
        first = parts[0]
        if len(parts) > 1 and first in names:
            return [items, *parts]
        if first in top_keys:
            return parts
        if first in names:
            fix = f"name one of its keys: {first}.KEY=VALUE"
            raise self._error(f"'{first}' is a {item_noun}, not a value", fix)
        if len(parts) > 1 and item_noun:
            raise self._unknown(item_noun, first, names)
        hint = ""
        # a key of an item, without the item: named at the first that has it
        for number, name in enumerate(item_names):
            if first in keys_at(self.model, (items, number), self.data):
                if name:
                    hint = f"name the {item_noun}: {name}.{first};"
                break
        known = [key for key in top_keys if key != items]
        known += [f"{name}.KEY" for name in names]
        raise self._unknown("key", first, known, hint)

    def _index(self, items: list[Any], part: str, path: KeyPath) -> int:
        """The index of an item that a step of a key names, by its name or its number; an error if none or
        several are meant. ``path``: of the list."""
        names = _names_of_items(items)
        matching = {index for index, name in enumerate(names) if name == part}
        # ten digits are beyond any list, and int() refuses thousands
        if part.isascii() and part.isdecimal() and len(part) < 10 and int(part) < len(items):
            matching.add(int(part))
        if len(matching) == 1:
            return matching.pop()
        known = list(filter(None, names))
        noun = f"item of {path[-1]}"
        if known:
            # a tier of tiers
            noun = str(path[-1]).removesuffix("s")
        if matching:
            fix = "give its index, or each a name of its own in the file"
            raise self._error(f"'{part}' is more than one {noun}", fix)
        indices = list(map(str, range(len(items))))
        raise self._unknown(noun, part, known or indices[:_MOST_INDICES])

    def _new_mapping(self, path: KeyPath) -> dict[str, Any]:
        """Return a mapping for a part that the file leaves out, such as ``eta``; a list must be in
        the file to be changed (of definitions with items only a fabric's tiers have lists)."""
        if path == (self.short.items,):
            fix = "only those that it gives can be changed"
            raise self._error(f"the file has no {path[0]}", fix)
        if path[0] == self.short.items and path[2:] in (("levels",), ("protocols",)):
            tier = _names_of_items(self.data[self.short.items])[int(path[1])]
            if path[-1] == "levels":
                fix = "an override can only change those in the file"
                raise self._error(f"tier {quote(tier)} has no levels", fix)
            fix = (
                f"{tier}.alpha, {tier}.bandwidth and {tier}.eta.beta act under every protocol: set"
                " one of these"
            )
            raise self._error(f"tier {quote(tier)} has no protocols of its own", fix)
        return {}

    def _unknown(self, noun: str, part: str, known: list[str], hint: str = "") -> ColltoolError:
        """The error for a step of a key that is none of those known; ``noun``: what it should name;
        ``hint``: in place of the nearest."""
        fix = f"{hint or nearest(part, known)} known: {', '.join(known)}".strip()
        return self._error(f"unknown {noun} {quote(part)}", fix)

    def _error(self, what: str, fix: str) -> ColltoolError:
        """An error at the place of the present override."""
        return ColltoolError(what, where=self.where, fix=fix)


def texts_of(overrides: Any) -> list[str]:
    """Return overrides that are no mapping as a list; None is an empty one.

    Raises:
        ColltoolError: it is no list, set or iterator, or holds anything but texts.
    """
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


def _no_list(value: Any) -> ColltoolError:
    """The error for overrides, or an item of them, of the wrong type."""
    return ColltoolError(
        f"expected a list of KEY=VALUE, got {quote(value)}",
        argument="overrides",
        fix=f"write {argument_text('overrides', ['nvlink.alpha=1us'])}, or a mapping of values by key",
    )


def shape_as_list(value: str) -> str:
    """Return ``8x8x4`` as the list ``[8, 8, 4]``; anything else as it is."""
    shape = value.strip()
    if _SHAPE.fullmatch(shape):
        sizes = shape.replace("x", ", ")
        return f"[{sizes}]"
    return value


def _names_of_items(items: Any) -> list[str]:
    """The names of the items of a list, an empty one for an item without; none for what is no list."""
    if not isinstance(items, list):
        return []
    return [str(value_at(("name",), item) or "") for item in items]
