"""Finds the bundled fabric that lends its numbers where a node's dump has none:
:func:`machine_like`. It is the one that the user names, else the usual machine with such
accelerators."""

from __future__ import annotations

from colltool.base.errors import ColltoolError, argument_text, clipped
from colltool.base.formatting import counted
from colltool.fabric.bundled_for import CLUSTERS, DeviceMatch, bundled_for
from colltool.fabric.dumps.clos import ClosNetwork
from colltool.fabric.dumps.node import NodeDump, inner_tiers
from colltool.fabric.dumps.pci import lane_GTps

# The fabric of accelerators that PCIe alone joins, where none is known for the model.
PCIE = "l40s-pcie"

# Machines by the GT/s of a lane of their accelerators' slots, for hints.
_BY_LANE_GTPS = {
    8: ("V100 hosts", ("dgx-1v",)),
    16: ("A100 hosts", ("dgx-a100",)),
    32: ("H100, H200 and B200 hosts", ("dgx-h100", "hgx-h200", "dgx-b200")),
    64: ("B300 hosts", ("dgx-b300",)),
}


def machine_like(node: NodeDump, network: ClosNetwork | None, like: str | None) -> DeviceMatch:
    """Return the bundled fabric whose numbers are taken where the dumps have none.

    Raises:
        ColltoolError: the dump does not tell its links, or no fabric is known for the model; names
            those that would fit.
    """
    # a match that no row of the table made has no pattern
    if like is not None:
        return DeviceMatch("", like)
    if not node.has_links:
        fix = "dump a running job's (NCCL_TOPO_DUMP_FILE), or name such a machine"
        raise _unknown(node, node.no_links, fix)
    machine = bundled_for(node.model)
    if inner_tiers(node)[0].link == "pcie":
        if machine is not None and machine.fabric.endswith("-pcie"):
            return machine
        return DeviceMatch("", PCIE)
    if machine is None:
        what = "does not tell which accelerators it has"
        if node.model:
            what = f"has {clipped(node.model)}, of which no machine is known"
        raise _unknown(node, what, "name a fabric of such")
    if node.nics or network:
        return machine._replace(fabric=CLUSTERS.get(machine.fabric, machine.fabric))
    return machine


def _unknown(node: NodeDump, what: str, fix: str) -> ColltoolError:
    """The error for a node without links or a known model. ``what``: which of the two; the fix ends with
    the fabrics that would fit."""
    clue, fabrics = _fitting(node)
    if clue:
        what += f"; {clue}"
    options = [argument_text("like", fabric) for fabric in fabrics]
    return ColltoolError(what, where=node.file, fix=f"{fix}: {' or '.join(options)}")


def _fitting(node: NodeDump) -> tuple[str, tuple[str, ...]]:
    """A clue to which machine a node is, as a clause of an error (empty if there is none), and the bundled
    fabrics of such machines, of common ones without a clue."""
    machine = bundled_for(node.model)
    if machine is not None:
        return f"they are {node.model}", (machine.fabric,)
    if node.link == "xgmi":
        return "links of xGMI are those of MI300X and MI355X", ("mi300x-cluster", "mi355x")
    if node.fits:
        if not node.pairs:
            return "no NVLink joins them", node.fits
        grace = ""
        if node.cpu == "arm":
            grace = " and Grace CPUs"
        links = counted(max(node.pairs.values()), "NVLink")
        return f"{links}{grace} fit {', '.join(node.fits)}", node.fits
    # 0 if unknown
    GTps = lane_GTps(node.pcie_Bps or 0.0)
    if GTps in _BY_LANE_GTPS:
        hosts, fabrics = _BY_LANE_GTPS[int(GTps)]
        return f"PCIe slots of {GTps:g} GT/s are those of {hosts}", fabrics
    return "", ("dgx-h100", "dgx-b200")
