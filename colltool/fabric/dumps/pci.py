"""What PCI says of a device: the rate of its slot, the model of an accelerator, and the model and
rate of a NIC. The tables are data: ``data/accelerators.csv``,
``data/nics.csv`` and, for what a host usually has, ``data/usual_hosts.csv``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.fabric.bundled_for import accelerators
from colltool.fabric.data_tables import data_rows
from colltool.fabric.dumps.nics import Nic

# PCI classes, as the starts of their texts: InfiniBand, and any network controller (InfiniBand too).
INFINIBAND = "0x0207"
NETWORK = "0x02"
# Accelerators are 3D controllers, displays and processing accelerators.
ACCELERATORS = ("0x0302", "0x0300", "0x1200", "0x0380")

# Bytes/s of a lane for each GT/s: one bit per transfer; encoding is left to eta, as in the shipped
# fabrics. What NCCL counts of a slot is less: TRANSFERS_COUNTED of libraries/nccl/topology/rates.py.
LANE_BPS = 1e9 / 8
SLOT_LANES = 16  # of the slot of an accelerator or NIC

# The names of the same GPUs with a Grace CPU.
_ON_GRACE = {
    "NVIDIA H100": "NVIDIA GH200",
    "NVIDIA B200": "NVIDIA GB200",
    "NVIDIA B300": "NVIDIA GB300",
}


class NicModel(NamedTuple):
    """A NIC by its PCI id.

    Args:
        rate_Bps: the fastest port of such a card, one way; None if several share the id.
        medium: what it speaks if the class of the device does not say; empty if unknown.
    """

    name: str
    rate_Bps: float | None = None
    medium: str = ""


class UsualHost(NamedTuple):
    """What a host usually has around an accelerator; None where it differs or there is none.

    Args:
        slot_Bps: of the accelerator's slot, one way.
        links: NVLinks of an accelerator.
        nic_Bps: of a NIC, one way.
        sm: compute capability.
        per_switch: accelerators on a PCI switch with their NICs; 0: all in slots of the CPUs.
        per_cpu: accelerators of a NUMA domain; None: half of them on each of two.
        c2c: ``5x44712``: links of NVLink-C2C to the CPU, and MB/s of one; empty: none.
    """

    slot_Bps: float | None = None
    links: int | None = None
    nic_Bps: float | None = None
    sm: int | None = None
    per_switch: int | None = None
    per_cpu: int | None = None
    c2c: str = ""


class ModelFound(NamedTuple):
    """An accelerator's model, empty if unknown; ``by_generation``: the architecture or compute
    capability by which alone it is known, and which other models share; empty if by its id."""

    name: str
    by_generation: str = ""


def slot_Bps(speed: str, width: str) -> float | None:
    """Return the bytes/s of a slot, one way, as Linux names it: ``16.0 GT/s PCIe`` and ``16``.

    None if unknown, and for the slot of 2.5 GT/s and one lane that virtual machines show for a
    bridge that is not there. A width of 0 stands for 16 lanes, as NCCL reads it.
    """
    GTps = re.match(r"(\d{1,3}(?:\.\d)?) ?GT/s", speed)
    if GTps is None or not re.fullmatch(r"\d{1,2}", width or "0"):
        return None
    lanes = int(width or 0) or SLOT_LANES
    if float(GTps[1]) <= 2.5 and lanes == 1:
        return None
    return float(GTps[1]) * lanes * LANE_BPS


def lane_GTps(slot_Bps: float) -> float:
    """Return the GT/s of a lane of a slot of 16 lanes that carries so many bytes/s, one way: 32 of 64
    GB/s."""
    return slot_Bps / SLOT_LANES / LANE_BPS


def model_of(device: str, generations: tuple[str, ...] = (), *, grace: bool = False) -> ModelFound:
    """Return the model of an accelerator, by its PCI id if that is known, else by its generation.

    Args:
        device: ``0x10de:0x2330``; empty if unknown.
        generations: compute capability and architecture; the first that is known counts.
        grace: whether its CPU is Grace, with which other names are sold.
    """
    models = accelerators()
    model = models.get(device.lower())
    generation = ""
    if model is None:
        generation = next((key for key in generations if key in models), "")
        model = models.get(generation, "")
    if grace:
        model = _ON_GRACE.get(model, model)
    return ModelFound(model, generation)


def one_model(models: set[str], file: str) -> str:
    """Return the only model of the accelerators of a dump; raises a ColltoolError if there are several.
    ``file``: the dump, for the error."""
    if len(models) > 1:
        raise ColltoolError(
            f"has different accelerators: {', '.join(sorted(filter(None, models)))}",
            where=file,
            fix="dump a node of one kind",
        )
    (model,) = models
    return model


def nic_model(vendor: str, device: str, subsystem: str = "") -> NicModel | None:
    """Return a NIC by its PCI vendor, device and subsystem device (``0x15b3``). None if unknown."""
    key = f"{vendor}:{device}".lower()
    return _nics().get(f"{key}:{subsystem}".lower()) or _nics().get(key)


def nic_of(device_class: str, vendor: str, device: str, subsystem: str = "") -> Nic:
    """Return a NIC, yet without a name, by the PCI class and ids of its device: its medium and model, and
    the rate of the fastest such card."""
    known = nic_model(vendor, device, subsystem) or NicModel("")
    medium = known.medium
    if not medium and device_class.startswith(INFINIBAND):
        medium = "ib"
    elif not medium and device_class.startswith(NETWORK):
        medium = "roce"
    return Nic("", known.rate_Bps, medium, known.name, by_model=known.rate_Bps is not None)


def usual_host(model: str) -> UsualHost:
    """Return what a host usually has around an accelerator of a model such as ``NVIDIA H100``; nothing but
    None for other models."""
    for host in _hosts():
        if re.search(host["pattern"], model):
            return UsualHost(
                slot_Bps=_in_unit(host["slot"], SLOT_LANES * LANE_BPS),
                links=_count(host["links"]),
                nic_Bps=_in_unit(host["nic_gbps"], 1e9 / 8),
                sm=_count(host["sm"]),
                per_switch=_count(host["per_switch"]),
                per_cpu=_count(host["per_cpu"]),
                c2c=host["c2c"],
            )
    return UsualHost()


def is_card(model: str) -> bool:
    """Whether a model is known as a card in a PCIe slot, which no NVLink joins without a bridge."""
    host = usual_host(model)
    return host.slot_Bps is not None and host.links is None and model.startswith("NVIDIA")


def accelerator_id(model: str) -> str:
    """Return ``0x10de:0x2330`` of a model such as ``NVIDIA H100``. Empty if none is known."""
    for device, name in accelerators().items():
        if name == model and ":" in device:
            return device
    return ""


def nic_id(medium: str, rate_Bps: float) -> str:
    """Return the PCI id of a NIC of a medium, of this rate if one is known, else of any; empty where
    none has the medium.

    NVIDIA's stand for all InfiniBand and RoCE, whose medium the class of the device says.
    """
    any_rate = ""
    for card in data_rows("nics.csv"):
        # NVIDIA's have no medium in the table, as they speak either, and alone stand for RoCE
        speaks = card["medium"]
        if not speaks and medium in ("ib", "roce"):
            speaks = medium
        if speaks != medium or (medium == "roce" and card["medium"]):
            continue
        if _in_unit(card["gbps"], 1e9 / 8) == rate_Bps:
            return card["id"]
        # one id of several rates stands for a rate that no other has
        if not any_rate or not card["gbps"]:
            any_rate = card["id"]
    return any_rate


def _count(text: str) -> int | None:
    """A whole number of a table; None where the table has none."""
    return int(text) if text else None


def _in_unit(text: str, unit: float) -> float | None:
    """A number of a table, times the unit that the table has it in; None where the table has none."""
    return float(text) * unit if text else None


@cache
def _hosts() -> list[Mapping[str, str]]:
    """The rows of usual hosts; the first whose pattern a model has counts."""
    return list(data_rows("usual_hosts.csv"))


@cache
def _nics() -> dict[str, NicModel]:
    """NICs by PCI vendor and device, some with the subsystem: ``0x15b3:0x1021``."""
    models = {}
    for card in data_rows("nics.csv"):
        rate_Bps = _in_unit(card["gbps"], 1e9 / 8)
        models[card["id"]] = NicModel(card["model"], rate_Bps, card["medium"])
    return models
