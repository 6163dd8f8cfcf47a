"""The channels that NCCL would find on a node as the XML that it takes through NCCL_GRAPH_FILE, to change
by hand (:func:`nccl_graph`). NCCL_GRAPH_DUMP_FILE writes the same form.

GPUs and NICs are named by NCCL's numbers of devices, with the host above 56 bits. No ranks are written,
which NCCL 2.30.7 also reads: they would tie the file to the first node.
"""

from __future__ import annotations

import os

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.files import AnyPath
from colltool.base.formatting import counted
from colltool.base.xml_tree import Element, comment_text
from colltool.libraries.nccl.topology.graphs import DomainGraphs, graphs_of
from colltool.libraries.nccl.topology.kinds import C2C, DIS, KINDS, SYS
from colltool.libraries.nccl.topology.search import Searched
from colltool.libraries.nccl.topology.versions import RELEASE

# NCCL's numbers of its graphs, in the order of its own files; it searches for those that are not there
_IDS = {"ring": 0, "tree": 1, "nvls": 3}


def nccl_graph(path: AnyPath, nodes: int = 1, release: str = "") -> str:
    """Return the XML of the graphs that a release of NCCL (the newest known by default) finds on nodes like that
    of a topology file.

    Raises:
        ColltoolError: as :func:`colltool.libraries.nccl.topology.graphs.graphs_of`; a node of several
            domains, or a type of path that such files have no word for.
    """
    name = os.fsdecode(path)
    node = graphs_of(path, nodes, release)
    if len(node.domains) > 1:
        what = (
            f"NCCL takes the GPUs for {len(node.domains)} nodes, each with graphs of its own, and one file"
            " would be read by all"
        )
        fix = "fabric channels shows those of rank 0; NCCL_GRAPH_FILE is for one group of GPUs"
        raise ColltoolError(what, where=name, fix=fix)
    root = Element("graphs", {"version": "1"}, 0, 0)
    for pattern, number in _IDS.items():
        searched = node.first.graphs.get(pattern)
        if searched is not None:
            _add_graph(root, node.first, searched, number, name)
    on = f"{counted(nodes, 'node')} like {os.path.basename(name)}"
    note = f"colltool export nccl-graph: what NCCL {release or RELEASE} finds on {on}"
    return comment_text(note) + root.text()


def _add_graph(
    root: Element, domain: DomainGraphs, searched: Searched, number: int, name: str
) -> None:
    """Add a graph with its channels; ``number``: NCCL's of its pattern, ``name``: the file, for
    errors."""
    request = searched.best.request
    if C2C in (searched.inside, searched.across):
        what = "has GPUs that only NVLink-C2C joins, and NCCL's graph files have no word for that"
        raise ColltoolError(what, where=name, fix=f"take {argument_text('nodes', 1)}")
    graph = root.add(
        "graph",
        id=number,
        pattern=request.pattern,
        crossnic=request.cross_nic,
        nchannels=searched.best.channel_count,
        speedintra=f"{searched.inside_MBps / 1000:g}",
        speedinter=f"{searched.across_MBps / 1000:g}",
        latencyinter=f"{searched.best.latency_us:g}",
        typeintra=KINDS[searched.inside],
        # without NICs nothing asks for it, and such files know no DIS
        typeinter=KINDS[SYS if searched.across == DIS else searched.across],
        samechannels=int(request.same),
    )
    system = domain.paths.system
    for channel in searched.best.channels:
        # a channel has the NIC by which it comes, its GPUs, and the NIC by which it leaves; no NICs on one node
        nets = [hex(system.nets[net].id) for net in channel.nets]
        element = graph.add("channel")
        for net in nets[:1]:
            element.add("net", dev=net)
        for place in channel.gpus:
            gpu = system.gpus[place]
            element.add("gpu", dev=hex((gpu.host << 56) + gpu.dev))
        for net in nets[1:]:
            element.add("net", dev=net)
