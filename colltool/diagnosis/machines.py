"""Which machine logs come from, by the devices that they name: the nearest bundled fabric, resized
to what ran.

:func:`given_fabric` takes the user's fabric as it is; :func:`nearest_fabric` looks for one by the
named devices, else by the measured times: where machines of several generations fit these, it asks
which it was. Both say what was read and what was assumed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from math import log
from operator import attrgetter
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import ceil_div
from colltool.base.statements import NOTHING, Statement
from colltool.calibration.other_hardware import device_of, other_devices
from colltool.calibration.series_prices import MOST_IN_A_HOST
from colltool.definitions.reader import Overrides
from colltool.diagnosis.declared_causes import declared_causes
from colltool.diagnosis.evidence import Evidence
from colltool.diagnosis.networks import (
    SHOWS_RATE,
    TWO_HOSTS,
    USUAL_SHARE,
    NetworkMatch,
    is_stream,
    matching_network,
    nics_of,
    per_host,
    share_reached,
)
from colltool.diagnosis.results import AssumedFabric
from colltool.diagnosis.sentences import statement
from colltool.diagnosis.thresholds import FASTER, HEALTHY_SHARE
from colltool.estimate.interval import generation_of, is_network
from colltool.fabric.bundled_for import CLUSTERS, PCI_ID, DeviceMatch, bundled_for
from colltool.fabric.library_numbers import p2p_unknown, with_p2p
from colltool.fabric.load import FabricSource, fabric_data, load_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.variants import INNERMOST, bandwidth_values, with_tiers
from colltool.logs.series import LogLibrary, Series, log_library


class MachineFabric(NamedTuple):
    """The fabric that logs are compared with, and how it was found."""

    fabric: Fabric
    assumed: AssumedFabric


def given_fabric(fabric: Fabric, seen: Evidence) -> MachineFabric:
    """The user's fabric, but for runs on fewer ranks of each host."""
    said = [*devices_read(seen), statement("fabric-given", fabric=fabric.name)]
    inner = fabric.tiers[0]
    hosts = len(fabric.tiers) > 1 and inner.topology == "star" and inner.endpoints <= MOST_IN_A_HOST
    shapes = seen.ranks_per_host
    if hosts and len(shapes) == 1 and min(shapes) < inner.endpoints:
        (size,) = shapes
        fabric = with_tiers(fabric, lambda tier: tier.model_copy(update={"size": size}), INNERMOST)
        said.append(statement("hosts-of", ranks=size, tier=inner.name, size=size))
    for name in dict.fromkeys(other_devices(fabric, seen.named.devices).values()):
        said.append(statement("other-devices", fabric=fabric.name, nearest=name))
    assumed = AssumedFabric(
        fabric.name,
        fabric.overrides,
        seen.named.devices,
        seen.named.hosts,
        tuple(said),
        other_hardware=hardware_note(fabric, seen.named.devices),
    )
    return MachineFabric(fabric, assumed)


def hardware_note(fabric: Fabric, devices: Sequence[str]) -> Statement:
    """What to say first of logs that are of other hardware than a fabric; else nothing."""
    other = other_devices(fabric, devices)
    if not other:
        return NOTHING
    return statement(
        "other-hardware", devices=tuple(other), fabric=fabric.name, own=device_of(fabric)
    )


