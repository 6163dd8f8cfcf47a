"""The walk through a model along with the data of a file: the field at a key path, what it accepts,
the keys it may have (:class:`FieldPlace`).

The data decides which branch of a union is meant. :func:`place_at` and :func:`keys_at` take a key
path, :func:`path_of` takes pydantic's own, which has a step more for each branch of a union. A union with
None alone is none here.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from colltool.definitions.field_types import FieldHint
from colltool.definitions.source import KeyPath, value_at


class FieldPlace(NamedTuple):
    """A place in a model."""

    annotation: Any  # its type without metadata and None; a union as such
    hint: FieldHint | None = None  # the words for it
    tag: str = ""  # the key whose value tells the branch of a union (its discriminator)
    least: float = -inf  # inclusive bounds of a number
    most: float = inf

    @property
    def words(self) -> str:
        """What is accepted here, as it follows "expected" in errors."""
        if self.hint:
            return self.hint.words
        if self.tag:
            return f"a mapping with '{self.tag}'"
        if get_origin(self.annotation) is Literal:
            words = list(map(str, get_args(self.annotation)))
            if len(words) == 1:
                return words[0]
            return f"one of {', '.join(words)}"
        if self.annotation is bool:
            return "true or false"
        return "another value"

    @property
    def kinds(self) -> dict[str, type[BaseModel]]:
        """The models of a discriminated union by tag value."""
        models: dict[str, type[BaseModel]] = {}
        if self.tag:
            for model in _members(self.annotation):
                # the field of the tag is a Literal of its values
                tags = get_args(model.model_fields[self.tag].annotation)
                models.update(dict.fromkeys(tags, model))
        return models

    @property
    def is_union(self) -> bool:
        """Whether it takes values of several types, None aside."""
        return len(_members(self.annotation)) > 1

    @property
    def is_model(self) -> bool:
        """Whether it takes mappings with the keys of one model."""
        return isinstance(self.annotation, type) and issubclass(self.annotation, BaseModel)

    def branch(self, value: Any) -> FieldPlace | None:
        """Return the member of a union that fits a value, by its tag, or by whether it is a mapping or a
        list: the first of such members. None if none does, and for plain values."""
        if self.tag:
            word = value_at((self.tag,), value)
            if isinstance(word, str) and word in self.kinds:
                return FieldPlace(self.kinds[word])
            return None
        for member in map(place_of, _members(self.annotation)):
            origin = get_origin(member.annotation)
            if isinstance(value, dict) and (member.is_model or origin is dict):
                return member
            if isinstance(value, list) and origin in (list, tuple):
                return member
        return None

    def model(self, value: Any) -> type[BaseModel] | None:
        """Return the model that a value here is read with. None where no model reads it, or no branch of a
        union fits it."""
        place: FieldPlace | None = self
        if self.is_union:
            place = self.branch(value)
        if place is None or not place.is_model:
            return None
        model: type[BaseModel] = place.annotation
        return model

    def child(self, step: str | int, value: Any) -> FieldPlace | None:
        """Return the place one key or item further; ``value`` is the data here, which tells the branch of a
        union. None if there is no such place."""
        if self.is_union:
            member = self.branch(value)
            if member is None:
                return None
            return member.child(step, value)
        if self.is_model:
            for field_name, field in self.annotation.model_fields.items():
                if (field.alias or field_name) == step:
                    tag = str(field.discriminator or "")
                    return place_of(field.annotation, field.metadata, tag)
            return None
        origin = get_origin(self.annotation)
        arguments = get_args(self.annotation)
        if origin in (list, tuple) and isinstance(step, int):
            return place_of(arguments[0])
        if origin is dict:
            return place_of(arguments[1])
        return None


def place_of(annotation: Any, metadata: Iterable[Any] = (), tag: str = "") -> FieldPlace:
    """Return the place of a type such as ``Annotated[Annotated[int, ...] | None, ...]``, layer by layer from
    outside: of hints and tags the outermost counts, of bounds the narrowest.

    Args:
        metadata, tag: those of the field, outside of the type.
    """
    hint = None
    lows = [-inf]
    highs = [inf]
    layer = list(metadata)
    # from the outermost layer of metadata inwards
    while True:
        last_hint = None  # of one layer the last hint counts
        for item in layer:
            bounds = [item]
            if isinstance(item, FieldHint):
                last_hint = item
            if isinstance(item, FieldInfo):
                tag = tag or str(item.discriminator or "")
                # it holds its bounds as metadata of its own
                bounds = item.metadata
            for bound in bounds:
                lows += _bounds(bound, "ge", "gt")
                highs += _bounds(bound, "le", "lt")
        hint = hint or last_hint
        layer = []
        members = _members(annotation)
        if get_origin(annotation) is Annotated:
            annotation, *layer = get_args(annotation)
        elif len(members) == 1 and members[0] is not annotation:
            annotation = members[0]
        else:
            return FieldPlace(annotation, hint, tag, max(lows), min(highs))


def _bounds(item: Any, *names: str) -> list[float]:
    """The bounds of these names, ``ge`` or ``lt``, that an item of metadata has."""
    return [getattr(item, name) for name in names if hasattr(item, name)]


def place_at(model: type[BaseModel], path: KeyPath, data: Any) -> FieldPlace | None:
    """Return the place at a key path, None if the model has none."""
    place: FieldPlace | None = FieldPlace(model)
    for end, step in enumerate(path):
        if place is not None:
            place = place.child(step, value_at(path[:end], data))
    return place


def path_of(model: type[BaseModel], loc: KeyPath, data: Any) -> tuple[KeyPath, bool]:
    """Return pydantic's ``loc`` as a key path, without its steps for branches of unions and without
    ``[key]``, which marks an error about a key; and whether it ends on such a branch."""
    path: KeyPath = ()
    place: FieldPlace | None = FieldPlace(model)
    on_branch = False
    for step in loc:
        value = value_at(path, data)
        on_branch = place is not None and place.is_union
        if place is not None and on_branch:
            place = place.branch(value)
        elif step != "[key]":
            path = (*path, step)
            if place is not None:
                place = place.child(step, value)
    return path, on_branch


def keys_at(model: type[BaseModel], path: KeyPath, data: Any) -> list[str]:
    """Return the keys that the mapping at ``path`` may have, in the order of the model, ``notes`` and
    ``source`` last; none where no model reads it."""
    place = place_at(model, path, data)
    part = place and place.model(value_at(path, data))
    if part is None:
        return []
    keys = [field.alias or field_name for field_name, field in part.model_fields.items()]
    return sorted(keys, key=lambda key: key in ("notes", "source"))


def _members(annotation: Any) -> tuple[Any, ...]:
    """The types of a union without None, else the type itself."""
    if get_origin(annotation) in (Union, UnionType):
        return tuple(member for member in get_args(annotation) if member is not type(None))
    return (annotation,)
