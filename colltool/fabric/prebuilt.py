"""A cache on disk of validated shipped fabrics: reading one from YAML builds pydantic's schema of all
tiers, a tenth of the time of a price.

``_encoded`` writes a fabric as plain JSON: a JSON list is a tuple, and whatever else JSON does not
have is a mapping with its kind. ``_decoded`` rebuilds it without validation, which it passed before.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import pydantic

from colltool.base.cache import keep, newest_change_ns, recall
from colltool.base.primitives import Primitive
from colltool.definitions import field_types
from colltool.fabric.model import Fabric

Built = TypeVar("Built")

# The package whose classes a fabric is made of.
_PACKAGE = "colltool.fabric."
# Types that JSON has.
_PLAIN = (str, int, float, bool, type(None))


def prebuilt(name: str, texts: tuple[str, ...]) -> Fabric | None:
    """Return the fabric that was kept for these texts. None where there is none.

    ``texts``: of its file, and of those that it is like.
    """
    fabric = _recalled(f"fabric-{name}", texts)
    return fabric if isinstance(fabric, Fabric) else None


def keep_prebuilt(name: str, texts: tuple[str, ...], fabric: Fabric) -> None:
    """Keep a validated fabric for these texts, if all of it can be written."""
    _keep(f"fabric-{name}", texts, fabric)


def built_once(
    kind: type[Built], name: str, text: str, build: Callable[[], tuple[Built, ...]]
) -> tuple[Built, ...]:
    """Return validated parts of a kind as they were kept for a text under a name; else build and keep
    them."""
    recalled = _recalled(name, (text,))
    if isinstance(recalled, tuple) and all(isinstance(part, kind) for part in recalled):
        return recalled
    parts = build()
    _keep(name, (text,), parts)
    return parts


def _recalled(name: str, texts: tuple[str, ...]) -> Any:
    """The value that was kept under a name for these texts; None where there is none."""
    data = recall(name, _made_from(texts))
    if data is None:
        return None
    try:
        return _decoded(data, _models())
    # an entry of another form, which this version did not write
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _keep(name: str, texts: tuple[str, ...], value: Any) -> None:
    """Keep a value, unless it has a kind that :func:`_encoded` does not know."""
    with suppress(TypeError):
        keep(name, _made_from(texts), _encoded(value))


def _made_from(texts: tuple[str, ...]) -> str:
    """The key of an entry: the texts, and when the code that validates them last changed, as it does
    in a checkout."""
    changed = newest_change_ns(os.path.dirname(__file__), os.path.dirname(field_types.__file__))
    return "\n".join([f"{pydantic.VERSION} {changed}", *texts])


def _models() -> dict[str, type[field_types.Part]]:
    """The classes that a fabric is made of, by name."""
    models: dict[str, type[field_types.Part]] = {}
    waiting = [field_types.Part]
    while waiting:
        model = waiting.pop()
        # other packages have subclasses too, some of the same name
        if model.__module__.startswith(_PACKAGE):
            models[model.__name__] = model
        waiting += model.__subclasses__()
    return models


def _encoded(value: Any) -> Any:
    """A value as JSON data; TypeError for a kind that no fabric has."""
    if type(value) in _PLAIN:
        return value
    if type(value) is tuple:
        return [_encoded(item) for item in value]
    if isinstance(value, Primitive):
        return {"primitive": value.value}
    if type(value) is list:
        return {"list": [_encoded(item) for item in value]}
    if type(value) is dict:
        return {"dict": [[_encoded(key), _encoded(item)] for key, item in value.items()]}
    if isinstance(value, field_types.Part):
        # what pydantic itself pickles of a model; "stated" are the fields that the file has
        state = value.__getstate__()
        private = state["__pydantic_private__"]
        return {
            "model": type(value).__name__,
            "fields": {key: _encoded(item) for key, item in state["__dict__"].items()},
            "stated": sorted(state["__pydantic_fields_set__"]),
            "private": {key: _encoded(item) for key, item in (private or {}).items()},
        }
    raise TypeError(type(value).__name__)


def _decoded(data: Any, models: dict[str, type[field_types.Part]]) -> Any:
    """Read back the value that :func:`_encoded` wrote; ``models`` are the classes by name."""
    if isinstance(data, list):
        return tuple(_decoded(item, models) for item in data)
    if not isinstance(data, dict):
        return data
    if "primitive" in data:
        return Primitive(data["primitive"])
    if "list" in data:
        return [_decoded(item, models) for item in data["list"]]
    if "dict" in data:
        return {_decoded(key, models): _decoded(item, models) for key, item in data["dict"]}
    model = models[data["model"]]
    private = {key: _decoded(item, models) for key, item in data["private"].items()}
    part = model.__new__(model)
    part.__setstate__(
        {
            "__dict__": {key: _decoded(item, models) for key, item in data["fields"].items()},
            "__pydantic_extra__": None,
            "__pydantic_fields_set__": set(data["stated"]),
            "__pydantic_private__": private or None,
        }
    )
    return part