def nearest_fabric(seen: Evidence, overrides: Overrides) -> MachineFabric:
    """The bundled fabric nearest to the devices that logs name, or to their times, resized to what
    they ran on.

    ColltoolError where they name one that is not known, or those of several machines.
    """
    said = devices_read(seen)
    devices = _telling(seen.named.devices)
    mentioned = seen.debug.mentioned
    if not devices and mentioned:
        devices = (mentioned,)
        said = [statement("device-mentioned", device=mentioned)]
    if not devices:
        return _by_times(seen, overrides)
    fabrics: dict[str, DeviceMatch] = {}
    for device in devices:
        nearest = bundled_for(device)
        if nearest is None:
            raise _which(f"no bundled fabric has {device}", _fitting(seen, overrides))
        fabrics.setdefault(nearest.fabric, nearest)
    if len(fabrics) > 1:
        names = ", ".join(dict.fromkeys(devices))
        what = f"the logs come from different machines: {names}"
        raise ColltoolError(what, argument="logs", fix="give the logs of one machine at a time")
    (nearest,) = fabrics.values()
    said.append(statement("fabric-nearest", fabric=nearest.fabric))
    return _assumed(nearest, seen, overrides, said)


# what a driver calls a device that it has no name for: an engineering sample, or too old a driver
_NAMELESS = re.compile(r"(?:NVIDIA )?(?:Graphics )?Device")


def _telling(devices: Sequence[str]) -> tuple[str, ...]:
    """The devices whose names tell the machine; all where none does. Bridges and audio functions
    have PCI ids, too."""
    found = []
    for device in devices:
        no_name = _NAMELESS.fullmatch(device) or PCI_ID.fullmatch(device)
        if bundled_for(device) or not no_name:
            found.append(device)
    # without any other name, the driver's own is what can be said
    return tuple(found) or tuple(name for name in devices if not PCI_ID.fullmatch(name))


class _Fit(NamedTuple):
    """A bundled machine that the times may be of: how far its prices are, by log ratio, its GPUs'
    generation, and the NICs with which it fits, if not its own."""

    machine: DeviceMatch
    distance: float
    generation: str
    network: Statement

    def __str__(self) -> str:
        nics = f" with {self.network} per host" if self.network else ""
        return f"{self.machine.fabric}{nics}"


def _which(what: str, fits: Sequence[_Fit]) -> ColltoolError:
    """The error that asks for the machine, with those that the times fit."""
    fix = f"name the machine: {argument_text('fabric', 'dgx-h100')}, or a file of your own"
    if fits:
        what += f"; these would fit the times: {', '.join(map(str, fits))}"
        named = argument_text("fabric", fits[0].machine.fabric)
        fix = f"name the one it is: {named}, or a file of your own"
    return ColltoolError(what, argument="fabric", fix=fix)


# machines whose prices tell what logs without a device come from; of each class one, the usual first
NVIDIA_MACHINES = (
    DeviceMatch("", "dgx-h100"),
    DeviceMatch("", "dgx-a100"),
    DeviceMatch("", "dgx-b200"),
    DeviceMatch("", "hgx-h200"),
    DeviceMatch("", "gh200"),
    DeviceMatch("", "nvl72"),
    DeviceMatch("", "rtx-pro-6000-pcie"),
    DeviceMatch("", "l40s-pcie"),
)
AMD_MACHINES = (DeviceMatch("", "mi300x"), DeviceMatch("", "mi355x"))
# of each maker's, what even slow machines reach
SLOWEST_NVIDIA = DeviceMatch("", "dgx-a100")
SLOWEST_AMD = DeviceMatch("", "mi300x")


def _makers(seen: Evidence) -> tuple[DeviceMatch, ...]:
    """The machines that may have run: AMD's where the logs say RCCL, NVIDIA's else, for NCCL runs
    on no other."""
    rccl = any(log_library(series.library) is LogLibrary.RCCL for series in seen.series)
    return AMD_MACHINES if rccl else NVIDIA_MACHINES


