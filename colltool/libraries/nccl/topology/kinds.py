"""NCCL's numbers and names of two things: types of paths, from near to far, and patterns of graphs."""

from __future__ import annotations

KINDS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS")
"""Types of paths; the index is NCCL's number and orders them.

- LOC: a part and itself. NVL: NVLinks. NVB: NVLinks by way of another GPU. C2C: NVLink-C2C to the CPU.
- PIX: one PCI switch. PXB: several. P2C: a NIC on the CPU of a GPU with C2C.
- PXN: a NIC by way of a GPU beside it. PHB: through the CPU. SYS: between CPUs.
- NET: by the network. DIS: no path.
"""
LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN, PHB, SYS, NET, DIS = range(len(KINDS))

BALANCED_TREE = 1
SPLIT_TREE = 2
TREE = 3
RING = 4
NVLS = 5
DIRECT = 6
PATTERNS = {
    BALANCED_TREE: "balanced tree",
    SPLIT_TREE: "split tree",
    TREE: "tree",
    RING: "ring",
    NVLS: "NVLS",
    DIRECT: "CollNet direct",
}
"""Patterns of graphs in words, by the numbers that NCCL's debug lines give. Up to RING a channel is a
walk from GPU to GPU; NVLS and DIRECT, the numbers above it, have a head that all others send to."""
TREES = (BALANCED_TREE, SPLIT_TREE, TREE)

UNLIMITED_MBps = 5_000_000
"""What NCCL counts for a link that is none, such as a rank's to its own GPU: 5000 GB/s."""


def keeps_order(between_gpus: int, to_nics: int, *, from_hopper: bool) -> bool:
    """Whether the farthest types of path, between GPUs and to NICs, keep the order of bytes that LL128
    needs."""
    farthest = PXN if from_hopper else PXB
    return between_gpus <= NVB and to_nics <= farthest
