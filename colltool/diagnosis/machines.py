"""Which machine logs come from, by the devices that they name: the nearest bundled fabric, resized
to what ran.

:func:`given_fabric` takes the user's fabric as it is; :func:`nearest_fabric` looks for one by the
named devices, else by the measured times. Both say what was read and what was assumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import ceil_div
from colltool.base.statements import NOTHING, Statement
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
from colltool.diagnosis.thresholds import FASTER, HEALTHY_SHARE, across_hosts
from colltool.fabric.bundled_for import CLUSTERS, DeviceMatch, bundled_for
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.variants import INNERMOST, bandwidth_values, with_tiers
from colltool.logs.series import Series, log_library, on_devices


class MachineFabric(NamedTuple):
    """The fabric that logs are compared with, and how it was found."""

    fabric: Fabric
    assumed: AssumedFabric


def given_fabric(fabric: Fabric, seen: Evidence) -> MachineFabric:
    """The user's fabric, but for runs on fewer ranks of each host, or of MPI on more."""
    said = [*devices_read(seen), statement("fabric-given", fabric=fabric.name)]
    overrides: tuple[tuple[str, str], ...] = fabric.overrides
    inner = fabric.tiers[0]
    hosts = len(fabric.tiers) > 1 and inner.topology == "star" and inner.endpoints <= MOST_IN_A_HOST
    shapes = seen.ranks_per_host
    if hosts and len(shapes) == 1:
        (size,) = shapes
        more = size > inner.endpoints and _on_processors(seen, inner)
        if more or size < inner.endpoints:
            fabric = with_tiers(
                fabric, lambda tier: tier.model_copy(update={"size": size}), INNERMOST
            )
            said.append(statement("hosts-of", ranks=size, tier=inner.name, size=size))
        if more:
            overrides = (*overrides, (f"{inner.name}.size", str(size)))
            said.append(statement("rate-per-rank", tier=fabric.tiers[-1].name))
    for name in _other_devices(fabric, seen):
        said.append(statement("other-devices", fabric=fabric.name, nearest=name))
    assumed = AssumedFabric(
        fabric.name, overrides, seen.named.devices, seen.named.hosts, tuple(said)
    )
    return MachineFabric(fabric, assumed)


def _on_processors(seen: Evidence, inner: Tier) -> bool:
    """Whether the ranks of a host were processes of MPI, of which it holds any number."""
    for series in seen.logs.series:
        if across_hosts(series) and on_devices(series.library):
            return False
    return inner.max_size is None


def _other_devices(fabric: Fabric, seen: Evidence) -> list[str]:
    """Bundled fabrics of devices that the logs name and the fabric does not have."""
    own = fabric.library_facts
    if own is None or not own.gpu:
        return []
    found: dict[str, None] = {}
    for device in seen.named.devices:
        nearest = bundled_for(device)
        if nearest:
            facts = load_fabric(nearest.fabric).library_facts
            if (facts.gpu if facts else None) != own.gpu:
                found[nearest.fabric] = None
    return list(found)


def nearest_fabric(seen: Evidence, overrides: Overrides) -> MachineFabric:
    """The bundled fabric nearest to the devices that logs name, or to their times, resized to what
    they ran on.

    ColltoolError where they name one that is not known, or those of several machines.
    """
    said = devices_read(seen)
    devices = seen.named.devices
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
            what = f"no bundled fabric has {device}"
            raise ColltoolError(what, argument="fabric", fix=_name_machine())
        fabrics.setdefault(nearest.fabric, nearest)
    if len(fabrics) > 1:
        names = ", ".join(dict.fromkeys(devices))
        what = f"the logs come from different machines: {names}"
        raise ColltoolError(what, argument="logs", fix="give the logs of one machine at a time")
    (nearest,) = fabrics.values()
    said.append(statement("fabric-nearest", fabric=nearest.fabric))
    return _assumed(nearest, seen, overrides, said)


def _name_machine() -> str:
    usual = ", ".join(machine.fabric for machine in MEASURED_MACHINES)
    named = argument_text("fabric", "dgx-h100")
    return f"name the machine: {named}, or a file of your own; known: {usual} and others"


# the machines that logs without a device are compared with
USUAL_MACHINES = (
    DeviceMatch("", "dgx-h100"),
    DeviceMatch("", "dgx-a100"),
    DeviceMatch("", "dgx-b200"),
    DeviceMatch("", "mi300x"),
)
SLOWEST = DeviceMatch("", "dgx-a100")


def _by_times(seen: Evidence, overrides: Overrides) -> MachineFabric:
    """The usual machine whose prices come nearest, else the slowest of them: no device is named."""
    kernels = any(map(_shows_machine, seen.logs.series))
    if not kernels and (seen.logs.series or not declared_causes(seen.debug)):
        raise ColltoolError(
            "the logs do not name their devices", argument="fabric", fix=_name_machine()
        )
    fits: dict[DeviceMatch, float] = {}
    for machine in USUAL_MACHINES if kernels else ():
        distance = _distance(machine, seen, overrides)
        if distance is not None:
            fits[machine] = distance
    best = min(fits, key=fits.__getitem__, default=SLOWEST)
    said = statement(
        "fits-best" if fits else "slowest-usual",
        fabric=best.fabric,
        argument=argument_text("fabric", "dgx-h100"),
    )
    fabric, assumed = _assumed(best, seen, overrides, [said])
    return MachineFabric(fabric, assumed._replace(guessed=True))


