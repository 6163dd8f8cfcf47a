"""Sizes and rates as sentences and tables of measurements write them."""

from __future__ import annotations

from colltool.units import format_bytes, format_rate

_BINARY = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10}


def size_text(size: float) -> str:
    """``64 KiB``, as benchmarks step through sizes, where that is exact; ``16 MB``, rounded, where it is not."""
    for unit, factor in _BINARY.items():
        if size % factor == 0 and size < 1024 * factor:
            return f"{size / factor:.0f} {unit}"
    return format_bytes(size)


def of_rates(rate: float, whole: float) -> str:
    """``231 of 372 GB/s``."""
    part, total = format_rate(rate, 3), format_rate(whole, 3)
    number, unit = part.split(" ")
    return f"{number} of {total}" if total.endswith(f" {unit}") else f"{part} of {total}"
