"""What NCCL itself would pick beside what is priced, and what would lead on one port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from colltool.estimate.assumptions import Readings

if TYPE_CHECKING:
    from colltool.estimate.explain import Explanation
    from colltool.estimate.group_spec import AnyGroup
    from colltool.estimate.results import Price
    from colltool.fabric.model import Fabric


def is_other(library: str | None, fabric: Fabric) -> bool:
    """Whether somebody named a library that is not the fabric's own, so that what it needs to know is missed."""
    return library is not None and library.lower() != fabric.library_name


def with_pick(prices: tuple[Price, ...], fabric: Fabric, readings: Readings, *, asked: bool) -> tuple[Price, ...]:
    """Prices of one group with what the library itself would pick for each, where it has a cost model."""
    if prices[0].library is None or prices[0].library.name != "nccl":
        return prices
    from colltool.nccl.nccl_choice import with_library_choice

    return with_library_choice(prices, fabric, readings, asked=asked)


def with_turn(
    prices: tuple[Price, ...], fabric: Fabric, group: AnyGroup, readings: Readings, only: Sequence[str]
) -> tuple[Price, ...]:
    """Prices of one group with a note where another schedule leads on one port; as they are where algorithms are named."""
    if only:
        return prices
    from colltool.estimate.price import with_turn as run

    return run(prices, fabric, group, readings)


def with_estimates(explained: Explanation, fabric: Fabric, *, asked: bool) -> Explanation:
    """An explanation with the parts of NCCL's own estimate, where that is what runs."""
    if fabric.library_name != "nccl":
        return explained
    from colltool.nccl.breakdown import with_estimates as run

    return run(explained, fabric, asked=asked)
