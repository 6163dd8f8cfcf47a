"""A fabric as people type it: a file or a shipped name, and after a colon what is different.

``dgx-b200:nodes=144`` is dgx-b200 with 144 of what its outermost tier joins, and
``nvl72:ib.bandwidth=100GB/s,racks=16`` sets further values, of this fabric alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from math import ceil
from typing import NamedTuple, assert_never

from colltool.base.errors import ColltoolError, argument_text, quote
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.routed_tiers import DragonflyPlusTier, DragonflyTier, GraphTier, HyperXTier
from colltool.fabric.tier_parts import Level
from colltool.fabric.tiers import ClosTier, FullMeshTier, LatticeTier, StarTier

_NODES = ("nodes", "racks")
PER_RACK = "per-rack"
# a comma between settings, and none inside the brackets of a list
_COMMA = re.compile(r",(?![^\[]*\])")


class FabricExpression(NamedTuple):
    """What was typed.

    Attributes:
        name: of a fabric, or the path of a file.
        overrides: KEY=VALUE each, of this fabric alone.
        nodes: endpoints of the outermost tier; None: as the fabric has them.
        per_rack: ranks behind each of these that take part; None: all.
    """

    name: str
    overrides: tuple[str, ...] = ()
    nodes: int | None = None
    per_rack: int | None = None


def parse_expression(text: str) -> FabricExpression:
    """Read ``NAME:key=value,...``. Where a file has exactly that name, the file is meant.

    Raises:
        ColltoolError: a setting without a value, or a number of nodes that is none.

    >>> parse_expression("nvl72:racks=16,ib.eta.beta=0.7")
    FabricExpression(name='nvl72', overrides=('ib.eta.beta=0.7',), nodes=16, per_rack=None)
    """
    name, colon, settings = text.partition(":")
    if not colon or os.path.exists(text):
        return FabricExpression(text)
    overrides = []
    nodes = None
    per_rack = None
    for setting in _COMMA.split(settings):
        key, equals, value = setting.partition("=")
        if not (name and equals and key and value):
            example = argument_text("fabric", (name or "nvl72") + ":nodes=16")
            raise ColltoolError(
                f"{quote(text)}: expected KEY=VALUE after the colon, got {quote(setting)}",
                argument="fabric",
                fix=f"write {example}",
            )
        key = key.strip()
        if key in _NODES:
            nodes = _count_of(value, text, "nodes=144")
        elif key == PER_RACK:
            per_rack = _count_of(value, text, "per-rack=64")
        else:
            overrides.append(setting)
    return FabricExpression(name, tuple(overrides), nodes, per_rack)


def with_setting(text: str, setting: str) -> str:
    """A fabric as typed, with one more setting of its own: ``nvl72:racks=16`` of ``racks=16``."""
    has_settings = ":" in text and not os.path.exists(text)
    separator = "," if has_settings else ":"
    return f"{text}{separator}{setting}"


def _count_of(value: str, text: str, example: str) -> int:
    """The number above 0 of a setting. For errors: ``text`` is the whole fabric as typed, ``example`` such
    a setting."""
    # seven digits: no fabric has more
    if not (value.isascii() and value.isdecimal() and len(value) < 8 and int(value)):
        what = f"{quote(text)}: expected a whole number above 0, got {quote(value)}"
        raise ColltoolError(what, argument="fabric", fix=f"such as {example}")
    return int(value)


def split_fabrics(text: str) -> list[str]:
    """Return the fabrics of ``A,B:key=value,key=value``: a part ``key=value`` whose key has no colon belongs
    to the fabric before it.

    >>> split_fabrics("nvl72,dgx-b200:nodes=144,ib.eta.beta=0.8")
    ['nvl72', 'dgx-b200:nodes=144,ib.eta.beta=0.8']
    """
    fabrics: list[str] = []
    for part in _COMMA.split(text):
        key, equals, _ = part.partition("=")
        if fabrics and equals and ":" not in key:
            fabrics[-1] += f",{part}"
        else:
            fabrics.append(part)
    return fabrics


def resized(fabric: Fabric, nodes: int) -> list[str]:
    """The overrides that give a fabric another number of nodes (racks, pods ...), the endpoints of
    its outermost tier; the last level of its switches follows.

    Raises:
        ColltoolError: a fabric of one tier, or an outermost tier that no number describes.
    """
    tier = fabric.tiers[-1]
    if len(fabric.tiers) == 1:
        what = f"{fabric.name} is one tier of {tier.endpoints} endpoints, which no nodes make up"
        fix = f"name a fabric of nodes and a network, or set {tier.name}.size"
        raise ColltoolError(what, argument="fabric", fix=fix)
    levels = _sized_levels(tier)
    if levels is None or fabric.domains:
        shape = f"a {tier.topology}"
        if fabric.domains:
            shape = "domains of different sizes"
        what = f"the outermost tier of {fabric.name}, {tier.name}, is {shape}: no number sizes it"
        fix = f"write a file of your own, like: {fabric.name}"
        raise ColltoolError(what, argument="fabric", fix=fix)
    return [f"{tier.name}.size={nodes}", *_widened_last_level(fabric, tier, levels, nodes)]


def _sized_levels(tier: Tier) -> Sequence[Level] | None:
    """The levels of a tier whose endpoints are one number, bottom up; None of any other tier."""
    match tier:
        case ClosTier():
            return tier.levels or ()
        case StarTier() | FullMeshTier():
            return ()
        case LatticeTier() | GraphTier() | HyperXTier() | DragonflyTier() | DragonflyPlusTier():
            return None
        case _:
            assert_never(tier)


def _widened_last_level(
    fabric: Fabric, tier: Tier, levels: Sequence[Level], nodes: int
) -> list[str]:
    """The override that widens the last level, in whole groups of the level below, if it joins fewer
    endpoints than there are."""
    if not levels or nodes <= levels[-1].group:
        return []
    *lower, last = levels
    if not lower:
        what = f"the switches of {tier.name} on {fabric.name} join {last.group} nodes, not {nodes}"
        fix = f"add a level above '{last.name}' in a file of your own: like: {fabric.name}"
        raise ColltoolError(what, argument="fabric", fix=fix)
    group_below = lower[-1].group
    group = ceil(nodes / group_below) * group_below
    return [f"{tier.name}.levels.{last.name}.group={group}"]


def with_per_rack(fabric: Fabric, per_rack: int) -> list[str]:
    """The overrides under which only so many ranks of each node or rack take part, the endpoints
    that the outermost tier joins.

    Raises:
        ColltoolError: a fabric of one tier or of uneven racks, or more ranks than a rack has.
    """
    if len(fabric.tiers) == 1 or fabric.domains:
        what = f"{fabric.name} has no racks of one size to take a part of"
        raise ColltoolError(what, argument="per_rack", fix="leave it out")
    rack_ranks = _rack_ranks(fabric)
    tier = fabric.tiers[-2]
    # the ranks of an endpoint of this tier stay together
    inside = rack_ranks // tier.endpoints
    if per_rack > rack_ranks or per_rack % inside:
        what = f"{fabric.name} has {rack_ranks} ranks behind an endpoint of {fabric.tiers[-1].name}"
        fix = f"take {inside} to {rack_ranks}"
        if inside > 1:
            fix += f", a multiple of {inside}"
        raise ColltoolError(f"{what}, not {per_rack}", argument="per_rack", fix=fix)
    if _sized_levels(tier) is None:
        what = f"a rack of {fabric.name} is a {tier.topology}, which runs whole or as a slice"
        raise ColltoolError(what, argument="per_rack", fix=f"set {tier.name}.shape instead")
    return [f"{tier.name}.size={per_rack // inside}"]


def per_rack_for(fabric: Fabric, counts: Sequence[int], racks: float) -> int | None:
    """Return the most ranks of each rack with which every one of some rank counts is a part of one rack or
    fills whole ones, at most ``racks`` of them. At least half of a rack is taken; None where no number
    fits, or the fabric takes none."""
    rack_ranks = _rack_ranks(fabric)
    less_than_half = (rack_ranks - 1) // 2
    for per_rack in range(rack_ranks, less_than_half, -1):
        if all(_fills(count, per_rack, racks) for count in counts):
            with suppress(ColltoolError):
                with_per_rack(fabric, per_rack)
                return per_rack
    return None


def _rack_ranks(fabric: Fabric) -> int:
    """Ranks behind an endpoint of the outermost tier, where all have as many."""
    return fabric.ranks // fabric.tiers[-1].endpoints


def _fills(count: int, per_rack: int, racks: float) -> bool:
    """Whether so many ranks are a part of one rack, or whole racks of those that there are."""
    if count <= per_rack:
        return True
    return count % per_rack == 0 and count // per_rack <= racks


def nodes_for(fabric: Fabric, ranks: int) -> int | None:
    """Return how many nodes hold so many ranks, the last perhaps in part. None where the fabric cannot be
    resized."""
    try:
        resized(fabric, 2)
    except ColltoolError:
        return None
    return ceil(ranks / _rack_ranks(fabric))
