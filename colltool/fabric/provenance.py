"""Every value of a fabric file with the source that the file gives for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from colltool.fabric.library import Efficiency, LibraryFacts
from colltool.fabric.model import Fabric

_WORDS = frozenset({"schema_", "description", "notes", "source", "hypothetical", "device"})
"""Keys that are no assumptions; nor are names, except that of a library."""

SET = "set for this call"
"""The source of a value that an override gives."""


class Provenance(NamedTuple):
    """A value in SI units, a word, or a library's :class:`Efficiency`; ``key`` as ``--set`` takes it; ``source`` may be empty."""

    key: str
    value: Any
    source: str


def provenance(fabric: Fabric) -> tuple[Provenance, ...]:
    """Every value that the file gives, tiers innermost first; defaults are left out."""
    given = [key for key, _ in fabric.overrides]
    return tuple(
        one._replace(source=SET) if any(f"{one.key}.".startswith(f"{key}.") for key in given) else one
        for one in _of(fabric, "", {})
    )


def _of(part: BaseModel, path: str, above: Mapping[str, str]) -> Iterator[Provenance]:
    """The values of a part and all below it; ``above``: the sources that the part around it gives for its keys."""
    own = _sources(getattr(part, "source", None)) or dict(above)
    for name in type(part).model_fields:
        if name in part.model_fields_set and name not in _WORDS and (name != "name" or isinstance(part, LibraryFacts)):
            yield from _value(getattr(part, name), f"{path}.{name}".lstrip("."), name, own)


def _value(value: Any, key: str, name: str, sources: Mapping[str, str]) -> Iterator[Provenance]:
    said = sources.get(name, sources.get("", ""))
    if isinstance(value, Efficiency):
        yield Provenance(key, value, "; ".join(dict.fromkeys(_sources(value.source).values())))
    elif isinstance(value, BaseModel):
        yield from _of(value, key, {"": said} if said else {})
    elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        for at, one in enumerate(value):
            step = getattr(one, "name", None) or getattr(one, "algorithm", None) or str(at)
            yield from _value(one, step if name == "tiers" else f"{key}.{step}", name, {"": said} if said else {})
    elif value is not None:
        yield Provenance(key, value, said)


def _sources(source: Any) -> dict[str, str]:
    """The texts of a ``source`` by key; an empty key is for all."""
    if isinstance(source, Mapping):
        return {str(key): " ".join(text.split()) for key, text in source.items()}
    several = [source] if isinstance(source, str) else source or []
    return {"": " ".join(" ".join(several).split())} if several else {}
