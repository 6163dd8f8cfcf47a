"""One slow rank beside what is priced."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from colltool.api.arguments import number_of
from colltool.base.errors import ColltoolError, given
from colltool.estimate.assumptions import Readings

if TYPE_CHECKING:
    from colltool.estimate.explain import Explanation
    from colltool.estimate.results import Price
    from colltool.fabric.model import Fabric


def _share_left(slow_rank: float | None, fabric: Fabric | None) -> float | None:
    """The share of its bandwidth that a slow rank has left.

    Raises:
        ColltoolError: none, more than all, no number, or of no fabric.
    """
    share = None if slow_rank is None else number_of(slow_rank, "slow_rank")
    if share is not None and fabric is None:
        fix = f"add {given('fabric', 'nvl72')} {given('size', '16MB')}"
        raise ColltoolError("a slow rank is one of a fabric", argument="slow_rank", fix=fix)
    if share is None or 0 < share <= 1:
        return share
    what = f"a slow rank has more than none and at most all of its bandwidth left, got {share:g}"
    raise ColltoolError(what, argument="slow_rank", fix=f"write {given('slow_rank', 0.8)}")


def slowed(prices: tuple[Price, ...], fabric: Fabric, readings: Readings, slow_rank: float | None) -> tuple[Price, ...]:
    """Prices whose rows also say what one slow rank costs.

    Raises:
        ColltoolError: a share that none can have left, or an array of sizes.
    """
    share = _share_left(slow_rank, fabric)
    if share is None:
        return prices
    if any(not isinstance(one.bytes, float) for one in prices):
        what = "a slow rank is told of single sizes"
        raise ColltoolError(what, argument="slow_rank", fix=f"one {given('size', '16MB')} a call, or price_list")
    from colltool.verification.slow_rank import with_slow_rank

    return tuple(
        replace(one, results=with_slow_rank(one.results, share, fabric, one.primitive, one.group.spec, readings))
        for one in prices
    )


def explained_slow(explained: Explanation, fabric: Fabric | None, readings: Readings, slow_rank: float | None) -> Explanation:
    """An explanation whose prices also say what one slow rank costs.

    Raises:
        ColltoolError: a share that none can have left, or no fabric.
    """
    share = _share_left(slow_rank, fabric)
    if share is None or fabric is None:
        return explained
    from colltool.verification.slow_rank import with_slow_rank

    who = explained.group.spec if explained.group else None
    entries = (
        one if one.row is None else one._replace(row=with_slow_rank([one.row], share, fabric, one.primitive, who, readings)[0])
        for one in explained.entries
    )
    return replace(explained, entries=tuple(entries))
