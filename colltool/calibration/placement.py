"""Whether a fabric places the ranks of a series where they ran; if not, what to type instead."""

from __future__ import annotations

from math import gcd, prod

from colltool.base.errors import ColltoolError, either, given, spell
from colltool.estimate.groups import PlacedGroup, place
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.measurements.series import Series, check_series

MOST_IN_A_HOST = 16
"""Accelerators in one host, of any vendor; what joins more by switch or by links spans hosts, as an NVL72 rack does."""


def check_fits(fabric: Fabric, series: Series) -> PlacedGroup:
    """The group of a series on a fabric."""
    check_series(series)
    where = series.points[0].where
    try:
        placed = place(fabric, series.ranks)
    except ColltoolError as error:
        raise ColltoolError(f"{series.title}: {error.what}", where=where, fix=_settings(fabric, series, error.fix)) from error
    reason = _elsewhere(fabric, series)
    if reason:
        raise ColltoolError(f"{series.title}: {reason}", where=where, fix=_settings(fabric, series))
    return placed


def _elsewhere(fabric: Fabric, series: Series) -> str:
    """Why the fabric places the ranks on other hosts than the log; empty where it does not, or the log names no hosts.

    Where the innermost tier does not join the accelerators of one host (a Clos, a lattice), it says nothing of hosts.
    """
    inner = fabric.tiers[0]
    if series.nodes is None or capabilities_of(inner).joins != "accelerators":
        return ""
    if series.ranks % series.nodes:
        return "the ranks do not spread evenly over the nodes, and a price is of equal nodes"
    per_node = series.ranks // series.nodes
    spans_hosts = per_node <= MOST_IN_A_HOST < inner.endpoints
    if spans_hosts or per_node == inner.endpoints or (series.nodes == 1 and per_node < inner.endpoints):
        return ""
    return f"{fabric.name} puts {inner.endpoints} ranks in each domain of {inner.name}, the log has {per_node} on a node"


def _settings(fabric: Fabric, series: Series, nearest: str = "") -> str:
    tiers = list(fabric.tiers)
    inner, last = tiers[0], tiers[-1]
    per_domain = _per_domain(inner, series)
    if per_domain and len(tiers) > 1:
        inside = per_domain * prod(tier.endpoints for tier in tiers[1:-1])
        wanted = {0: per_domain, len(tiers) - 1: max(last.endpoints, -(-series.ranks // inside))}
    elif len(tiers) == 1 or series.ranks < inner.endpoints:
        wanted = {0: series.ranks}
    else:
        wanted = {}
    changed = {index: size for index, size in wanted.items() if size != tiers[index].endpoints}
    for index, size in changed.items():
        tiers[index] = tiers[index].model_copy(update={"size": size})
    if changed and all(_can_be(fabric.tiers[i], size) for i, size in changed.items()) and _holds(fabric, tiers, series):
        sizes = [f"{tiers[index].name}.size={size}" for index, size in changed.items()]
        typed = " ".join(spell(given("overrides", [size]), "shell") for size in sizes)
        written = spell(given("overrides", sizes), "python")
        return either(shell=f"type {typed}, or take another fabric with -f", python=f"load it with {written}, or take another")
    near = f"{nearest}; or " if nearest else ""
    return f"{near}take a fabric with the tiers and sizes of the machine that ran this{either(shell=', with -f', python='')}"


def _per_domain(inner: Tier, series: Series) -> int | None:
    if series.nodes is not None and series.ranks % series.nodes == 0:
        return series.ranks // series.nodes
    shared = gcd(series.ranks, inner.endpoints)
    return shared if shared > 1 and series.nodes is None else None


def _can_be(tier: Tier, size: int) -> bool:
    return size <= min(capabilities_of(tier).most, tier.max_size or size)


def _holds(fabric: Fabric, tiers: list[Tier], series: Series) -> bool:
    changed = fabric.model_copy(update={"tiers": tuple(tiers)})
    try:
        place(changed, series.ranks)
    except ColltoolError:
        return False
    return not _elsewhere(changed, series)
