"""What one failed part of a network takes down, a part a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from colltool.base.formatting import short_percent
from colltool.fabric.failures import Failure
from colltool.render.blocks import Block, Table, label, number

_COLUMNS = (
    label("tier", "tier", drop=1),
    label("part", "part", get=lambda one: "all switches" if one.part == "switches" else one.part),
    label("level", "level", drop=2),
    number("count", "of", "{:,}".format, drop=3),
    number("nics", "ports dark", "{:,}".format, drop=4),
    number("endpoints", "endpoints hit", "{:,}".format, drop=5),
    number("ranks", "ranks hit", "{:,}".format),
    number("share", "each loses", short_percent),
    label("beyond", "of its traffic", drop=6, get=lambda one: f"beyond its {one.beyond}" if one.beyond else "all"),
    number("cut_off", "cut off", "{:,}".format),
)


def failure_blocks(failures: Sequence[Failure], *, ranks: bool = True) -> list[Block]:
    """The table; without ``ranks`` where endpoints are not said to be any."""
    table = Table(_COLUMNS, tuple(failures), None, "what one failure takes down, at most")
    idle = ([] if any(one.tier for one in failures) else ["tier"]) + ([] if ranks else ["ranks"])
    return [table.without(*idle)] if failures else []


def failure_documents(failures: Sequence[Failure]) -> list[dict[str, Any]]:
    """As the documents of ``fabric show`` and ``fabric size`` have them."""
    return [asdict(one) for one in failures]
