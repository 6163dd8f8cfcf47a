"""Mappings and lists of a definition that nobody can change: a loaded file is one object for all who
load it."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from colltool.definitions.field_types import Part

Model = TypeVar("Model", bound=Part)


def _refuse(_self: object, *_args: object, **_keys: object) -> NoReturn:
    """Raise an error in place of a method that would change a mapping or a list."""
    raise TypeError("what was loaded is shared and not changed: load it with overrides")


class FrozenDict(dict[Any, Any]):
    """A dict that refuses changes; it equals, prints and pickles as one."""

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[Any, Any]]]:
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    """A list that refuses changes."""

    def __reduce__(self) -> tuple[type[FrozenList], tuple[list[Any]]]:
        return FrozenList, (list(self),)


# The methods that change both kinds, or one of them, are replaced by one that refuses.
_CHANGES = ("__setitem__", "__delitem__", "clear", "pop")
_OF_DICTS = ("__ior__", "popitem", "setdefault", "update")
_OF_LISTS = ("__iadd__", "__imul__", "append", "extend", "insert", "remove", "reverse", "sort")
for _kind, _changes in ((FrozenDict, _OF_DICTS), (FrozenList, _OF_LISTS)):
    for _change in (*_CHANGES, *_changes):
        setattr(_kind, _change, _refuse)


def frozen(part: Model) -> Model:
    """Return the same part, in which all mappings and lists are now frozen ones, at any depth."""
    # the part itself is frozen by pydantic: its dict is what can be changed
    for attribute, value in part.__dict__.items():
        part.__dict__[attribute] = _frozen_value(value)
    return part


def _frozen_value(value: Any) -> Any:
    """A frozen copy of a mapping or list; any other value as it is, with what is in it frozen."""
    if isinstance(value, Part):
        return frozen(value)
    # Named tuples and the like have no mappings in them.
    if type(value) is tuple:
        return tuple(_frozen_value(item) for item in value)
    if type(value) is dict:
        return FrozenDict({key: _frozen_value(item) for key, item in value.items()})
    if type(value) is list:
        return FrozenList(_frozen_value(item) for item in value)
    return value
