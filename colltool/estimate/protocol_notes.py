"""Notes on rows whose numbers were not measured where they are used.

:func:`range_notes` names sizes and ranks beyond the measured ones, :func:`lower_bound_notes` a missing
launch overhead, :func:`old_form_notes` a file that lists protocols in the old form. Each takes the rows
of a price and returns them with notes added at the end of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf, nan, sqrt
from typing import Any

from colltool.base.arrays import anywhere, is_array
from colltool.base.formatting import format_bytes
from colltool.base.primitives import Primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.cost_model import CostModel
from colltool.estimate.groups import PlacedGroup
from colltool.estimate.software_time import Curve, ends
from colltool.libraries.numbers import MeasuredAt

_BINARY = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
# A usual launch, seconds. Measured: 5 to 12 us of a library, 25 to 50 us with its framework.
LAUNCH_S = 10e-6


def range_notes(
    rows: Sequence[AlgorithmEstimate], placed: PlacedGroup, primitive: Primitive
) -> list[AlgorithmEstimate]:
    """Add notes where a size, rank count or primitive was not measured under the protocol.

    A call over several tiers is measured as a whole, on the outermost one that lists protocols.
    """
    # the outermost tier that lists protocols
    for span in reversed(placed.spans):
        library = span.tier.library
        if library is not None and library.protocols:
            break
    else:
        return list(rows)
    protocols = span.tier.protocols_for(primitive)
    if not protocols and any(numbers.measured for numbers in library.protocols):
        note = (
            f"{primitive.label} was not measured on {span.tier.name}: priced with the tier's own"
            " numbers"
        )
        return [replace(row, notes=(*row.notes, note)) for row in rows]
    ranges = {
        protocol: numbers.measured
        for protocol, numbers in protocols.items()
        if numbers.measured is not None
    }
    if not ranges:
        return list(rows)
    on_ranks = _ranks_note(ranges, placed.ranks)
    return [replace(row, notes=(*row.notes, *_size_notes(row, ranges), *on_ranks)) for row in rows]


def _ranks_note(ranges: Mapping[str, MeasuredAt], ranks: int) -> list[str]:
    """The note on a number of ranks that no protocol was measured on; empty if one was."""
    counts: set[int] = set()
    for measured in ranges.values():
        counts.update(measured.ranks or ())
    if not counts or ranks in counts:
        return []
    how = "interpolated" if min(counts) < ranks < max(counts) else "extrapolated"
    return [f"measured on {', '.join(map(str, sorted(counts)))} ranks, not on {ranks}: {how}"]


def _size_notes(estimate: AlgorithmEstimate, ranges: Mapping[str, MeasuredAt]) -> Iterator[str]:
    """Notes on sizes outside what was measured under the protocol that is fastest there."""
    least, most = ends(estimate.bytes)
    if all(measured.smallest <= least and most <= measured.largest for measured in ranges.values()):
        return
    below = []
    above = []
    for name, measured in ranges.items():
        sizes = _sizes_under(estimate, name)
        if anywhere(sizes < measured.smallest):
            below.append(measured.smallest)
        if anywhere(sizes > measured.largest):
            above.append(measured.largest)
    if below:
        yield f"below the smallest measured size of {_exact_size(min(below))}: extrapolated"
    if above:
        yield f"above the largest measured size of {_exact_size(max(above))}: extrapolated"


def _sizes_under(estimate: AlgorithmEstimate, protocol: str) -> Any:
    """The sizes at which a row's fastest protocol is this one; NaN, which compares with nothing, if
    there is none."""
    sizes: Any = estimate.bytes
    fastest = estimate.protocol == protocol
    if is_array(fastest):
        return sizes[fastest]
    return sizes if fastest else nan


def _exact_size(size: float) -> str:
    """Shortest exact form: ``32 MiB`` or ``16 MB``."""
    texts = [format_bytes(size)]
    for unit, factor in _BINARY.items():
        if size % factor == 0:
            texts.append(f"{size / factor:.10g} {unit}")
    return min(texts, key=len)


def lower_bound_notes(
    rows: Sequence[AlgorithmEstimate],
    candidates: Sequence[CostModel],
    placed: PlacedGroup,
    primitive: Primitive,
) -> list[AlgorithmEstimate]:
    """Note on the fastest row (for arrays on all) where a launch of 10 us would be half or more of
    its price.

    Only if no launch overhead is stated (0 counts as stated) and the hardware is real.
    """
    if not rows or placed.fabric.hypothetical or launch_is_known(placed, primitive):
        return list(rows)
    # what the user can run, else all
    compared = [cost_model for cost_model in candidates if cost_model.rank_class == 0] or candidates
    # bytes from which every price takes longer than a launch; the first piece starts at 0 bytes
    sizes = [_size_reaching(cost_model.pieces[0][1], LAUNCH_S) for cost_model in compared]
    least = max(sizes, default=0.0)
    if ends(rows[0].bytes)[0] >= least:
        return list(rows)
    note = (
        f"the fabric gives no launch overhead: below {format_bytes(least)} this is a lower bound"
        " (a 10 us launch would be half of it)"
    )
    rows_noted = 1 if isinstance(rows[0].bytes, float) else len(rows)
    return [
        *(replace(row, notes=(*row.notes, note)) for row in rows[:rows_noted]),
        *rows[rows_noted:],
    ]


def old_form_notes(
    rows: Sequence[AlgorithmEstimate], placed: PlacedGroup
) -> list[AlgorithmEstimate]:
    """Note on the first row where a tier of the file lists protocols itself."""
    tiers = [span.tier.name for span in placed.spans if span.tier.protocols]
    if not rows or not tiers:
        return list(rows)
    note = (
        f"protocols of {tiers[0]} as the file lists them, a form that is read for one more version"
        " (colltool.fabric/1)"
    )
    return [replace(rows[0], notes=(*rows[0].notes, note)), *rows[1:]]


def launch_is_known(placed: PlacedGroup, primitive: Primitive) -> bool:
    """Whether the fabric or a protocol states a launch overhead."""

    def known() -> bool:
        if "launch_overhead" in placed.fabric.model_fields_set:
            return True
        for span in placed.spans:
            for protocol in span.tier.protocols_for(primitive).values():
                if protocol.launch_s is not None:
                    return True
        return False

    return placed.once(("launch", primitive), known)


def _size_reaching(curve: Curve, seconds: float) -> float:
    """The size in bytes at which a price reaches ``seconds``; 0 if it always takes longer, infinity
    if it never does."""
    seconds_left = seconds - curve.a
    if seconds_left <= 0:
        return 0.0
    if not curve.b:
        return (seconds_left / curve.c) ** 2 if curve.c else inf
    # b·x² + c·x = seconds_left, where x is the square root of the size
    root = (sqrt(curve.c * curve.c + 4 * curve.b * seconds_left) - curve.c) / (2 * curve.b)
    return root * root
