"""JSON Schemas of the documents that ``--format json`` prints, and of the files that are read
(:func:`schema_of`, for ``colltool schema``).

``documents.toml`` names the classes of each document, :func:`record_type` makes data classes of
them, pydantic makes schemas of these (:func:`_typed_schema`), and :func:`document_schema` adds what
all documents have. A document of several classes is printed by one or another of them. The unit of a number
follows from the name of its key.
"""

from __future__ import annotations

from dataclasses import field, make_dataclass
from functools import cache, reduce
from operator import or_
from pathlib import Path
from pkgutil import resolve_name
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from colltool.base.cache import packaged_toml
from colltool.base.errors import ColltoolError, clipped, nearest
from colltool.base.statements import Statement
from colltool.render.documents import WRITTEN_AS, Document, field_names

Schema = dict[str, Any]
# the unit of a number by the end of its key
_UNITS = {
    "_s": "seconds",
    "_Bps": "bytes a second",
    "_W": "watts",
    "_J": "joules",
    "bytes": "bytes",
}


DOCUMENTS: dict[str, dict[str, Any]] = packaged_toml(Path(__file__).parent / "documents.toml")
"""By the name of a document: ``classes``, and ``command`` where that has another name."""

FILE_KINDS = {
    "fabric": "colltool.fabric.model:Fabric",
    "job": "colltool.training.files.job:JobFile",
    "layout": "colltool.congestion.layout_file:LayoutFile",
    "library": "colltool.engines.files:LibraryFile",
    "ladder-file": "colltool.fabric.ladder:LadderFile",
    "machine": "colltool.machines.machine_file:MachineFile",
}
"""The kinds of files that are read, and the model of each."""


def schema_of(name: str) -> Schema:
    """The JSON Schema of a document that is printed, or of a kind of files that is read.

    Raises:
        ColltoolError: nothing is called so; names the nearest.
    """
    if name in FILE_KINDS:
        from colltool.definitions.json_schema import json_schema

        return json_schema(resolve_name(FILE_KINDS[name]), name.removesuffix("-file"))
    return document_schema(name)


def command_for(document: str) -> str:
    """The command that prints a document: ``fabric show`` of ``fabric-show``, unless DOCUMENTS has another."""
    return DOCUMENTS[document].get("command") or document.replace("-", " ")


def documents() -> list[str]:
    """The names of all documents, as in their ``schema``, sorted."""
    return sorted(DOCUMENTS)


def document_schema(name: str) -> Schema:
    """The JSON Schema (draft 2020-12) of ``colltool.NAME/1``.

    Raises:
        ColltoolError: no document is called so; names the nearest.
    """
    if name not in DOCUMENTS:
        known = [*documents(), *FILE_KINDS]
        fix = f"{nearest(name, known)} known: {', '.join(known)}".strip()
        raise ColltoolError(f"nothing with a schema is called '{clipped(name)}'", fix=fix)
    typed = _typed_schema(name)
    identity = f"colltool.{name}/1"
    properties = {
        "schema": {"const": identity},
        "colltool": {"type": "string", "description": "the version that wrote it"},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:colltool:output:{name}:1",
        **typed,
        "title": identity,
        "properties": properties | typed["properties"],
        "required": [*properties, *typed["required"]],
        "$defs": typed.get("$defs", {}),
    }


def document_classes(name: str) -> list[type[Document]]:
    """The classes of a document by its name."""
    return [resolve_name(f"colltool.render.views.{place}") for place in DOCUMENTS[name]["classes"]]


def _typed_schema(name: str) -> Schema:
    """The JSON Schema of a document, with units as descriptions."""
    # imported here, and so the class is within the function: pydantic's schemas take long to load
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

    class Plain(GenerateJsonSchema):
        """Schemas without titles of keys, which repeat their names, and without defaults, which
        only say that a key may be missing."""

        def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
            return False

        def default_schema(self, schema: Any) -> Schema:
            return self.generate_inner(schema["schema"])

    classes: list[Any] = document_classes(name)
    schema = TypeAdapter(record_type(*classes)).json_schema(schema_generator=Plain)
    for object_schema in (schema, *schema.get("$defs", {}).values()):
        for key, value in object_schema.get("properties", {}).items():
            # a key that may be null is an anyOf, without a type and so without a description
            unit = _unit_of(key)
            if unit and value.get("type") in ("number", "integer"):
                value["description"] = unit
    return schema


@cache
def record_type(*kinds: type) -> type:
    """Return a class of documents, or of records as they are, as a data class for pydantic.
    :func:`_pydantic_type` calls it again for the records within.

    Of several kinds it has the keys of any, and requires those of all.
    """
    hints: dict[str, Any] = {}  # the type of each key
    required = []  # the keys that each kind requires
    for kind in kinds:
        declared = get_type_hints(kind)
        if issubclass(kind, Document) and kind.extends is not None:
            declared = get_type_hints(kind.extends) | declared
        keys = _keys(kind)
        for name in keys:
            # a key of several kinds has the type of any of them
            hints[name] = hints[name] | declared[name] if name in hints else declared[name]
        required.append({name for name, needed in keys.items() if needed})
    of_all = set.intersection(*required)
    fields = []
    for name, hint in hints.items():
        default = field() if name in of_all else field(default=None)
        fields.append((name, _pydantic_type(hint), default))
    record = make_dataclass(kinds[0].__name__.removesuffix("Document"), fields, kw_only=True)
    # "allow" of a document that may have further keys
    extra = "allow" if getattr(kinds[0], "open", False) else "forbid"
    record.__pydantic_config__ = {"extra": extra}  # type: ignore[attr-defined]
    return record


def _keys(kind: Any) -> dict[str, bool]:
    """The keys of a document or a record, and whether each is required."""
    if issubclass(kind, Document):
        return {field_name: not declared.optional for field_name, declared in kind.keys.items()}
    return dict.fromkeys(field_names(kind), True)


def _pydantic_type(hint: Any) -> Any:
    """A type with documents and records replaced by data classes that pydantic understands."""
    kind: Any = hint
    if hint is Statement:
        return str
    if isinstance(hint, type) and (issubclass(hint, Document) or field_names(kind)):
        # a record that some document writes has its keys, others their typed fields
        return record_type(WRITTEN_AS.get(kind, kind))
    origin = get_origin(hint)
    # the arguments of a Literal are values, not types
    if origin is None or origin is Literal:
        return hint
    parts = tuple(map(_pydantic_type, get_args(hint)))
    return reduce(or_, parts) if origin in (Union, UnionType) else origin[parts]


def _unit_of(key: str) -> str:
    """The unit in a key's name; empty for none."""
    return next((unit for suffix, unit in _UNITS.items() if key.endswith(suffix)), "")
