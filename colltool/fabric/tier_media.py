"""The media of a fabric's tiers, and what follows from them: whether NICs reach the GPUs' memory, and
under which scope the errors of a price are filed."""

from __future__ import annotations

from collections.abc import Sequence

from colltool.fabric.media import Medium, medium_of
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.machines.factor import INSIDE

# Libraries whose default between hosts is InfiniBand.
_GPU_LIBRARIES = ("nccl", "rccl")


def media_of(fabric: Fabric) -> tuple[Medium | None, ...]:
    """Return the medium of each tier, innermost first. None where nothing tells.

    Between hosts the default of NCCL and RCCL is InfiniBand, if the name of the tier says nothing
    and the medium of a tier inside it is known.
    """
    found: list[Medium | None] = []
    for number, tier in enumerate(fabric.tiers):
        device = None
        if number == 0 and _is_inside_hosts(fabric):
            device = fabric.device
        medium = medium_of(tier.medium, tier.name, tier.bandwidth, device)
        inner_known = any(found)
        if medium is None and inner_known and fabric.library_name in _GPU_LIBRARIES:
            medium = Medium("ib", "default")
        found.append(medium)
    return tuple(found)


def _is_inside_hosts(fabric: Fabric) -> bool:
    """Whether the innermost tier joins the accelerators of a host.

    A fabric of one Clos tier begins outside: the tier joins hosts.
    """
    if len(fabric.tiers) > 1:
        return True
    return capabilities_of(fabric.tiers[0]).joins != "hosts"


def has_gpudirect(fabric: Fabric) -> bool:
    """Whether NICs reach the GPUs' memory: as the file says, else wherever no tier is TCP
    sockets."""
    facts = fabric.library_facts
    if facts is not None and facts.gpudirect is not None:
        return facts.gpudirect
    media = filter(None, media_of(fabric))
    return all(medium.name != "socket" for medium in media)


def p2p_unknown(fabric: Fabric) -> bool:
    """Whether cards share PCIe slots of a host and nothing says that they reach each other's memory
    (``library.p2p``).

    Without P2P every byte goes through the host's memory, and eight cards reach a fourteenth of
    what they reach with it.
    """
    facts = fabric.library_facts
    if facts is None or facts.name not in _GPU_LIBRARIES or facts.p2p is not None:
        return False
    medium = media_of(fabric)[0]
    if medium is None or not medium.name.startswith("pcie"):
        return False
    return fabric.tiers[0].endpoints > 1


def assumed_media(fabric: Fabric) -> tuple[tuple[str, str], ...]:
    """Return the tiers whose medium was concluded, not stated, each by name with the medium; of those on
    which a library has numbers, as these depend on it. A tier that is called as its medium is left out."""
    found = []
    for tier, medium in zip(fabric.tiers, media_of(fabric), strict=True):
        if medium is None or tier.library is None:
            continue
        if medium.how != "stated" and medium.name != tier.name:
            found.append((tier.name, medium.name))
    return tuple(found)


def scope_of(fabric: Fabric, tiers: Sequence[str]) -> str:
    """Return the scope under which errors of prices over these tiers (by name, innermost first) are filed:
    ``inside`` of the fabric's innermost tier alone, else the medium of the outermost of them. Empty if that
    is not known."""
    if list(tiers) == [fabric.tiers[0].name]:
        return INSIDE
    names = [tier.name for tier in fabric.tiers]
    outermost = names.index(tiers[-1])
    medium = media_of(fabric)[outermost]
    if medium is None:
        return ""
    return medium.name
