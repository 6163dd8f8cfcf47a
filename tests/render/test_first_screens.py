"""The first screens of prices: short, and in words that a colleague would use."""

from __future__ import annotations

import re
from typing import Any

import pytest

import colltool
from colltool.render.dispatch import rendered
from colltool.render.text import Screen

SCREEN = Screen(80)
LINES = 24

BANNED = re.compile(
    r"from [\d.]+ ?[KMGT]?i?B on\b|is of\b|goes with|so many|beside|nobody runs|\bleads\b|balance"
    r"|realistic|\bideal|software|own copy|own share|\bfloor|held at the nearest|\bcuts?\b|drafted"
    r"|\brungs?\b|\bgap\b|\bmargin\b|readings|\bproved|idealised|mismatch|turns it|gains little"
    r"|runner-up|\ba (rank|host|prompt)\b|\bwire\b"
)
"""Words and turns of phrase that stand in no first screen."""


def first_screen(result: Any) -> str:
    return rendered(result, "table", SCREEN)


def check(screen: str) -> None:
    found = BANNED.search(screen)
    assert found is None, f"'{found and found[0]}' in\n{screen}"
    assert len(screen.splitlines()) <= LINES, screen


@pytest.mark.parametrize("fabric", colltool.list_fabrics())
def test_prices_of_every_fabric_are_in_plain_words(fabric: str) -> None:
    loaded = colltool.load_fabric(fabric)
    for size in ("64KB", "64MB"):
        check(first_screen(colltool.price(loaded, "ar", size=size)))
        check(first_screen(colltool.breakdown(loaded, "ar", size=size)))
    check(first_screen(colltool.price_list(loaded, "ar")))
    check(first_screen(colltool.crossover(loaded)))
    check(first_screen(colltool.price(loaded, "a2a", size="16MB")))


def test_the_banned_words_are_found() -> None:
    with pytest.raises(AssertionError, match="software"):
        check("81% is software\n")
    with pytest.raises(AssertionError):
        check("a line\n" * (LINES + 1))
