"""Fabrics: a drawing of one, and what a network of so many endpoints takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from colltool.api.arguments import count_of, is_nothing
from colltool.base.errors import ColltoolError, given
from colltool.base.inputs import remembering

if TYPE_CHECKING:
    from colltool.api.arguments import AnyFabric
    from colltool.definitions.overrides import Overrides
    from colltool.fabric.load import FabricSource
    from colltool.fabric.results import FabricDrawn, FabricSized


def draw_fabric(fabric: AnyFabric) -> FabricDrawn:
    """A fabric as a drawing: its tiers, levels, ports and oversubscription; lattices too.

    Args:
        fabric: a fabric, or a path or shipped name to load.

    Returns:
        A :class:`colltool.fabric.results.FabricDrawn`, which a notebook shows; ``.svg`` is the drawing as one ``<svg>`` element,
        light or dark as its reader's screen. The same fabric gives the same text.

    Raises:
        ColltoolError: as :func:`colltool.load_fabric`.
    """
    from colltool.api.arguments import fabric_of
    from colltool.fabric.properties import fabric_facts
    from colltool.fabric.results import FabricDrawn
    from colltool.render.drawing import fabric_svg

    loaded = fabric_of(fabric)
    return FabricDrawn(loaded, fabric_facts(loaded), fabric_svg(loaded, loaded.name))


@remembering()
def size_fabric(
    endpoints: int | None = None,
    radix: int | None = None,
    *,
    fat_tree: int | None = None,
    levels: int | None = None,
    oversubscription: Sequence[float | str] | float | str = (),
    rails: int = 1,
    ports_per_endpoint: int = 1,
    prices: FabricSource | None = None,
    overrides: Overrides = (),
) -> FabricSized:
    """A Clos in whole switches and whole ports, the fewest that can be wired evenly, and its bill.

    Args:
        endpoints: that it joins: GPUs or nodes, of ``ports_per_endpoint`` ports each.
        radix: ports of a switch.
        fat_tree: k, for the k-ary fat-tree of k³/4 endpoints in the place of both.
        levels: 1 to 3; the fewest that have room when None.
        oversubscription: of the switches of each level below the top, hop by hop: ``2``, or ports and their rates,
            ``"48x400Gbps:8x800Gbps"``; 1 where nothing is given.
        rails: separate fabrics, over which the ports spread.
        ports_per_endpoint: ports of one.
        prices: what the key ``prices`` of a fabric holds: a mapping, or a file of it, or a fabric that has one.
        overrides: of the prices, ``"switch=30000"`` each, or a mapping; they do without ``prices``.

    Returns:
        A :class:`colltool.fabric.results.FabricSized`; counts, watts, and money in the currency of the prices.

    Raises:
        ColltoolError: neither a fat-tree nor endpoints and radix, more ports than so many levels join, prices without a currency.
    """
    from colltool.fabric.bill import bill_of_plan
    from colltool.fabric.load import load_prices
    from colltool.fabric.results import FabricSized
    from colltool.sizing.oversubscription import hops_of
    from colltool.sizing.size_clos import clos_plan, fat_tree_plan

    known = load_prices(prices, overrides) if prices is not None or not is_nothing(overrides) else None
    if fat_tree is not None:
        _alone(endpoints=endpoints, radix=radix, levels=levels, oversubscription=oversubscription or None)
        _alone(rails=rails if rails != 1 else None, ports_per_endpoint=ports_per_endpoint if ports_per_endpoint != 1 else None)
        tree = fat_tree_plan(count_of(fat_tree, "fat_tree"))
        return FabricSized(tree.ports, 1, tree, bill_of_plan(tree, known))
    if endpoints is None or radix is None:
        what = "what is to be sized is not given"
        raise ColltoolError(what, fix=f"write {given('endpoints', 2048)} and {given('radix', 64)}, or {given('fat_tree', 64)}")
    ports_of_switch = count_of(radix, "radix")
    plan = clos_plan(
        count_of(endpoints, "endpoints"),
        count_of(ports_per_endpoint, "ports_per_endpoint"),
        ports_of_switch,
        rails=count_of(rails, "rails"),
        levels=None if levels is None else count_of(levels, "levels"),
        hops=hops_of(oversubscription, ports_of_switch),
    )
    return FabricSized(endpoints, ports_per_endpoint, plan, bill_of_plan(plan, known))


def _alone(**beside: Any) -> None:
    """Refuse what k already says."""
    for name, value in beside.items():
        if value is not None:
            raise ColltoolError("is not asked of a fat-tree: k says it all", argument=name, fix="leave it out")