def _by_times(seen: Evidence, overrides: Overrides) -> MachineFabric:
    """The machine whose prices come nearest where no device is named and all that fit are of one
    generation; the slowest usual one where none fits, which even that is too slow for."""
    kernels = any(map(_shows_machine, seen.logs.series))
    if not kernels and (seen.logs.series or not declared_causes(seen.debug)):
        raise _which("which GPUs ran this? The logs do not name their devices", ())
    fits = _fitting(seen, overrides) if kernels else ()
    streams = all(map(is_stream, seen.logs.series))
    if len({fit.generation for fit in fits}) > 1 and not streams:
        raise _which("which GPUs ran this? The logs do not name their devices", fits)
    slowest = SLOWEST_AMD if _makers(seen) is AMD_MACHINES else SLOWEST_NVIDIA
    best = fits[0].machine if fits else slowest
    said = statement(
        "fits-best" if fits else "slowest-usual",
        fabric=best.fabric,
        argument=argument_text("fabric", "dgx-h100"),
    )
    fabric, assumed = _assumed(best, seen, overrides, [said])
    # a NIC alone says nothing of GPUs
    alike = () if streams else tuple(fit.machine.fabric for fit in fits)
    return MachineFabric(fabric, assumed._replace(guessed=True, alike=alike))


def _fitting(seen: Evidence, overrides: Overrides) -> tuple[_Fit, ...]:
    """The machines that may have run what was measured, the nearest first."""
    found = []
    for machine in _makers(seen):
        # a box of cards on a network that nothing tells would fit too much
        if not isinstance(_source(machine.fabric, seen), str):
            continue
        distance = _distance(machine, seen, overrides)
        if distance is not None:
            fabric, assumed = _assumed(machine, seen, overrides, [])
            generation = generation_of(fabric) or machine.fabric
            found.append(_Fit(machine, distance, generation, assumed.network))
    return tuple(sorted(found, key=attrgetter("distance")))


def _shows_machine(series: Series) -> bool:
    """Whether large messages of a series were measured on devices, or on a NIC alone."""
    on_machine = log_library(series.library).may_be_nccl or is_stream(series)
    return on_machine and series.points[-1].bytes >= SHOWS_RATE


def _distance(machine: DeviceMatch, seen: Evidence, overrides: Overrides) -> float | None:
    """How far a machine's prices are from the times, by log ratio; None where the times cannot be
    this machine's."""
    rings = _shares_on(machine, seen, overrides)
    if not rings or min(rings) < HEALTHY_SHARE or max(rings) > TWO_HOSTS:
        return None
    # what its own NICs reach is known; without them a ring is the least that it reaches
    best = _shares_on(machine, seen, overrides, rings=False)
    _, assumed = _assumed(machine, seen, overrides, [])
    if max(best) > FASTER or (assumed.own and not assumed.network and min(best) < HEALTHY_SHARE):
        return None
    return _apart(rings)


def _apart(shares: Sequence[float]) -> float:
    return sum(abs(log(min(share, 1.25) / USUAL_SHARE)) for share in shares)


def _shares_on(
    machine: DeviceMatch, seen: Evidence, overrides: Overrides, *, rings: bool = True
) -> list[float]:
    """What large messages reach of a machine's rates, without series that it cannot run."""
    fabric, _ = _assumed(machine, seen, overrides, [])
    found = [share_reached(fabric, series, rings=rings) for series in seen.on(fabric).series]
    return [share for share in found if share is not None]


def fabrics_that_fit(seen: Evidence) -> tuple[str, ...]:
    """The bundled fabrics that may have run what was measured, the nearest first: none is too slow
    for it, and on none it would be too slow."""
    fits: dict[str, float] = {}
    for machine in _makers(seen):
        shares = _shares_on(machine, seen, (), rings=False)
        if shares and min(shares) >= HEALTHY_SHARE and max(shares) <= FASTER:
            fits[machine.fabric] = _apart(shares)
    return tuple(sorted(fits, key=fits.__getitem__))


