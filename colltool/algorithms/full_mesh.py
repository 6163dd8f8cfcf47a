"""Rings and chains over all links of a full mesh. ``bandwidth`` is one link's, one direction.

One ring uses one of a rank's N-1 links. Walecki's zigzags share all links out among rings: N-1 rings for odd N, twice as many for
even N, every link in two of them. With equal shares of the payload every link carries 1/(N-1) of what a single ring's does.
"""

from __future__ import annotations

from functools import partial

from colltool.algorithms.group import FULL_MESH, Group, all_ports
from colltool.algorithms.references import CHAN, PATARASUK_YUAN
from colltool.algorithms.registry import algorithm
from colltool.base.primitives import AG, AR, BC, REDUCE, RS, Chain, Ring, Terms

_ALL_LINKS = (
    "RCCL, src/graph/rome_models.cc: of the 14 rings of 8 MI300X two use each link (model 79), of the 8 paths between NICs one "
    "(model 81); NCCL, issue 43: rings until all NVLinks are used"
)


def several_links(group: Group) -> str | None:
    """Two ranks have one link, and one ring over it."""
    return "two ranks have one link between them: that is ring or chain" if group.ranks < 3 else None


def _rings(group: Group, passes: int) -> Terms:
    n = group.ranks
    return Terms(passes * (n - 1), passes / n, Ring("links"))


_over_all_links = partial(algorithm, on=FULL_MESH, requires=(several_links, all_ports), shipped_by=("NCCL", "RCCL"))


@_over_all_links("multi-link-ring", AR, source=f"{PATARASUK_YUAN}; {_ALL_LINKS}", equation="t = 2(N-1) α + 2/N M/BW")
def multi_link_all_reduce(group: Group) -> Terms:
    """Rings over all links of a full mesh at once, each with its share of the vector.

    A ring has a link of its own in every step (for even N half of one), and N-1 links a rank carry 2(N-1)/N M together.

    >>> multi_link_all_reduce(Group(8, "full_mesh"))[:2]
    (14, 0.25)
    """
    return _rings(group, 2)


@_over_all_links("multi-link-ring", AG, RS, source=f"{PATARASUK_YUAN}; {_ALL_LINKS}", equation="t = (N-1) α + 1/N M/BW")
def multi_link_ring(group: Group) -> Terms:
    """Rings over all links of a full mesh at once, each with its share of every chunk.

    >>> multi_link_ring(Group(8, "full_mesh"))[:2]
    (7, 0.125)
    """
    return _rings(group, 1)


@_over_all_links(
    "multi-link-chain",
    BC,
    REDUCE,
    source=f"{CHAN}; {_ALL_LINKS}",
    equation="t = (N-1) α + 1/(N-1) M/BW, with the filling of the pipeline left out (asymptotic reading)\n"
    "t(P) = (L+P-1) α + (F+P-1)/P M/((N-1) BW) with L = N-1 for P segments; F = N-1, for even N F = N-1 - (N-2)/4",
)
def multi_link_chain(group: Group) -> Terms:
    """Chains over all links of a full mesh at once: the rings of multi-link-ring cut at the root, segment behind segment.

    For even N two chains share a link, at different places of each, so that links are half idle while the pipeline fills:
    executed, from P = N/2 segments on it is F, below a little less.

    >>> multi_link_chain(Group(5, "full_mesh"))[:2]
    (4, 0.25)
    """
    depth = group.ranks - 1
    fill = depth - (group.ranks - 2) / 4 if group.ranks % 2 == 0 else depth
    return Terms(depth, 1 / depth, Chain("links"), fill=fill)
