"""The bandwidth of the links inside a node, of its dump or of data sheets: :func:`link_rate`."""

from __future__ import annotations

import re
from typing import assert_never

from colltool.base.formatting import counted
from colltool.fabric.dumps.node import NVLINK_5_BPS, NVLINK_BPS, InnerTier, NodeDump
from colltool.fabric.dumps.pci import usual_host
from colltool.fabric.dumps.rates import DumpedRate, rate_text
from colltool.fabric.dumps.sentences import sentence_of
from colltool.fabric.load import load_fabric

# What of the node the bandwidth of a tier is by topology, as the tier's source says it.
_BANDWIDTH_OF = {"star": "of an accelerator", "full_mesh": "of a pair", "graph": "of a link"}
# Blackwell: B200, GB300
_NVLINK_5 = re.compile(r"\bG?B[23]00\b")


def link_rate(node: NodeDump, inner: InnerTier, base: str) -> DumpedRate | None:
    """Return the bandwidth of an accelerator's links to switches, or of a pair's links, one way.

    None where the dump does not tell how many links there are, and for PCIe where the slot is unknown.

    Args:
        node: what a dump of a node says; ``link_Bps`` where it states the bandwidth itself.
        inner: the tier of such links; ``links`` is the number of them that an accelerator has to
            switches, or a pair between it, 0 if unknown.
        base: name of the bundled fabric whose numbers are taken for links without a data sheet, and
            whose accelerator is meant where the dump names none.
    """
    if node.link_Bps is not None and inner.link != "pcie":
        source = f"{_BANDWIDTH_OF[inner.topology]}: {node.file}"
        return DumpedRate(node.link_Bps, source)
    # a dump may list links without telling how many run in parallel
    if not inner.links or not node.has_link_counts:
        return None
    match inner.link:
        case "pcie":
            return _pcie_rate(node, inner)
        case "xgmi":
            each_Bps = load_fabric(base).tiers[0].bandwidth
            links = f"{counted(inner.links, 'link')} a pair"
            each_origin = f": {base}"
        case "nvlink":
            model = node.model
            if not model:
                model = (load_fabric(base).device or "").upper()
            each_Bps = nvlink_Bps(model)
            end = "a GPU" if inner.topology == "star" else "a pair"
            links = f"{counted(inner.links, 'NVLink')} {end}"
            each_origin = ", one way: NVIDIA data sheets"
        case _:
            assert_never(inner.link)
    each = rate_text(each_Bps)
    # 18 NVLinks a GPU: topo.xml; 25 GB/s each, one way: NVIDIA data sheets
    source = f"{links}: {node.file}; {each} each{each_origin}"
    links_Bps = each_Bps * inner.links
    rings_Bps = _rings_Bps(node)
    if inner.topology == "star" and rings_Bps is not None and rings_Bps < links_Bps:
        carried = rate_text(rings_Bps)
        source += f"; NCCL's rings carry {carried} of it"
        return DumpedRate(rings_Bps, source)
    return DumpedRate(links_Bps, source)


def _rings_Bps(node: NodeDump) -> float | None:
    """Bytes/s that all of NCCL's rings carry from each GPU to the next, one way; None where NCCL's search
    for them was not repeated on the dump."""
    if node.search is None:
        return None
    return node.search.inside_Bps


def _pcie_rate(node: NodeDump, inner: InnerTier) -> DumpedRate | None:
    """Bytes/s of PCIe of an accelerator, or of each accelerator of an island of bridged cards; None where
    neither the dump nor the usual host of the model has the slot."""
    rings_Bps = _rings_Bps(node)
    if rings_Bps is not None:
        # the ranks of an island share what goes to the next one
        ranks_of_island = len(node.accelerators) // inner.size
        carried = rate_text(rings_Bps)
        source = f"NCCL's rings carry {carried} from GPU to GPU: {node.file}"
        return DumpedRate(rings_Bps / ranks_of_island, source)
    if node.pcie_Bps:
        source = f"link_speed and link_width of a slot: {node.file}"
        return DumpedRate(node.pcie_Bps, source)
    usual_Bps = usual_host(node.model).slot_Bps
    if usual_Bps is None:
        return None
    rate = rate_text(usual_Bps)
    assumed = sentence_of("usual-slot", rate=rate, model=node.model)
    # what was assumed is the source of the number too
    return DumpedRate(usual_Bps, source=assumed, assumed=assumed)


def nvlink_Bps(model: str) -> float:
    """Return the rate of one NVLink of a model of GPUs, bytes/s one way: that of Blackwell, or of V100 to
    H200, which all others are taken for."""
    if _NVLINK_5.search(model):
        return NVLINK_5_BPS
    return NVLINK_BPS
