"""Why a library does not run a schedule, in words."""

from __future__ import annotations

from typing import assert_never

from colltool.algorithms.libraries import LIBRARIES, NotRun


def not_run_text(reason: NotRun) -> str:
    """The sentence of a reason."""
    library = LIBRARIES[reason.library].spoken
    match reason.code:
        case "no_schedule":
            return f"{library} has no such schedule"
        case "no_composition":
            return f"{library} has no such composition"
        case "nvls_off":
            return "NVLS, NVLink SHARP, is off or not there"
        case "collnet_off":
            return "CollNet, SHARP in the network, is off as it is unless NCCL_COLLNET_ENABLE=1: library: {collnet: true}"
        case "lattice":
            return f"{library} does not run on lattices"
        case "multi_rail":
            return f"across nodes {library} has one for every NIC of a node (multi-rail)"
        case "multi_link":
            return f"on a full mesh {library} has rings over all links (multi-link)"
        case "grouped_sends":
            return "across nodes RCCL's grouped sends are as fast as one peer after another"
        case "chain_inside":
            return f"inside a node {library}'s tree is a chain of its GPUs: double and binary between nodes alone"
        case "nvls_across":
            return "NVLS gathers and scatters inside a node alone"
        case "nvls_ranks":
            return f"NVLS gathers and scatters on at most {reason.most} ranks of a node"
        case "msccl_links":
            return "RCCL takes MSCCL's kernels where every pair of GPUs has a link of its own"
        case "kernels_inside":
            return "its kernels read their peers' memory, inside a node alone"
        case "ranks_inside":
            return f"{reason.by} takes at most {reason.most} ranks of a node, not {reason.ranks}"
        case _:
            assert_never(reason.code)
