"""What an algorithm costs in the latency and bandwidth of one tier, read off the prices of the
model."""

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

_ALPHA_S = 1e-6
# The tier under test is priced at this share of any other tier's bandwidth: it is then the
# bottleneck, and prices are affine in 1/BW.
_FAR_BELOW = 1e-3
_PROBE = "probe"


class AlgorithmCosts(NamedTuple):
    """``t = base_s + base_s_per_byte·M + n_alpha·α + n_beta·M/BW + own·M/copy``: the base is what
    the other tiers take.
    ``switched`` costs follow the switch's own parameters, not the tier's."""

    algorithm: str
    n_alpha: float
    n_beta: float
    own: float
    base_s: float
    base_s_per_byte: float
    switched: bool

    @property
    def terms(self) -> tuple[float, float, float, float]:
        """Coefficients of launch overhead, α, M/BW and M/copy."""
        return 1.0, self.n_alpha, self.n_beta, self.own

    @property
    def base(self) -> tuple[float, float]:
        """Seconds, and seconds per byte, of the other tiers."""
        return self.base_s, self.base_s_per_byte


def algorithm_costs(
    placed: PlacedGroup,
    tier: str,
    primitive: Primitive,
    algorithm: str,
    inner: Mapping[str, ProtocolNumbers],
) -> AlgorithmCosts | None:
    """The coefficients of an algorithm in the parameters of ``tier``; None if it cannot run on the
    group. ``inner``: the protocol of each other tier by tier name; a tier without one keeps its own
    numbers."""
    others = [span.tier.bandwidth for span in placed.spans if span.tier.name != tier]
    slow = _FAR_BELOW * min(others, default=1e12)

    def curve(alpha_s: float, bandwidth_Bps: float) -> Curve:
        spans = []
        for span in placed.spans:
            protocol = inner.get(span.tier.name)
            if span.tier.name == tier:
                protocol = _probe(span.tier, alpha_s, bandwidth_Bps)
            spans.append(_span_under(span, protocol))
        bare = replace(placed, spans=tuple(spans), overhead_s=0.0, local_copy_Bps=None)
        return named_candidates(bare, primitive, ModelOptions(), [algorithm])[0].curve

    # three prices determine a curve that is affine in α and in 1/BW
    try:
        near = curve(_ALPHA_S, slow)
    except ColltoolError:
        return None
    later = curve(2 * _ALPHA_S, slow)
    slower = curve(_ALPHA_S, slow / 2)
    n_alpha = (later.a - near.a) / _ALPHA_S
    n_beta = (slower.b - near.b) * slow
    per_byte = near.b - n_beta / slow
    if per_byte <= 1e-9 * near.b:
        per_byte = 0.0
    # Where an inner tier's protocol states a copy rate, the local copy is a fixed part of the base,
    # and the tier under test has none to fit.
    own = local_share(primitive, placed.ranks)
    copy_Bps = None
    for name, protocol in inner.items():
        if name != tier:
            copy_Bps = protocol.copy_Bps or copy_Bps
    if copy_Bps:
        per_byte += own / copy_Bps
        own = 0.0
    return AlgorithmCosts(
        algorithm,
        n_alpha,
        n_beta,
        own,
        max(near.a - n_alpha * _ALPHA_S, 0.0),
        per_byte,
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
    """A span under one protocol's numbers only; the switch of the tier under test is made ideal."""
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
