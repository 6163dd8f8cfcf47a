"""The medium of a tier (what its wires are), from its own key, its name, or the device; and the
generation of a device. The names are data: ``data/media.json``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import WithJsonSchema

from colltool.definitions.field_types import FieldHint, listed_name

_DATA: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "media.json").read_text(encoding="utf-8")
)

DEVICES: tuple[str, ...] = tuple(_DATA["devices"])
MEDIA: tuple[str, ...] = tuple(_DATA["media"])
# Media between hosts.
NETWORKS = frozenset(_DATA["networks"])
# A device's architecture, by which libraries have numbers; a device that is not here has numbers of
# its own or none.
GENERATIONS: dict[str, str] = _DATA["generations"]
# Devices of a host, where one NVLink domain joins several hosts.
PER_HOST: dict[str, int] = _DATA["per_host"]
# What joins the devices of one host, by their generation.
_INSIDE: dict[str, str] = _DATA["inside"]
# The generation of GPUs that have a medium, for a file that names no device.
_GENERATION_OF_MEDIUM: dict[str, str] = _DATA["generation_around"]
# A word in a tier's name, and the medium that it means; the first that occurs counts.
_WORDS: dict[str, str] = _DATA["words"]


MediumName = Annotated[
    str,
    listed_name("medium", MEDIA),
    WithJsonSchema({"enum": list(MEDIA)}),
    FieldHint("a medium, such as nvlink5, ib or roce", "text"),
]


class Medium(NamedTuple):
    """The wires of a tier by the file format's name, and how they are known: ``stated``, by the tier's
    ``name``, the ``device``, or a ``default``."""

    name: str
    how: str


def medium_of(
    stated: str | None, tier_name: str, bandwidth_Bps: float, device: str | None
) -> Medium | None:
    """Return the medium of a tier; None if nothing tells.

    Args:
        stated: the tier's own key, if it has it.
        tier_name, bandwidth_Bps: the name tells the kind of links, the bandwidth their generation.
        device: None unless the tier is inside a host.
    """
    if stated is not None:
        return Medium(stated, "stated")
    named = _by_name(tier_name.lower(), bandwidth_Bps)
    if named is not None:
        return Medium(named, "name")
    inside = _INSIDE.get(GENERATIONS.get(device or "", ""))
    return None if inside is None else Medium(inside, "device")


def _by_name(tier_name: str, bandwidth_Bps: float) -> str | None:
    """The medium that a tier's name, in small letters, means; which NVLink or PCIe by the bandwidth. None
    if it means none."""
    if "nvlink" in tier_name or "nvswitch" in tier_name:
        return _nearest(_DATA["nvlinks"], bandwidth_Bps)
    if "pcie" in tier_name:
        return _nearest(_DATA["slots"], bandwidth_Bps)
    if tier_name == "ib" or tier_name.startswith("ib-"):
        return "ib"
    return next((medium for word, medium in _WORDS.items() if word in tier_name), None)


def _nearest(rates_Bps: dict[str, float], bandwidth_Bps: float) -> str:
    """The medium whose rate is nearest to a bandwidth."""
    return min(rates_Bps, key=lambda medium: abs(rates_Bps[medium] - bandwidth_Bps))


def gpus_of(
    device: str | None, generation: str | None, media: Sequence[str | None], library: str
) -> tuple[str, ...]:
    """Return the names under which a library may have numbers, nearest first: the device, its generation,
    the ``generation`` that the file states; if there is none of these, the generation that has the
    innermost medium. ``media``: of the tiers, innermost first. MPI has numbers of hosts alone."""
    if library == "mpi":
        return ("host",)
    found = [device, GENERATIONS.get(device or ""), generation]
    if not any(found) and media:
        found.append(_GENERATION_OF_MEDIUM.get(media[0] or ""))
    return tuple(dict.fromkeys(name for name in found if name))
