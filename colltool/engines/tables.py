"""Libraries that run colltool's own algorithms by a table of their own: which of them, and what it
takes beside the fastest."""

from __future__ import annotations

from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.formatting import size_text
from colltool.base.primitives import BC, REDUCE, Primitive
from colltool.engines.files import TWO_CALLS, AskedLibrary, DispatchFile
from colltool.engines.results import KernelChoice, KernelEstimate, KernelPrice
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.placement import AnyGroup
from colltool.estimate.price import price
from colltool.fabric.ground import under_library
from colltool.fabric.model import Fabric

_MORE = 3  # of the fastest others that are shown beside it


def price_by_table(
    asked: AskedLibrary, fabric: Fabric, operation: str, size: float, group: AnyGroup = None
) -> KernelPrice:
    """The algorithm that a library's table takes for a call, priced on the fabric, and the fastest
    that it could take.

    Raises:
        ColltoolError: its table has no such collective or number of ranks.
    """
    library, primitive = asked.library, Primitive(operation)
    assert library.runs is not None
    under = under_library(fabric, library.runs)
    every = price(under, primitive, float(size), group)
    row = _row(asked, operation, every.ranks, size)
    where = _TablePrice(under, primitive, float(size), group, library.called, every.ranks)
    rows = [where.taken(row.kernel)]
    rows += [where.estimate(one) for one in every.leading if one.title != row.kernel][:_MORE]
    what = "a block" if row.per == "block" else "a rank"
    reason = (
        f"its table for {row.ranks[0]} to {row.ranks[1]} ranks: {size_text(row.from_)} to"
        f" {size_text(row.to)} {what}"
    )
    unknown = (
        f"warning: no data of {library.name} {asked.unknown}: this is {library.called}'s table"
    )
    choice = KernelChoice(library.name, library.version, row.kernel, reason)
    return KernelPrice(
        fabric=fabric.name,
        operation=operation,
        group=every.group,
        bytes=size,
        results=tuple(rows),
        library=choice,
        notes=(unknown,) if asked.unknown else (),
        overrides=fabric.overrides,
    )


def _row(asked: AskedLibrary, operation: str, ranks: int, size: float) -> DispatchFile:
    own = [row for row in asked.library.dispatch if row.operation == operation]
    if not own:
        known = ", ".join(dict.fromkeys(row.operation for row in asked.library.dispatch))
        what = f"{asked.library.called} has no table of {operation.replace('_', '-')}"
        raise ColltoolError(what, argument="library", fix=f"it has: {known.replace('_', '-')}")
    for row in own:
        looked_up = size / ranks if row.per == "block" else size
        if row.ranks[0] <= ranks <= row.ranks[1] and row.from_ <= max(looked_up, 1.0) < row.to:
            return row
    what = f"{asked.library.called}'s table has no row for {ranks} ranks and {size_text(size)}"
    raise ColltoolError(what, argument="library", fix="other ranks or another size")


class _TablePrice(NamedTuple):
    fabric: Fabric
    primitive: Primitive
    size: float
    group: AnyGroup
    library: str
    ranks: int

    def taken(self, name: str) -> KernelEstimate:
        if name != TWO_CALLS:
            best = price(self.fabric, self.primitive, self.size, self.group, None, [name]).best
            return self.estimate(best)._replace(kernel=name, picked=True)
        first, second = (
            self.estimate(price(self.fabric, one, self.size, self.group).best)
            for one in (REDUCE, BC)
        )
        return first._replace(
            kernel=name,
            operation=self.primitive.value,
            latency_s=first.latency_s + second.latency_s,
            picked=True,
            bandwidth_s=first.bandwidth_s + second.bandwidth_s,
            formula=f"{first.formula}, then {second.formula}",
        )

    def estimate(self, row: AlgorithmEstimate) -> KernelEstimate:
        return KernelEstimate(
            library=self.library,
            kernel=row.title,
            operation=self.primitive.value,
            ranks=self.ranks,
            bytes=self.size,
            latency_s=float(row.alpha_s + row.overhead_s + row.software_s),
            bandwidth_s=float(row.bandwidth_s),
            wire=row.phases[-1].tier if row.phases else "",
            formula=row.title,
            measured="colltool's price of it",
        )
