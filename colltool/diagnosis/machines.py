"""Which machine logs come from, by the devices that they name: the nearest bundled fabric, resized to what ran."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import counted
from colltool.calibration.series_prices import MOST_IN_A_HOST
from colltool.definitions.reader import Overrides
from colltool.diagnosis.evidence import Evidence
from colltool.diagnosis.results import AssumedFabric
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric
from colltool.measurements.nccl_tests import LoggedHardware


class Known(NamedTuple):
    """Devices by their name, the bundled fabric of the usual machine around them, and what differs."""

    pattern: str
    fabric: str
    differs: tuple[str, ...] = ()


_KNOWN: tuple[Known, ...] = (  # the first match counts
    Known(r"\bGB300\b", "gb300-nvl72"),
    Known(r"\bGB200\b", "nvl72"),
    Known(r"\bGH200\b", "gh200"),
    Known(r"\bB300\b", "dgx-b300"),
    Known(r"\bB200\b", "dgx-b200"),
    Known(r"\bH200\b", "hgx-h200"),
    Known(r"\bH100\b", "dgx-h100"),
    Known(r"\bH800\b", "hgx-h800"),
    Known(r"\bH20\b", "hgx-h20"),
    Known(r"\bA100\b", "dgx-a100"),
    Known(r"\bA800\b", "hgx-a800"),
    # six NVLinks of 25 GB/s: NVIDIA Tesla V100 data sheet
    Known(r"\bV100\b", "dgx-a100", ("nvlink.bandwidth=150GB/s",)),
    Known(r"\bMI300X\b", "mi300x"),
    Known(r"\bMI325X\b", "mi325x"),
    Known(r"\bMI355X\b", "mi355x"),
    Known(r"\bL40S?\b|\bL4\b|\bT4\b|\bA10G?\b|\bA40\b|RTX", "l40s-pcie"),
)
_CARDS = Known("", "a100-pcie")  # GPUs in slots, not joined by NVSwitch
_CARD = re.compile(r"pcie|\bNVL\b", re.IGNORECASE)


def known(device: str) -> Known | None:
    if _CARD.search(device):
        return _CARDS
    return next((one for one in _KNOWN if re.search(one.pattern, device)), None)


def given_fabric(fabric: Fabric, machine: LoggedHardware) -> tuple[Fabric, AssumedFabric]:
    said = [*_read(machine), f"fabric {fabric.name}, as given"]
    own, nearest = fabric.library_facts, dict.fromkeys(filter(None, map(_name_of, machine.devices)))
    theirs = {name: load_fabric(name).library_facts for name in nearest} if own and own.gpu else {}
    others = [name for name, facts in theirs.items() if own and (facts.gpu if facts else None) != own.gpu]
    said += [f"the devices do not match {fabric.name}: the nearest bundled fabric is {name}" for name in others]
    return fabric, AssumedFabric(fabric.name, fabric.overrides, machine.devices, machine.hosts, tuple(said))


def nearest_fabric(seen: Evidence, overrides: Overrides = ()) -> tuple[Fabric, AssumedFabric]:
    """The bundled fabric nearest to the devices that logs name, resized to what they ran on.

    ColltoolError where they name none, one that is not known, or those of several machines.
    """
    machine = seen.named
    cure = f"name the machine: {given('fabric', 'dgx-h100')}, or a file of your own"
    if not machine.devices:
        raise ColltoolError("the logs do not name their devices", argument="fabric", fix=cure)
    found = {device: known(device) for device in machine.devices}
    unknown = next((device for device, one in found.items() if one is None), None)
    if unknown is not None:
        raise ColltoolError(f"no bundled fabric has {unknown}", argument="fabric", fix=cure)
    if len({one.fabric for one in found.values() if one}) > 1:
        what = f"the logs come from different machines: {', '.join(found)}"
        raise ColltoolError(what, argument="logs", fix="give the logs of one machine at a time")
    one = found[machine.devices[0]]
    assert one is not None
    fabric, sizes = _sized(one, seen, overrides)
    said = [*_read(machine), f"fabric {one.fabric}, the nearest bundled one: assumed from the devices"]
    said += [f"{size}: the size of the measured group" for size in sizes]
    if len(fabric.tiers) > 1 and seen.most_ranks > fabric.tiers[0].endpoints:
        said.append(f"the network of {one.fabric} is assumed: the logs do not name NICs ({fabric.tiers[-1].name})")
    return fabric, AssumedFabric(one.fabric, fabric.overrides, machine.devices, machine.hosts, tuple(said))


def _sized(one: Known, seen: Evidence, overrides: Overrides) -> tuple[Fabric, list[str]]:
    sizes = _sizes(load_fabric(one.fabric), seen)
    ours = [*one.differs, *sizes]
    if isinstance(overrides, Mapping):
        return load_fabric(one.fabric, {**dict(load_fabric(one.fabric, ours).overrides), **overrides}), sizes
    return load_fabric(one.fabric, [*ours, *overrides]), sizes


def _read(machine: LoggedHardware) -> list[str]:
    if not machine.devices:
        return []
    on = f" on {counted(len(machine.hosts), 'host')}" if machine.hosts else ""
    return [f"{', '.join(machine.devices)}{on}: read from the logs"]


def _name_of(device: str) -> str:
    one = known(device)
    return one.fabric if one else ""


def _sizes(fabric: Fabric, seen: Evidence) -> list[str]:
    """Overrides for the innermost and outermost tier where the logs ran on other sizes; traced ranks fill host after host."""
    inner, outer = fabric.tiers[0], fabric.tiers[-1]
    if len(fabric.tiers) == 1:
        return []
    if inner.endpoints > MOST_IN_A_HOST:  # racks of 72 are used as 64 where a job spans several
        whole = seen.most_ranks <= inner.endpoints or seen.most_ranks % inner.endpoints == 0
        return [] if whole or seen.most_ranks % 64 else [f"{inner.name}.size=64"]
    series = seen.logs.series
    shared = {one.ranks // one.nodes for one in series if one.nodes and one.nodes > 1 and one.ranks % one.nodes == 0}
    if len(shared) > 1:
        return []
    per_host = min(shared.pop() if shared else inner.endpoints, inner.endpoints)
    hosts = max(-(-seen.most_ranks // per_host), *(one.nodes or 1 for one in series), 1)
    out = [f"{inner.name}.size={per_host}"] if per_host < inner.endpoints else []
    return [*out, f"{outer.name}.size={hosts}"] if hosts > outer.endpoints else out
