"""``fabric check``: the values that were read, in the units people use, and what is odd about them."""

from __future__ import annotations

from typing import Any, NamedTuple

from colltool.fabric.model import Tier
from colltool.fabric.plausible import Checked
from colltool.fabric.results import FabricsChecked
from colltool.render.parts import Block, Lines, Table, label
from colltool.render.subject import Document, Subject
from colltool.words import counted, format_rate, format_time


class _Said(NamedTuple):
    """What is said of a file: its values tier by tier, or a warning with its place and reason."""

    file: str
    kind: str
    what: str
    where: str = ""
    why: str = ""


_COLUMNS = (label("file", "file"), label("kind", "kind"), label("where", "where"), label("what", "what"), label("why", "why"))


def _table(result: FabricsChecked) -> Table:
    said = []
    for one in result.checks:
        said += [_Said(one.file, "tier", tier_in_values(tier)) for tier in one.fabric.tiers]
        said += [_Said(one.file, "warning", odd.what, odd.where, odd.why) for odd in one.warnings]
    return Table(_COLUMNS, tuple(said))


def _blocks(result: FabricsChecked) -> list[Block]:
    """A line for each file that holds, its tiers innermost first, and warnings behind them."""
    return [Lines(f"{one.file}: ok", (*map(tier_in_values, one.fabric.tiers), *_warnings(one))) for one in result.checks]


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


def _document(result: FabricsChecked) -> Document:
    odd = [
        {"file": check.file, "where": one.where, "what": one.what, "why": one.why}
        for check in result.checks
        for one in check.warnings
    ]
    return {"valid": [check.file for check in result.checks], "warnings": odd}


def _summary(result: FabricsChecked) -> str:
    odd = sum(len(one.warnings) for one in result.checks)
    warned = f", {counted(odd, 'warning')}" if odd else ""
    return f"{counted(len(result.checks), 'fabric')} ok{warned}: {', '.join(one.file for one in result.checks)}"


SUBJECTS = {FabricsChecked: Subject("fabric-check", _blocks, _document, _table, _summary)}
