"""Which machine logs come from, by the devices that they name: the nearest bundled fabric, resized
to what ran.

:func:`given_fabric` takes the user's fabric as it is; :func:`nearest_fabric` looks for one by the
named devices, else by the measured times: where machines of several generations fit these, it asks
which it was. Both say what was read and what was assumed.

A ``share`` is what measured series reach of the rates that a machine's prices have: of its fastest
prices, or of those of rings, the least that a healthy machine reaches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import log
from operator import attrgetter
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.statements import NOTHING, Statement
from colltool.calibration.log_fits import MOST_IN_A_HOST
from colltool.calibration.other_hardware import device_of, other_devices
from colltool.definitions.overrides import Overrides
from colltool.diagnosis.assumed_fabric import MachineFabric, assumed_fabric, source_of
from colltool.diagnosis.declared_causes import declared_causes
from colltool.diagnosis.evidence import Evidence
from colltool.diagnosis.networks import (
    SHOWS_RATE,
    TWO_HOSTS,
    USUAL_SHARE,
    is_stream,
    share_reached,
)
from colltool.diagnosis.results import AssumedFabric
from colltool.diagnosis.sentences import statement
from colltool.diagnosis.thresholds import FASTER, HEALTHY_SHARE, across_hosts
from colltool.estimate.interval import generation_of
from colltool.fabric.bundled_for import PCI_ID, DeviceMatch, bundled_for
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.variants import INNERMOST, with_tiers
from colltool.logs.series import LogLibrary, Series, log_library, on_devices


def given_fabric(fabric: Fabric, seen: Evidence) -> MachineFabric:
    """The user's fabric, with hosts of another size where all runs across hosts were on fewer ranks
    of each, or of MPI on more."""
    statements = [*devices_read(seen), statement("fabric-given", fabric=fabric.name)]
    overrides: tuple[tuple[str, str], ...] = fabric.overrides
    inner = fabric.tiers[0]
    host_sizes = seen.ranks_per_host
    is_host = inner.topology == "star" and inner.endpoints <= MOST_IN_A_HOST
    if len(fabric.tiers) > 1 and is_host and len(host_sizes) == 1:
        (size,) = host_sizes
        has_more = size > inner.endpoints and _on_processors(seen, inner)
        if has_more or size < inner.endpoints:
            fabric = with_tiers(
                fabric, lambda tier: tier.model_copy(update={"size": size}), INNERMOST
            )
            statements.append(statement("hosts-of", ranks=size, tier=inner.name, size=size))
        if has_more:
            overrides = (*overrides, (f"{inner.name}.size", str(size)))
            statements.append(statement("rate-per-rank", tier=fabric.tiers[-1].name))
    for name in dict.fromkeys(other_devices(fabric, seen.named.devices).values()):
        statements.append(statement("other-devices", fabric=fabric.name, nearest=name))
    assumed = AssumedFabric(
        fabric=fabric.name,
        overrides=overrides,
        devices=seen.named.devices,
        hosts=seen.named.hosts,
        said=tuple(statements),
        other_hardware=hardware_note(fabric, seen.named.devices),
    )
    return MachineFabric(fabric, assumed)


def _on_processors(seen: Evidence, inner: Tier) -> bool:
    """Whether the ranks of a host were processes of MPI, of which it holds any number."""
    for series in seen.logs.series:
        if across_hosts(series) and on_devices(series.library):
            return False
    # a tier that only so many devices fit in says so
    return inner.max_size is None


def hardware_note(fabric: Fabric, devices: Sequence[str]) -> Statement:
    """What to say first of logs whose devices are not those of a fabric; NOTHING where they may
    be."""
    other = other_devices(fabric, devices)
    if not other:
        return NOTHING
    return statement(
        "other-hardware", devices=tuple(other), fabric=fabric.name, own=device_of(fabric)
    )


def nearest_fabric(seen: Evidence, overrides: Overrides) -> MachineFabric:
    """The bundled fabric nearest to the devices that logs name, or to their times, resized to what
    they ran on.

    Raises:
        ColltoolError: they name a device that is not known, or those of several machines; or name
            none, and the times do not tell.
    """
    statements = devices_read(seen)
    devices = _telling_devices(seen.named.devices)
    mentioned = seen.debug.mentioned
    if not devices and mentioned:
        devices = (mentioned,)
        statements = [statement("device-mentioned", device=mentioned)]
    if not devices:
        return _by_times(seen, overrides)
    fabrics: dict[str, DeviceMatch] = {}  # by name
    for device in devices:
        nearest = bundled_for(device)
        if nearest is None:
            raise _unknown_machine(f"no bundled fabric has {device}", _fitting(seen, overrides))
        fabrics.setdefault(nearest.fabric, nearest)
    if len(fabrics) > 1:
        names = ", ".join(dict.fromkeys(devices))
        raise ColltoolError(
            f"the logs come from different machines: {names}",
            argument="logs",
            fix="give the logs of one machine at a time",
        )
    (nearest,) = fabrics.values()
    statements.append(statement("fabric-nearest", fabric=nearest.fabric))
    return assumed_fabric(nearest, seen, overrides, statements)


# share of a ring's price from which on a machine is not farther off: trees reach up to 1.7
FARTHEST_SHARE = 1.25
# what a driver calls a device that it has no name for: an engineering sample, or too old a driver
_NAMELESS = re.compile(r"(?:NVIDIA )?(?:Graphics )?Device")


def _telling_devices(devices: Sequence[str]) -> tuple[str, ...]:
    """The devices whose names tell the machine; where none does, all that have a name at all.
    Bridges and audio functions have PCI ids, too."""
    telling = []
    for device in devices:
        is_nameless = _NAMELESS.fullmatch(device) or PCI_ID.fullmatch(device)
        if bundled_for(device) or not is_nameless:
            telling.append(device)
    return tuple(telling) or tuple(device for device in devices if not PCI_ID.fullmatch(device))


class _Fit(NamedTuple):
    """A bundled machine that the times may come from."""

    machine: DeviceMatch
    distance: float  # sum over all series of the log ratio by which its prices are off
    generation: str  # of its GPUs; the machine's name where none is known
    network: Statement  # the NICs with which it fits, NOTHING for its own

    def __str__(self) -> str:
        nics = f" with {self.network} per host" if self.network else ""
        return f"{self.machine.fabric}{nics}"


def _unknown_machine(what: str, fits: Sequence[_Fit]) -> ColltoolError:
    """The error that asks for the machine, with those that the times fit."""
    example = argument_text("fabric", "dgx-h100")
    usual = ", ".join(NVIDIA_MACHINES)
    fix = f"name the machine: {example}, or a file of your own; known: {usual} and others"
    if fits:
        what += f"; these would fit the times: {', '.join(map(str, fits))}"
        example = argument_text("fabric", fits[0].machine.fabric)
        fix = f"name the one it is: {example}, or a file of your own"
    return ColltoolError(what, argument="fabric", fix=fix)


# bundled fabrics whose prices tell what logs without a device come from; of each class one, the
# usual first
NVIDIA_MACHINES = (
    "dgx-h100",
    "dgx-a100",
    "dgx-b200",
    "hgx-h200",
    "gh200",
    "nvl72",
    "rtx-pro-6000-pcie",
    "l40s-pcie",
)
AMD_MACHINES = ("mi300x", "mi355x")
# what even slow machines of NVIDIA and of AMD reach
_SLOWEST_NVIDIA = "dgx-a100"
_SLOWEST_AMD = "mi300x"


def _is_of_amd(seen: Evidence) -> bool:
    """Whether AMD's machines ran: where the logs say RCCL; NCCL runs on NVIDIA's alone."""
    return any(log_library(series.library) is LogLibrary.RCCL for series in seen.series)


def _machines(seen: Evidence) -> list[DeviceMatch]:
    """The machines that may have run."""
    names = AMD_MACHINES if _is_of_amd(seen) else NVIDIA_MACHINES
    # they are not found by the name of a device
    return [DeviceMatch("", name) for name in names]


def _by_times(seen: Evidence, overrides: Overrides) -> MachineFabric:
    """The machine whose prices come nearest, where no device is named. Where none fits, the slowest
    usual one, as even that is too fast for the times.

    Raises:
        ColltoolError: machines of several generations fit; no series tells a machine; or there is
            no series, and the logs state no cause.
    """
    question = "which GPUs ran this? The logs do not name their devices"
    shows_machine = any(map(_shows_machine, seen.logs.series))
    # without series the logs may still state what is wrong, whatever the machine is
    if not shows_machine and (seen.logs.series or not any(declared_causes(seen.debug))):
        raise _unknown_machine(question, ())
    fits = _fitting(seen, overrides) if shows_machine else ()
    are_streams = all(map(is_stream, seen.logs.series))
    if len({fit.generation for fit in fits}) > 1 and not are_streams:
        raise _unknown_machine(question, fits)
    best = DeviceMatch("", _SLOWEST_AMD if _is_of_amd(seen) else _SLOWEST_NVIDIA)
    code = "slowest-usual"
    alike: tuple[str, ...] = ()
    if fits:
        best = fits[0].machine
        code = "fits-best"
    # a NIC alone says nothing of GPUs
    if not are_streams:
        alike = tuple(fit.machine.fabric for fit in fits)
    guess = statement(code, fabric=best.fabric, argument=argument_text("fabric", "dgx-h100"))
    fabric, assumed = assumed_fabric(best, seen, overrides, [guess])
    return MachineFabric(fabric, assumed._replace(guessed=True, alike=alike))


def _fitting(seen: Evidence, overrides: Overrides) -> tuple[_Fit, ...]:
    """The machines that may have run what was measured, the nearest first."""
    fits = []
    for machine in _machines(seen):
        # a source that is no name is a box of cards on a network that nothing tells: it would fit
        # too much
        if not isinstance(source_of(machine.fabric, seen), str):
            continue
        fabric, assumed = assumed_fabric(machine, seen, overrides, [])
        # what its own NICs reach is known; with others a ring is the least that it reaches
        has_own_nics = assumed.own and not assumed.network
        distance = _distance(fabric, seen, HEALTHY_SHARE if has_own_nics else 0.0)
        if distance is not None:
            generation = generation_of(fabric) or machine.fabric
            fits.append(_Fit(machine, distance, generation, assumed.network))
    return tuple(sorted(fits, key=attrgetter("distance")))


def _shows_machine(series: Series) -> bool:
    """Whether large messages of a series were measured on devices, or on a NIC alone."""
    on_machine = log_library(series.library).may_be_nccl or is_stream(series)
    return on_machine and series.points[-1].bytes >= SHOWS_RATE


def _distance(fabric: Fabric, seen: Evidence, least: float) -> float | None:
    """How far a machine's prices are from the times, by log ratio, over all series; None where the
    times cannot be this machine's, as where less than the share ``least`` of its fastest prices is
    reached."""
    of_rings = _shares_on(fabric, seen)
    if not of_rings or min(of_rings) < HEALTHY_SHARE or max(of_rings) > TWO_HOSTS:
        return None
    of_fastest = _shares_on(fabric, seen, as_rings=False)
    if min(of_fastest) < least or max(of_fastest) > FASTER:
        return None
    return _distance_to_usual(of_rings)


def _distance_to_usual(shares: Sequence[float]) -> float:
    """0.07 for a share of 1.0 where 0.93 is usual; far above its price a share tells no more."""
    return sum(abs(log(min(share, FARTHEST_SHARE) / USUAL_SHARE)) for share in shares)


def _shares_on(fabric: Fabric, seen: Evidence, *, as_rings: bool = True) -> list[float]:
    """What large messages of each series reach of a machine's rates, without series that it cannot
    run; ``as_rings``: of those of rings."""
    shares = []
    for series in seen.on(fabric).series:
        share = share_reached(fabric, series, as_rings=as_rings)
        if share is not None:
            shares.append(share)
    return shares


def fabrics_that_fit(seen: Evidence) -> tuple[str, ...]:
    """The bundled fabrics that may have run what was measured, the nearest first: their wires are
    fast enough for it, and not so fast that it would be a fault."""
    fits: dict[str, float] = {}
    for machine in _machines(seen):
        fabric, _ = assumed_fabric(machine, seen, (), [])
        shares = _shares_on(fabric, seen, as_rings=False)
        if shares and min(shares) >= HEALTHY_SHARE and max(shares) <= FASTER:
            fits[machine.fabric] = _distance_to_usual(shares)
    return tuple(sorted(fits, key=fits.__getitem__))


def devices_read(seen: Evidence) -> list[Statement]:
    """The devices and the number of hosts that logs name, in a statement; none where they name no
    device."""
    machine = seen.named
    if not machine.devices:
        return []
    hosts = len(machine.hosts)
    return [
        statement(
            "devices-read",
            devices=machine.devices,
            on=statement("on-some-hosts", hosts=hosts) if hosts else NOTHING,
        )
    ]
