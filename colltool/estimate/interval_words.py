"""An interval in words: :func:`reason_words` on its largest part, :func:`row_words` on the nearest
measurement."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import log2
from typing import TYPE_CHECKING, Any

from colltool.base.formatting import counted, size_text
from colltool.base.primitives import parse_primitive
from colltool.estimate.spread import Distance, ErrorRequest, series_of

if TYPE_CHECKING:
    from colltool.estimate.interval import ErrorModel

# Of the parts of sigma (:class:`colltool.estimate.spread.PriceSpread`) that need no numbers in their
# words; base, unmeasured, collective, ranks and size are worded by the functions below.
PART_WORDS = {
    "amd": "AMD clusters differ this much",
    "racks": "few racks were measured, and they differ this much",
    "launch": "one process drives all GPUs",
    "dials": "numbers changed by you",
    "machine": "its own measurements differ this much",
    "exchange": "few all-to-alls between nodes were measured, and they differ this much",
    "p2p": "such boxes differ this much by whether P2P over PCIe works",
    "ll": "some versions of NCCL send up to 512 KiB a peer by LL, which takes that much longer",
    "announced": "announced: first measurements may differ this much",
}


def reason_words(
    errors: ErrorModel,
    request: ErrorRequest,
    parts: tuple[tuple[str, float], ...],
    nearest: Distance | None,
    rows: int,
) -> str:
    """What widens an interval most, in words: its largest part but the base. Where that is less than
    half the base, the machine's own rows or the number of ``rows`` like the request, if there are any.

    ``parts``: those of the interval; ``nearest``: the nearest measured row, None where none is
    comparable.
    """
    others = dict(parts)
    base = others.pop("base", 0.0)
    # the largest part but the base; the base where it stands alone
    name = max(others, key=others.__getitem__, default="base")
    if others.get(name, 0.0) < base / 2 or name == "base":
        if errors.own_rows:
            return PART_WORDS["machine"]
        if rows:
            return counted(rows, "comparable measurement")
    if name == "base":
        return "measurements of such machines"
    if nearest is not None:
        # ``unmeasured`` of a row so far away that it is taken as if nothing had been measured: by what it is far
        if name == "unmeasured":
            name = max(("collective", "ranks", "size"), key=lambda part: getattr(nearest, part))
        if name in ("ranks", "size", "collective"):
            return _distance_words(request, name, nearest)
    return PART_WORDS.get(name) or _unmeasured_words(errors, request)


def _unmeasured_words(errors: ErrorModel, request: ErrorRequest) -> str:
    """What was not measured where nothing is comparable."""
    if not request.foreign:
        where = f"across {errors.wire}" if request.place.across else f"on {errors.wire}"
        return f"no measurement of {errors.device or 'such GPUs'} {where}"
    return "no measurement of such a schedule"


@lru_cache(maxsize=8192)
def _distance_words(request: ErrorRequest, name: str, nearest: Distance) -> str:
    """What the nearest row is far away by, such as ``no measurement beyond 192 ranks``; between two
    measured numbers the nearest is named."""
    if name == "collective":
        return f"no {_label(request.collective)} was measured there"
    comparable = series_of(request.place, nearest.series.collective)
    if name == "ranks":
        ranks = [series.ranks for series in comparable]
        words = _edge(request.ranks, min(ranks), max(ranks), lambda count: f"{count} ranks")
        return words or f"the nearest measurement is on {nearest.series.ranks} ranks"
    near_in_ranks = [
        series for series in comparable if abs(log2(series.ranks / request.ranks)) <= 1
    ]
    near_in_ranks = near_in_ranks or [nearest.series]
    least = 2.0 ** min(series.sizes[0] for series in near_in_ranks)
    most = 2.0 ** max(series.sizes[-1] for series in near_in_ranks)
    words = _edge(request.size, least, most, size_text)
    return words or f"the nearest measurement is at {size_text(2.0**nearest.log_size)}"


def _edge(value: float, least: Any, most: Any, show: Callable[[Any], str]) -> str:
    """The end of what was measured in words. Empty where the value is between the ends."""
    if value > most:
        return f"no measurement beyond {show(most)}"
    return f"no measurement below {show(least)}" if value < least else ""


def row_words(nearest: Distance) -> str:
    """The nearest row in words: ``all-reduce of 16 MB on 64 ranks (NVIDIA)``."""
    series = nearest.series
    return (
        f"{_label(series.collective)} of {size_text(2.0**nearest.log_size)} on {series.ranks}"
        f" ranks ({series.source})"
    )


def _label(collective: str) -> str:
    """The label of a collective by its name in ``rows.csv``."""
    return parse_primitive(collective).label
