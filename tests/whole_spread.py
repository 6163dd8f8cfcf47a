"""The sigma of a request with what the user's own numbers add, which a price works out in two steps."""

from __future__ import annotations

from colltool.estimate.spread import (
    ErrorRequest,
    Index,
    PriceSpread,
    SigmaTable,
    spread_without_dials,
    with_dials,
)


def spread_of(
    request: ErrorRequest, sigmas: SigmaTable, rows_by_place: Index, posterior: float | None = None
) -> PriceSpread:
    """The parts of sigma for a request."""
    without_dials = spread_without_dials(request, sigmas, rows_by_place, posterior)
    return with_dials(without_dials, request.place, request.moved, sigmas)
