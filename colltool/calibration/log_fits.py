"""Whether a log was measured on a fabric like this: :func:`check_fits` refuses a fabric whose hosts
are not those of the log, with the settings under which they would be."""

from math import gcd, prod

from colltool.base.errors import ColltoolError, argument_text, either, spell
from colltool.base.primitives import ceil_div
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.interval import is_network
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.logs.series import Series, check_timing

# Accelerators in one host, of any vendor; larger scale-up domains (NVL72 racks) span hosts.
MOST_IN_A_HOST = 16


def check_fits(fabric: Fabric, series: Series) -> PlacedGroup:
    """The series' ranks placed on the fabric.

    Raises:
        ColltoolError: a time that no collective takes, ranks that the fabric does not hold, or other
            hosts than the fabric's; the fix says which sizes would fit.
    """
    for point in series.points:
        for seconds in (point.seconds, point.low_s, point.high_s):
            check_timing(point.bytes, seconds, point.where)
    where = series.points[0].where
    try:
        placed = place(fabric, series.ranks)
    except ColltoolError as error:
        raise ColltoolError(
            f"{series.title}: {error.what}", where=where, fix=_fix_sizes(fabric, series, error.fix)
        ) from error
    reason = _other_hosts(fabric, series)
    if reason:
        raise ColltoolError(
            f"{series.title}: {reason}", where=where, fix=_fix_sizes(fabric, series)
        )
    return placed


def _other_hosts(fabric: Fabric, series: Series) -> str:
    """Why the fabric's hosts are not those of the log. Empty where they agree, where the log names
    none, or where the domains of the inner tier (a Clos, a lattice) are not hosts."""
    inner = fabric.tiers[0]
    if series.nodes is None or capabilities_of(inner).joins != "accelerators":
        return ""
    if series.ranks % series.nodes:
        return "the ranks are not spread evenly over the nodes, and prices assume equal nodes"
    per_node = series.ranks // series.nodes
    # devices that nothing but a network joins are hosts of their own
    if len(fabric.tiers) == 1 and is_network(fabric, inner):
        if per_node == 1:
            return ""
        return f"{fabric.name} has one device per host, the log has {per_node} on a node"
    spans_hosts = per_node <= MOST_IN_A_HOST < inner.endpoints
    part_of_a_host = series.nodes == 1 and per_node < inner.endpoints
    if spans_hosts or part_of_a_host or per_node == inner.endpoints:
        return ""
    return (
        f"{fabric.name} puts {inner.endpoints} ranks in each domain of {inner.name}, the log has"
        f" {per_node} on a node"
    )


def _fix_sizes(fabric: Fabric, series: Series, nearest: str = "") -> str:
    """What to type so that the series fits: sizes of tiers, as options; where no sizes do, which
    fabric to use. ``nearest``: a fix that is already known, put first."""
    tiers = list(fabric.tiers)
    changed = {}
    possible = True
    for index, size in _fitting_sizes(fabric, series).items():
        tier = tiers[index]
        if size != tier.endpoints:
            changed[tier.name] = size
            most = min(capabilities_of(tier).largest_size, tier.max_size or size)
            possible = possible and size <= most
            tiers[index] = tier.model_copy(update={"size": size})
    if changed and possible and _holds(fabric.model_copy(update={"tiers": tuple(tiers)}), series):
        sizes = [f"{name}.size={size}" for name, size in changed.items()]
        typed = " ".join(spell(argument_text("overrides", [size]), "shell") for size in sizes)
        written = spell(argument_text("overrides", sizes), "python")
        return either(
            shell=f"type {typed}, or take another fabric with -f",
            python=f"load it with {written}, or take another",
        )
    nearest_that_fits = f"{nearest}; or " if nearest else ""
    return (
        f"{nearest_that_fits}use a fabric with the tiers and sizes of the machine that ran"
        f" this{either(shell=', with -f', python='')}"
    )


def _fitting_sizes(fabric: Fabric, series: Series) -> dict[int, int]:
    """Sizes of the innermost and outermost tier that would hold the ranks, by index of the tier. Empty
    where no such sizes are known."""
    tiers = fabric.tiers
    inner = tiers[0]
    # ranks in a domain of the innermost tier; 0 where they are not known or not equal
    if series.nodes is not None:
        per_domain = 0 if series.ranks % series.nodes else series.ranks // series.nodes
    else:
        shared = gcd(series.ranks, inner.endpoints)
        per_domain = shared if shared > 1 else 0
    if per_domain and len(tiers) > 1:
        # 64 ranks on 8 nodes, and two tiers: 8 endpoints inside, and at least 8 outside
        inside = per_domain * prod(tier.endpoints for tier in tiers[1:-1])
        outside = max(tiers[-1].endpoints, ceil_div(series.ranks, inside))
        return {0: per_domain, len(tiers) - 1: outside}
    if len(tiers) == 1 or series.ranks < inner.endpoints:
        return {0: series.ranks}
    return {}


def _holds(fabric: Fabric, series: Series) -> bool:
    """Whether the ranks fit the fabric, and its hosts are those of the log."""
    try:
        place(fabric, series.ranks)
    except ColltoolError:
        return False
    return not _other_hosts(fabric, series)
