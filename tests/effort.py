"""How many cases the suite tries: a part of the many that are alike, so that it takes minutes; all
with ``pytest --thorough``.

Which part is drawn once and for all, not anew on every run, and a case that failed somewhere is a
test of its own.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

import pytest

Case = TypeVar("Case")
thorough = False
in_ci = False
"""Set by ``conftest.pytest_configure``, before any test is imported."""


def some(cases: Iterable[Case], most: int) -> list[Case]:
    """``most`` of the cases in their order, whichever they are; all of them if thorough."""
    listed = list(cases)
    if thorough or len(listed) <= most:
        return listed
    return [
        listed[at] for at in sorted(random.Random(len(listed)).sample(range(len(listed)), most))
    ]


def taken(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Without those marked ``thorough``, nor ``ci`` outside CI, and of the cases of a test marked
    ``alike(most)`` that many; in their order."""
    if thorough:
        return list(items)
    cases = defaultdict[tuple[str, int], list[pytest.Item]](list)
    for item in items:
        if (mark := item.get_closest_marker("alike")) is not None:
            cases[item.nodeid.partition("[")[0], *mark.args].append(item)
    left = {
        item
        for (_, most), alike in cases.items()
        for item in set(alike).difference(some(alike, most))
    }
    left_to_others = ("thorough",) if in_ci else ("thorough", "ci")
    return [
        item
        for item in items
        if item not in left and not any(map(item.get_closest_marker, left_to_others))
    ]


def examples(many: int) -> int:
    """How many examples a property test draws where ``many`` are thorough."""
    return many if thorough else max(3, many // 8)
