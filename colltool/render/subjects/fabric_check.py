"""``fabric check``: the values that were read, in the units people use, and what is odd about them."""

from __future__ import annotations

from typing import Any

from colltool.fabric.model import Tier
from colltool.fabric.plausible import Checked
from colltool.fabric.results import FabricsChecked
from colltool.render.subjects.checked import checked_subject
from colltool.words import format_rate, format_time


def tier_in_values(tier: Tier) -> str:
    """``ib: clos of 32, alpha 2 us to 8 us, 50 GB/s, eta 1.2/0.8``."""
    data: dict[str, Any] = tier.model_dump(exclude_none=True)
    extent = "x".join(map(str, data["shape"])) if "shape" in data else str(tier.endpoints)
    alphas = [data["alpha"]] if "alpha" in data else [level["alpha"] for level in data["levels"]]
    alpha = " to ".join(dict.fromkeys(format_time(one) for one in (alphas[0], alphas[-1])))
    rate = format_rate(tier.bandwidth) + (f" x {tier.ports} ports" if tier.ports > 1 else "")
    names = list(dict.fromkeys(one.name for one in tier.protocols or ()))
    protocols = f", protocols {', '.join(names)}" if names else ""
    return f"{tier.name}: {tier.topology} of {extent}, alpha {alpha}, {rate}, eta {tier.eta.alpha:g}/{tier.eta.beta:g}{protocols}"


def _tiers(one: Checked) -> list[str]:
    """Innermost first."""
    return [tier_in_values(tier) for tier in one.fabric.tiers]


SUBJECTS = {FabricsChecked: checked_subject("fabric", "tier", _tiers)}
