"""What NCCL calls its algorithms and protocols, and which schedule of ours prices each algorithm.

An NCCL algorithm has three spellings: ``nvls_tree`` in tuner files and in this package, ``NVLSTree``
in NCCL's documentation and logs (:data:`ALGORITHM_NAMES`), and the schedule of ours that prices it, a
*spec* as ``--algorithm`` takes it (``hierarchical:in-network/double-binary-tree``). Which spec depends
on how the ranks lie on their nodes, so each look-up is there twice: for the Hardware of NCCL's cost
model, and for a group placed on a fabric. Nothing found is an empty text throughout.

- From NCCL's algorithm to the spec: :func:`spec_of` on hardware, :func:`spec_on` on a placed group.
- From a spec to NCCL's documented name: :func:`name_of`, :func:`name_on`; to its algorithms on groups of
  any shape: :func:`algorithms_of`.
- From what a user typed to NCCL's algorithm, and to its protocol: :func:`nccl_algorithm`,
  :func:`protocol_of`. What may be typed: :func:`algorithms_named`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from colltool.algorithms.libraries import LIBRARIES
from colltool.algorithms.mixed_sizes import SAME_SIZE_COMPOSITIONS
from colltool.base.primitives import AG, AR, BC, REDUCE, RS, Primitive
from colltool.libraries.nccl.hardware import Hardware

if TYPE_CHECKING:
    from colltool.estimate.placement import GroupPlacement

ALGORITHM_NAMES = {
    "ring": "Ring",
    "tree": "Tree",
    "collnet_direct": "CollNetDirect",
    "collnet_chain": "CollNetChain",
    "nvls": "NVLS",
    "nvls_tree": "NVLSTree",
    "pat": "PAT",
}
"""The spelling of NCCL's documentation and logs, by that of its tuner files."""

NodeShape = Literal["node", "alone", "across"]
"""How a group lies on its nodes: all ranks on one node; each alone on its own; or several ranks on
each of several nodes."""


class _PricedBy(NamedTuple):
    """An NCCL algorithm, and the spec that prices it for these primitives on groups of a shape."""

    algorithm: str
    shape: NodeShape
    primitives: tuple[Primitive, ...]
    spec: str


# Inside a node NCCL's trees and CollNetChain are a chain of its GPUs, with a share of the vector on
# each NIC: a ring there costs the same. CollNetDirect reads all peers at once. NVLS between nodes
# is NVLS inside with SHARP outside, NCCL's "CollNet+NVLS": it, and not one of the two CollNet
# algorithms, is what in-network / in-network prices.
_ROWS = (
    _PricedBy("ring", "node", (AR, AG, RS), "ring"),
    _PricedBy("ring", "alone", (AR, AG, RS), "ring"),
    _PricedBy("ring", "across", (AR, AG, RS), "multi-rail-ring"),
    _PricedBy("ring", "node", (BC, REDUCE), "chain"),
    _PricedBy("ring", "alone", (BC, REDUCE), "chain"),
    _PricedBy("ring", "across", (BC, REDUCE), "multi-rail-chain"),
    _PricedBy("tree", "alone", (AR,), "double-binary-tree"),
    _PricedBy("tree", "across", (AR,), "hierarchical:ring/double-binary-tree"),
    _PricedBy("nvls", "node", (AR, AG, RS), "in-network"),
    _PricedBy("nvls", "across", (AR,), "hierarchical:in-network/in-network"),
    _PricedBy("nvls_tree", "across", (AR,), "hierarchical:in-network/double-binary-tree"),
    _PricedBy("collnet_direct", "across", (AR,), "hierarchical:direct/in-network"),
    _PricedBy("collnet_chain", "across", (AR,), "hierarchical:ring/in-network"),
    _PricedBy("collnet_chain", "alone", (AR,), "in-network"),
    _PricedBy("pat", "alone", (AG, RS), "pat"),
)
_SPECS: dict[tuple[str, NodeShape, Primitive], str] = {}
for _row in _ROWS:
    for _primitive in _row.primitives:
        _SPECS[_row.algorithm, _row.shape, _primitive] = _row.spec


