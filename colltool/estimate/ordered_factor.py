"""A machine's factor exp(d), corrected so that no price falls as the message or the group grows
(:mod:`colltool.machines.shape`): :func:`ordered_factor`.

The prices are those of the fabric as its file has it, so that no option of a request changes d. A line
of the factor (``factor.lines``) is one of its measured rank counts, with d and its sigma at
:data:`SIZES`; arrays have the shape (lines, sizes). ``room_of`` says
from prices how much d may change between neighbours of this grid, ``shaped`` finds the nearest d that
keeps to it, and ``rank_lines`` makes lines of a factor of that.
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

# Without the machine: its factor is what is being worked out.
_LIBRARY = ModelOptions(numbers="library")


@lru_cache(maxsize=64)
def ordered_factor(
    same_fabric: SameFabric, primitive: Primitive, scope: str
) -> MachineFactor | None:
    """The factor of a fabric's own machine, changed just as far as needed so that prices by it do not
    fall as sizes or ranks grow. ``scope``: inside or across nodes. None where nothing was measured
    there."""
    import numpy as np

    from colltool.machines.shape import room_of, shaped
    from colltool.machines.smoother import Posterior, rank_lines

    machine = same_fabric.fabric.machine
    factor = None if machine is None else machine.factors.get((str(primitive), scope))
    if factor is None:
        return None
    # line by line: log seconds by schedule
    priced = [
        _log_prices(same_fabric.fabric, primitive, scope, line.ranks) for line in factor.lines
    ]
    specs = sorted(set().union(*priced))
    if not specs:
        return factor
    # NaN bounds nothing: the fabric holds no such group, or a schedule cannot run on it
    unknown = np.full(len(SIZES), nan)
    by_schedule = []
    for spec in specs:
        by_schedule.append(np.array([prices.get(spec, unknown) for prices in priced]))
    fastest = np.array(
        [reduce(np.minimum, prices.values()) if prices else unknown for prices in priced]
    )
    d = np.array([line.d for line in factor.lines])
    sigma = np.array([line.sigma for line in factor.lines])
    ordered = Posterior(shaped(d, sigma, room_of(fastest, by_schedule)), sigma)
    ranks = [line.ranks for line in factor.lines]
    return MachineFactor(str(primitive), scope, rank_lines(ordered, ranks))


def _log_prices(fabric: Fabric, primitive: Primitive, scope: str, ranks: int) -> dict[str, Floats]:
    """The natural logarithm of the seconds of each schedule that a library runs (of all, if it runs
    none, as then one of these is priced), at :data:`SIZES`, by spec. Empty where the fabric holds no
    such group, or its ranks lie in another scope."""
    import numpy as np

    from colltool.estimate.price import price

    try:
        tiers = [span.tier.name for span in place(fabric, ranks).spans]
        if scope_of(fabric, tiers) != scope:
            return {}
        priced = price(fabric, primitive, np.array(SIZES, dtype=float), ranks, _LIBRARY)
    except ColltoolError:
        return {}
    log_seconds = {}
    for estimate in priced.runnable or priced.results:
        seconds = np.asarray(estimate.total_s, dtype=float)
        log_seconds[estimate.spec] = np.log(np.broadcast_to(seconds, len(SIZES)))
    return log_seconds
