"""JSON Schemas of the documents that ``--format json`` prints.

The schema of a document follows from its class (:mod:`colltool.render.documents`); the unit of a
number follows from the name of its key.
"""

from __future__ import annotations

from dataclasses import field, make_dataclass
from functools import cache, reduce
from operator import or_
from pkgutil import resolve_name
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from colltool.base.errors import ColltoolError, clipped, nearest
from colltool.base.statements import Statement
from colltool.render.documents import WRITTEN_AS, Document, field_names

Schema = dict[str, Any]
_UNITS = {
    "_s": "seconds",
    "_Bps": "bytes a second",
    "_W": "watts",
    "_J": "joules",
    "bytes": "bytes",
}


DOCUMENTS = {
    "assumptions": ("report:AssumptionsDocument",),
    "breakdown": ("price:BreakdownDocument",),
    "calibrate": ("calibrate:CalibrateDocument",),
    "channels": ("channels:ChannelsDocument",),
    "compare": ("compare:CompareDocument",),
    "contention": ("contention:ContentionDocument",),
    "contention-eta": ("contention:LayoutEtaDocument",),
    "crossover": ("crossover:CrossoverDocument", "kernels:KernelCrossoverDocument"),
    "diff": ("diff:DiffDocument",),
    "doctor": ("doctor:DoctorDocument",),
    "expect": ("expect:ExpectDocument",),
    "explain": ("explain:ExplainDocument",),
    "explain-list": ("explain:AlgorithmsDocument",),
    "fabric-check": ("checked_files:CheckDocument",),
    "fabric-draw": ("fabric:FabricDrawDocument",),
    "fabric-list": ("fabric:FabricListDocument",),
    "fabric-show": ("fabric:FabricShowDocument",),
    "fabric-size": ("fabric_size:FabricSizeDocument",),
    "fabric-size-direct": ("direct:DirectSizeDocument",),
    "job-check": ("checked_files:CheckDocument",),
    "job-list": ("job:JobListDocument",),
    "job-show": ("job:JobShowDocument",),
    "ladder": ("ladder:LadderDocument",),
    "library-check": ("library_files:LibraryCheckDocument",),
    "library-diff": ("library_files:LibraryDiffDocument",),
    "library-list": ("library_files:LibrariesDocument",),
    "library-show": ("library_files:LibraryDocument",),
    "plan": ("plan:PlanDocument",),
    "plan-compare": ("plan_compare:PlanCompareDocument",),
    "plan-search": ("plan_compare:PlanSearchDocument",),
    "plan-sensitivity": ("plan_compare:PlanSensitivityDocument",),
    "plan-traces": ("plan_traces:PlanTracesDocument",),
    "price": ("price:PriceDocument", "price:PricesDocument", "kernels:KernelPriceDocument"),
    "report": ("report:ReportDocument",),
    "reshard": ("reshard:ReshardDocument",),
    "score": ("score:ScoreDocument",),
    "sensitivity": ("sensitivity:SensitivityDocument",),
    "sensitivity-compare": ("sensitivity:ContestDocument",),
    "serve": ("serve:ServeDocument",),
    "serve-list": ("serve:ServeListDocument",),
    "serve-spread": ("serve:ServeSpreadDocument",),
    "sweep": ("sweep:SweepDocument",),
    "table": ("law_table:TableDocument",),
    "trace": ("trace:TracesDocument",),
    "validate": ("validate:ValidateDocument",),
    "verify": ("verify:VerifyDocument",),
}
"""The classes of each document, in the modules of :mod:`colltool.render.views`. A document of
several classes has the keys of any of them, and requires those of all."""

_COMMANDS = {
    "plan-compare": "plan -f A -f B",
    "plan-search": "plan --search",
    "plan-sensitivity": "plan --vary",
    "plan-traces": "plan FILE.et",
    "sensitivity-compare": "sensitivity -f A -f B",
    "serve-list": "serve -f A -f B, --search",
    "serve-spread": "serve --vary KEY=RANGE",
    "channels": "fabric channels",
    "contention-eta": "contention --as-eta",
    "library-diff": "diff --library",
    "fabric-size-direct": "fabric size --topology T",
    "assumptions": "report",
    "table": "export table",
}
"""The commands of documents whose name is not that of the command."""


FILE_KINDS = {
    "fabric": "colltool.fabric.model:Fabric",
    "job": "colltool.training.files.job:JobFile",
    "layout": "colltool.congestion.layout:LayoutFile",
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
        from colltool.definitions.reader import json_schema

        return json_schema(resolve_name(FILE_KINDS[name]), name.removesuffix("-file"))
    return document_schema(name)


def command_for(document: str) -> str:
    """The command that prints a document: ``fabric show``."""
    return _COMMANDS.get(document) or document.replace("-", " ")


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
    own = _typed_schema(name)
    identity = f"colltool.{name}/1"
    properties = {
        "schema": {"const": identity},
        "colltool": {"type": "string", "description": "the version that wrote it"},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:colltool:output:{name}:1",
        **own,
        "title": identity,
        "properties": properties | own["properties"],
        "required": [*properties, *own["required"]],
        "$defs": own.get("$defs", {}),
    }


def document_classes(name: str) -> list[type[Document]]:
    """The classes of a document by its name."""
    return [resolve_name(f"colltool.render.views.{place}") for place in DOCUMENTS[name]]


def _typed_schema(name: str) -> Schema:
    """The JSON Schema of a document, with units as descriptions."""
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
    for shape in (schema, *schema.get("$defs", {}).values()):
        for key, value in shape.get("properties", {}).items():
            # a key that may be null is an anyOf, without a type and so without a description
            if value.get("type") in ("number", "integer") and _unit(key):
                value["description"] = _unit(key)
    return schema


@cache
def record_type(*kinds: type) -> type:
    """Return a document, or a record as it is, as a data class for pydantic.

    Of several kinds it has the keys of any, and requires those of all.
    """
    hints: dict[str, Any] = {}
    required = []
    for kind in kinds:
        declared = get_type_hints(kind)
        if issubclass(kind, Document) and kind.extends is not None:
            declared = get_type_hints(kind.extends) | declared
        for field_name in _keys(kind):
            hints[field_name] = (
                hints[field_name] | declared[field_name]
                if field_name in hints
                else declared[field_name]
            )
        required.append({name for name, needed in _keys(kind).items() if needed})
    # documents of several classes, such as prices by algorithms and by kernels
    needed = set.intersection(*required)
    record = make_dataclass(
        kinds[0].__name__.removesuffix("Document"),
        [
            (name, _pydantic_type(hint), field() if name in needed else field(default=None))
            for name, hint in hints.items()
        ],
        kw_only=True,
    )
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
        return record_type(WRITTEN_AS.get(kind, kind))
    origin = get_origin(hint)
    # the arguments of a Literal are values, not types
    if origin is None or origin is Literal:
        return hint
    parts = tuple(map(_pydantic_type, get_args(hint)))
    return reduce(or_, parts) if origin in (Union, UnionType) else origin[parts]


def _unit(key: str) -> str:
    return next((unit for suffix, unit in _UNITS.items() if key.endswith(suffix)), "")
