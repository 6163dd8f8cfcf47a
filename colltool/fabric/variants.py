"""Copies of a fabric whose tiers are slower, or whose switches compute nothing: :func:`with_tiers`.

Copies are not validated. Other values, by their path: :mod:`colltool.fabric.values`.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of

# The argument ``only`` of :func:`with_tiers` for the innermost tier.
INNERMOST = (0,)


def with_tiers(
    fabric: Fabric, change: Callable[[Tier], Tier], only: Container[int] | None = None
) -> Fabric:
    """Return the fabric with all tiers changed, or those whose numbers are in ``only``; the
    innermost is 0."""
    tiers = list(fabric.tiers)
    for number, tier in enumerate(tiers):
        if only is None or number in only:
            tiers[number] = change(tier)
    return fabric.model_copy(update={"tiers": tuple(tiers)})


# Share of the fastest protocol's rate below which a protocol is bound by flags and copies (LL), not
# by the wires.
_BOUND_BY_FLAGS = 0.25


def bandwidth_values(tier: Tier, share: float) -> dict[str, str]:
    """Return the overrides, values by key, that change a tier as :func:`scaled_rates` does: ``share`` of its
    bandwidth and of its trunk."""
    overrides = {}
    for key, rate_Bps in _rates(tier).items():
        overrides[f"{tier.name}.{key}"] = f"{share * rate_Bps / 1e9:.12g}GB/s"
    return overrides


def _rates(tier: Tier) -> dict[str, float]:
    """The bandwidth of a tier, and its trunk if there is one: bytes/s by the key of the file."""
    rates = {"bandwidth": tier.bandwidth}
    trunk_Bps = capabilities_of(tier).trunk_Bps
    if trunk_Bps is not None:
        rates["trunk"] = trunk_Bps
    return rates


def scaled_bandwidth(tier: Tier, share: float) -> Tier:
    """Return a tier with ``share`` of its bandwidth, under every protocol.

    Protocols have shares of the bandwidth, so that they slow down with it; LL does not, as flags and
    copies bound it: it keeps its rate, with a larger share, until the wires are slower.
    """
    scaled = scaled_rates(tier, share)
    if tier.library is None or share >= 1:
        return scaled
    # shares are of the tier's bandwidth, ``by_ranks`` at numbers of endpoints
    fastest = max((protocol.share for protocol in tier.library.protocols), default=1.0)
    protocols = []
    for protocol in tier.library.protocols:
        if protocol.share <= _BOUND_BY_FLAGS * fastest:
            by_ranks = tuple(
                (ranks, min(share_at_ranks / share, fastest))
                for ranks, share_at_ranks in protocol.by_ranks
            )
            protocol = protocol._replace(
                share=min(protocol.share / share, fastest), by_ranks=by_ranks
            )
        protocols.append(protocol)
    return scaled.with_library(tier.library._replace(protocols=tuple(protocols)))


def scaled_rates(tier: Tier, share: float) -> Tier:
    """Return a tier with ``share`` of its bandwidth and of its trunk; protocols keep their shares."""
    rates = {key: rate_Bps * share for key, rate_Bps in _rates(tier).items()}
    return tier.model_copy(update=rates)


def without_in_network(tier: Tier) -> Tier:
    """Return the tier with switches that compute nothing."""
    return tier.model_copy(update=dict(capabilities_of(tier).with_switch(None)))
