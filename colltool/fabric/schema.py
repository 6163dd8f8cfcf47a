"""The JSON Schema of a definition, for editors: completion and checks while typing."""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import BaseModel

from colltool.fabric.model import Fabric


class Heading(NamedTuple):
    """What a schema says of itself: a word for its id, a title, and what such a file is."""

    word: str
    title: str
    description: str


FABRIC = Heading("fabric", "colltool fabric", "A fabric: its tiers, innermost first, with the latency and bandwidth of each.")
LADDER = Heading("ladder", "colltool ladder", "A ladder: a list of prices to follow, all at one size.")
LAYOUT = Heading(
    "layout", "colltool layout", "A layout: which ranks form which groups, what each runs, and where each rank sits."
)
JOB = Heading("job", "colltool job", "A job: what a training step computes, how its ranks are cut, what it sends and what hides.")


def json_schema(model: type[BaseModel], heading: Heading) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a definition.

    It knows keys, types, bounds and units. What ties values together (groups that nest, names that differ, ranks that are in the
    fabric) only the reader sees.
    """
    schema = model.model_json_schema(by_alias=True)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:colltool:{heading.word}:1",
        "title": heading.title,
        "description": heading.description,
    }
    return head | {key: value for key, value in schema.items() if key not in head}


def fabric_json_schema() -> dict[str, Any]:
    """The JSON Schema of a fabric file."""
    return json_schema(Fabric, FABRIC)
