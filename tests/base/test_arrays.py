"""Ties: what sums round is no difference, and the first of equals leads, of numbers and of arrays
alike."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from colltool.base.arrays import first_least, ranked, winners

NEAR = st.sampled_from([1.0, 1.0 + 2e-16, 1.0 - 1e-16, 1.0 + 5e-13, 1.5, 2.0, 2.0 + 4e-16])


@given(st.lists(NEAR, min_size=1, max_size=8))
def test_the_first_of_equals_leads(keys: list[float]) -> None:
    exact = [round(key, 9) for key in keys]
    assert first_least(keys) == exact.index(min(exact))
    assert ranked(keys) == sorted(range(len(keys)), key=exact.__getitem__)
    assert list(first_least([np.array([key, key]) for key in keys])) == [first_least(keys)] * 2


def test_where_each_wins() -> None:
    found = winners(
        "abc",
        {
            "a": np.array([1.0, 2.0, 3.0]),
            "b": np.array([2.0, 2.0, 1.0]),
            "c": np.full(3, 9.0),
        }.__getitem__,
    )
    assert [(name, list(where)) for name, where in found] == [
        ("a", [True, True, False]),
        ("b", [False, False, True]),
    ]
    assert winners("ab", {"a": 2.0, "b": 1.0}.__getitem__) == [("b", True)]
