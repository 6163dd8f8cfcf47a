"""Every value that a fabric file states, with its source: :func:`provenance`.

A part of the file (a tier, a level) has a ``source``: a text for all of its values, or texts by key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from colltool.fabric.library import Efficiency, LibraryFacts
from colltool.fabric.model import Fabric

# Keys of a file that are no assumptions about numbers.
_NO_ASSUMPTIONS = frozenset(
    {
        "schema_",
        "description",
        "notes",
        "source",
        "hypothetical",
        "announced",
        "assumed",
        "measured_on",
        "device",
    }
)

# The source of a value that an override sets.
SET = "set for this call"


class Provenance(NamedTuple):
    """A value with its source: in SI units, a word, or a library's :class:`Efficiency`. ``key`` is
    as ``--set`` takes it; ``source`` may be empty."""

    key: str
    value: Any
    source: str


def provenance(fabric: Fabric) -> tuple[Provenance, ...]:
    """Return every value that the file states, with its source, tiers innermost first; defaults are
    left out."""
    # ib.eta. is the start of ib.eta.beta. and of itself
    overridden = tuple(f"{key}." for key, _ in fabric.overrides)
    values = []
    for value in _values_of_part(fabric, "", {}):
        if f"{value.key}.".startswith(overridden):
            value = value._replace(source=SET)
        values.append(value)
    return tuple(values)


def _values_of_part(
    part: BaseModel, path: str, inherited: Mapping[str, str]
) -> Iterator[Provenance]:
    """The values of a part and all below it, with their sources. ``path``: the part's key, empty for the
    fabric. ``inherited``: the sources by key that count where the part has none of its own."""
    sources = _texts_by_key(getattr(part, "source", None)) or inherited
    for field_name in type(part).model_fields:
        if field_name not in part.model_fields_set or field_name in _NO_ASSUMPTIONS:
            continue
        # names are no assumptions, except that of a library
        if field_name == "name" and not isinstance(part, LibraryFacts):
            continue
        key = f"{path}.{field_name}".lstrip(".")
        yield from _values_at_key(getattr(part, field_name), key, field_name, sources)


def _values_at_key(
    value: Any, key: str, name: str, sources: Mapping[str, str]
) -> Iterator[Provenance]:
    """A value with its source, or the values of the parts in it; ``name``: of its field, by which
    ``sources`` has its source."""
    source = sources.get(name, sources.get("", ""))
    below = {"": source}
    if isinstance(value, Efficiency):
        yield Provenance(key, value, "; ".join(dict.fromkeys(_texts_by_key(value.source).values())))
    elif isinstance(value, BaseModel):
        yield from _values_of_part(value, key, below)
    elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        for index, item in enumerate(value):
            step = getattr(item, "name", None) or getattr(item, "algorithm", None) or str(index)
            # a key begins with the name of a tier
            item_key = step if name == "tiers" else f"{key}.{step}"
            yield from _values_at_key(item, item_key, name, below)
    elif value is not None:
        yield Provenance(key, value, source)


def _texts_by_key(source: Any) -> dict[str, str]:
    """The texts of a ``source`` by key, each on one line; the text under the empty key is for all keys
    without one of their own."""
    if isinstance(source, Mapping):
        return {str(key): " ".join(text.split()) for key, text in source.items()}
    if not source:
        return {}
    text = source if isinstance(source, str) else " ".join(source)
    return {"": " ".join(text.split())}
