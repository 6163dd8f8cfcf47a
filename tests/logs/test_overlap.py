"""How much of an interval others cover: by counting every unit of time."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from colltool.logs.traced_calls import BusyIntervals

INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=8)


@given(INTERVALS, st.integers(0, 50), st.integers(0, 20))
def test_as_if_every_unit_were_counted(
    intervals: list[tuple[int, int]], start: int, lasts: int
) -> None:
    starts, ends = (
        array("d", [float(one) for one in column])
        for column in ([at for at, _ in intervals], [at + long for at, long in intervals])
    )
    units = {unit for at, long in intervals for unit in range(at, at + long)}
    assert BusyIntervals(starts, ends).covered(start, start + lasts) == len(
        units & set(range(start, start + lasts))
    )
