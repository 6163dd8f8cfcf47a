"""What an algorithm spends on a series, as coefficients of one tier's α and bandwidth: read off its own prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive, own_share
from colltool.calibration.candidates import IN_SWITCH
from colltool.estimate.assumptions import Readings
from colltool.estimate.best_protocol import tier_under
from colltool.estimate.candidates import named_candidates
from colltool.estimate.curve import Curve
from colltool.estimate.groups import PlacedGroup, Span
from colltool.fabric.model import Tier
from colltool.fabric.tier_parts import Eta, Protocol
from colltool.fabric.topology import capabilities_of

_ALPHA_S = 1e-6
_FAR_BELOW = 1e-3  # of any other tier's bandwidth: there the tier under test is the bottleneck, and a price affine in 1/BW


class Costs(NamedTuple):
    """One algorithm: ``t = base_s + base_s_per_byte·M + n_alpha·α + n_beta·M/BW + own·M/copy``.

    The base is what the other tiers take. ``switched`` prices follow a switch's own numbers, not the tier's.
    """

    algorithm: str
    n_alpha: float
    n_beta: float
    own: float
    base_s: float
    base_s_per_byte: float
    switched: bool


def costs(placed: PlacedGroup, tier: str, primitive: Primitive, algorithm: str, inner: Mapping[str, Protocol]) -> Costs | None:
    """The coefficients of an algorithm in one tier's numbers; None where it cannot run on the group.

    Args:
        placed: the group.
        tier: the tier under test, spanned by the group.
        primitive, algorithm: what runs; a composition with its choices.
        inner: the protocol of each other tier, by the tier's name; its own numbers where there is none.
    """
    others = [span.tier.bandwidth for span in placed.spans if span.tier.name != tier]
    slow = _FAR_BELOW * min(others, default=1e12)
    curve = partial(_curve, placed, tier, primitive, algorithm, inner)
    try:
        near = curve(_ALPHA_S, slow)
    except ColltoolError:
        return None
    later, slower = curve(2 * _ALPHA_S, slow), curve(_ALPHA_S, slow / 2)
    n_alpha, n_beta = (later.a - near.a) / _ALPHA_S, (slower.b - near.b) * slow
    own = own_share(primitive, placed.ranks)
    copies = [protocol.local_copy for name, protocol in inner.items() if name != tier and protocol.local_copy]
    kept = own / copies[-1] if copies else 0.0
    base, per_byte = near.a - n_alpha * _ALPHA_S, near.b - n_beta / slow
    per_byte = per_byte if per_byte > 1e-9 * near.b else 0.0
    return Costs(
        algorithm=algorithm,
        n_alpha=n_alpha,
        n_beta=n_beta,
        own=0.0 if copies else own,
        base_s=max(base, 0.0),
        base_s_per_byte=per_byte + kept,
        switched=algorithm == IN_SWITCH,
    )


def _curve(placed: PlacedGroup, tier: str, primitive: Primitive, algorithm: str, inner: Mapping[str, Protocol], alpha_s: float,
           bandwidth_Bps: float) -> Curve:  # fmt: skip
    probe = Protocol(name="probe", eta=Eta()).model_copy(update={"alpha": alpha_s, "bandwidth": bandwidth_Bps})
    spans = [_probed(span, probe if span.tier.name == tier else inner.get(span.tier.name)) for span in placed.spans]
    bare = replace(placed, spans=tuple(spans), overhead_s=0.0, local_copy_Bps=None)
    return named_candidates(bare, primitive, Readings(), [algorithm])[0].curve


def _probed(span: Span, protocol: Protocol | None) -> Span:
    """A tier under one protocol's numbers, without a list to choose from; an ideal switch on the tier under test."""
    tier: Tier = span.tier if protocol is None else tier_under(span.tier, protocol)
    update: dict[str, object] = {"protocols": None}
    kind = capabilities_of(tier)
    if protocol is not None and protocol.name == "probe" and kind.in_network is not None:
        update |= kind.with_switch(kind.in_network.model_copy(update={"alpha_switch": 1e-12, "eta_beta": 1.0}))
    return replace(span, tier=tier.model_copy(update=update))
