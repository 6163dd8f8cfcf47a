"""Numbers as text for people: sizes, rates, times, shares, counts; :mod:`colltool.base.units` reads them back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Shape = tuple[int, ...]
"""Endpoints or ranks along each axis of a lattice."""

_PREFIXES = {"": 1e0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_UNITS = {"GB": 1e9, "MB": 1e6, "KB": 1e3, "B": 1.0, "GiB": 2.0**30, "MiB": 2.0**20, "KiB": 2.0**10}
_BINARY = {"TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1}
_LONGEST_TITLE = 8


def told_apart(names: Sequence[str], typed: Sequence[str]) -> list[str]:
    """Make equal names distinct by the end of the path they were given as, else by a number.

    >>> told_apart(["mine", "mine", "nvl72"], ["a/x.yaml", "b/x.yaml", "nvl72"])
    ['mine (a/x.yaml)', 'mine (b/x.yaml)', 'nvl72']
    """
    found = list(names)
    for name in dict.fromkeys(one for one in names if list(names).count(one) > 1):
        mine = [at for at, one in enumerate(names) if one == name]
        paths = [typed[at].replace("\\", "/").split("/") for at in mine]
        ends = (["/".join(path[-length:]) for path in paths] for length in range(1, max(map(len, paths)) + 1))
        numbers = [str(number) for number in range(1, len(mine) + 1)]
        said = next((one for one in ends if len(set(one)) == len(one) and all(one)), numbers)
        for at, end in zip(mine, said, strict=True):
            found[at] = f"{name} ({end})"
    return found


def format_size(size: float) -> str:
    """``16MB``: the shortest decimal text that :func:`colltool.base.units.parse_size` reads back exactly."""
    for prefix, factor in reversed(_PREFIXES.items()):
        if size >= factor and float(f"{size / factor:.12g}") * factor == size:
            return f"{size / factor:.12g}{prefix}B"
    return f"{size!r}B"


def format_bytes(size: float, digits: int = 4) -> str:
    """``2.07 GB``: rounded, where :func:`format_size` is exact."""
    return _scaled(size, {f"{prefix}B": factor for prefix, factor in reversed(_PREFIXES.items())}, digits)


def title_size(size: float) -> str:
    """``16MB``, or ``1.049MB`` where the exact text is too long for a title or a column."""
    exact = format_size(size)
    return exact if len(exact) <= _LONGEST_TITLE else format_bytes(size).replace(" ", "")


def size_text(size: float) -> str:
    """``64 KiB`` or ``16 MB``: whichever is exact in four digits, else rounded."""
    counts = {unit: f"{size / factor:.4g}" for unit, factor in _UNITS.items() if factor <= size < 1000 * factor}
    exact = [f"{count} {unit}" for unit, count in counts.items() if float(count) * _UNITS[unit] == size]
    return min(exact, key=len, default=format_bytes(size))


def shape_text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``11th``, ``22nd``."""
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def binary_size(size: int) -> str:
    """``64KiB``, of a power of two."""
    factor, unit = next((factor, unit) for unit, factor in _BINARY.items() if size >= factor)
    return f"{size // factor}{unit}"


def range_text(first: float, last: float) -> str:
    """``64 KiB to 1 MiB``; equal ends are one size."""
    return " to ".join(dict.fromkeys((size_text(first), size_text(last))))


def format_time(seconds: float, digits: int = 4) -> str:
    """``53.44 us``."""
    return _scaled(seconds, {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}, digits) if seconds else "0 s"


def format_duration(seconds: float, digits: int = 4) -> str:
    """``13.89 h``, ``19.63 d``; below an hour as :func:`format_time`."""
    for unit, factor in (("d", 86400.0), ("h", 3600.0)):
        if seconds >= factor:
            return f"{_significant(seconds / factor, digits)} {unit}"
    return format_time(seconds, digits)


def format_energy(joule: float, digits: int = 4) -> str:
    """``4.8 kJ``."""
    units = {"GJ": 1e9, "MJ": 1e6, "kJ": 1e3, "J": 1.0, "mJ": 1e-3, "uJ": 1e-6, "nJ": 1e-9}
    return _scaled(joule, units, digits) if joule else "0 J"


def format_power(watts: float, digits: int = 4) -> str:
    """``45.9 kW``."""
    return _scaled(watts, {"MW": 1e6, "kW": 1e3, "W": 1.0}, digits)


def format_money(amount: float, currency: str = "") -> str:
    """``1,234,567 USD``; below 100 with two decimals unless whole."""
    return f"{amount:,.{0 if amount >= 100 or amount == int(amount) else 2}f} {currency}".rstrip()


def format_length(metres: float) -> str:
    """``100 m``, ``1.2 km``."""
    return f"{metres / 1e3:.6g} km" if metres >= 1e3 else f"{metres:.6g} m"


def format_bit_energy(joule_per_bit: float) -> str:
    """``30 pJ/bit``."""
    return f"{joule_per_bit * 1e12:.6g} pJ/bit"


def format_rate(rate: float, digits: int = 4) -> str:
    """``450 GB/s``, in powers of ten."""
    return f"{format_bytes(rate, digits)}/s"


def of_rates(rate: float, whole: float) -> str:
    """``231 of 372 GB/s``."""
    part, total = format_rate(rate, 3), format_rate(whole, 3)
    number, unit = part.split(" ")
    return f"{number} of {total}" if total.endswith(f" {unit}") else f"{part} of {total}"


def percent(share: float, digits: int = 1, sign: str = "") -> str:
    """``13.0%``; above 1000% ``12 times``; ``sign`` is ``+`` for a signed error."""
    return f"{share:{sign}.{digits}%}" if abs(share) <= 10 else f"{share:{sign}.0f} times"


def short_percent(share: float, digits: int = 4, sign: str = "") -> str:
    """``12.5%``, ``+2%``: significant digits without trailing zeros."""
    return f"{100 * share:{sign}.{digits}g}%"


def whole_percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def format_factor(ratio: float, digits: int = 4) -> str:
    """``1.75x``: significant digits without trailing zeros."""
    return f"{ratio:.{digits}g}x"


def format_gap(ratio: float) -> str:
    """``1.00x``: always two decimals, to align down a column."""
    return f"{ratio:.2f}x"


def format_count(number: float, digits: int = 6) -> str:
    """``286``, ``1.97222``: coefficients such as n_α and n_β."""
    return f"{number:.{digits}g}"


def counted(number: int, thing: str) -> str:
    """``1 row``, ``3 rows``."""
    return f"{number} {thing}{'s' * (number != 1)}"


def plain_number(value: Any) -> Any:
    """Numpy arrays and scalars as Python lists and numbers; anything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


def whole_bytes(size: Any) -> Any:
    """Whole bytes as an int; of an array a list."""
    plain = plain_number(size)
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def _scaled(number: float, units: dict[str, float], digits: int) -> str:
    """In the largest unit that leaves a rounded number of at least one, else the last."""
    last = next(reversed(units))
    unit = next((one for one, factor in units.items() if abs(number) >= factor * 0.99995), last)
    return f"{_significant(number / units[unit], digits)} {unit}"


def _significant(number: float, digits: int) -> str:
    """Fixed-point, never in exponent notation between 1e-5 and 1e15."""
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(number))))
    text = f"{number:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def sentence(text: str) -> str:
    """With a capital letter at its start; names inside keep theirs."""
    return text[:1].upper() + text[1:]