def _assumed(
    machine: DeviceMatch, seen: Evidence, overrides: Overrides, said: list[Statement]
) -> MachineFabric:
    """A bundled fabric with the sizes and the network of the logs."""
    source = _source(machine.fabric, seen)
    fabric, sizes = _sized(machine, source, seen, overrides)
    said = [*said, *(statement("measured-size", size=size) for size in sizes)]
    if p2p_unknown(fabric):
        works, how = _peers(fabric, seen)
        said.append(how)
        peers = {} if works is None else {"library.p2p": str(works).lower()}
        fabric = load_fabric(source, {**dict(fabric.overrides), **peers})
    # inside one host nothing is known of the network, and nothing needed
    network = NOTHING
    own = NOTHING
    share = None
    factor = 1.0
    if len(fabric.tiers) > 1 and seen.most_ranks > per_host(fabric):
        own = nics_of(fabric)
        own_Bps = fabric.tiers[-1].bandwidth
        fabric, match, found = _with_network(fabric, source, seen)
        said.append(found)
        if match is not None:
            network = match.said
            share = match.share
            factor = fabric.tiers[-1].bandwidth / own_Bps
    assumed = AssumedFabric(
        fabric=machine.fabric,
        overrides=fabric.overrides,
        devices=seen.named.devices,
        hosts=seen.named.hosts,
        said=tuple(said),
        network=network,
        own=own,
        network_share=share,
        network_factor=factor,
    )
    return MachineFabric(fabric, assumed)


def _with_network(
    fabric: Fabric, source: FabricSource, seen: Evidence
) -> tuple[Fabric, NetworkMatch | None, Statement]:
    """The fabric with the network that the user, NCCL or the times name, the usual NICs if the
    times name them, and a statement of how the network is known."""
    outer = fabric.tiers[-1]
    for key, _ in fabric.overrides:
        if key.startswith(f"{outer.name}.") and not key.endswith(".size"):
            return fabric, None, statement("network-given", tier=outer.name)
    debug = seen.debug
    if debug.nics and debug.nic_GBps:
        rate_Bps = len(debug.nics) * debug.nic_GBps * 1e9 / per_host(fabric)
        said = statement("network-logged", nics=len(debug.nics), rate=debug.nic_GBps)
        return _with_rate(fabric, source, rate_Bps), None, said
    match = matching_network(fabric, seen.on(fabric).series)
    names = {"fabric": fabric.name, "tier": outer.name}
    if match is None:
        return fabric, None, statement("network-assumed", **names)
    said = statement("network-fits", network=match.said, own=nics_of(fabric), **names)
    return _with_rate(fabric, source, match.fabric.tiers[-1].bandwidth), match, said


def _with_rate(fabric: Fabric, source: FabricSource, rate_Bps: float) -> Fabric:
    """The fabric of a source with another bandwidth of its outermost tier."""
    outer = fabric.tiers[-1]
    rates = bandwidth_values(outer, rate_Bps / outer.bandwidth)
    return load_fabric(source, {**dict(fabric.overrides), **rates})


_P2P_WORKS = argument_text("overrides", ["library.p2p=true"])
HOST_NIC_BPS = 50e9
"""The fastest usual NIC of a host of PCIe cards, 400 Gbit/s; slower ones are found by the times."""
# the network between such hosts: its medium, a port's latency in us, and its usual share of the line
_NETWORKS = {
    "socket": ("tcp", 15, 0.94),
    "efa": ("efa", 10, 0.93),
    "ib": ("ib", 2, 0.93),
}


def _source(name: str, seen: Evidence) -> FabricSource:
    """A bundled fabric by name: of more ranks than it has, the cluster that is made of such
    machines; where several hosts ran and it is one, such hosts on a network."""
    if seen.most_ranks > load_fabric(name).ranks:
        name = CLUSTERS.get(name, name)
    fabric = load_fabric(name)
    hosts = max((series.nodes or 1 for series in seen.logs.series), default=1)
    if len(fabric.tiers) > 1 or hosts < 2 or is_network(fabric, fabric.tiers[0]):
        return name
    network = seen.debug.network.lower()
    medium = "socket" if seen.debug.on_sockets else "efa" if "libfabric" in network else "ib"
    called, alpha_us, share = _NETWORKS[medium]
    data = deepcopy(fabric_data(name))
    inside = min(seen.ranks_per_host, default=fabric.tiers[0].endpoints)
    rate_GBps = HOST_NIC_BPS / 1e9 / inside
    tier = {"name": called, "topology": "star", "medium": medium, "size": hosts}
    tier |= {"alpha": f"{alpha_us}us", "bandwidth": f"{rate_GBps:.12g}GB/s", "eta": {"beta": share}}
    data["tiers"].append(tier)
    return data


