"""A machine's own factor kept in order: no price falls as the message or the group grows
(:mod:`colltool.machines.shape`).

The prices are those of the fabric as its file has it, so that what is asked about it does not move
d.
"""

from __future__ import annotations

from functools import lru_cache
from math import nan
from typing import TYPE_CHECKING

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import SameFabric, place
from colltool.fabric.ground import scope_of
from colltool.fabric.model import Fabric
from colltool.machines.factor import SIZES, MachineFactor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_LIBRARY = Readings(numbers="library")


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
    ranks = [line.ranks for line in factor.lines]
    priced = [_log_prices(where.fabric, primitive, scope, count) for count in ranks]
    # bounds nothing: the fabric holds no such group, or a way cannot run on it
    unknown = np.full(len(SIZES), nan)
    ways = sorted({way for prices in priced for way in prices})
    by_way = [np.array([prices.get(way, unknown) for prices in priced]) for way in ways]
    if not by_way:
        return factor
    best = np.array(
        [np.min(list(prices.values()), axis=0) if prices else unknown for prices in priced]
    )
    d, sigma = (np.array([getattr(line, what) for line in factor.lines]) for what in ("d", "sigma"))
    found = Posterior(shaped(d, sigma, room_of(best, by_way)), sigma)
    return MachineFactor(str(primitive), scope, rank_lines(found, ranks))


def _log_prices(fabric: Fabric, primitive: Primitive, scope: str, ranks: int) -> dict[str, Floats]:
    """ln of the seconds of each way that a library runs, at the grid's sizes; empty where the
    fabric holds no such group."""
    import numpy as np

    from colltool.estimate.price import price

    try:
        if scope_of(fabric, [span.tier.name for span in place(fabric, ranks).spans]) != scope:
            return {}
        rows = price(fabric, primitive, np.array(SIZES, dtype=float), ranks, _LIBRARY).results
    except ColltoolError:
        return {}
    leading = [row for row in rows if row.selectable] or rows
    return {
        row.spec: np.log(np.broadcast_to(np.asarray(row.total_s, dtype=float), len(SIZES)))
        for row in leading
    }
