"""Why a library does not run a schedule, in words."""

from __future__ import annotations

from typing import assert_never

from colltool.algorithms.libraries import LIBRARIES, NotRun


def not_run_text(reason: NotRun) -> str:
    """The sentence of a reason."""
    library = LIBRARIES[reason.library].spoken
    match reason.code:
        case "no_schedule":
            return f"not implemented in {library}"
        case "no_composition":
            return f"{library} does not combine these"
        case "nvls_off":
            return "NVLS (NVLink SHARP) is off or not available"
        case "collnet_off":
            return "CollNet (SHARP in the network) is off: set NCCL_COLLNET_ENABLE=1, and here library: {collnet: true}"
        case "lattice":
            return f"{library} does not run on a torus or mesh"
        case "multi_rail":
            return f"across nodes {library} runs one for each NIC of a node (multi-rail)"
        case "multi_link":
            return f"on a full mesh {library} runs rings over all links (multi-link)"
        case "grouped_sends":
            return "across nodes RCCL's grouped sends are no faster than one peer after another"
        case "chain_inside":
            return f"inside a node {library}'s tree is a chain of its GPUs; it is a double binary tree only between nodes"
        case "nvls_across":
            return "NVLS gathers and scatters only inside a node"
        case "nvls_ranks":
            return f"NVLS gathers and scatters on at most {reason.most} ranks per node"
        case "msccl_links":
            return "RCCL uses MSCCL's kernels only where every pair of GPUs has its own link"
        case "kernels_inside":
            return "its kernels read peer memory, which works only inside a node"
        case "ranks_inside":
            return f"{reason.by} takes at most {reason.most} ranks per node, not {reason.ranks}"
        case _:
            assert_never(reason.code)
