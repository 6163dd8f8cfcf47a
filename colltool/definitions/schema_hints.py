"""What the fields of a model accept, in words, and how a validator refuses.

    Alpha = Annotated[float, BeforeValidator(seconds), Field(ge=1e-10, le=1), Accepted("a time from 0.1 ns to 1 s", "time")]

A :class:`Spot` walks a model beside the data of a file: the field at a key path, what it accepts, the keys it may have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from colltool.definitions.source_map import KeyPath, value_at


@dataclass(frozen=True)
class Accepted:
    """Metadata of a field: ``words`` follow "expected" in errors, as in ``a time from 0.1 ns to 1 s, such as 0.5us``.

    ``kind``: to hint at a missing unit or quotes. ``instead``: the key that other kinds of the same thing have in its place.
    ``plain``: the key that a single value stands for, where a mapping may be given as one; overrides of both add up.
    """

    words: str
    kind: Literal["", "time", "rate", "size", "length", "energy", "power", "energy price", "text"] = ""
    instead: str = ""
    plain: str = ""


class Slip(NamedTuple):
    """One mistake that a validator found: the words, the fix, and the key path from the validated part to it."""

    what: str
    fix: str = ""
    at: KeyPath = ()


class Slips(ValueError):
    """Raised by a validator: all its mistakes, each at its own key."""

    def __init__(self, *slips: Slip) -> None:
        self.slips = slips
        super().__init__("; ".join(slip.what for slip in slips))


class Spot(NamedTuple):
    """A place in a model: its bare type, the words for it, a union's discriminator, and its bounds."""

    annotation: Any
    accepted: Accepted | None = None
    tag: str = ""
    least: float = -inf
    most: float = inf

    @property
    def words(self) -> str:
        if self.accepted:
            return self.accepted.words
        if self.tag:
            return f"a mapping with '{self.tag}'"
        if get_origin(self.annotation) is Literal:
            words = get_args(self.annotation)
            return str(words[0]) if len(words) == 1 else f"one of {', '.join(map(str, words))}"
        return "true or false" if self.annotation is bool else "another value"

    @property
    def kinds(self) -> dict[str, type[BaseModel]]:
        """The models of a discriminated union by tag value."""
        models = _members(self.annotation) if self.tag else ()
        return {word: model for model in models for word in get_args(model.model_fields[self.tag].annotation)}

    @property
    def is_union(self) -> bool:
        return len(_members(self.annotation)) > 1

    def branch(self, value: Any) -> Spot | None:
        """The member of a union that fits a value, by its tag or its shape."""
        if self.tag:
            word = value_at((self.tag,), value)
            model = self.kinds.get(word) if isinstance(word, str) else None
            return Spot(model) if model else None
        wanted = "mapping" if isinstance(value, dict) else "list" if isinstance(value, list) else ""
        return next((one for one in map(spot_of, _members(self.annotation)) if wanted and one.shape == wanted), None)

    @property
    def of_number(self) -> Spot:
        """The numeric member of a union, else itself."""
        members = map(spot_of, _members(self.annotation)) if self.is_union else ()
        return next((one for one in members if one.annotation in (int, float)), self)

    @property
    def shape(self) -> str:
        """``mapping``, ``list`` or empty."""
        if self.is_model or get_origin(self.annotation) is dict:
            return "mapping"
        return "list" if get_origin(self.annotation) in (list, tuple) else ""

    @property
    def is_model(self) -> bool:
        return isinstance(self.annotation, type) and issubclass(self.annotation, BaseModel)

    def model(self, value: Any) -> type[BaseModel] | None:
        spot = self.branch(value) if self.is_union else self
        return spot.annotation if spot and spot.is_model else None

    def down(self, step: str | int, value: Any) -> Spot | None:
        """The place one key or item further; ``value`` is the data here."""
        if self.is_union:
            member = self.branch(value)
            return member.down(step, value) if member else None
        if self.is_model:
            fields = self.annotation.model_fields.items()
            field = next((field for name, field in fields if (field.alias or name) == step), None)
            return spot_of(field.annotation, field.metadata, str(field.discriminator or "")) if field else None
        arguments = get_args(self.annotation)
        if get_origin(self.annotation) in (list, tuple) and isinstance(step, int):
            return spot_of(arguments[0])
        return spot_of(arguments[1]) if get_origin(self.annotation) is dict else None


def spot_of(annotation: Any, metadata: Iterable[Any] = (), tag: str = "") -> Spot:
    """The place of a type; outer metadata goes before inner."""
    accepted, (least, most) = _last(metadata), _bounds(metadata)
    while True:
        members = _members(annotation)
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            accepted = accepted or _last(more)
            own = _bounds(more)
            least, most = max(least, own[0]), min(most, own[1])
            tag = tag or next((str(one.discriminator) for one in more if isinstance(one, FieldInfo) and one.discriminator), "")
        elif len(members) == 1 and members[0] is not annotation:
            annotation = members[0]
        else:
            return Spot(annotation, accepted, tag, least, most)


def spot_at(model: type[BaseModel], path: KeyPath, data: Any) -> Spot | None:
    """The place at a key path, None if the model has none."""
    spot: Spot | None = Spot(model)
    for end, step in enumerate(path):
        spot = spot.down(step, value_at(path[:end], data)) if spot else None
    return spot


def path_of(model: type[BaseModel], loc: KeyPath, data: Any) -> tuple[KeyPath, bool]:
    """pydantic's ``loc`` as a key path, without union branches and key marks; and whether it ends on such a branch."""
    path: KeyPath = ()
    spot: Spot | None = Spot(model)
    on_branch = False
    for step in loc:
        on_branch = spot is not None and spot.is_union
        if spot is not None and on_branch:
            spot = spot.branch(value_at(path, data))
        elif step != "[key]":
            spot = spot.down(step, value_at(path, data)) if spot else None
            path = (*path, step)
    return path, on_branch


def keys_at(model: type[BaseModel], path: KeyPath, data: Any) -> list[str]:
    """The keys that the mapping at ``path`` may have in the order of the model, ``notes`` and ``source`` last."""
    spot = spot_at(model, path, data)
    found = spot.model(value_at(path, data)) if spot else None
    keys = [field.alias or name for name, field in found.model_fields.items()] if found else []
    return sorted(keys, key=lambda key: key in ("notes", "source"))


def _members(annotation: Any) -> tuple[Any, ...]:
    """The types of a union without None, else the type itself."""
    if get_origin(annotation) in (Union, UnionType):
        return tuple(member for member in get_args(annotation) if member is not type(None))
    return (annotation,)


def _last(metadata: Iterable[Any]) -> Accepted | None:
    return next((one for one in reversed(list(metadata)) if isinstance(one, Accepted)), None)


def _bounds(metadata: Iterable[Any]) -> tuple[float, float]:
    flat = [one for part in metadata for one in (part.metadata if isinstance(part, FieldInfo) else [part])]
    least = (getattr(one, name) for one in flat for name in ("ge", "gt") if hasattr(one, name))
    most = (getattr(one, name) for one in flat for name in ("le", "lt") if hasattr(one, name))
    return max(least, default=-inf), min(most, default=inf)