def _peers(fabric: Fabric, seen: Evidence) -> tuple[bool | None, Statement]:
    """Whether cards in PCIe slots reach each other's memory, and how that is known: by the logs,
    else by the times; None where nothing tells."""
    settings = dict(seen.debug.env)
    off = seen.debug.connections("SHM") or seen.debug.connections("P2P refused")
    if seen.debug.connections("P2P"):
        return True, statement("peers-logged")
    if off or settings.get("NCCL_P2P_DISABLE") == "1":
        return False, statement("no-peers-logged")
    without = with_p2p(fabric, works=False)
    found = [share_reached(without, series) for series in seen.on(without).series]
    shares = [share for share in found if share is not None]
    if not shares:
        return None, statement("peers-unknown", argument=_P2P_WORKS)
    # host memory carries no more than that
    if max(shares) > FASTER:
        return True, statement("peers-by-times")
    return False, statement("no-peers-by-times", argument=_P2P_WORKS)


def _sized(
    machine: DeviceMatch, source: FabricSource, seen: Evidence, overrides: Overrides
) -> tuple[Fabric, list[str]]:
    """A bundled fabric of the sizes that ran, and those that differ from its own."""
    sizes = _sizes(load_fabric(source, list(machine.differs)), seen)
    ours = [*machine.differs, *sizes]
    if isinstance(overrides, Mapping):
        both = {**dict(load_fabric(source, ours).overrides), **overrides}
        return load_fabric(source, both), sizes
    return load_fabric(source, [*ours, *overrides]), sizes


def devices_read(seen: Evidence) -> list[Statement]:
    """The devices and the number of hosts that logs name; empty where they name no device."""
    machine = seen.named
    if not machine.devices:
        return []
    hosts = len(machine.hosts)
    on = statement("on-some-hosts", hosts=hosts) if hosts else NOTHING
    return [statement("devices-read", devices=machine.devices, on=on)]


def _sizes(fabric: Fabric, seen: Evidence) -> list[str]:
    """Overrides such as ``nvlink.size=4`` for the innermost and outermost tier, where the logs ran
    on other sizes; traced ranks fill host after host."""
    inner, outer = fabric.tiers[0], fabric.tiers[-1]
    ranks = seen.most_ranks
    if len(fabric.tiers) == 1:
        # hosts of one device each, joined by nothing but a network
        if ranks <= inner.endpoints or not is_network(fabric, inner):
            return []
        return [f"{inner.name}.size={ranks}", f"{inner.name}.max_size={ranks}"]
    if inner.endpoints > MOST_IN_A_HOST:  # racks of 72 are used as 64 where a job spans several
        whole = ranks <= inner.endpoints or ranks % inner.endpoints == 0
        return [] if whole or ranks % 64 else [f"{inner.name}.size=64"]
    # runs on hosts of different sizes say nothing of the machine's
    shared = seen.ranks_per_host
    if len(shared) > 1:
        return []
    most = max(inner.endpoints, inner.max_size or 0)
    size = min(shared.pop(), most) if shared else inner.endpoints
    hosts = max(ceil_div(ranks, size), *(series.nodes or 1 for series in seen.logs.series), 1)
    found = []
    if size != inner.endpoints:
        found.append(f"{inner.name}.size={size}")
    if hosts > outer.endpoints:
        found.append(f"{outer.name}.size={hosts}")
    return found
