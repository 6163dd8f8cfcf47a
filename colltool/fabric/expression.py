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
    """What was typed: the file or name, values of its own, how many nodes there are and how many
    ranks of each take part. None stands for what the fabric has."""

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
    nodes = per_rack = None
    for setting in _COMMA.split(settings):
        key, equals, value = setting.partition("=")
        if not (name and equals and key and value):
            raise ColltoolError(
                f"{quote(text)}: expected KEY=VALUE after the colon, got {quote(setting)}",
                argument="fabric",
                fix=f"write {argument_text('fabric', (name or 'nvl72') + ':nodes=16')}",
            )
        if key.strip() in _NODES:
            nodes = _count_of(value, text, "nodes=144")
        elif key.strip() == PER_RACK:
            per_rack = _count_of(value, text, "per-rack=64")
        else:
            overrides.append(setting)
    return FabricExpression(name, tuple(overrides), nodes, per_rack)


def with_setting(text: str, setting: str) -> str:
    """A fabric as typed, with one more setting of its own."""
    separator = ":" if os.path.exists(text) or ":" not in text else ","
    return f"{text}{separator}{setting}"


def _count_of(value: str, text: str, example: str) -> int:
    if not (value.isascii() and value.isdecimal() and 0 < len(value) < 8 and int(value)):
        what = f"{quote(text)}: expected a whole number above 0, got {quote(value)}"
        raise ColltoolError(what, argument="fabric", fix=f"such as {example}")
    return int(value)


def split_fabrics(text: str) -> list[str]:
    """The fabrics of ``A,B:key=value,key=value``: what has a value belongs to the one before it.

    >>> split_fabrics("nvl72,dgx-b200:nodes=144,ib.eta.beta=0.8")
    ['nvl72', 'dgx-b200:nodes=144,ib.eta.beta=0.8']
    """
    found: list[str] = []
    for part in _COMMA.split(text):
        if found and "=" in part and ":" not in part.partition("=")[0]:
            found[-1] += f",{part}"
        else:
            found.append(part)
    return found


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
    if not _has_size(tier) or fabric.domains:
        shape = "domains of different sizes" if fabric.domains else f"a {tier.topology}"
        what = f"the outermost tier of {fabric.name}, {tier.name}, is {shape}: no number sizes it"
        fix = f"write a file of your own, like: {fabric.name}"
        raise ColltoolError(what, argument="fabric", fix=fix)
    return [f"{tier.name}.size={nodes}", *_last_level(fabric, tier, nodes)]


def _has_size(tier: Tier) -> bool:
    """Whether one number says how many endpoints a tier joins."""
    match tier:
        case StarTier() | FullMeshTier() | ClosTier():
            return True
        case LatticeTier() | GraphTier() | HyperXTier() | DragonflyTier() | DragonflyPlusTier():
            return False
        case _:
            assert_never(tier)


def _levels_of(tier: Tier) -> Sequence[Level]:
    """The levels of a tier's switches, where it has any."""
    match tier:
        case ClosTier():
            return tier.levels or ()
        case (
            StarTier()
            | FullMeshTier()
            | LatticeTier()
            | GraphTier()
            | HyperXTier()
            | DragonflyTier()
            | DragonflyPlusTier()
        ):
            return ()
        case _:
            assert_never(tier)


def _last_level(fabric: Fabric, tier: Tier, nodes: int) -> list[str]:
    """The last level's group where it would join fewer endpoints than there are."""
    levels = _levels_of(tier)
    groups = [level.group for level in levels]
    if not groups or nodes <= groups[-1]:
        return []
    last = levels[-1].name
    if len(groups) == 1:
        what = f"the switches of {tier.name} on {fabric.name} join {groups[0]} nodes, not {nodes}"
        fix = f"add a level above '{last}' in a file of your own: like: {fabric.name}"
        raise ColltoolError(what, argument="fabric", fix=fix)
    below = groups[-2]
    group = ceil(nodes / below) * below
    return [f"{tier.name}.levels.{last}.group={group}"]


def with_per_rack(fabric: Fabric, per_rack: int) -> list[str]:
    """The overrides under which only so many ranks of each node or rack take part, the endpoints
    that the outermost tier joins.

    Raises:
        ColltoolError: a fabric of one tier or of uneven racks, or more ranks than a rack has.
    """
    here = fabric.ranks // fabric.tiers[-1].endpoints
    if len(fabric.tiers) == 1 or fabric.domains:
        what = f"{fabric.name} has no racks of one size to take a part of"
        raise ColltoolError(what, argument="per_rack", fix="leave it out")
    tier = fabric.tiers[-2]
    inside = here // tier.endpoints
    if per_rack > here or per_rack % inside:
        what = f"{fabric.name} has {here} ranks behind an endpoint of {fabric.tiers[-1].name}"
        fix = f"take {inside} to {here}"
        if inside > 1:
            fix += f", a multiple of {inside}"
        raise ColltoolError(f"{what}, not {per_rack}", argument="per_rack", fix=fix)
    if not _has_size(tier):
        what = f"a rack of {fabric.name} is a {tier.topology}, which runs whole or as a slice"
        raise ColltoolError(what, argument="per_rack", fix=f"set {tier.name}.shape instead")
    return [f"{tier.name}.size={per_rack // inside}"]


def per_rack_for(fabric: Fabric, counts: Sequence[int], racks: float) -> int | None:
    """The most ranks of each rack with which all counts fill whole racks, at most ``racks`` of
    them. At least half of a rack is taken; None where no number fits."""
    here = fabric.ranks // fabric.tiers[-1].endpoints
    half = (here - 1) // 2
    for per_rack in range(here, half, -1):
        if all(_fills(count, per_rack, racks) for count in counts):
            with suppress(ColltoolError):
                with_per_rack(fabric, per_rack)
                return per_rack
    return None


def _fills(count: int, per_rack: int, racks: float) -> bool:
    if count <= per_rack:
        return True
    whole, left = divmod(count, per_rack)
    return not left and whole <= racks


def nodes_for(fabric: Fabric, ranks: int) -> int | None:
    """How many nodes hold so many ranks. None where the fabric cannot be resized."""
    try:
        resized(fabric, 2)
    except ColltoolError:
        return None
    return ceil(ranks / (fabric.ranks // fabric.tiers[-1].endpoints))
