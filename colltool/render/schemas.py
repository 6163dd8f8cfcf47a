"""JSON Schemas of the documents that ``--format json`` prints, made of one table of their shapes,
``shapes.txt`` beside this.

A shape lists keys; what a key without a type holds follows from its name, whose unit it carries.
Readings and the document's own ``schema`` are declared elsewhere and taken from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from colltool.base.errors import ColltoolError, clipped, nearest
from colltool.estimate.assumptions import DECLARED, KINDS, takes_count, words

Schema = dict[str, Any]
_UNITS = {
    "_s": "seconds",
    "_Bps": "bytes a second",
    "_W": "watts",
    "_J": "joules",
    "bytes": "bytes",
}
_COUNTED = ("n_alpha", "n_beta", "eta_alpha", "eta_beta", "share", "of_total")
_TYPES = {
    "int": {"type": "integer"},
    "num": {"type": "number"},
    "bool": {"type": "boolean"},
    "text": {"type": "string"},
    "map": {"type": "object"},
    "any": {},
}
_SHARED = (
    "group",
    "accuracy",
    "interval",
    "layers",
    "machine",
    "inert",
    "phase",
    "slow_rank",
    "row",
    "refused",
    "size",
    "model",
)
_KEY = re.compile(r"(?P<name>[^:?~\s]+)(?P<maybe>\?)?(?::(?P<type>\S*?))?(?P<null>~)?")


@cache
def _shapes() -> dict[str, list[str]]:
    """The words of each shape."""
    text = re.sub(r"\n  ", " ", (Path(__file__).parent / "shapes.txt").read_text(encoding="utf-8"))
    lines = [
        line.partition(" = ") for line in text.splitlines() if line and not line.startswith("#")
    ]
    echoed = {name: one.echoed for name, one in DECLARED.items() if one.echoed != "never"}
    readings = [f"{name}{'' if when == 'always' else '?'}:reading" for name, when in echoed.items()]
    return {name: keys.split() for name, _, keys in lines} | {"model": readings}


def reading_schema(name: str) -> Schema:
    """The schema of a reading of the model (:class:`colltool.Readings`)."""
    if isinstance(KINDS[name], type):
        return {"type": "boolean" if KINDS[name] is bool else "number"}
    known: Schema = {"enum": list(words(name))}
    return {"anyOf": [known, {"type": "integer"}]} if takes_count(name) else known


_ASKED = {
    "plan-compare": "plan -f A -f B",
    "plan-search": "plan --search",
    "plan-sensitivity": "plan --vary",
    "plan-traces": "plan FILE.et",
    "sensitivity-compare": "sensitivity -f A -f B",
    "serve-list": "serve -f A -f B, --search",
    "serve-spread": "serve --vary KEY=RANGE",
    "contention-eta": "contention --as-eta",
    "library-diff": "diff --library",
    "fabric-size-direct": "fabric size --topology T",
    "assumptions": "report",
}
"""The words of a document that is not called as its command is."""


FILE_KINDS = {
    "fabric": "colltool.fabric.model:Fabric",
    "job": "colltool.training.files.job:JobFile",
    "layout": "colltool.congestion.layout:LayoutFile",
    "library": "colltool.engines.files:LibraryFile",
    "ladder-file": "colltool.fabric.ladder:LadderFile",
    "machine": "colltool.machines.own:MachineFile",
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


def asked_by(document: str) -> str:
    """The command that prints a document: ``fabric show``."""
    return _ASKED.get(document) or document.replace("-", " ")


def documents() -> list[str]:
    """The documents by the name in their ``schema``, sorted."""
    return sorted(name for name in _shapes() if "." not in name and name not in _SHARED)


def document_schema(name: str) -> Schema:
    """The JSON Schema (draft 2020-12) of ``colltool.NAME/1``.

    Raises:
        ColltoolError: no document is called so; names the nearest.
    """
    if name not in documents():
        known = [*documents(), *FILE_KINDS]
        fix = f"{nearest(name, known)} known: {', '.join(known)}".strip()
        raise ColltoolError(f"nothing with a schema is called '{clipped(name)}'", fix=fix)
    identity = f"colltool.{name}/1"
    own = _object(name)
    properties = {
        "schema": {"const": identity},
        "colltool": {"type": "string", "description": "the version that wrote it"},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:colltool:output:{name}:1",
        "title": identity,
        **own,
        "properties": properties | own["properties"],
        "required": [*properties, *own["required"]],
        "$defs": {one: _object(one) for one in sorted(_reached(name))} | _ANY_DOCUMENT,
    }


_ANY_DOCUMENT: Schema = {
    "document": {
        "type": "object",
        "required": ["schema", "colltool"],
        "properties": {
            "schema": {"type": "string", "pattern": "^colltool\\.[a-z-]+/[0-9]+$"},
            "colltool": {"type": "string"},
        },
    },
}


def _reached(name: str) -> set[str]:
    """The shapes that a shape refers to, directly or through others."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for word in _words(waiting.pop()):
            for one in re.findall(r"@([\w.-]+)", word):
                if one not in found and one != "document":
                    found.add(one)
                    waiting.append(one)
    return found


def _words(name: str) -> Iterator[str]:
    """The keys of a shape, those that it takes from another among them."""
    for word in _shapes()[name]:
        if not word.startswith("<"):
            yield word
            continue
        maybe = "?" * word.endswith("?")
        for other in _words(word[1:].rstrip("?")):
            key, colon, kind = other.partition(":")
            yield f"{key.rstrip('?')}{maybe or '?' * key.endswith('?')}{colon}{kind}"


def _object(name: str) -> Schema:
    properties, required, closed = {}, [], True
    for word in _words(name):
        if word == "...":
            closed = False
            continue
        key = _KEY.fullmatch(word)
        assert key is not None, f"{name}: {word}"
        properties[key["name"]] = _typed(key["name"], key["type"] or "", null=bool(key["null"]))
        if not key["maybe"]:
            required.append(key["name"])
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": not closed,
    }


def _typed(name: str, kind: str, *, null: bool) -> Schema:
    """The schema of a key's value."""
    if kind.startswith("["):
        inner = kind[1:-1]
        found: Schema = {
            "type": "array",
            "items": _typed("", inner.rstrip("~"), null=inner.endswith("~")),
        }
    elif kind.startswith("@"):
        found = {"$ref": f"#/$defs/{kind[1:]}"}
    elif kind == "reading":
        return reading_schema(name)
    else:
        counted = name in _COUNTED or name.endswith(tuple(_UNITS))
        found = dict(_TYPES[kind or ("num" if counted else "text")])
    if null:
        found = {"anyOf": [found, {"type": "null"}]}
    unit = next((text for suffix, text in _UNITS.items() if name.endswith(suffix)), "")
    return found | ({"description": unit} if unit and not kind else {})
