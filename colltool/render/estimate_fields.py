"""What JSON documents of prices share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, assert_never

from colltool.algorithms.libraries import LIBRARIES, NotRun
from colltool.base.formatting import plain_number, whole_bytes
from colltool.estimate.algorithm_estimate import AlgorithmEstimate, PhaseCost
from colltool.estimate.assumptions import Readings
from colltool.estimate.results import Price
from colltool.render.view import Document, fields, group_field, set_field

WHY_NOT_RANKED = {
    "reference": "reference: a baseline of the textbooks that no library runs",
    "hypothetical": "hypothetical: on hardware that does not exist",
    "idealised": "idealised: real wiring takes longer than its formula",
}


def why_not_ranked(row: AlgorithmEstimate) -> str:
    """Why a row may not be called the fastest; empty where it may."""
    reason = row.not_selected_reason
    return WHY_NOT_RANKED.get(row.status, not_run_text(reason) if reason else "")


def price_fields(price: Price) -> Document:
    return (
        asked_fields(price)
        | {
            "results": [row_fields(row) for row in price.results],
            "infeasible": [{"algorithm": one.algorithm, "reason": one.reason} for one in price.infeasible],
        }
        | _library(price)
        | ({"leads_on_one_port": price.leads_on_one_port} if any(price.leads_on_one_port) else {})
    )


def asked_fields(price: Price) -> Document:
    return {"fabric": price.fabric} | set_field(price.overrides) | {
        **fields(price, "primitive ranks"),
        "group": group_field(price.group),
        "bytes": whole_bytes(price.bytes),
        "mode": price.mode,
        "model": price.model.echo(),
    }  # fmt: skip


def model_field(readings: Readings, varied: Collection[str] = ()) -> Document:
    """All readings of the model; ``varied`` ones are an axis."""
    return {"model": {name: value for name, value in readings.echo().items() if name not in varied}}


def row_fields(row: AlgorithmEstimate) -> Document:
    return {
        **fields(row, "algorithm detail spec n_alpha n_beta alpha_s bandwidth_s overhead_s software_s total_s"),
        **({} if row.slow is None else {"slow_rank": row.slow._asdict()}),
        "lower_bound_s": plain_number(row.lower_bound_s),
        "bound_ratio": plain_number(None if row.lower_bound_s is None else row.total_s / row.lower_bound_s),
        "bound": None if hasattr(row.bytes, "tolist") else row.bound,
        "alpha_share": plain_number(row.alpha_s / row.total_s),
        "bandwidth_share": plain_number(row.bandwidth_s / row.total_s),
        **fields(row, "algbw_Bps busbw_Bps"),
        **_energy(row.energy_J),
        **fields(row, "status shipped_by"),
        "leads": row.selectable,
        "why_not": why_not_ranked(row),
        "notes": list(row.notes),
        "phases": [_phase(phase, row) for phase in row.phases],
        **under(row.protocol),
    }


def under(protocol: Any) -> Document:
    """The protocol, if the fabric lists any."""
    return {"protocol": plain_number(protocol)} if len(protocol) else {}


def _energy(joule: Any) -> Document:
    return {} if joule is None else {"energy_J": plain_number(joule)}


def _phase(phase: PhaseCost, row: AlgorithmEstimate) -> Document:
    return {
        **fields(phase, "tier level label primitive algorithm ranks"),
        "bytes": whole_bytes(phase.bytes),
        **fields(phase, "n_alpha n_beta alpha_s bandwidth_s eta_alpha eta_beta bandwidth_Bps share"),
        "of_total": plain_number(phase.total_s / row.total_s),
        **_energy(phase.energy_J),
    }


def _library(price: Price) -> Document:
    own = price.library
    if own is None:
        return {}
    if own.pick is None:
        return {"library": {"name": own.name} | ({"reason": own.reason} if own.reason else {})}
    return {
        "library": {
            **fields(own, "name version"),
            "pick": {"algorithm": own.pick.algorithm, "protocol": own.pick.protocol, "estimate_s": own.pick.seconds},
            "runs": None if own.runs is None else row_fields(own.runs),
            "of_fastest": price.slower_pick,
            "ways": [
                {"algorithm": one.algorithm, "protocol": one.protocol, "estimate_s": one.seconds, "reason": one.reason}
                for one in own.ways
            ],
        }
    }


def not_run_text(reason: NotRun) -> str:
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
