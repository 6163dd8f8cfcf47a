"""The link model of a tier, by what joins its endpoints."""

from collections.abc import Sequence
from typing import assert_never

from colltool.network.group import Axis, JoinedBy
from colltool.network.lattice_links import LatticeLinks
from colltool.network.links import LevelBoundary, LinkModel, MeshLinks, SwitchedLinks
from colltool.network.routed_links import RoutedLinks
from colltool.network.twisted_links import TwistedLinks
from colltool.network.wires import Wires


def links_of(
    joined_by: JoinedBy,
    ranks: int,
    inside: int = 1,
    endpoints: int = 0,
    tier: str = "",
    capacity_Bps: float = 1.0,
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
    """The links of a lattice, full mesh or routed network, else one port per rank and what joins
    its levels; α of each level."""
    match joined_by:
        case "switches" | "tiers":
            return SwitchedLinks(
                ranks,
                inside,
                endpoints,
                tier,
                capacity_Bps,
                alphas_s=alphas_s,
                boundaries=boundaries,
                rails=rails,
                apart=apart,
            )
        case "pair_links":
            return MeshLinks(ranks, inside, endpoints, tier, capacity_Bps, alpha_s=alphas_s[0])
        case "neighbour_links":
            kind = TwistedLinks if any(axis.twist for axis in axes) else LatticeLinks
            return kind(axes, ranks, inside, tier, capacity_Bps, alpha_s=alphas_s[0])
        case "routes":
            assert wires is not None  # a routed tier has them
            return RoutedLinks(
                wires,
                ranks,
                inside,
                endpoints,
                tier,
                capacity_Bps,
                alpha_s=alphas_s[0],
                stride=stride,
                alone=alone,
            )
        case _:
            assert_never(joined_by)
