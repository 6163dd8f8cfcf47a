"""The JSON Schema of a fabric file, for editors: completion and checks while typing."""

from __future__ import annotations

from typing import Any

from colltool.fabric.model import Fabric


def fabric_json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a fabric file.

    It knows keys, types, bounds and units. What ties values together (groups that nest, names that differ, a clos with
    either ``alpha`` or ``levels``) only ``colltool fabric check`` sees.
    """
    schema = Fabric.model_json_schema(by_alias=True)
    heading = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:colltool:fabric:1",
        "title": "colltool fabric",
        "description": "A fabric: its tiers, innermost first, with the latency and bandwidth of each.",
    }
    return heading | {key: value for key, value in schema.items() if key not in heading}
