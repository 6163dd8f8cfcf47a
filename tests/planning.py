"""Jobs and fabrics for tests of ``plan``, and what every plan has to hold."""

from __future__ import annotations

from typing import Any

import pytest

from colltool.render.dispatch import blocks
from colltool.render.text import Screen, to_text
from colltool.training.plan import Plan


def star(ranks: int, alpha: str, bandwidth: str, **tier: Any) -> dict[str, Any]:
    return {
        "schema": "colltool.fabric/1",
        "name": "star",
        "tiers": [
            {
                "name": "switch",
                "topology": "star",
                "size": ranks,
                "alpha": alpha,
                "bandwidth": bandwidth,
            }
            | tier
        ],
    }


def two_tiers(nodes: int = 8, **ib: Any) -> dict[str, Any]:
    return {
        "schema": "colltool.fabric/1",
        "name": "nodes",
        "tiers": [
            {
                "name": "nvlink",
                "topology": "star",
                "size": 8,
                "alpha": "1us",
                "bandwidth": "400GB/s",
            },
            {"name": "ib", "topology": "star", "size": nodes, "alpha": "5us", "bandwidth": "50GB/s"}
            | ib,
        ],
    }


def thin(oversubscription: float, nodes: int = 16) -> dict[str, Any]:
    fabric = two_tiers(nodes)
    fabric["tiers"][1] = {
        "name": "ib",
        "topology": "clos",
        "size": nodes,
        "bandwidth": "50GB/s",
        "levels": [
            {"name": "leaf", "group": 4, "alpha": "5us"},
            {"name": "spine", "group": nodes, "alpha": "9us", "oversubscription": oversubscription},
        ],
    }
    return fabric


def dense(**keys: Any) -> dict[str, Any]:
    return {
        "model": "llama3-8b",
        "sequence": 4096,
        "batch": {"global": 256, "micro": 1},
        "device": "h100",
        "stack": "megatron",
        "layout": {"tp": 8, "sp": True, "pp": 2},
        "shard": {"mode": "zero1"},
    } | keys


def part(found: Plan, name: str) -> Any:
    return next(one for one in found.parts if one.name == name)


def adds_up(found: Plan) -> None:
    assert sum(one.exposed_s for one in found.parts) == pytest.approx(found.step_s)
    assert found.control_step_s <= found.step_s
    # the table of collectives says the same, but for stages that do not set the pace
    for one in found.parts:
        listed = sum(
            two.sent.exposed_s for two in found.collectives if two.sent.call.dimension == one.name
        )
        assert not listed or listed >= one.exposed_s * (1 - 1e-9)
    assert all(one.sent.exposed_s >= 0 and one.sent.hidden_s >= 0 for one in found.collectives)


def shown(found: Plan) -> str:
    """What people read."""
    return to_text(blocks(found), Screen())
