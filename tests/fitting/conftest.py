"""Fits that several tests share are made once."""

from remembered import remembered  # noqa: F401 - a fixture
