"""Sizes, rates and errors as sentences and tables of measurements write them."""

from __future__ import annotations

from colltool.units import format_bytes, format_rate

_UNITS = {"GB": 1e9, "MB": 1e6, "KB": 1e3, "B": 1.0, "GiB": 2.0**30, "MiB": 2.0**20, "KiB": 2.0**10}


def size_text(size: float) -> str:
    """``64 KiB`` or ``16 MB``: the shortest text of four digits that is exact, else rounded."""
    counts = {unit: f"{size / factor:.4g}" for unit, factor in _UNITS.items() if factor <= size < 1000 * factor}
    exact = [f"{count} {unit}" for unit, count in counts.items() if float(count) * _UNITS[unit] == size]
    return min(exact, key=len, default=format_bytes(size))


def range_text(first: float, last: float) -> str:
    """``64 KiB to 1 MiB``; one size alone."""
    return " to ".join(dict.fromkeys((size_text(first), size_text(last))))


def of_rates(rate: float, whole: float) -> str:
    """``231 of 372 GB/s``."""
    part, total = format_rate(rate, 3), format_rate(whole, 3)
    number, unit = part.split(" ")
    return f"{number} of {total}" if total.endswith(f" {unit}") else f"{part} of {total}"


def percent(share: float, digits: int = 1, sign: str = "") -> str:
    """``13.0%``; above 1000%, where a percentage is no help, ``12 times``; ``sign`` is ``+`` for a signed error."""
    return f"{share:{sign}.{digits}%}" if abs(share) <= 10 else f"{share:{sign}.0f} times"
