"""What all tests share: helper modules on the path, and property tests that draw the same examples on every run."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

# With --import-mode=importlib a test cannot import its neighbours; tests/small.py is one.
sys.path.append(str(Path(__file__).parent))

from remembered import remembered  # noqa: F401 - a fixture

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    max_examples=40,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")
