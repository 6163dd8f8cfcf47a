"""``fabric check``: the values that were read, in the units people use, and what is odd about them."""

from __future__ import annotations

from typing import Any

from colltool.fabric.model import Tier
from colltool.fabric.plausible import Checked
from colltool.fabric.results import FabricsChecked
from colltool.fabric.topology import kind_of
from colltool.render.subjects.checked import checked_subject
from colltool.words import format_bit_energy, format_length, format_rate, format_time


def tier_in_values(tier: Tier) -> str:
    """``ib: clos of 32, alpha 2 us to 8 us, cable 100 m, 50 GB/s, eta 1.2/0.8, 30 pJ/bit``."""
    data: dict[str, Any] = tier.model_dump(exclude_none=True)
    extent = "x".join(map(str, data["shape"])) if "shape" in data else str(tier.endpoints)
    alphas = [data["alpha"]] if "alpha" in data else [level["alpha"] for level in data["levels"]]
    alpha = " to ".join(dict.fromkeys(format_time(one) for one in (alphas[0], alphas[-1])))
    rate = format_rate(tier.bandwidth) + (f" x {tier.ports} ports" if tier.ports > 1 else "")
    names = list(dict.fromkeys(one.name for one in tier.protocols or ()))
    protocols = f", protocols {', '.join(names)}" if names else ""
    energy = f", {format_bit_energy(tier.energy)}" if tier.energy is not None else ""
    eta = f"eta {tier.eta.alpha:g}/{tier.eta.beta:g}"
    return f"{tier.name}: {tier.topology} of {extent}, alpha {alpha}, {_cable(tier)}{rate}, {eta}{energy}{protocols}"


def _cable(tier: Tier) -> str:
    """``cable 5 m to 100 m, ``; empty without any."""
    found = [one.cable_m for one in kind_of(tier).classes]
    lengths = " to ".join(dict.fromkeys(format_length(one) for one in (found[0], found[-1])))
    return f"cable {lengths}, " if any(found) else ""


def _tiers(one: Checked) -> list[str]:
    """Innermost first."""
    return [tier_in_values(tier) for tier in one.fabric.tiers]


SUBJECTS = {FabricsChecked: checked_subject("fabric", "tier", _tiers)}
