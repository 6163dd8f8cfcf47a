"""NCCL's channels in a log beside those that a topology file allows, a part of ``doctor``
(:func:`topology_blocks`, :class:`TopologyDocument`).

Of a ``GraphDifference``, ``found`` are a graph's figures in the log, ``allowed`` those that the file allows (None where
it allows no such graph), and ``differs`` the figures in which they differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from colltool.diagnosis.logged_channels import (
    ComparedNode,
    GraphDifference,
    TopologyCompared,
)
from colltool.libraries.nccl.topology.damages import Damage
from colltool.logs.nccl_graph_lines import GraphFigures
from colltool.render.blocks import Block, Columns, Table, label, later, number
from colltool.render.documents import Document, derived, or_null


class _GraphRow(NamedTuple):
    """A graph of the hosts of a log beside what a topology file allows."""

    hosts: str
    graph: GraphDifference


# titles of the figures in which two graphs may differ
_FIGURES = {
    "pattern": "pattern",
    "cross_nic": "crossNic",
    "channels": "channels",
    "inside_Bps": "inside",
    "across_Bps": "across",
    "between_gpus": "GPUs",
    "to_nics": "NICs",
    "order": "order",
}
# columns that a narrow screen drops say what the answer says too
_GRAPHS: Columns[_GraphRow] = (
    label("hosts"),
    label("graph", path="graph.graph"),
    number("channels", path="graph.found.channels"),
    number("allowed_channels", "allowed", path="graph.allowed.channels"),
    number("inside_Bps", "inside", drop=1, path="graph.found.inside_Bps"),
    number("allowed_inside_Bps", "allowed", drop=2, path="graph.allowed.inside_Bps"),
    number("across_Bps", "across", path="graph.found.across_Bps"),
    number("allowed_across_Bps", "allowed", path="graph.allowed.across_Bps"),
    label("types", "GPUs/NICs", drop=3, get=lambda row: _types(row.graph.found)),
    label("allowed_types", "allowed", drop=4, get=lambda row: _types(row.graph.allowed)),
    label("differs", get=lambda row: " ".join(_FIGURES[figure] for figure in row.graph.differs)),
)


def _types(figures: GraphFigures | None) -> str:
    """``NVL/PXB``: NCCL's types of the worst paths between GPUs, and from GPUs to NICs."""
    return "" if figures is None else f"{figures.between_gpus}/{figures.to_nics}"


def topology_blocks(topology: TopologyCompared) -> Iterator[Block]:
    """The graphs of the log beside those of a topology file; without a difference for --all."""
    rows = []
    for node in topology.compared:
        rows += [_GraphRow(" ".join(node.hosts), graph) for graph in node.graphs]
    if rows:
        title = f"NCCL's channels beside what {topology.file} allows"
        table = Table(_GRAPHS, rows, title=title).without_empty("hosts")
        yield later(table) if topology.agrees else table


class DamageDocument(Document, of=Damage):
    """What makes the file's node give the log's channels: of which parts, and links or MB/s."""

    kind: str
    names: list[str]
    now: int
    was: int
    all: bool
    together: list[str] = derived(lambda damage: [part.kind for part in damage.together])


class ComparedNodeDocument(Document, of=ComparedNode):
    """Hosts with the same channels."""

    hosts: list[str]
    where: str
    gpus: int | None = or_null("gpus_used")
    differs: bool
    graphs: list[GraphDifference]
    damages: list[DamageDocument] = derived(
        lambda node: node.explained.damages if node.explained else ()
    )
    exact: bool = derived(lambda node: node.explained is None or node.explained.exact)


class TopologyDocument(Document, of=TopologyCompared):
    """A log's channels beside those that a topology file allows."""

    file: str
    nccl: str | None = or_null("release")
    nodes: int
    agrees: bool
    missing: list[str]
    compared: list[ComparedNodeDocument]
    notes: list[str]
