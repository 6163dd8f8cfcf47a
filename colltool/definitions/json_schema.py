"""The JSON Schema of each kind of file, for editors: :func:`json_schema`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

# What each kind of file describes; the description of its JSON schema.
FILES = {
    "fabric": "A fabric: its tiers, innermost first, with the latency and bandwidth of each.",
    "ladder": "A ladder: a list of prices to follow, all at one size.",
    "machine": (
        "Measured rows of one machine, by which its prices are corrected; colltool calibrate writes"
        " them."
    ),
    "layout": "A layout: which ranks form which groups, what each runs, and where each rank sits.",
    "algorithm": "An algorithm: who sends which chunk to whom, step by step.",
    "job": (
        "A job: what a training step computes, how its ranks are cut, what it sends and what hides."
    ),
    "library": (
        "A library: kernels as laws with measured numbers, and which of them it takes at which"
        " size."
    ),
}


def json_schema(model: type[BaseModel], word: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a kind of file, for editors; ``word``: its key in
    :data:`FILES`.

    It covers keys, types, bounds and units; relations between values (nested groups, distinct
    names) only the reader checks.
    """
    schema = model.model_json_schema(by_alias=True)
    for part in [schema, *schema.get("$defs", {}).values()]:
        if "description" in part:
            part["description"] = _unwrapped(part["description"])
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:colltool:{word}:1",
        "title": f"colltool {word}",
        "description": FILES[word],
    }
    return head | {key: value for key, value in schema.items() if key not in head}


def _unwrapped(description: str) -> str:
    """Paragraphs of a docstring as one line each: an editor breaks them where its window ends."""
    paragraphs = description.split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
