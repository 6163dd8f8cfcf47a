"""CONTRIBUTING: its table of rooms is that of the code, and what its recipes name is there."""

from __future__ import annotations

import re

from rooms import CONTRIBUTING, written
from swept import swept
from test_layers import PACKAGE

TEXT = CONTRIBUTING.read_text(encoding="utf-8")
RECIPES = TEXT.partition("## Recipes")[2]
ROOT = PACKAGE.parent


def test_the_table_of_rooms_is_that_of_the_code() -> None:
    assert written(TEXT) == TEXT, "run python tests/rooms.py --write"


# Paths of the page: below colltool/ unless they begin with a folder of the checkout. What is to be
# written has a name in capitals.
PATHS = sorted(set(re.findall(r"`((?:[\w.-]+/)+[\w.-]*\w)`", TEXT)))


@swept("path", [path for path in PATHS if not re.search(r"[A-Z]{3}", path)])
def test_what_it_names_is_there(path: str) -> None:
    assert (PACKAGE / path).exists() or (ROOT / path).exists()


def test_there_are_ten_recipes_of_five_steps() -> None:
    recipes = re.findall(r"^\*\*(An?|The) .+?\*\*(.*?)(?=^\*\*|\Z)", RECIPES, re.M | re.S)
    assert len(recipes) == 10
    for _, steps in recipes:
        assert re.findall(r"^(\d)\. ", steps, re.M) == ["1", "2", "3", "4", "5"]
