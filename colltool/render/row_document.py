"""A priced algorithm as JSON (:class:`RowDocument`), with its phases and layers. A price at a size has
a list of them, ``breakdown`` and ``explain`` have one or more. Of a price over an array of sizes numbers are arrays,
which JSON has as lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from colltool.estimate.algorithm_estimate import AlgorithmEstimate, Layers, SlowRank
from colltool.render.documents import LEFT_OUT, Document, derived, optional
from colltool.render.intervals import IntervalDocument
from colltool.render.not_ranked import why_not_ranked
from colltool.render.shared_documents import whole_size


class LayersDocument(Document, of=Layers):
    """What each layer of the model adds to a price; their sum is the price."""

    # declared again, as those of a record may be arrays
    wires_s: float
    contention_s: float
    library_s: float
    machine_s: float


class PhaseDocument(Document):
    """A phase of a schedule on one tier."""

    tier: str
    level: str
    label: str
    primitive: str
    algorithm: str
    ranks: int
    bytes: float = derived(whole_size)
    n_alpha: float
    n_beta: float
    alpha_s: float
    bandwidth_s: float
    eta_alpha: float
    eta_beta: float
    bandwidth_Bps: float
    share: float
    of_total: float
    energy_J: float = optional("energy_J")


def _phases(row: AlgorithmEstimate) -> Iterator[dict[str, Any]]:
    """Each phase with its share of the row's time."""
    for phase in row.phases:
        yield PhaseDocument.of(phase, of_total=phase.total_s / row.total_s)


def _interval(row: AlgorithmEstimate) -> Any:
    """The interval; left out, rather than null, of rows that have no reason for lacking one."""
    return LEFT_OUT if row.interval is None and not row.no_interval else row.interval


def _no_interval(row: AlgorithmEstimate) -> Any:
    """Why there is no interval; left out where there is one, or no reason is known."""
    return row.no_interval if row.interval is None and row.no_interval else LEFT_OUT


def _bound_ratio(row: AlgorithmEstimate) -> Any:
    """The time over the least that any algorithm could take; None without such a bound."""
    if row.lower_bound_s is None:
        return None
    return row.total_s / row.lower_bound_s


def _bound(row: AlgorithmEstimate) -> str | None:
    """What bounds the time: latency or bandwidth. None for arrays, which have it per size."""
    return None if hasattr(row.bytes, "tolist") else row.bound


def alpha_share(row: AlgorithmEstimate) -> Any:
    """The share of latencies in the time; an array where the time is one."""
    return row.alpha_s / row.total_s


def bandwidth_share(row: AlgorithmEstimate) -> Any:
    """The share of bytes over bandwidth in the time; an array where the time is one."""
    return row.bandwidth_s / row.total_s


class RowDocument(Document, of=AlgorithmEstimate):
    """A priced algorithm: coefficients without unit, seconds, rates in bytes/s."""

    name: str
    algorithm: str
    detail: str
    spec: str
    n_alpha: float | None
    n_beta: float | None
    alpha_s: float
    bandwidth_s: float
    overhead_s: float
    software_s: float
    total_s: float
    interval: IntervalDocument | None = optional(_interval)
    no_interval: str = optional(_no_interval)
    slow_rank: SlowRank = optional("slow")
    lower_bound_s: float | None
    bound_ratio: float | None = derived(_bound_ratio)
    layers: LayersDocument
    bound: str = derived(_bound)
    alpha_share: float = derived(alpha_share)
    bandwidth_share: float = derived(bandwidth_share)
    algbw_Bps: float
    busbw_Bps: float
    energy_J: float = optional("energy_J")
    status: str
    shipped_by: list[str]
    leads: bool = derived("selectable")
    why_not: str = derived(why_not_ranked)
    notes: list[str]
    phases: list[PhaseDocument] = derived(_phases)
    # left out where the fabric lists no protocols
    protocol: str = optional("protocol")
