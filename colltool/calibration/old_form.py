"""A fabric's data in the form of schema /1, which a calibrated file has: what a library adds, as
numbers of the tiers' own."""

from __future__ import annotations

from typing import Any

from colltool.calibration.serialise import exact_size, rate_text, time_text
from colltool.estimate.protocols import switch_under
from colltool.fabric.library import Efficiency
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.libraries.numbers import ProtocolNumbers, SwitchNumbers


def in_old_form(data: dict[str, Any], fabric: Fabric) -> dict[str, Any]:
    """The data of a loaded fabric with the protocols, algorithms and shares of its library written
    out."""
    found = data | {"schema": "colltool.fabric/1"}
    found["tiers"] = [
        _tier_data(own, tier) for own, tier in zip(data["tiers"], fabric.tiers, strict=True)
    ]
    facts = fabric.library_facts
    if facts is not None and not facts.reached and fabric.efficiencies:
        library = (
            data["library"] if isinstance(data["library"], dict) else {"name": data["library"]}
        )
        found["library"] = library | {
            "reached": [_reached_data(figure) for figure in fabric.efficiencies]
        }
    return found


def _tier_data(data: dict[str, Any], tier: Tier) -> dict[str, Any]:
    numbers = tier.library
    if numbers is None or tier.protocols:
        return data
    found = data | {"protocols": [_protocol_data(row, tier) for row in numbers.protocols]}
    if numbers.runs:
        found["algorithms"] = {
            str(primitive): list(names) for primitive, names in numbers.runs.items()
        }
    switch = data.get("in_network")
    if switch is not None and numbers.switch is not None:
        found["in_network"] = switch | _switch_data(numbers.switch, tier)
    return found


def old_numbers(row: ProtocolNumbers, tier: Tier) -> dict[str, Any]:
    """A protocol in numbers that take the place of the tier's, SI units: the inverse of what
    reading schema /1 does."""
    found: dict[str, Any] = {"name": row.name}
    if row.launch_s is not None:
        found["launch_overhead"] = row.launch_s
    alpha_s = max(tier.eta.alpha * capabilities_of(tier).nearest_alpha_s + row.step_s, 0.0)
    found["alpha"] = max(alpha_s, 1e-10)
    share = tier.eta.beta * row.share * row.line
    if share > 1:
        found["bandwidth"] = tier.bandwidth * share
    found["eta"] = {"alpha": 1.0, "beta": float(f"{min(share, 1.0):.6g}")}
    if row.copy_Bps is not None:
        found["local_copy"] = row.copy_Bps
    if row.primitives is not None:
        found["primitives"] = [str(primitive) for primitive in row.primitives]
    return found


_TEXTS = {
    "launch_overhead": time_text,
    "alpha": time_text,
    "bandwidth": rate_text,
    "local_copy": rate_text,
}


def _protocol_data(row: ProtocolNumbers, tier: Tier) -> dict[str, Any]:
    found = {
        key: _TEXTS[key](value) if key in _TEXTS else value
        for key, value in old_numbers(row, tier).items()
    }
    if row.measured is not None:
        ends = {
            "smallest": exact_size(row.measured.smallest),
            "largest": exact_size(row.measured.largest),
        }
        found["measured"] = ends | (
            {"ranks": list(row.measured.ranks)} if row.measured.ranks else {}
        )
    return found


def _switch_data(numbers: SwitchNumbers, tier: Tier) -> dict[str, Any]:
    spec = tier.switches
    assert spec is not None  # a tier whose file gives one
    under = switch_under(spec, numbers, tier)
    found: dict[str, Any] = {"alpha_switch": time_text(under.alpha_switch)}
    if under.own_eta:
        found["eta_beta"] = {
            str(primitive): float(f"{share:.6g}") for primitive, share in under.own_eta.items()
        }
    if numbers.protocols is not None:
        found["protocols"] = list(numbers.protocols)
    return found


def _reached_data(figure: Efficiency) -> dict[str, Any]:
    found: dict[str, Any] = {
        "algorithm": list(figure.algorithms),
        "primitives": [str(one) for one in figure.primitives],
    }
    if figure.protocols is not None:
        found["protocols"] = list(figure.protocols)
    if not isinstance(figure.share, float):
        found["share"] = [{"nodes": at.nodes, "share": at.share} for at in figure.share]
    elif figure.share != 1.0:
        found["share"] = figure.share
    if figure.software:
        took = figure.software
        found["software"] = [
            {"ranks": at.ranks, "size": exact_size(at.size), "time": time_text(at.time)}
            for at in took
        ]
    return found
