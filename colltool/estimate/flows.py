"""How many messages leave a domain of so many endpoints at once: what shares its uplinks."""

from __future__ import annotations

from colltool.algorithms.routes import edges_leaving
from colltool.base.cost import Terms, Trees
from colltool.estimate.distances import Flows


def everybody(endpoints: int) -> float:
    """One from each endpoint."""
    return float(endpoints)


def at_most(count: float) -> Flows:
    """So many, or one from each endpoint where there are fewer."""
    return lambda endpoints: min(count, endpoints)


one_alone = at_most(1)


def leaving(stride: int, ranks: int) -> Flows:
    """When every rank sends ``stride`` further, round the corner: how many leave the domain that most leave."""

    def crossing(domain: int) -> int:
        return domain - max(0, domain - stride) - max(0, domain - (ranks - stride))

    return lambda endpoints: max(crossing(min(endpoints, ranks)), crossing(ranks % endpoints))


def tree_flows(terms: Terms, ranks: int, route: Trees) -> Flows:
    """Edges that leave a domain, half a payload each, as a number of full flows of n_β·M."""

    def edges(domain: int) -> float:
        halves = edges_leaving(ranks, domain, both_ways=route.both_ways)
        return min(max(halves / 2 / terms.n_beta, 1e-9), domain)

    return edges
