"""The door through which the core opens drawings and plots: by name, and to what it expects."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from colltool.base import extras


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (extras.drawing(), extras.DrawingModule),
        (extras.plot(), extras.PlotModule),
    ],
)
def test_a_module_has_what_the_core_calls(module: Any, expected: type) -> None:
    called = {name for name in vars(expected) if not name.startswith("_")}
    assert called
    for name in called:
        wanted = set(inspect.signature(getattr(expected, name)).parameters) - {"self"}
        assert wanted <= set(inspect.signature(getattr(module, name)).parameters), name
