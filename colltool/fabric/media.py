"""What a tier's wires are: the medium by its own key, by the tier's name, or by the device; and a
device's generation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import WithJsonSchema

from colltool.definitions.field_types import Accepted, listed_name

MEDIA = (
    "nvlink3",
    "nvlink4",
    "nvlink5",
    "nvlink6",
    "nvswitch",
    "xgmi",
    "pcie3",
    "pcie4",
    "pcie5",
    "pcie6",
    "ib",
    "roce",
    "efa",
    "slingshot",
    "tcpx",
    "socket",
    "ici",
    "neuronlink",
    "shm",
    "ub",
)
NETWORKS = frozenset({"ib", "roce", "efa", "slingshot", "tcpx", "socket"})
"""Media between hosts."""

GENERATIONS = {
    "a100-40gb": "ampere",
    "a100-80gb": "ampere",
    "a800": "ampere",
    "h100": "hopper",
    "h20": "hopper",
    "h200": "hopper",
    "h800": "hopper",
    "gh200": "hopper",
    "b200": "blackwell",
    "b300": "blackwell",
    "gb200": "blackwell",
    "gb300": "blackwell",
    "gb10": "gb10",
    "vr200": "rubin",
    "l40s": "ada",
    "mi300x": "cdna3",
    "mi325x": "cdna3",
    "mi355x": "cdna4",
    "mi455x": "cdna5",
}
"""A device's architecture, which libraries have numbers for; a device that is not here is one of
its own."""

_INSIDE = {
    "ampere": "nvlink3",
    "hopper": "nvlink4",
    "blackwell": "nvlink5",
    "rubin": "nvlink6",
    "gb10": "roce",
    "ada": "pcie4",
    "cdna3": "xgmi",
    "cdna4": "xgmi",
    "cdna5": "xgmi",
}
"""What joins the devices of one host."""

_OF_MEDIUM = {
    "nvlink3": "ampere",
    "nvlink4": "hopper",
    "nvlink5": "blackwell",
    "nvlink6": "rubin",
    "xgmi": "cdna3",
}
"""The generation around a medium, where a file names no device."""

_WORDS = {
    "infiniband": "ib",
    "roce": "roce",
    "ethernet": "roce",
    "spectrum": "roce",
    "efa": "efa",
    "slingshot": "slingshot",
    "tcpxo": "tcpx",
    "tcpx": "tcpx",
    "tcp": "socket",
    "socket": "socket",
    "xgmi": "xgmi",
    "neuronlink": "neuronlink",
    "ndr": "ib",
    "xdr": "ib",
    "hdr": "ib",
    "shm": "shm",
    "ici": "ici",
    "eth": "roce",
}
"""A word in a tier's name, and the medium that it means; the first counts."""
_NVLINK_GBPS = (("nvlink3", 300e9), ("nvlink4", 450e9), ("nvlink5", 900e9), ("nvlink6", 1800e9))
"""One direction of a GPU's NVLinks. Source: NVIDIA's data sheets of A100, H100, B200 and Rubin."""
_SLOT_GBPS = (("pcie3", 16e9), ("pcie4", 32e9), ("pcie5", 64e9), ("pcie6", 128e9))
"""One direction of a slot of 16 lanes. Source: PCI-SIG."""


MediumName = Annotated[
    str,
    listed_name("medium", MEDIA),
    WithJsonSchema({"enum": list(MEDIA)}),
    Accepted("a medium, such as nvlink5, ib or roce", "text"),
]


class Medium(NamedTuple):
    """The wires of a tier, and how they are known: ``stated``, by the tier's ``name``, the
    ``device``, or a ``default``."""

    name: str
    how: str


def medium_of(
    stated: str | None, tier_name: str, bandwidth_Bps: float, device: str | None
) -> Medium | None:
    """The medium of a tier; ``device``: of the hosts that it is inside of. None where nothing
    tells."""
    if stated is not None:
        return Medium(stated, "stated")
    if (named := _named(tier_name.lower(), bandwidth_Bps)) is not None:
        return Medium(named, "name")
    inside = _INSIDE.get(GENERATIONS.get(device or "", ""))
    return None if inside is None else Medium(inside, "device")


def _named(tier_name: str, bandwidth_Bps: float) -> str | None:
    if "nvlink" in tier_name or "nvswitch" in tier_name:
        return min(_NVLINK_GBPS, key=lambda known: abs(known[1] - bandwidth_Bps))[0]
    if "pcie" in tier_name:
        return min(_SLOT_GBPS, key=lambda known: abs(known[1] - bandwidth_Bps))[0]
    if tier_name == "ib" or tier_name.startswith("ib-"):
        return "ib"
    return next((medium for word, medium in _WORDS.items() if word in tier_name), None)


def gpus_of(
    device: str | None, generation: str | None, media: Sequence[str | None], library: str
) -> tuple[str, ...]:
    """What a library's numbers may be of, nearest first: the device, its generation, the one of the
    innermost medium."""
    if library == "mpi":
        return ("host",)
    found = [device, GENERATIONS.get(device or ""), generation]
    if not any(found) and media:
        found.append(_OF_MEDIUM.get(media[0] or ""))
    return tuple(dict.fromkeys(name for name in found if name))