def _shows_machine(series: Series) -> bool:
    """Whether large messages of a series were measured on devices, or on a NIC alone."""
    on_machine = log_library(series.library).may_be_nccl or is_stream(series)
    return on_machine and series.points[-1].bytes >= SHOWS_RATE


def _distance(machine: DeviceMatch, seen: Evidence, overrides: Overrides) -> float | None:
    """How far a machine's prices are from the times, by log ratio; None where the times cannot be
    this machine's."""
    shares = _shares_on(machine, seen, overrides)
    if not shares or min(shares) < HEALTHY_SHARE or max(shares) > TWO_HOSTS:
        return None
    return _apart(shares)


def _apart(shares: Sequence[float]) -> float:
    return sum(abs(log(min(share, 1.25) / USUAL_SHARE)) for share in shares)


def _shares_on(
    machine: DeviceMatch, seen: Evidence, overrides: Overrides, *, rings: bool = True
) -> list[float]:
    """What large messages reach of a machine's rates, without series that it cannot run."""
    fabric, _ = _assumed(machine, seen, overrides, [])
    found = [share_reached(fabric, series, rings=rings) for series in seen.on(fabric).series]
    return [share for share in found if share is not None]


# machines with measured numbers that a log may come from, whatever it was held against
MEASURED_MACHINES = (
    *USUAL_MACHINES,
    DeviceMatch("", "hgx-h200"),
    DeviceMatch("", "gh200"),
    DeviceMatch("", "nvl72"),
    DeviceMatch("", "rtx-pro-6000-pcie"),
    DeviceMatch("", "l40s-pcie"),
)


def fabrics_that_fit(seen: Evidence) -> tuple[str, ...]:
    """The bundled fabrics that may have run what was measured, the nearest first: none is too slow
    for it, and on none it would be too slow."""
    fits: dict[str, float] = {}
    for machine in MEASURED_MACHINES:
        shares = _shares_on(machine, seen, (), rings=False)
        if shares and min(shares) >= HEALTHY_SHARE and max(shares) <= FASTER:
            fits[machine.fabric] = _apart(shares)
    return tuple(sorted(fits, key=fits.__getitem__))


def _assumed(
    machine: DeviceMatch, seen: Evidence, overrides: Overrides, said: list[Statement]
) -> MachineFabric:
    """A bundled fabric with the sizes and the network of the logs."""
    fabric, sizes = _sized(machine, seen, overrides)
    said = [*said, *(statement("measured-size", size=size) for size in sizes)]
    # inside one host nothing is known of the network, and nothing needed
    network = NOTHING
    own = NOTHING
    share = None
    factor = 1.0
    if len(fabric.tiers) > 1 and seen.most_ranks > per_host(fabric):
        own = nics_of(fabric)
        own_Bps = fabric.tiers[-1].bandwidth
        fabric, match, found = _with_network(fabric, machine, seen)
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
    fabric: Fabric, machine: DeviceMatch, seen: Evidence
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
        return _with_rate(fabric, rate_Bps), None, said
    match = matching_network(fabric, seen.on(fabric).series)
    names = {"fabric": machine.fabric, "tier": outer.name}
    if match is None:
        return fabric, None, statement("network-assumed", **names)
    said = statement("network-fits", network=match.said, own=nics_of(fabric), **names)
    return _with_rate(fabric, match.fabric.tiers[-1].bandwidth), match, said


def _with_rate(fabric: Fabric, rate_Bps: float) -> Fabric:
    """The fabric with another bandwidth of its outermost tier."""
    outer = fabric.tiers[-1]
    rates = bandwidth_values(outer, rate_Bps / outer.bandwidth)
    return load_fabric(fabric.name, {**dict(fabric.overrides), **rates})


def _sized(machine: DeviceMatch, seen: Evidence, overrides: Overrides) -> tuple[Fabric, list[str]]:
    """A bundled fabric of the sizes that ran, and those that differ from its own."""
    # more ranks than the bundled machine has: the cluster that is made of such machines
    name = machine.fabric
    if seen.most_ranks > load_fabric(name).ranks:
        name = CLUSTERS.get(name, name)
    sizes = _sizes(load_fabric(name, list(machine.differs)), seen)
    ours = [*machine.differs, *sizes]
    if isinstance(overrides, Mapping):
        return load_fabric(name, {**dict(load_fabric(name, ours).overrides), **overrides}), sizes
    return load_fabric(name, [*ours, *overrides]), sizes


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
    if len(fabric.tiers) == 1:
        return []
    ranks = seen.most_ranks
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
