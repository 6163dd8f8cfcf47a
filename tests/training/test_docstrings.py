"""The worked numbers in the docstrings of formulas."""

from __future__ import annotations

import doctest
from importlib import import_module

import closed_forms
from swept import swept

MODULES = {"compression": 2, "calls": 2, "dispatchers": 2}


@swept("name", MODULES)
def test_worked_numbers(name: str) -> None:
    module = import_module(f"colltool.training.{name}")
    found = doctest.testmod(module, extraglobs=vars(module))
    assert found.failed == 0
    assert found.attempted >= MODULES[name]


def test_worked_numbers_of_closed_forms() -> None:
    assert doctest.testmod(closed_forms) == (0, 4)
