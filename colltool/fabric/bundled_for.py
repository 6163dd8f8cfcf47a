"""The bundled fabric of the usual machine around a device, by the name that its tools print."""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple


class DeviceMatch(NamedTuple):
    """Devices by a pattern of their names, the bundled fabric of the usual machine around them, and
    the overrides in which that machine differs."""

    pattern: str
    fabric: str
    differs: tuple[str, ...] = ()


# The same machine in several hosts.
CLUSTERS = {"mi300x": "mi300x-cluster"}
# GPUs in slots, not joined by NVSwitch
_CARDS = DeviceMatch("", "a100-pcie")
_CARD = re.compile(r"pcie|\bNVL\b", re.IGNORECASE)


def bundled_for(device: str) -> DeviceMatch | None:
    """The match of a device's name, such as ``NVIDIA H100 80GB HBM3``; None where none is known."""
    if _CARD.search(device):
        return _CARDS
    return next((row for row in _table() if re.search(row.pattern, device)), None)


@cache
def _table() -> tuple[DeviceMatch, ...]:
    text = (Path(__file__).parent / "data" / "bundled_for.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return tuple(
        DeviceMatch(row["pattern"], row["fabric"], tuple(row["differs"].split())) for row in rows
    )