def spec_of(algorithm: str, primitive: Primitive, hardware: Hardware) -> str:
    """The spec that prices an NCCL algorithm on hardware: ``pat`` is priced by ``pat``, ``ring``
    across nodes of several GPUs by ``multi-rail-ring``.

    Empty where no schedule of ours does what NCCL does: for its tree on one node (a chain up and
    down), and for an all-gather or reduce-scatter across nodes by NVLS or CollNet.
    """
    return _SPECS.get((algorithm, _shape(hardware.ranks, hardware.nodes), primitive), "")


def spec_on(algorithm: str, primitive: Primitive, group: GroupPlacement) -> str:
    """The spec that prices an NCCL algorithm on a placed group, as :func:`spec_of`; empty if none
    does."""
    return _SPECS.get((algorithm, _shape(group.ranks, _nodes(group)), primitive), "")


def name_of(spec: str, primitive: Primitive, ranks: int, nodes: int) -> str:
    """NCCL's name, as its documentation spells it, of the algorithm that a spec prices; empty if
    none.

    >>> name_of("multi-rail-ring", AR, ranks=16, nodes=2)
    'Ring'
    """
    shape = _shape(ranks, nodes)
    # multi-rail-tree is NCCL's tree too, under the name that it has between mixed domains.
    modelled_as = SAME_SIZE_COMPOSITIONS.get(spec, spec)
    for algorithm, name in ALGORITHM_NAMES.items():
        if _SPECS.get((algorithm, shape, primitive)) == modelled_as:
            return name
    return ""


def name_on(library: str, primitive: Primitive, group: GroupPlacement, spec: str) -> str:
    """NCCL's name of the algorithm that a spec prices on a placed group, as :func:`name_of`; empty
    under libraries that are no fork of NCCL."""
    if not library or not LIBRARIES[library].like_nccl:
        return ""
    return name_of(spec, primitive, group.ranks, _nodes(group))


def _shape(ranks: int, nodes: int) -> NodeShape:
    """How ranks lie on nodes."""
    if nodes == 1:
        return "node"
    return "alone" if nodes == ranks else "across"


def _nodes(group: GroupPlacement) -> int:
    """The nodes of a placed group: domains of its innermost tier, listed only where their sizes
    differ."""
    return len(group.domains) or group.ranks // group.per_domain[0]


def nccl_algorithm(name: str) -> str:
    """NCCL's algorithm, as its tuner files spell it, of a name in any case. Empty if none.

    >>> nccl_algorithm("nvlstree")
    'nvls_tree'
    """
    wanted = name.lower().replace("_", "")
    for algorithm, spelled in ALGORITHM_NAMES.items():
        if spelled.lower() == wanted:
            return algorithm
    return ""


def algorithms_named(primitive: Primitive | None) -> list[str]:
    """NCCL's names, as its documentation spells them, of the algorithms that we price for a
    primitive; None: for any."""
    priced = {
        algorithm for algorithm, _, computed in _SPECS if primitive is None or computed is primitive
    }
    return [name for algorithm, name in ALGORITHM_NAMES.items() if algorithm in priced]


def algorithms_of(spec: str, primitive: Primitive) -> frozenset[str]:
    """NCCL's algorithms, as its tuner files spell them, that a spec prices on groups of any shape."""
    return frozenset(
        row.algorithm for row in _ROWS if row.spec == spec and primitive in row.primitives
    )


PROTOCOL_NAMES = {"ll": "LL", "ll128": "LL128", "simple": "Simple"}
"""NCCL_PROTO's spelling by tuner-file name, from lowest latency to highest bandwidth."""

SEGMENT_PREFIXES = ("short-", "shorter-", "shortest-", "long-")
"""Prefixes in fabrics for segments of one protocol: fewer channels at smaller sizes."""

UNKNOWN_SEGMENT = "segment-"
"""Prefix of calibrated segments whose protocol is not known."""


def protocol_of(name: str) -> str:
    """NCCL's protocol (as in its tuner file) behind a fabric's protocol name, in any case. Empty if
    unknown.

    >>> protocol_of("Short-LL128")
    'll128'
    """
    base_name = name.lower()
    for prefix in SEGMENT_PREFIXES:
        base_name = base_name.removeprefix(prefix)
    return base_name if base_name in PROTOCOL_NAMES else ""
