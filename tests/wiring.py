"""A run of contention in one call, and the names of a lattice's links."""

from __future__ import annotations

from typing import Any

import numpy as np

import colltool
from colltool.congestion.results import Contention
from colltool.fabric.load import load_fabric
from colltool.schedules.links import LatticeLinks


def on(fabric: str, *overrides: str, **options: Any) -> Contention:
    """A run on a shipped fabric; keys of a pattern and options of the run together."""
    keys = ("kind", "group", "count", "axis", "stride", "start", "seed", "shape")
    pattern = {key: options.pop(key) for key in keys if key in options}
    return colltool.contention(load_fabric(fabric, overrides), pattern, **options)


def link_name(net: LatticeLinks, link: int) -> str:
    """A link of an executed schedule's lattice: ``axis 1, (0, 2, 1) -> (1, 2, 1)``."""
    axis, rest = divmod(link, net.ranks * 2)
    rank, direction = divmod(rest, 2)
    place = [int(c) for several in net.coordinates(np.array([rank])) for c in several]
    there = list(place)
    there[axis] = (there[axis] + (1 if direction == 0 else -1)) % net.sizes[axis]
    return f"axis {axis + 1}, {tuple(place)} -> {tuple(there)}"
