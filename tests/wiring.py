"""A run of contention in one call."""

from __future__ import annotations

from typing import Any

import colltool
from colltool.fabric.load import load_fabric
from colltool.wires.results import Contention


def on(fabric: str, *overrides: str, **options: Any) -> Contention:
    """A run on a shipped fabric; keys of a pattern and options of the run together."""
    keys = ("kind", "group", "count", "axis", "stride", "start", "seed", "shape")
    pattern = {key: options.pop(key) for key in keys if key in options}
    return colltool.contention(load_fabric(fabric, overrides), pattern, **options)
