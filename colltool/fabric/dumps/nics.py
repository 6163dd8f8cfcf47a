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
        rate_Bps: one way; None if unknown.
        medium: ``ib``, ``roce``, ``efa``, ``slingshot`` or ``socket``; empty if unknown.
        model: the NIC's model, if its PCI id is known; empty else.
        by_model: whether the rate is that of the fastest such card, as nothing else states one.
        slot_Bps: of its own slot, one way; None if unknown.
        card: the same for ports that share a way to the accelerators, whose rate is ``card_Bps``.
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

    @property
    def infiniband(self) -> bool:
        return self.medium == "ib"


class Serving(NamedTuple):
    """The NICs that serve the accelerators, and notes on those that do not."""

    nics: tuple[Nic, ...]
    notes: tuple[str, ...] = ()


class NicAt(NamedTuple):
    """A NIC, and how far it is from each accelerator."""

    nic: Nic
    distances: tuple[NicDistance, ...]

    @property
    def nearest(self) -> NicDistance:
        return min(self.distances)


# Network interfaces that NCCL opens sockets on are called so; verbs devices are mlx5_0, ibp12s0,
# rocep1s0, bnxt_re0, rdmap16s27, efa_0.
_INTERFACE = re.compile(
    r"(?:eth|ens|eno|enp|enP|enx|em|bond|team|ib|wl|docker|veth|br|tun|virbr)\d"
)
_LOOPBACK = re.compile(r"lo\d?")


def is_loopback(name: str) -> bool:
    return _LOOPBACK.fullmatch(name) is not None


def is_interface(name: str) -> bool:
    """Whether a name is that of a network interface, over which NCCL opens sockets."""
    return is_loopback(name) or _INTERFACE.match(name) is not None


def serving(placed: Sequence[NicAt], *, linked: bool) -> Serving:
    """Return the NICs that serve the accelerators of a node.

    Args:
        linked: whether links other than PCIe join the accelerators, so that each may use the NIC of
            another one.
    """
    notes: list[str] = []
    kept = _without(placed, lambda at: is_loopback(at.nic.name), notes, "the loopback: no network")
    if any(at.nic.medium != "socket" for at in kept):
        reason = "for sockets, where others have RDMA"
        kept = _without(kept, lambda at: at.nic.medium == "socket", notes, reason)
    near = frozenset(_nearest(kept, linked=linked))
    far = [at for at in kept if at not in near]
    by_switch = any(at.nearest == NicDistance.CPU for at in far)
    why = (
        "behind no PCIe switch of an accelerator" if by_switch else "at a CPU without accelerators"
    )
    kept = _without(kept, lambda at: at not in near, notes, f"{why}, as for storage")
    kept = _without_service_cards(kept, notes)
    rates = [at.nic.rate_Bps or 0.0 for at in kept]
    fastest = max(rates, default=0.0)
    kept = _without(
        kept, lambda at: (at.nic.rate_Bps or 0.0) < fastest, notes, "slower than the others"
    )
    return Serving(tuple(at.nic for at in kept), tuple(notes))


def _without(
    placed: Sequence[NicAt], drop: Callable[[NicAt], bool], notes: list[str], reason: str
) -> list[NicAt]:
    """The NICs without some, of which a note is made."""
    notes += left_out([at.nic.name for at in placed if drop(at)], reason)
    return [at for at in placed if not drop(at)]


def left_out(dropped: Sequence[str], reason: str) -> list[str]:
    """A note on NICs that are not counted; none without any."""
    if not dropped:
        return []
    names = ", ".join(map(clipped, dropped[:_SHOWN])) + " ..." * (len(dropped) > _SHOWN)
    return [f"{counted(len(dropped), 'NIC')} left out ({names}): {reason}"]


def _nearest(placed: Sequence[NicAt], *, linked: bool) -> list[NicAt]:
    """The NICs that are nearest to the accelerators together, or without links to one of them."""
    if not placed:
        return []
    least = min(at.nearest for at in placed)
    if linked or least == NicDistance.FAR:
        return [at for at in placed if at.nearest == least]
    nearest_of = [
        min(distances) for distances in zip(*(at.distances for at in placed), strict=True)
    ]
    found = []
    for at in placed:
        for distance, nearest in zip(at.distances, nearest_of, strict=True):
            # an accelerator without a NIC at its CPU takes those of the others
            if distance == nearest < NicDistance.FAR:
                found.append(at)
                break
    return found


def _without_service_cards(placed: list[NicAt], notes: list[str]) -> list[NicAt]:
    """The NICs without BlueFields, where others serve the accelerators."""
    if all("BlueField" in at.nic.model for at in placed):
        return placed
    reason = "a BlueField where others serve: storage or management"
    return _without(placed, lambda at: "BlueField" in at.nic.model, notes, reason)


def together_Bps(nics: Sequence[Nic], each_Bps: float) -> float:
    """Return what NICs carry together, one way, no more than their slots.

    Args:
        each_Bps: the rate of those whose own is unknown.
    """
    carried: dict[str, float] = defaultdict(float)
    limits: dict[str, float] = {}
    for number, nic in enumerate(nics):
        # a NIC whose card is unknown is one of its own
        card = nic.card or f"NIC {number}"
        rate_Bps = nic.rate_Bps or each_Bps
        carried[card] += min(rate_Bps, nic.slot_Bps or rate_Bps)
        if nic.card_Bps is not None:
            limits[card] = nic.card_Bps
    return sum(min(rate, limits.get(card, rate)) for card, rate in carried.items())
