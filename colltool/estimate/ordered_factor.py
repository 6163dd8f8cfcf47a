"""A machine's factor exp(d), corrected so that no price falls as the message or the group grows
(:mod:`colltool.machines.shape`).

The prices are those of the fabric as its file has it, so that no option of a request changes d.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from math import nan
from typing import TYPE_CHECKING

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import place
from colltool.fabric.model import Fabric
from colltool.fabric.same_fabric import SameFabric
from colltool.fabric.tier_media import scope_of
from colltool.machines.factor import SIZES, MachineFactor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_LIBRARY = ModelOptions(numbers="library")


@lru_cache(maxsize=64)
def ordered_factor(where: SameFabric, primitive: Primitive, scope: str) -> MachineFactor | None:
    """The factor of a fabric's own machine, changed where prices would fall with it, and no more
    than that takes."""
    import numpy as np

    from colltool.machines.shape import room_of, shaped
    from colltool.machines.smoother import Posterior, rank_lines

    machine = where.fabric.machine
    factor = None if machine is None else machine.factors.get((str(primitive), scope))
    if factor is None:
        return None
    priced = [_log_prices(where.fabric, primitive, scope, line.ranks) for line in factor.lines]
    # bounds nothing: the fabric holds no such group, or a way cannot run on it
    unknown = np.full(len(SIZES), nan)
    ways = sorted(set().union(*priced))
    if not ways:
        return factor
    by_way = []
    for way in ways:
        by_way.append(np.array([prices.get(way, unknown) for prices in priced]))
    best = np.array(
        [reduce(np.minimum, prices.values()) if prices else unknown for prices in priced]
    )
    d = np.array([line.d for line in factor.lines])
    sigma = np.array([line.sigma for line in factor.lines])
    found = Posterior(shaped(d, sigma, room_of(best, by_way)), sigma)
    ranks = [line.ranks for line in factor.lines]
    return MachineFactor(str(primitive), scope, rank_lines(found, ranks))


def _log_prices(fabric: Fabric, primitive: Primitive, scope: str, ranks: int) -> dict[str, Floats]:
    """The natural logarithm of the seconds of each way that a library runs, at the grid's sizes.
    Empty where the fabric holds no such group."""
    import numpy as np

    from colltool.estimate.price import price

    try:
        tiers = [span.tier.name for span in place(fabric, ranks).spans]
        if scope_of(fabric, tiers) != scope:
            return {}
        priced = price(fabric, primitive, np.array(SIZES, dtype=float), ranks, _LIBRARY)
    except ColltoolError:
        return {}
    found = {}
    for estimate in priced.runnable or priced.results:
        seconds = np.asarray(estimate.total_s, dtype=float)
        found[estimate.spec] = np.log(np.broadcast_to(seconds, len(SIZES)))
    return found
