"""Plain arrays give what numpy gives, to the last digit, and note what they do not have."""

from __future__ import annotations

import operator
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from swept import swept

from colltool.network import plain_arrays as plain

SHAPES = [(1,), (5,), (1, 4), (3, 1), (3, 4)]
BETWEEN_TWO = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.lt,
    operator.ge,
    operator.eq,
    operator.ne,
]
# what prices do with arrays, on a module that may be either
ASKED: list[Callable[[Any, Any, Any], Any]] = [
    lambda np, a, b: a**0.5,
    lambda np, a, b: a**2,
    lambda np, a, b: -a + 1,
    lambda np, a, b: 1 / b,
    lambda np, a, b: ~(a < b),
    lambda np, a, b: (a < b) | (a > 2),
    lambda np, a, b: a.min() + a.max(),
    lambda np, a, b: a.min(axis=0),
    lambda np, a, b: a.max(axis=-1),
    lambda np, a, b: a.argmax(axis=0),
    lambda np, a, b: a[0],
    lambda np, a, b: a[1:],
    lambda np, a, b: a[:, None],
    lambda np, a, b: a[np.array([0, -1])],
    lambda np, a, b: a.reshape(-1),
    lambda np, a, b: a.reshape(-1)[a.reshape(-1) > 2],
    lambda np, a, b: np.where(a < b, a, b),
    lambda np, a, b: np.minimum(a, b),
    lambda np, a, b: np.maximum(a, 2),
    lambda np, a, b: np.choose((a < b) * 1, [a, b]),
    lambda np, a, b: np.stack([a, a]),
    lambda np, a, b: np.stack([a.reshape(-1), a.reshape(-1)], axis=1),
    lambda np, a, b: np.broadcast_to(a, (2, *a.shape)),
    lambda np, a, b: np.unique(a.reshape(-1), return_inverse=True)[1],
    lambda np, a, b: np.unique(a.reshape(-1)),
    lambda np, a, b: np.flatnonzero(a < b),
    lambda np, a, b: np.interp(a, np.arange(4), [1.0, 0.3, 7.0, 7.5]),
    lambda np, a, b: np.ravel_multi_index(np.unravel_index(np.arange(6), (2, 3)), (2, 3)),
    lambda np, a, b: np.full(3, 2.5) * np.zeros(3, dtype=np.uint8),
]


def drawn(shape: tuple[int, ...], seed: int) -> list[Any]:
    """Numbers that tie now and then, with 0 and infinity among them."""
    random = Random(seed)
    count = int(np.prod(shape))
    numbers = [random.choice([0.0, 1.0, 3, random.uniform(0, 4), np.inf]) for _ in range(count)]
    found: list[Any] = np.array(numbers).reshape(shape).tolist()
    return found


@swept("shape", SHAPES)
@swept("number", range(len(ASKED) + len(BETWEEN_TWO)))
def test_it_gives_what_numpy_gives(shape: tuple[int, ...], number: int) -> None:
    for seed in range(3):
        first, second = drawn(shape, seed), drawn(shape[-1:], seed + 7)
        found = []
        for module in (np, plain):
            a, b = module.array(first), module.array(second)  # type: ignore[attr-defined]
            with np.errstate(all="ignore"):
                try:
                    if number < len(ASKED):
                        answer = ASKED[number](module, a, b)
                    else:
                        answer = BETWEEN_TWO[number - len(ASKED)](a, b)
                except (IndexError, ValueError) as error:
                    answer = type(error).__name__
            found.append(repr(answer.tolist() if hasattr(answer, "tolist") else answer))
        assert found[0].replace("np.float64(", "").replace(")", "") == found[1].replace(")", "")


def test_items_are_set_as_numpy_sets_them() -> None:
    found = []
    for module in (np, plain):
        values = module.zeros((2, 3))  # type: ignore[attr-defined]
        values[1] = 2
        values[:, 0] = module.array([5, 6])  # type: ignore[attr-defined]
        row = values[1]
        row[row > 5] = 0.5
        found.append((row.tolist(), values[0].tolist()))
    assert found[0] == found[1]


def test_what_is_missing_is_noted() -> None:
    plain.NOTED.clear()
    with pytest.raises(AttributeError):
        plain.linalg  # noqa: B018 - asking is the test
    assert plain.NOTED.missing == "linalg"
    plain.NOTED.clear()
    with pytest.raises(AttributeError):
        plain.array([1]).cumsum()
    assert (plain.NOTED.missing, plain.NOTED.made) == ("cumsum", True)
    for ask in (
        lambda: plain.stack([plain.zeros((2, 2))], axis=1),
        lambda: plain.zeros((2, 2))[plain.zeros((2, 2)) > 1],
    ):
        plain.NOTED.clear()
        with pytest.raises(AttributeError):
            ask()
        assert plain.NOTED.missing
