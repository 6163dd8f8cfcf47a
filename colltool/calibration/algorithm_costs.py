"""What an algorithm costs in the latency and bandwidth of one tier, read off the prices of the
model.

A price is affine in the tier's α and in 1/BW once that tier is the bottleneck: three prices of the
algorithm, with the tier given probe numbers, determine the coefficients.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive, local_share
from colltool.calibration.series_prices import IN_SWITCH
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import named_candidates
from colltool.estimate.groups import PlacedGroup, Span
from colltool.estimate.protocols import tier_under
from colltool.estimate.software_time import Curve
from colltool.fabric.model import Tier
from colltool.fabric.topology import capabilities_of
from colltool.libraries.numbers import ProtocolNumbers, TierLibrary

# The α of the first probe; any other gives the same coefficients.
_PROBE_ALPHA_S = 1e-6
# The tier under test is priced at this share of any other tier's bandwidth: it is then the
# bottleneck, and prices are affine in 1/BW.
_FAR_BELOW = 1e-3
# Bandwidth of the other tiers where there are none: any will do.
_NO_OTHER_BPS = 1e12
# The name of the protocol that carries probe numbers.
_PROBE = "probe"


class AlgorithmCosts(NamedTuple):
    """``t = base_s + base_s_per_byte·M + n_alpha·α + n_beta·M/BW + own_share·M/copy``.

    α, BW and copy are the latency, bandwidth and copy rate of the tier that is fitted; the base is
    what the other tiers take. ``switched`` costs follow the switch's parameters, not the tier's.
    """

    algorithm: str
    n_alpha: float
    n_beta: float
    own_share: float
    base_s: float
    base_s_per_byte: float
    switched: bool


def algorithm_costs(
    placed: PlacedGroup,
    tier: str,
    primitive: Primitive,
    algorithm: str,
    inner: Mapping[str, ProtocolNumbers],
) -> AlgorithmCosts | None:
    """The coefficients of an algorithm in the parameters of ``tier``. None if it cannot run on the
    group.

    Args:
        tier: name of the tier that is fitted.
        inner: the protocol of each other tier, by tier name; a tier without one keeps the fabric's
            numbers.
    """
    others_Bps = [span.tier.bandwidth for span in placed.spans if span.tier.name != tier]
    slow_Bps = _FAR_BELOW * min(others_Bps, default=_NO_OTHER_BPS)

    def curve(alpha_s: float, bandwidth_Bps: float) -> Curve:
        """Price with these numbers of the tier, without launch overhead and local copy."""
        spans = []
        for span in placed.spans:
            protocol = inner.get(span.tier.name)
            if span.tier.name == tier:
                protocol = _probe(span.tier, alpha_s, bandwidth_Bps)
            spans.append(_span_under(span, protocol))
        without_copy = replace(placed, spans=tuple(spans), overhead_s=0.0, local_copy_Bps=None)
        return named_candidates(without_copy, primitive, ModelOptions(), [algorithm])[0].curve

    # Three prices determine a curve a + b·M that is affine in α and in 1/BW. A ring of 8 on one
    # tier: a is 14 us with α of 1 us, 28 us with 2 us, so that n_alpha is 14; halving BW adds
    # 1.75/BW to b, so that n_beta is 1.75.
    try:
        plain = curve(_PROBE_ALPHA_S, slow_Bps)
    except ColltoolError:
        return None
    doubled_alpha = curve(2 * _PROBE_ALPHA_S, slow_Bps)
    halved_bandwidth = curve(_PROBE_ALPHA_S, slow_Bps / 2)
    n_alpha = (doubled_alpha.a - plain.a) / _PROBE_ALPHA_S
    n_beta = (halved_bandwidth.b - plain.b) * slow_Bps
    base_s_per_byte = plain.b - n_beta / slow_Bps
    # below this share of the price it is rounding
    if base_s_per_byte <= 1e-9 * plain.b:
        base_s_per_byte = 0.0
    # Where an inner tier's protocol states a copy rate, the local copy is a fixed part of the base,
    # and the tier under test has none to fit; of several the outermost counts.
    own_share = local_share(primitive, placed.ranks)
    copy_Bps = None
    for name, protocol in inner.items():
        if name != tier:
            copy_Bps = protocol.copy_Bps or copy_Bps
    if copy_Bps:
        base_s_per_byte += own_share / copy_Bps
        own_share = 0.0
    return AlgorithmCosts(
        algorithm=algorithm,
        n_alpha=n_alpha,
        n_beta=n_beta,
        own_share=own_share,
        base_s=max(plain.a - n_alpha * _PROBE_ALPHA_S, 0.0),
        base_s_per_byte=base_s_per_byte,
        switched=algorithm == IN_SWITCH,
    )


def _probe(tier: Tier, alpha_s: float, bandwidth_Bps: float) -> ProtocolNumbers:
    """A protocol under which a tier has this latency and bandwidth, and no contention."""
    return ProtocolNumbers(
        name=_PROBE,
        step_s=alpha_s - capabilities_of(tier).nearest_alpha_s,
        share=1 / tier.eta.beta,
        stretch=1 / tier.eta.alpha,
        line=bandwidth_Bps / tier.bandwidth,
    )


def _span_under(span: Span, protocol: ProtocolNumbers | None) -> Span:
    """A span under one protocol's numbers only; the switch of the tier under test takes no time of
    its own."""
    tier = span.tier
    update: dict[str, object] = {}
    if protocol is not None:
        tier = tier_under(tier, protocol, span.endpoints)
        kind = capabilities_of(tier)
        if protocol.name == _PROBE and kind.in_network is not None:
            ideal = kind.in_network.model_copy(update={"alpha_switch": 1e-12, "eta_beta": 1.0})
            update.update(kind.with_switch(ideal))
    runs = None if tier.library is None else TierLibrary(runs=tier.library.runs)
    return replace(span, tier=tier.model_copy(update=update).with_library(runs))
