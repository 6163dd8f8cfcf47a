"""NCCL's names: types of paths, from near to far, and patterns of graphs."""

from __future__ import annotations

KINDS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS")
"""Types of paths; the index orders them."""
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
"""What NCCL's debug lines give as a number, in words."""
TREES = (BALANCED_TREE, SPLIT_TREE, TREE)

UNLIMITED_MBps = 5_000_000
"""What NCCL counts for a link that is none, such as a rank's to its own GPU: 5000 GB/s."""


def keeps_order(between_gpus: int, to_nics: int, *, from_hopper: bool) -> bool:
    """Whether paths of such types keep the order of bytes that LL128 needs."""
    farthest = PXB
    if from_hopper:
        farthest = PXN
    return between_gpus <= NVB and to_nics <= farthest
