"""``colltool fabric import``: a table of readers by kind of dump, and :func:`import_dumps`, which makes a
fabric file of a node's dump, a network's, or both. What the file says: ``fabric_file``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import PurePath

from colltool.base.errors import ColltoolError, nearest_and_all, quote
from colltool.base.extras import extra
from colltool.base.formatting import parse_rate
from colltool.fabric.dumps.clos import ClosNetwork
from colltool.fabric.dumps.fabric_file import fabric_file
from colltool.fabric.dumps.hwloc import read_hwloc
from colltool.fabric.dumps.ibnetdiscover import read_ibnetdiscover
from colltool.fabric.dumps.nccl_topo import read_nccl_topo
from colltool.fabric.dumps.node import NodeDump
from colltool.fabric.dumps.nvidia_smi import read_nvidia_smi
from colltool.fabric.dumps.slurm_topology import read_slurm_topology
from colltool.fabric.load import fabric_data, load_fabric
from colltool.fabric.templates import valid_name
from colltool.fabric.yaml_writer import fabric_text

# The reader of each kind: of the path of a file and the rate of each NIC where the user states it, a
# node, a network, or both.
KINDS: dict[str, Callable[[str, float | None], tuple[NodeDump | None, ClosNetwork | None]]] = {
    "nccl-topo": lambda path, nic_Bps: (read_nccl_topo(path, nic_Bps), None),
    "nvidia-smi-topo": lambda path, _: (read_nvidia_smi(path), None),
    "infragraph": lambda path, _: extra("interop.infragraph_import").read_infragraph(path),
    "lstopo": lambda path, _: (read_hwloc(path), None),
    "ibnetdiscover": lambda path, _: (None, read_ibnetdiscover(path)),
    "slurm-topology": lambda path, _: (None, read_slurm_topology(path)),
}
# How errors describe the argument for one dump.
_PAIR = "a kind and its file, such as nccl-topo node.xml"


def import_dumps(
    dumps: Sequence[str],
    *,
    name: str = "",
    like: str | None = None,
    nodes: int | None = None,
    nic: str | None = None,
) -> str:
    """Return the text of a fabric file, checked, from dumps that are each a kind and a path.

    Args:
        dumps: kinds and paths in turn: ``nccl-topo``, ``node.xml``, ...
        name: of the fabric; default: the first file's.
        like, nodes: as :func:`colltool.fabric.dumps.fabric_file.fabric_file`.
        nic: the rate of each NIC, such as ``200Gbps``, instead of what the dumps say.

    Raises:
        ColltoolError: an unknown kind, two dumps of the same thing, what the readers refuse.
    """
    nic_Bps = None
    if nic is not None:
        nic_Bps = _nic_rate(nic)
    pairs = _pairs(dumps)
    if like is not None:
        # A mistyped name is told at once: the search of a node takes seconds.
        fabric_data(like)
    node: NodeDump | None = None
    network: ClosNetwork | None = None
    for kind, path in pairs:
        dumped_node, dumped_network = KINDS[kind](path, nic_Bps)
        if (dumped_node and node) or (dumped_network and network):
            raise ColltoolError(
                f"{path} tells again what was told",
                argument="dumps",
                fix="one node and one network at most",
            )
        node = dumped_node or node
        network = dumped_network or network
    name = valid_name(name or PurePath(dumps[1]).stem) or "imported"
    data, comments = fabric_file(node, network, name=name, like=like, nodes=nodes, nic_Bps=nic_Bps)
    # the file must load as any other
    load_fabric(data)
    return fabric_text(data, comments, compact=True)


def _pairs(dumps: Sequence[str]) -> list[tuple[str, str]]:
    """The kind and the path of each dump; an error for an unknown kind, or one without a path."""
    for kind in dumps[::2]:
        if kind not in KINDS:
            fix = nearest_and_all(kind, KINDS, f"write {_PAIR}; kinds:")
            raise ColltoolError(f"{quote(kind)} is not a kind of dump", argument="dumps", fix=fix)
    if len(dumps) % 2:
        raise ColltoolError(f"{dumps[-1]} of which file", argument="dumps", fix=f"write {_PAIR}")
    return list(zip(dumps[::2], dumps[1::2], strict=True))


def _nic_rate(text: str) -> float:
    """The rate of a NIC in bytes/s, of text such as ``200Gbps``, or ``200G``, which is what vendors call
    200 Gb/s; an error for any other text, and for rates that no tier may have."""
    short = re.fullmatch(r"\s*(\d{1,4})\s*G(?:b|bit|be)?\s*", text, re.IGNORECASE)
    try:
        rate_Bps = parse_rate(f"{short[1]}Gbps" if short else text)
    except ColltoolError:
        rate_Bps = 0.0
    if not 1e6 <= rate_Bps <= 1e15:
        raise ColltoolError(
            f"{quote(text)} is no rate of a NIC", argument="nic", fix="write 200Gbps or 25GB/s"
        )
    return rate_Bps
