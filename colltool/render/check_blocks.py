"""``fabric check`` as blocks: the values that were read, in the units people use, and what is odd about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from colltool.fabric.model import Tier
from colltool.fabric.plausible import Checked
from colltool.render.parts import Block, Lines
from colltool.units import format_rate, format_time


def check_blocks(checks: Sequence[Checked]) -> list[Block]:
    """A line for each file that holds, its tiers innermost first, and warnings behind them."""
    return [Lines(f"{one.file}: ok", (*map(tier_in_values, one.fabric.tiers), *_warnings(one))) for one in checks]


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


def _warnings(checked: Checked) -> list[str]:
    return [f"warning: {one.where}: {one.what} ({one.why})" for one in checked.warnings]
