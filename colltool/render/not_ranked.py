"""Why a priced algorithm may not be called the fastest (:func:`why_not_ranked`): by its status, or
because the library in force does not run it there (:func:`not_run_text`)."""

from __future__ import annotations

from typing import get_args

from colltool.algorithms.libraries import LIBRARIES, NotRun, NotRunCode
from colltool.estimate.algorithm_estimate import AlgorithmEstimate

# by the status of an algorithm; the other statuses may be ranked
WHY_NOT_RANKED = {
    "reference": "for reference only: no library implements it",
    "hypothetical": "hypothetical: no hardware has it",
    "idealised": "matches only on idle wires: real wiring takes longer than its formula",
}


def why_not_ranked(row: AlgorithmEstimate) -> str:
    """Why a row may not be called the fastest; empty if it may."""
    by_status = WHY_NOT_RANKED.get(row.status, "")
    if by_status or row.not_selected_reason is None:
        return by_status
    return not_run_text(row.not_selected_reason)


# with the fields of a NotRun, of which "library" is here the library's display name
_NOT_RUN: dict[NotRunCode, str] = {
    "no_schedule": "not implemented in {library}",
    "no_composition": "{library} does not combine these",
    "nvls_off": "NVLS (NVLink SHARP) is off or not available",
    "collnet_off": (
        "CollNet (SHARP in the network) is off: set NCCL_COLLNET_ENABLE=1, and here library:"
        " {{collnet: true}}"
    ),
    "lattice": "{library} does not run on a torus or mesh",
    "multi_rail": "across nodes {library} runs one for each NIC of a node (multi-rail)",
    "multi_link": "on a full mesh {library} runs rings over all links (multi-link)",
    "chain_inside": (
        "inside a node {library}'s tree is a chain of its GPUs; it is a double binary tree only"
        " between nodes"
    ),
    "nvls_across": "NVLS gathers and scatters only inside a node",
    "nvls_ranks": "NVLS gathers and scatters on at most {most} ranks per node",
    "msccl_links": "RCCL uses MSCCL's kernels only where every pair of GPUs has its own link",
    "kernels_inside": "its kernels read peer memory, which works only inside a node",
    "ranks_inside": "{by} takes at most {most} ranks per node, not {ranks}",
}
# every code needs a text: checked when the module is loaded
assert set(_NOT_RUN) == set(get_args(NotRunCode))


def not_run_text(reason: NotRun) -> str:
    """``across nodes RCCL runs one for each NIC of a node (multi-rail)``."""
    fields = reason._asdict() | {"library": LIBRARIES[reason.library].label}
    return _NOT_RUN[reason.code].format_map(fields)
