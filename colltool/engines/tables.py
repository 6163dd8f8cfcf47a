"""Libraries that select colltool's algorithms by a table of their own, such as Open MPI."""

from __future__ import annotations

from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.formatting import size_text
from colltool.base.primitives import BC, REDUCE, Primitive
from colltool.engines.files import TWO_CALLS, DispatchFile, LibraryFile
from colltool.engines.results import KernelChoice, KernelEstimate, KernelPrice, row_of_algorithm
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.placement import AnyGroup
from colltool.estimate.price import price
from colltool.estimate.results import Price
from colltool.estimate.user_price import price_for_user
from colltool.fabric.library_numbers import under_library
from colltool.fabric.model import Fabric

# how many of the other algorithms, fastest first, are listed below the table's
_OTHERS_SHOWN = 3


def price_by_table(
    library: LibraryFile, fabric: Fabric, operation: str, size: float, group: AnyGroup = None
) -> KernelPrice:
    """Return the algorithm of a library's table, priced on the fabric, before the fastest others.

    Raises:
        ColltoolError: its table has no such collective or number of ranks.
    """
    assert library.runs is not None
    primitive = Primitive(operation)
    call = _TableCall(
        fabric=under_library(fabric, library.runs),
        library=library.full_name,
        primitive=primitive,
        size=size,
        group=group,
    )
    prices = call.prices(primitive)
    row = _table_row(library, operation, prices.ranks, size)
    results = [_picked_estimate(call, row.kernel)._replace(kernel=row.kernel, picked=True)]
    others = [other for other in prices.leading if other.title != row.kernel]
    results += [call.kernel_estimate(other, prices.ranks) for other in others[:_OTHERS_SHOWN]]
    unit = "per block" if row.per == "block" else "per rank"
    reason = (
        f"its table for {row.ranks[0]} to {row.ranks[1]} ranks: {size_text(row.from_)} to"
        f" {size_text(row.to)} {unit}"
    )
    return KernelPrice(
        fabric=fabric.name,
        operation=operation,
        group=prices.group,
        bytes=size,
        results=tuple(results),
        library=KernelChoice(library.name, library.version, row.kernel, reason),
        overrides=fabric.overrides,
    )


def _table_row(library: LibraryFile, operation: str, ranks: int, size: float) -> DispatchFile:
    """The first row of the library's table for an operation, rank count and size in bytes (M). Its
    ``kernel`` is the name of an algorithm of colltool, or TWO_CALLS.

    Raises:
        ColltoolError: there is none.
    """
    rows = [case for case in library.dispatch if case.operation == operation]
    if not rows:
        known = ", ".join(library.operations).replace("_", "-")
        raise ColltoolError(
            f"{library.full_name} has no table of {operation.replace('_', '-')}",
            argument="library",
            fix=f"it has: {known}",
        )
    for row in rows:
        # in bytes, of a block of the vector or of all of it; less than a byte is looked up as one
        looked_up = max(1.0, size / ranks if row.per == "block" else size)
        is_below_end = looked_up < row.to or (row.to_included and looked_up == row.to)
        takes_ranks = row.ranks[0] <= ranks <= row.ranks[1]
        if takes_ranks and row.from_ <= looked_up and is_below_end:
            return row
    raise ColltoolError(
        f"{library.full_name}'s table has no row for {ranks} ranks and {size_text(size)}",
        argument="library",
        fix="other ranks or another size",
    )


class _TableCall(NamedTuple):
    """A call of ``size`` bytes on a group of the fabric, by the algorithms of a library.

    Args:
        library: ``openmpi@5.0``.
    """

    fabric: Fabric
    library: str
    primitive: Primitive
    size: float
    group: AnyGroup

    def prices(self, primitive: Primitive, *names: str) -> Price:
        """Prices of algorithms, all or those of these names, as a user's price has them: with
        intervals. ``primitive`` may be another than the call's, of which it is a part."""
        prices = price(self.fabric, primitive, float(self.size), self.group, None, names)
        return price_for_user(prices, self.fabric, ModelOptions())

    def kernel_estimate(self, algorithm: AlgorithmEstimate, ranks: int) -> KernelEstimate:
        """An algorithm's price as a row among kernels."""
        measured = "colltool's price of it"
        return row_of_algorithm(algorithm, self.library, self.primitive, ranks, self.size, measured)

    def best(self, primitive: Primitive, *names: str) -> KernelEstimate:
        """The fastest of the algorithms, as a row among kernels."""
        prices = self.prices(primitive, *names)
        return self.kernel_estimate(prices.best, prices.ranks)


def _picked_estimate(call: _TableCall, name: str) -> KernelEstimate:
    """The price of the table's algorithm, or of the two calls (reduce, then broadcast) that TWO_CALLS
    names instead."""
    if name != TWO_CALLS:
        return call.best(call.primitive, name)
    # the second call starts when the first has ended
    reduce = call.best(REDUCE)
    broadcast = call.best(BC)
    interval = reduce.interval
    if interval is not None and broadcast.interval is not None:
        interval = interval._replace(
            low_s=interval.low_s + broadcast.interval.low_s,
            high_s=interval.high_s + broadcast.interval.high_s,
        )
    return reduce._replace(
        interval=interval,
        latency_s=reduce.latency_s + broadcast.latency_s,
        bandwidth_s=reduce.bandwidth_s + broadcast.bandwidth_s,
        formula=f"{reduce.formula}, then {broadcast.formula}",
    )
