"""The NICs of a node: which of them serve its accelerators (:func:`serving`), and what they carry
together (:func:`together_Bps`).

NCCL sends over the NICs that its GPUs reach fastest, and of these over the nearest: behind the same
PCIe switch, then at the same CPU. A GPU without a NIC of its own that is linked to others uses theirs
(PXN) rather than one that is at its CPU alone. So a NIC at a CPU without GPUs, or at one where others
share a switch with the GPUs, is one for storage or management.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from enum import IntEnum
from itertools import filterfalse
from typing import NamedTuple

from colltool.base.errors import clipped
from colltool.base.formatting import counted

# Names in a note.
_SHOWN = 6


class NicDistance(IntEnum):
    """How far a NIC is from an accelerator."""

    SWITCH = 0
    CPU = 1
    FAR = 2


class Nic(NamedTuple):
    """A port of a NIC.

    Args:
        name: of the device, as the dump has it.
        rate_Bps: one way; None if unknown.
        medium: ``ib``, ``roce``, ``efa``, ``slingshot`` or ``socket``; empty if unknown.
        model: the NIC's model, if its PCI id is known; empty else.
        by_model: whether the rate is that of the fastest such card, as nothing else states one.
        slot_Bps: of its own slot, one way; None if unknown.
        card: equal for ports that share a way to the host (a card's slot, or a switch above several),
            which together carry at most ``card_Bps``, one way; empty and None if unknown.
        gpudirect: False if it does not read and write the memory of accelerators.
    """

    name: str
    rate_Bps: float | None = None
    medium: str = ""
    model: str = ""
    by_model: bool = False
    slot_Bps: float | None = None
    card: str = ""
    card_Bps: float | None = None
    gpudirect: bool = True


class Serving(NamedTuple):
    """The NICs that serve the accelerators, and notes on those that do not."""

    nics: tuple[Nic, ...]
    notes: tuple[str, ...] = ()


class PlacedNic(NamedTuple):
    """A NIC, and how far it is from each accelerator, in the order of these."""

    nic: Nic
    distances: tuple[NicDistance, ...]

    @property
    def nearest(self) -> NicDistance:
        """Its distance to the nearest accelerator."""
        return min(self.distances)


# Network interfaces that NCCL opens sockets on are called so; verbs devices are mlx5_0, ibp12s0,
# rocep1s0, bnxt_re0, rdmap16s27, efa_0.
_INTERFACE = re.compile(
    r"(?:eth|ens|eno|enp|enP|enx|em|bond|team|ib|wl|docker|veth|br|tun|virbr)\d"
)
_LOOPBACK = re.compile(r"lo\d?")


def is_loopback(name: str) -> bool:
    """Return whether a name is that of the loopback, ``lo``."""
    return _LOOPBACK.fullmatch(name) is not None


def is_interface(name: str) -> bool:
    """Return whether a name is that of a network interface, over which NCCL opens sockets, and not of a
    device for RDMA."""
    return is_loopback(name) or _INTERFACE.match(name) is not None


class _Remaining:
    """The NICs that remain while others are dropped, and a note on each lot that was."""

    def __init__(self, nics: Sequence[PlacedNic]) -> None:
        self.nics = list(nics)
        self.notes: list[str] = []

    def drop(self, reason: str, is_unwanted: Callable[[PlacedNic], bool]) -> None:
        """Drop NICs with a note of the reason; none where none is unwanted."""
        dropped = [placed.nic.name for placed in self.nics if is_unwanted(placed)]
        self.nics = list(filterfalse(is_unwanted, self.nics))
        self.notes += left_out(dropped, reason)


def serving(nics: Sequence[PlacedNic], *, linked: bool) -> Serving:
    """Return the NICs that serve the accelerators of a node: what is left when one rule after the other has
    dropped some. Each rule looks at those that the rules before it left.

    Args:
        linked: whether links other than PCIe join the accelerators, so that each may use the NIC of
            another one.
    """
    remaining = _Remaining(nics)
    remaining.drop("the loopback: no network", lambda placed: is_loopback(placed.nic.name))
    if any(placed.nic.medium != "socket" for placed in remaining.nics):
        reason = "for sockets, where others have RDMA"
        remaining.drop(reason, lambda placed: placed.nic.medium == "socket")
    near = _nearest(remaining.nics, linked=linked)
    far = [placed for placed in remaining.nics if placed not in near]
    place = "at a CPU without accelerators"
    if any(placed.nearest == NicDistance.CPU for placed in far):
        place = "behind no PCIe switch of an accelerator"
    remaining.drop(f"{place}, as for storage", lambda placed: placed in far)
    if not all("BlueField" in placed.nic.model for placed in remaining.nics):
        reason = "a BlueField where others serve: storage or management"
        remaining.drop(reason, lambda placed: "BlueField" in placed.nic.model)
    # a NIC without a rate counts as the slowest
    rates_Bps = [placed.nic.rate_Bps or 0.0 for placed in remaining.nics]
    fastest_Bps = max(rates_Bps, default=0.0)
    reason = "slower than the others"
    remaining.drop(reason, lambda placed: (placed.nic.rate_Bps or 0.0) < fastest_Bps)
    return Serving(tuple(placed.nic for placed in remaining.nics), tuple(remaining.notes))


def left_out(dropped: Sequence[str], reason: str) -> list[str]:
    """Return a note on NICs that are not counted, by their names; no note without any."""
    if not dropped:
        return []
    names = ", ".join(map(clipped, dropped[:_SHOWN]))
    if len(dropped) > _SHOWN:
        names += " ..."
    return [f"{counted(len(dropped), 'NIC')} left out ({names}): {reason}"]


def _nearest(nics: Sequence[PlacedNic], *, linked: bool) -> Sequence[PlacedNic]:
    """The NICs that accelerators use by their distance: linked ones share the NICs that are nearest to
    any of them; without links each takes those nearest to itself.

    Of a NIC at the switch of GPU 0 and one at its CPU alone, where GPU 1 is as well, linked GPUs use
    the first, others both.
    """
    if not nics:
        return []
    least = min(placed.nearest for placed in nics)
    if linked or least == NicDistance.FAR:
        return [placed for placed in nics if placed.nearest == least]
    # the distances of all NICs from each accelerator, and the least of them
    by_accelerator = zip(*(placed.distances for placed in nics), strict=True)
    nearest = list(map(min, by_accelerator))

    def is_used(placed: PlacedNic) -> bool:
        """Whether no NIC is nearer than this one to some accelerator."""
        pairs = zip(placed.distances, nearest, strict=True)
        # FAR does not count: an accelerator without a NIC at its CPU takes those of the others
        return any(distance == closest < NicDistance.FAR for distance, closest in pairs)

    return list(filter(is_used, nics))


def together_Bps(nics: Sequence[Nic], each_Bps: float) -> float:
    """Return what NICs carry together, one way, no more than their slots: 64 GB/s for two ports of
    50 GB/s on a card that carries 64.

    Args:
        each_Bps: the rate of those whose own is unknown.
    """
    carried: dict[str, float] = defaultdict(float)
    limits: dict[str, float] = {}
    for number, nic in enumerate(nics):
        # one whose card is unknown is alone on it
        card = nic.card or f"NIC {number}"
        rate_Bps = nic.rate_Bps or each_Bps
        carried[card] += min(rate_Bps, nic.slot_Bps or rate_Bps)
        if nic.card_Bps is not None:
            limits[card] = nic.card_Bps
    return sum(min(rate, limits.get(card, rate)) for card, rate in carried.items())
