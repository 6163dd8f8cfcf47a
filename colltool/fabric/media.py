"""What a tier's wires are: the medium by its own key, by the tier's name, or by the device; and a
device's generation. The names are data: ``data/media.json``."""

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
# A device's architecture, which libraries have numbers for; a device that is not here is one of its
# own.
GENERATIONS: dict[str, str] = _DATA["generations"]
# What joins the devices of one host, by their generation.
_INSIDE: dict[str, str] = _DATA["inside"]
# The generation around a medium, where a file names no device.
_AROUND: dict[str, str] = _DATA["generation_around"]
# A word in a tier's name, and the medium that it means; the first counts.
_WORDS: dict[str, str] = _DATA["words"]


MediumName = Annotated[
    str,
    listed_name("medium", MEDIA),
    WithJsonSchema({"enum": list(MEDIA)}),
    FieldHint("a medium, such as nvlink5, ib or roce", "text"),
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
    named = _named(tier_name.lower(), bandwidth_Bps)
    if named is not None:
        return Medium(named, "name")
    inside = _INSIDE.get(GENERATIONS.get(device or "", ""))
    return None if inside is None else Medium(inside, "device")


def _named(tier_name: str, bandwidth_Bps: float) -> str | None:
    if "nvlink" in tier_name or "nvswitch" in tier_name:
        return _nearest(_DATA["nvlinks"], bandwidth_Bps)
    if "pcie" in tier_name:
        return _nearest(_DATA["slots"], bandwidth_Bps)
    if tier_name == "ib" or tier_name.startswith("ib-"):
        return "ib"
    return next((medium for word, medium in _WORDS.items() if word in tier_name), None)


def _nearest(rates_Bps: dict[str, float], bandwidth_Bps: float) -> str:
    """The medium whose rate is nearest, the slower of two."""
    return min(rates_Bps, key=lambda medium: abs(rates_Bps[medium] - bandwidth_Bps))


def gpus_of(
    device: str | None, generation: str | None, media: Sequence[str | None], library: str
) -> tuple[str, ...]:
    """What a library's numbers may be of, nearest first: the device, its generation, the one of the
    innermost medium."""
    if library == "mpi":
        return ("host",)
    found = [device, GENERATIONS.get(device or ""), generation]
    if not any(found) and media:
        found.append(_AROUND.get(media[0] or ""))
    return tuple(dict.fromkeys(name for name in found if name))
