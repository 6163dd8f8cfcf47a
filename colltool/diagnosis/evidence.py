"""What a diagnosis starts from: series of logs and traces, and the machine that they name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import counted
from colltool.base.primitives import Primitive
from colltool.calibration.series_prices import MOST_IN_A_HOST
from colltool.definitions.reader import Overrides
from colltool.diagnosis.results import AssumedFabric, BoundedCalls, LeftOutKernels
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric
from colltool.measurements.devices import LoggedHardware
from colltool.measurements.series import Measurements, Series


class Evidence(NamedTuple):
    """What was measured: ``logs`` of benchmarks, ``traced`` series, ``bounds`` for traced calls known only as upper bounds.
    ``world`` is the traced job's rank count, ``empty`` the files with nothing in them."""

    logs: Measurements
    named: LoggedHardware = LoggedHardware((), ())
    traced: tuple[Series, ...] = ()
    bounds: tuple[BoundedCalls, ...] = ()
    left_out: tuple[LeftOutKernels, ...] = ()
    world: int | None = None
    empty: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[Series, ...]:
        return (*self.logs.series, *self.traced)

    @property
    def most_ranks(self) -> int:
        """Ranks of the job, or of the largest group seen."""
        return max([self.world or 1, *(one.ranks for one in self.series), *(one.ranks for one in self.bounds)])

    def only(self, primitive: Primitive | None) -> Evidence:
        if primitive is None:
            return self
        there = dict.fromkeys(map(str, [*(one.primitive for one in self.series), *(one.primitive for one in self.bounds)]))
        if there and str(primitive) not in there:
            what = f"the logs hold no {primitive.spoken}"
            raise ColltoolError(what, argument="primitive", fix=f"they hold: {', '.join(there)}")
        kept = tuple(one for one in self.logs.series if one.primitive is primitive)
        traced = tuple(one for one in self.traced if one.primitive is primitive)
        bounds = tuple(one for one in self.bounds if one.primitive is primitive)
        return self._replace(logs=self.logs._replace(series=kept), traced=traced, bounds=bounds)

    def on(self, fabric: Fabric) -> Measurements:
        """All series; traced ones placed on the fewest hosts of this fabric that hold them."""
        inside = fabric.tiers[0].endpoints
        hosts = [
            one._replace(nodes=max(one.ranks // inside, 1))
            if inside <= MOST_IN_A_HOST and (one.ranks < inside or one.ranks % inside == 0)
            else one
            for one in self.traced
        ]
        return self.logs._replace(series=(*self.logs.series, *hosts))


# device name -> bundled fabric of the usual machine around it; the first match counts
_KNOWN: tuple[tuple[str, str], ...] = (
    (r"\bGB[23]00\b", "nvl72"),
    (r"\bB[23]00\b", "dgx-b200"),
    (r"\bH200\b", "hgx-h200"),
    (r"\bH100\b", "dgx-h100"),
    (r"\bA100\b", "dgx-a100"),
    (r"\bMI300X\b", "mi300x"),
)
_CARD = re.compile(r"pcie|\bNVL\b", re.IGNORECASE)  # cards in slots, not joined by NVSwitch


def given_fabric(fabric: Fabric, machine: LoggedHardware) -> tuple[Fabric, AssumedFabric]:
    said = [*_read(machine), f"fabric {fabric.name}, as given"]
    own, nearest = _generation(fabric), dict.fromkeys(filter(None, map(_name_of, machine.devices)))
    others = [name for name in nearest if own and _generation(load_fabric(name)) != own]
    said += [f"the devices do not match {fabric.name}: the nearest bundled fabric is {name}" for name in others]
    return fabric, AssumedFabric(fabric.name, fabric.overrides, machine.devices, machine.hosts, tuple(said))


def _generation(fabric: Fabric) -> str | None:
    return fabric.library_facts.gpu if fabric.library_facts else None


def nearest_fabric(seen: Evidence, overrides: Overrides = ()) -> tuple[Fabric, AssumedFabric]:
    """The bundled fabric nearest to the devices that logs name, resized to what they ran on."""
    machine = seen.named
    cure = f"name the machine: {given('fabric', 'dgx-h100')}, or a file of your own"
    if not machine.devices:
        raise ColltoolError("the logs do not name their devices", argument="fabric", fix=cure)
    found = {device: _name_of(device) for device in machine.devices}
    unknown = next((device for device, name in found.items() if not name), None)
    if unknown is not None:
        raise ColltoolError(f"no bundled fabric has {unknown}", argument="fabric", fix=cure)
    if len(set(found.values())) > 1:
        what = f"the logs come from different machines: {', '.join(found)}"
        raise ColltoolError(what, argument="logs", fix="give the logs of one machine at a time")
    name = found[machine.devices[0]]
    sizes = _sizes(load_fabric(name), seen)
    plain = load_fabric(name, sizes)
    fabric = load_fabric(name, {**dict(plain.overrides), **overrides} if isinstance(overrides, Mapping) else [*sizes, *overrides])
    said = [*_read(machine), f"fabric {name}, the nearest bundled one: assumed from the devices"]
    said += [f"{one}: the size of the measured group" for one in sizes]
    if len(fabric.tiers) > 1 and seen.most_ranks > fabric.tiers[0].endpoints:
        said.append(f"the network of {name} is assumed: the logs do not name NICs ({fabric.tiers[-1].name})")
    return fabric, AssumedFabric(name, fabric.overrides, machine.devices, machine.hosts, tuple(said))


def _read(machine: LoggedHardware) -> list[str]:
    if not machine.devices:
        return []
    on = f" on {counted(len(machine.hosts), 'host')}" if machine.hosts else ""
    return [f"{', '.join(machine.devices)}{on}: read from the logs"]


def _name_of(device: str) -> str:
    if _CARD.search(device):
        return ""
    return next((name for pattern, name in _KNOWN if re.search(pattern, device)), "")


def _sizes(fabric: Fabric, seen: Evidence) -> list[str]:
    """Overrides for the innermost and outermost tier where the logs ran on other sizes; traced ranks fill host after host."""
    inner, outer = fabric.tiers[0], fabric.tiers[-1]
    if len(fabric.tiers) == 1 or inner.endpoints > MOST_IN_A_HOST:
        return []
    series = seen.logs.series
    shared = {one.ranks // one.nodes for one in series if one.nodes and one.nodes > 1 and one.ranks % one.nodes == 0}
    if len(shared) > 1:
        return []
    per_host = min(shared.pop() if shared else inner.endpoints, inner.endpoints)
    hosts = max(-(-seen.most_ranks // per_host), *(one.nodes or 1 for one in series), 1)
    out = [f"{inner.name}.size={per_host}"] if per_host < inner.endpoints else []
    return [*out, f"{outer.name}.size={hosts}"] if hosts > outer.endpoints else out
