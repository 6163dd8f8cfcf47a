"""The bundled fabric of the usual machine with a device, found by the device's name as tools print
it (``NVIDIA H100 80GB HBM3``). The table is data: ``data/bundled_for.csv``.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from colltool.fabric.data_tables import data_rows


class DeviceMatch(NamedTuple):
    """Devices, and the bundled fabric of the usual machine with them."""

    pattern: str  # a regular expression of their names; empty of a match that no row made
    fabric: str  # its name
    # overrides, KEY=VALUE, by which that machine differs from the fabric
    differs: tuple[str, ...] = ()


# The bundled fabric of several hosts, by that of one: for a dump that has NICs (dumps/usual_machine.py).
CLUSTERS = {"mi300x": "mi300x-cluster"}
# GPUs in PCIe slots, which no NVSwitch joins, whatever their model: no row of the table, so no pattern.
_CARDS = DeviceMatch("", "a100-pcie")
# such as NVIDIA A100-PCIE-40GB, NVIDIA H100 NVL
_CARD = re.compile(r"pcie|\bNVL\b", re.IGNORECASE)


def bundled_for(device: str) -> DeviceMatch | None:
    """Return the match of a device's name, of a card in a PCIe slot always ``_CARDS``; None if no fabric
    is known for it.

    A name is as a driver gives it: of NVML (``NVIDIA GB10``, ``NVIDIA GeForce RTX 4090``), of ROCm
    (``AMD Instinct MI300X VF``, ``AMD Radeon PRO W7900``), its architecture (``gfx942``), or its
    PCI id (``10de:2330``).
    """
    # an id first, as no pattern matches one; what is no id stays as it is
    device = model_by_id(device) or device
    if _CARD.search(device):
        return _CARDS
    return next((row for row in _table() if re.search(row.pattern, device)), None)


# the short name within the name that tools print: H100, GH200, MI300X, RTX PRO 6000
_MODEL = re.compile(r"\b(?:RTX PRO \d{4}|RTX \w*\d{4}|(?:[A-Z]{1,2}|GB|GH|MI)\d{2,3}[A-Z]?)\b")


def short_device(device: str) -> str:
    """The name of a device as people say it. Empty where it holds none that is known.

    >>> short_device("NVIDIA A100-SXM4-80GB"), short_device("NVIDIA H100 PCIe"), short_device("x")
    ('A100', 'H100 PCIe', '')
    """
    found = _MODEL.search(device)
    if found is None:
        return ""
    return f"{found[0]} PCIe" if "PCIE" in device.upper() else found[0]


# a device by name alone, as people and MLPerf write it: h100, GB200, NVIDIA H100-SXM-80GB
_DEVICE = re.compile(
    r"(?:(?:NVIDIA|AMD|INSTINCT)[ -])*([A-Z]{1,3}[0-9]{1,3}[A-Z]?)"
    r"(?:[ -](?:SXM[0-9]?|HBM[0-9A-Z]*|NVL[0-9]+|[0-9]+GB|[0-9]+W|OAM|AIR|LIQUID))*"
)


def fabric_of_device(text: str) -> str:
    """The bundled fabric of the usual machine around a device, where a text names a device and
    nothing else. Empty where it names none, or where its machine differs from all that are bundled.

    >>> fabric_of_device("h100"), fabric_of_device("MI300X-192GB-750W"), fabric_of_device("my-h100")
    ('dgx-h100', 'mi300x', '')
    """
    if not _DEVICE.fullmatch(text.upper()):
        return ""
    match = bundled_for(text.upper())
    return match.fabric if match is not None and not match.differs else ""


# a PCI id as tools write it: 10de:2330 or 0x10de:0x2330
PCI_ID = re.compile(r"(?:0x)?([0-9a-f]{4}):(?:0x)?([0-9a-f]{4})")


def model_by_id(device: str) -> str:
    """The model of an accelerator by its PCI id. Empty for any other text, and for other devices.

    >>> model_by_id("10de:2330"), model_by_id("8086:1234")
    ('NVIDIA H100', '')
    """
    match = PCI_ID.fullmatch(device)
    if match is None:
        return ""
    return accelerators().get(f"0x{match[1]}:0x{match[2]}", "")


@cache
def accelerators() -> dict[str, str]:
    """Return models by three kinds of key: PCI vendor and device (``0x10de:0x2330``), compute capability
    (``90``), and architecture (``gfx942``)."""
    return {device["id"]: device["model"] for device in data_rows("accelerators.csv")}


@cache
def _table() -> tuple[DeviceMatch, ...]:
    """The rows of the table; the first whose pattern a name has counts."""
    matches = []
    for machine in data_rows("bundled_for.csv"):
        differs = tuple(machine["differs"].split())
        matches.append(DeviceMatch(machine["pattern"], machine["fabric"], differs))
    return tuple(matches)
