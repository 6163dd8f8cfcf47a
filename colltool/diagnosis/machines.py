"""Which machine logs come from, by the devices that they name: the nearest bundled fabric, resized
to what ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log

from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import counted
from colltool.calibration.series_prices import MOST_IN_A_HOST
from colltool.definitions.reader import Overrides
from colltool.diagnosis.declared_causes import told
from colltool.diagnosis.evidence import Evidence
from colltool.diagnosis.networks import (
    SENT,
    TWO_HOSTS,
    USUAL,
    is_stream,
    matching_network,
    nics_of,
    per_host,
    reached,
)
from colltool.diagnosis.results import AssumedFabric
from colltool.diagnosis.thresholds import EXPECT
from colltool.fabric.by_device import CLUSTERS, Known, known
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.variants import INNERMOST, bandwidth_values, with_tiers
from colltool.logs.hardware_in_log import LoggedHardware
from colltool.logs.series import log_library


def given_fabric(fabric: Fabric, seen: Evidence) -> tuple[Fabric, AssumedFabric]:
    """As given, but for runs on fewer ranks of each host."""
    machine = seen.named
    said = [*_read(machine), f"fabric {fabric.name}, as given"]
    shapes = {
        one.ranks // one.nodes
        for one in seen.logs.series
        if one.nodes and one.nodes > 1 and one.ranks % one.nodes == 0
    }
    inner = fabric.tiers[0]
    hosts = len(fabric.tiers) > 1 and inner.topology == "star" and inner.endpoints <= MOST_IN_A_HOST
    if hosts and len(shapes) == 1 and min(shapes) < inner.endpoints:
        (size,) = shapes
        fabric = with_tiers(fabric, lambda tier: tier.model_copy(update={"size": size}), INNERMOST)
        said.append(f"{counted(size, 'rank')} a host ran: {inner.name} taken as of {size}")
    own, nearest = fabric.library_facts, dict.fromkeys(filter(None, map(_name_of, machine.devices)))
    theirs = {name: load_fabric(name).library_facts for name in nearest} if own and own.gpu else {}
    others = [
        name for name, facts in theirs.items() if own and (facts.gpu if facts else None) != own.gpu
    ]
    said += [
        f"the devices do not match {fabric.name}: the nearest bundled fabric is {name}"
        for name in others
    ]
    return fabric, AssumedFabric(
        fabric.name, fabric.overrides, machine.devices, machine.hosts, tuple(said)
    )


def nearest_fabric(seen: Evidence, overrides: Overrides = ()) -> tuple[Fabric, AssumedFabric]:
    """The bundled fabric nearest to the devices that logs name, or to their times, resized to what
    they ran on.

    ColltoolError where they name one that is not known, or those of several machines.
    """
    machine = seen.named
    devices = machine.devices or ((seen.debug.mentioned,) if seen.debug.mentioned else ())
    cure = f"name the machine: {given('fabric', 'dgx-h100')}, or a file of your own"
    if not devices:
        return _by_times(seen, overrides, cure)
    found = {device: known(device) for device in devices}
    unknown = next((device for device, one in found.items() if one is None), None)
    if unknown is not None:
        raise ColltoolError(f"no bundled fabric has {unknown}", argument="fabric", fix=cure)
    if len({one.fabric for one in found.values() if one}) > 1:
        what = f"the logs come from different machines: {', '.join(found)}"
        raise ColltoolError(what, argument="logs", fix="give the logs of one machine at a time")
    one = found[devices[0]]
    assert one is not None
    said = (
        [*_read(machine)]
        if machine.devices
        else [f"{devices[0]}: the text of the logs mentions it"]
    )
    said.append(f"fabric {one.fabric}, the nearest bundled one: assumed from the devices")
    return _assumed(one, seen, overrides, said)


USUAL_MACHINES = (
    Known("", "dgx-h100"),
    Known("", "dgx-a100"),
    Known("", "dgx-b200"),
    Known("", "mi300x"),
)
SLOWEST = Known("", "dgx-a100")


def _by_times(seen: Evidence, overrides: Overrides, cure: str) -> tuple[Fabric, AssumedFabric]:
    """Where no device is named: the usual machine whose prices come nearest, else the slowest,
    which is then too fast."""
    fits: list[tuple[float, Known]] = []
    long = [one for one in seen.logs.series if one.points[-1].bytes >= SENT]
    kernels = [one for one in long if log_library(one.library).may_be_nccl or is_stream(one)]
    for one in USUAL_MACHINES if kernels else ():
        held, _ = _assumed(one, seen, overrides, [])
        shares = [
            share for each in seen.on(held).series if (share := reached(held, each)) is not None
        ]
        if shares and min(shares) >= EXPECT and max(shares) <= TWO_HOSTS:
            fits.append((sum(abs(log(min(share, 1.25) / USUAL)) for share in shares), one))
    if not kernels and (seen.logs.series or not told(seen.debug)):
        raise ColltoolError("the logs do not name their devices", argument="fabric", fix=cure)
    best = min(fits, key=lambda fit: fit[0])[1] if fits else SLOWEST
    why = "the usual machine that fits best" if fits else "the slowest of the usual machines"
    said = (
        f"the logs name no device: held against {best.fabric}, {why}; {given('fabric', 'dgx-h100')}"
        " names another"
    )
    fabric, assumed = _assumed(best, seen, overrides, [said])
    return fabric, assumed._replace(guessed=True)


def _assumed(
    one: Known, seen: Evidence, overrides: Overrides, said: Sequence[str]
) -> tuple[Fabric, AssumedFabric]:
    fabric, sizes = _sized(one, seen, overrides)
    told = [*said, *(f"{size}: the size of the measured group" for size in sizes)]
    match, own = None, nics_of(fabric)
    several = len(fabric.tiers) > 1 and seen.most_ranks > fabric.tiers[0].endpoints
    outer = fabric.tiers[-1]
    if several and any(
        key.startswith(f"{outer.name}.") and not key.endswith(".size")
        for key, _ in fabric.overrides
    ):
        told.append(f"the network is as given ({outer.name})")
    elif several and (rate := _logged_rate(seen, per_host(fabric))):
        fabric = _with_rate(fabric, rate / outer.bandwidth)
        told.append(
            f"{len(seen.debug.nics)} NICs of {seen.debug.nic_GBps:g} GB/s a host: NCCL's own lines"
        )
    elif several:
        match = matching_network(fabric, seen.on(fabric).series)
        what = f"the network of {one.fabric} is assumed: the logs do not name NICs ({outer.name})"
        if match:
            fabric = _with_rate(fabric, match.fabric.tiers[-1].bandwidth / outer.bandwidth)
            what = (
                f"{match.said} fit the times between hosts, {own} of {one.fabric} do not: the logs"
                f" name no NICs ({outer.name})"
            )
        told.append(what)
    return fabric, AssumedFabric(
        fabric=one.fabric,
        overrides=fabric.overrides,
        devices=seen.named.devices,
        hosts=seen.named.hosts,
        said=tuple(told),
        network=match.said if match else "",
        own=own if several else "",
    )


def _logged_rate(seen: Evidence, devices: int) -> float | None:
    """Bytes/s a device of the NICs that NCCL lists."""
    debug = seen.debug
    return (
        len(debug.nics) * debug.nic_GBps * 1e9 / devices if debug.nics and debug.nic_GBps else None
    )


def _with_rate(fabric: Fabric, share: float) -> Fabric:
    rates = bandwidth_values(fabric.tiers[-1], share)
    return load_fabric(fabric.name, {**dict(fabric.overrides), **rates})


def _sized(one: Known, seen: Evidence, overrides: Overrides) -> tuple[Fabric, list[str]]:
    name = (
        one.fabric
        if seen.most_ranks <= load_fabric(one.fabric).ranks
        else CLUSTERS.get(one.fabric, one.fabric)
    )
    sizes = _sizes(load_fabric(name, list(one.differs)), seen)
    ours = [*one.differs, *sizes]
    if isinstance(overrides, Mapping):
        return load_fabric(name, {**dict(load_fabric(name, ours).overrides), **overrides}), sizes
    return load_fabric(name, [*ours, *overrides]), sizes


def _read(machine: LoggedHardware) -> list[str]:
    if not machine.devices:
        return []
    on = f" on {counted(len(machine.hosts), 'host')}" if machine.hosts else ""
    return [f"{', '.join(machine.devices)}{on}: read from the logs"]


def _name_of(device: str) -> str:
    one = known(device)
    return one.fabric if one else ""


def _sizes(fabric: Fabric, seen: Evidence) -> list[str]:
    """Overrides for the innermost and outermost tier where the logs ran on other sizes; traced
    ranks fill host after host."""
    inner, outer = fabric.tiers[0], fabric.tiers[-1]
    if len(fabric.tiers) == 1:
        return []
    if inner.endpoints > MOST_IN_A_HOST:  # racks of 72 are used as 64 where a job spans several
        whole = seen.most_ranks <= inner.endpoints or seen.most_ranks % inner.endpoints == 0
        return [] if whole or seen.most_ranks % 64 else [f"{inner.name}.size=64"]
    series = seen.logs.series
    shared = {
        one.ranks // one.nodes
        for one in series
        if one.nodes and one.nodes > 1 and one.ranks % one.nodes == 0
    }
    if len(shared) > 1:
        return []
    most = max(inner.endpoints, inner.max_size or 0)
    each = min(shared.pop() if shared else inner.endpoints, most)
    hosts = max(-(-seen.most_ranks // each), *(one.nodes or 1 for one in series), 1)
    out = [f"{inner.name}.size={each}"] if each != inner.endpoints else []
    return [*out, f"{outer.name}.size={hosts}"] if hosts > outer.endpoints else out
