"""A fabric with other numbers: one place that makes it."""

from __future__ import annotations

import pytest

from colltool.estimate.protocols import tier_under
from colltool.fabric.load import load_fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.variants import (
    INNERMOST,
    scaled_bandwidth,
    with_tiers,
    without_in_network,
)


@pytest.mark.usefixtures("datasheet")
def test_a_share_of_a_bandwidth_is_that_of_every_protocol() -> None:
    fabric = load_fabric("dgx-h100-measured")
    half = with_tiers(fabric, lambda tier: scaled_bandwidth(tier, 0.5))
    for tier, other in zip(fabric.tiers, half.tiers, strict=True):
        assert other.bandwidth == tier.bandwidth / 2
        assert tier.library is not None
        for row in tier.library.protocols:
            assert tier_under(other, row, 8).bandwidth == tier_under(tier, row, 8).bandwidth / 2
    assert any(
        row.line != 1 for tier in fabric.tiers if tier.library for row in tier.library.protocols
    )


def test_only_the_tiers_that_are_asked_for_change() -> None:
    fabric = load_fabric("dgx-h100")
    changed = with_tiers(fabric, without_in_network, INNERMOST)
    assert (
        capabilities_of(changed.tiers[0]).in_network
        is None
        is not capabilities_of(fabric.tiers[0]).in_network
    )
    assert changed.tiers[1:] == fabric.tiers[1:]
