"""Fits that several tests share are made once."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture(scope="session", autouse=True)
def _each_fit_once(remembered: Callable[[], None]) -> None:
    """Series that several tests calibrate are fitted once."""
