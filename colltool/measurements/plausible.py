"""Times that no hardware takes: a log in another unit than it says, or a row that something garbled."""

from __future__ import annotations

from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_bytes, format_rate, format_time
from colltool.measurements.series import Series
from colltool.measurements.timing import Timing

LEAST_S = 1e-8
"""No message crosses a wire faster: light takes as long for three metres."""

MOST_S = 1e5
"""Nobody waits longer for one call: more than a day."""

MOST_BPS = 1e14
"""No rank sends or receives faster: a hundred times the ports of 2026."""


def check_timing(one: Timing) -> None:
    """Refuse a time that no hardware takes.

    Raises:
        ColltoolError: with the row.
    """
    if not LEAST_S <= one.seconds <= MOST_S or one.bytes > MOST_BPS * one.seconds:
        raise _refusal(one.bytes, one.seconds, one.where)


def check_series(series: Series) -> None:
    """The same for a series, whoever made it: its fastest and slowest repeats.

    Raises:
        ColltoolError: with the place of the size.
    """
    for point in series.points:
        for seconds in (point.seconds, point.low_s, point.high_s):
            if not LEAST_S <= seconds <= MOST_S or point.bytes > MOST_BPS * seconds:
                raise _refusal(point.bytes, seconds, point.where)


def _refusal(size: float, seconds: float, where: str) -> ColltoolError:
    rate = f", {format_rate(size / seconds, 3)}" if LEAST_S <= seconds <= MOST_S else ""
    what = f"no fabric takes such times: {format_bytes(size)} in {format_time(seconds, 3)}{rate}"
    return ColltoolError(what, where=where, fix="check the unit of the times in the logs")
