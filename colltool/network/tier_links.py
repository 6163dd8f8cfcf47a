"""Picks the link model of a tier by what joins its endpoints."""

from collections.abc import Sequence
from typing import assert_never

from colltool.network.group import Axis, JoinedBy
from colltool.network.lattice_links import LatticeLinks
from colltool.network.links import LevelBoundary, LinkModel, MeshLinks, SwitchedLinks, TierRanks
from colltool.network.routed_links import RoutedLinks
from colltool.network.twisted_links import TwistedLinks
from colltool.network.wires import Wires


def links_of(
    joined_by: JoinedBy,
    tier: TierRanks,
    *,
    axes: Sequence[Axis] = (),
    alphas_s: Sequence[float] = (0.0,),
    boundaries: Sequence[LevelBoundary] = (),
    rails: int = 1,
    apart: bool = False,
    wires: Wires | None = None,
    stride: int = 1,
    alone: bool = False,
) -> LinkModel:
    """The links of a lattice, full mesh or routed network; elsewhere ports and the uplinks of each
    level of switches.

    Args:
        axes: of a lattice.
        alphas_s: α of each level of switches, innermost first; elsewhere of every message or hop.
        boundaries: the uplinks of each level but the last.
        rails: separate fabrics in the tier.
        apart: whether no switch joins two rails.
        wires: of a routed network.
        stride: distance between the group's endpoints on a routed network.
        alone: whether the endpoints in between are idle there.
    """
    match joined_by:
        case "switches" | "tiers":
            return SwitchedLinks(
                tier,
                alphas_s=alphas_s,
                boundaries=boundaries,
                rails=rails,
                apart=apart,
            )
        case "pair_links":
            return MeshLinks(tier, alpha_s=alphas_s[0])
        case "neighbour_links":
            kind = TwistedLinks if any(axis.twist for axis in axes) else LatticeLinks
            return kind(axes, tier, alpha_s=alphas_s[0])
        case "routes":
            assert wires is not None  # a routed tier has them
            return RoutedLinks(
                wires,
                tier,
                alpha_s=alphas_s[0],
                stride=stride,
                alone=alone,
            )
        case _:
            assert_never(joined_by)
