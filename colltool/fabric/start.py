"""A fabric file to start from: a template, tiers typed on a line, or another fabric, with the meaning of each key beside it."""

from __future__ import annotations

import re
from typing import Any

from colltool.base.errors import ColltoolError, given
from colltool.definitions.overrides import Overrides
from colltool.fabric.load import FabricSource, fabric_data, load_fabric
from colltool.fabric.notation import tiers_of
from colltool.fabric.write import commented_text, fabric_text

TEMPLATE = "nvlink:star:8:450GB/s:0.8us,ib:clos:32/64:400Gbps:5us/11us:s=1"  # as the shipped dgx-h100, whose file has the sources
_SIZING = {"rails": 8, "nics_per_rail": 1, "radix": 64}
_OVERHEAD = "5us"

# What each key means, by its path: an index that stands in it counts for that item alone.
COMMENTS = {
    "name": "for titles; any letters, digits, - and _",
    "tiers": "innermost first",
    "tiers.name": "as overrides have it: NAME.bandwidth=900GB/s",
    "tiers.topology": "star, full_mesh, torus, mesh or clos",
    "tiers.0.size": "ranks that it joins",
    "tiers.size": "domains of the tier before that it joins",
    "tiers.shape": "endpoints along each axis",
    "tiers.alpha": "latency of one message, software included; a time needs a unit",
    "tiers.0.bandwidth": "one way, of a rank's port or of one link; GB/s bytes, Gbps bits",
    "tiers.bandwidth": "one way, per rank: a NIC shared by two is half of it",
    "tiers.ports": "parallel ports of that bandwidth",
    "tiers.max_size": "as many as the wiring takes",
    "tiers.cable": "metres of cable, 5 ns each on top of alpha",
    "tiers.energy": "per bit that goes over it",
    "tiers.eta": "contention: times latency, share of bandwidth reached; measure it",
    "tiers.levels": "bottom up; group: endpoints below, alpha: of a pair that meets there",
    "tiers.levels.oversubscription": "oversubscription: a number is of all endpoints below, {uplinks: 2} of the switches below",
    "tiers.in_network": "what its switches compute: NVLS, SHARP",
    "tiers.protocols": "ways of the library, each with what is its own",
    "tiers.algorithms": "what the library runs on groups that end here",
    "tiers.sizing": "for counts and the bill: rails apart, NICs of an endpoint on each, ports of a switch",
    "launch_overhead": "of a call, before its first byte",
    "library": "whose schedules are ranked; gpu and cpu are for NCCL's own cost model",
    "hypothetical": "no such hardware: nobody launches anything on it",
    "device": "what stands at its ends: jobs compute on it",
    "uncertainty": "how far off each may be, for colltool sensitivity",
    "prices": "of parts each, for the bill; they change no time",
}
MORE = {
    "device": "h100",
    "library": "{name: nccl, gpu: hopper, cpu: intel}",
    "uncertainty": "{alpha: 2x, eta.beta: 0.6:0.9}",
    "prices": "{currency: USD, switch: {price: 30000, draws: 1.7kW}, cable: 200, optic: 600, nic: 1500, power: 0.10/kWh}",
}
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")


def fabric_start(source: FabricSource | None = None, tiers: str | None = None, overrides: Overrides = (), name: str = "") -> str:
    """The text of a fabric file that holds, with a few words beside each key.

    Args:
        source: another fabric, whose data it takes over.
        tiers: as :mod:`colltool.fabric.notation` reads them.
        overrides: as of :func:`colltool.fabric.load.load_fabric`.
        name: of the new fabric, made of a file's name; that of the source, or ``my-cluster``, when empty.

    Raises:
        ColltoolError: both a source and tiers, or as :func:`colltool.fabric.load.load_fabric`.
    """
    if source is not None and tiers is not None:
        fix = f"leave out {given('source')} or {given('tiers')}"
        raise ColltoolError("a file starts from a fabric or from tiers, not from both", argument="tiers", fix=fix)
    data = fabric_data(_drafted(tiers) if source is None else source, overrides)
    called = _NO_NAME.sub("-", name).strip("-_")[:64]
    data = _with_schema(data | ({"name": called} if called else {}))
    load_fabric(data)
    head = ["Put your own numbers in, then: colltool fabric check FILE", "All keys: colltool guide fabrics"]
    left = {key: text for key, text in MORE.items() if key not in data}
    return commented_text(data, head, COMMENTS, left)


def yaml_of(source: FabricSource, overrides: Overrides = ()) -> str:
    """A fabric with its overrides as a file that loads to the same.

    Raises:
        ColltoolError: as :func:`colltool.fabric.load.load_fabric`.
    """
    made = [f"with {', '.join(f'{key}={value}' for key, value in load_fabric(source, overrides).overrides)}"] if overrides else []
    return fabric_text(_with_schema(fabric_data(source, overrides)), made)


def _with_schema(data: dict[str, Any]) -> dict[str, Any]:
    return {"schema": "colltool.fabric/1", **data}


def _drafted(tiers: str | None) -> dict[str, Any]:
    """The data of a template, or of tiers."""
    data: dict[str, Any] = {"name": "my-cluster", "tiers": tiers_of(tiers or TEMPLATE), "launch_overhead": _OVERHEAD}
    if tiers is None:
        data["tiers"][-1]["sizing"] = dict(_SIZING)
    return data
