"""Writes a fabric's data in the form of schema /1, which a calibrated file has: there, what a
library adds is written as numbers of the tiers. :func:`in_old_form` is the entry."""

from __future__ import annotations

from typing import Any

from colltool.base.formatting import format_size
from colltool.definitions.field_types import MIN_ALPHA_S
from colltool.estimate.protocols import switch_under
from colltool.fabric.library import Efficiency
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.libraries.numbers import ProtocolNumbers, SwitchNumbers


def time_text(seconds: float) -> str:
    """``1.4us``, to four digits."""
    return f"{seconds * 1e6:.4g}us" if seconds >= 1e-12 else "0us"


def rate_text(rate: float) -> str:
    """``360GB/s``, to five digits."""
    return f"{rate / 1e9:.5g}GB/s"


# Files hold these numbers as text with a unit.
_TEXTS = {
    "launch_overhead": time_text,
    "alpha": time_text,
    "bandwidth": rate_text,
    "local_copy": rate_text,
}


def in_old_form(data: dict[str, Any], fabric: Fabric) -> dict[str, Any]:
    """The data of a loaded fabric in schema /1, with the protocols, algorithms and shares of its
    library written out. ``data`` itself is not changed, but shares what stays the same."""
    tiers = list(map(_tier_data, data["tiers"], fabric.tiers))
    old = data | {"schema": "colltool.fabric/1", "tiers": tiers}
    facts = fabric.library_facts
    if facts is not None and not facts.reached and fabric.efficiencies:
        library = data["library"]
        if not isinstance(library, dict):
            library = {"name": library}
        old["library"] = library | {"reached": list(map(_reached_data, fabric.efficiencies))}
    return old


def _tier_data(data: dict[str, Any], tier: Tier) -> dict[str, Any]:
    """A tier's data with what its library adds."""
    numbers = tier.library
    # protocols that the file lists replace the library's
    if numbers is None or tier.protocols:
        return data
    old = data | {"protocols": [_protocol_data(protocol, tier) for protocol in numbers.protocols]}
    if numbers.runs:
        old["algorithms"] = {}
        for primitive, names in numbers.runs.items():
            old["algorithms"][str(primitive)] = list(names)
    switch = data.get("in_network")
    if switch is not None and numbers.switch is not None:
        old["in_network"] = switch | _switch_data(numbers.switch, tier)
    return old


def old_numbers(row: ProtocolNumbers, tier: Tier) -> dict[str, Any]:
    """A protocol in numbers that replace the tier's, in SI units, by the keys of a file: the inverse of
    reading schema /1. ``share`` and ``line`` of its numbers are shares of the tier's bandwidth."""
    old: dict[str, Any] = {"name": row.name}
    if row.launch_s is not None:
        old["launch_overhead"] = row.launch_s
    # no file may have a smaller latency
    old["alpha"] = max(
        tier.eta.alpha * capabilities_of(tier).nearest_alpha_s + row.step_s, MIN_ALPHA_S
    )
    # of the tier's bandwidth: a file's eta is at most 1
    bandwidth_share = tier.eta.beta * row.share * row.line
    if bandwidth_share > 1:
        old["bandwidth"] = tier.bandwidth * bandwidth_share
    old["eta"] = {"alpha": 1.0, "beta": _rounded(min(bandwidth_share, 1.0))}
    if row.copy_Bps is not None:
        old["local_copy"] = row.copy_Bps
    if row.primitives is not None:
        old["primitives"] = list(map(str, row.primitives))
    return old


def _protocol_data(row: ProtocolNumbers, tier: Tier) -> dict[str, Any]:
    """A protocol as a file lists it, numbers as text with units."""
    old = old_numbers(row, tier)
    for key, text in _TEXTS.items():
        if key in old:
            old[key] = text(old[key])
    if row.measured is not None:
        old["measured"] = {
            "smallest": format_size(row.measured.smallest),
            "largest": format_size(row.measured.largest),
        }
        if row.measured.ranks:
            old["measured"]["ranks"] = list(row.measured.ranks)
    return old


def _switch_data(numbers: SwitchNumbers, tier: Tier) -> dict[str, Any]:
    """What a library adds to the switches of a tier."""
    spec = tier.switches
    assert spec is not None  # the tier's data have it
    under = switch_under(spec, numbers, tier)
    old: dict[str, Any] = {"alpha_switch": time_text(under.alpha_switch)}
    if under.switch_eta_beta:
        old["eta_beta"] = {}
        for primitive, share in under.switch_eta_beta.items():
            old["eta_beta"][str(primitive)] = _rounded(share)
    if numbers.protocols is not None:
        old["protocols"] = list(numbers.protocols)
    return old


def _rounded(share: float) -> float:
    """A share to six digits."""
    return float(f"{share:.6g}")


def _reached_data(figure: Efficiency) -> dict[str, Any]:
    """A library's measured efficiency: the share of the wires that algorithms reach, by node count
    where it differs, and their software time."""
    old: dict[str, Any] = {
        "algorithm": list(figure.algorithms),
        "primitives": list(map(str, figure.primitives)),
    }
    if figure.protocols is not None:
        old["protocols"] = list(figure.protocols)
    if not isinstance(figure.share, float):
        old["share"] = [{"nodes": part.nodes, "share": part.share} for part in figure.share]
    elif figure.share != 1.0:
        old["share"] = figure.share
    if figure.software:
        old["software"] = []
        for measured in figure.software:
            row = {
                "ranks": measured.ranks,
                "size": format_size(measured.size),
                "time": time_text(measured.time),
            }
            old["software"].append(row)
    return old
