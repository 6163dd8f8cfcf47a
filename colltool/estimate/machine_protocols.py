"""Prices under protocol numbers that the owner of a machine fitted to logs of a forced algorithm, in
place of the library's.

:func:`protocols_of` selects the owner's numbers of one algorithm, :func:`numbers_of` makes a tier's of
them, :func:`priced_under` prices a schedule with these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.estimate.assumptions import USUAL
from colltool.estimate.candidates import named_candidates
from colltool.estimate.cost_model import CostModel
from colltool.estimate.groups import PlacedGroup
from colltool.libraries.numbers import ProtocolNumbers, TierLibrary
from colltool.machines.factor import CustomProtocol


def protocols_of(
    known: Sequence[CustomProtocol], primitive: Primitive, scope: str, algorithm: str
) -> dict[str, CustomProtocol]:
    """The owner's numbers of one algorithm, by NCCL's name of the protocol: ll, ll128, simple.

    Args:
        known: all that a machine file has.
        scope: where the group lies, as machine files say it (``fabric.tier_media.scope_of``):
            ``inside`` of one domain, or the medium that joins its domains.
        algorithm: NCCL's.
    """
    key = (str(primitive), scope, algorithm)
    return {row.protocol: row for row in known if (row.primitive, row.scope, row.algorithm) == key}


def numbers_of(fitted: CustomProtocol, listed: str) -> ProtocolNumbers:
    """An owner's numbers as those of a tier's protocol, under the name ``listed``, by which the fabric's tiers
    list the protocol."""
    return ProtocolNumbers(
        name=listed, launch_s=fitted.launch_s, step_s=fitted.step_s, share=fitted.share
    )


def priced_under(
    placed: PlacedGroup, primitive: Primitive, spec: str, numbers: ProtocolNumbers
) -> CostModel | None:
    """The schedule ``spec`` on a group whose outermost tier has these numbers and no other protocol. None where
    it cannot run under them: the algorithm does not fit the group, or the other tiers lack this protocol."""
    *inner, outer = placed.spans
    # a tier without a library gets one with this protocol alone
    with_numbers = TierLibrary((numbers,))
    if outer.tier.library is not None:
        with_numbers = outer.tier.library._replace(protocols=(numbers,))
    group = replace(
        placed, spans=(*inner, replace(outer, tier=outer.tier.with_library(with_numbers)))
    )
    # USUAL, whatever the readings of a price: calibration fits the numbers by this function
    try:
        cost_models = named_candidates(group, primitive, USUAL, [spec])
    except ColltoolError:
        return None
    return next(
        (cost_model for cost_model in cost_models if cost_model.protocol == numbers.name), None
    )
