"""Text with a unit to SI numbers: sizes, times, rates, lengths, energies, powers; :mod:`colltool.base.formatting` writes them.

Case matters: ``Gb`` is bits, ``GB`` bytes. k, M, G are powers of ten, Ki, Mi, Gi powers of two. A size or rate without a unit is
in bytes or bytes/s; everything else needs its unit.
"""

from __future__ import annotations

import math
import numbers
import operator
import re
from functools import partial
from typing import NamedTuple, SupportsFloat, SupportsIndex

from colltool.base.errors import ColltoolError, either, given
from colltool.base.formatting import format_size
from colltool.base.quoting import clipped, shown

_DECIMAL = {"": 1e0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60}
_PREFIXES = {**_DECIMAL, **_BINARY}


class _Unit(NamedTuple):
    """A kind of quantity; ``usual``: units to suggest where a bare number is refused, empty where it is not."""

    kind: str
    factors: dict[str, float]
    example: str
    usual: tuple[str, ...] = ()
    divides: bool = False  # by the factor: 5/1e6 is 5e-06, 5*1e-6 is not


_RATES = {f"{prefix}B{per}": factor for prefix, factor in _PREFIXES.items() for per in ("/s", "ps")} | {
    f"{prefix}b{per}": factor / 8 for prefix, factor in _PREFIXES.items() for per in ("/s", "ps")
}
_FLOPS = {f"{prefix}FLOP{per}": factor for prefix, factor in _DECIMAL.items() for per in ("/s", "S")}
_TIMES = {"s": 1.0, "ms": 1e3, "us": 1e6, "\u00b5s": 1e6, "\u03bcs": 1e6, "ns": 1e9}
_ENERGIES = {"fJ/bit": 1e15, "pJ/bit": 1e12, "nJ/bit": 1e9}

_SIZE = _Unit("size", {f"{prefix}B": factor for prefix, factor in _PREFIXES.items()}, "16MB (10^6 bytes) or 16MiB (2^20)")
_RATE = _Unit("rate", _RATES, "900GB/s (bytes) or 400Gbps (bits)")
_TIME = _Unit("time", _TIMES, "0.5us, 500ns or 2ms", ("us", "ns"), divides=True)
_ARITHMETIC = _Unit("rate of arithmetic", _FLOPS, "989TFLOP/s or 2.5PFLOP/s", ("TFLOP/s", "PFLOP/s"))
_LENGTH = _Unit("length", {"m": 1.0, "km": 1e3, "cm": 1e-2, "ft": 0.3048}, "100m, 2km or 30ft", ("m", "km"))
_ENERGY = _Unit("bit energy", _ENERGIES, "30pJ/bit or 1nJ/bit", ("pJ/bit", "nJ/bit"), divides=True)
_POWER = _Unit("power", {"W": 1.0, "kW": 1e3, "MW": 1e6}, "1700W or 1.7kW", ("W", "kW"))
_TARIFF = _Unit("price of energy", {"/kWh": 1.0, "/MWh": 1e3}, "0.10/kWh or 80/MWh", ("/kWh", "/MWh"), divides=True)

_QUANTITY = re.compile(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[ ]?([^\s\d]\S*)?\s*")
_WHOLE = re.compile("-?[0-9]+")

MAX_SIZE = 1e18  # an exabyte per rank: beyond it a typing error, not a plan
_MOST_BARE = 1e15  # a petabyte that is written without its unit is a slip of the exponent
_MOST_DIGITS = 100  # a longer number is no quantity, and costs quadratic time to read

Quantity = str | SupportsFloat


def parse_size(value: Quantity) -> float:
    """Bytes of ``16MB``, ``16MiB``, ``4096`` or a number, from 1 B to 1 EB; refuses bits, and text above 1 PB without a unit."""
    size = _parse(value, _SIZE)
    if not 1 <= size <= MAX_SIZE:
        raise ColltoolError(f"a size of {_said(value)} is outside 1 byte .. 1 EB", fix="a size is bytes per rank, such as 16MB")
    if size > _MOST_BARE and isinstance(value, str) and "B" not in value:
        raise ColltoolError(f"'{clipped(value)}' has no unit", fix=f"a size above 1 PB needs one: write {format_size(size)}")
    return size


def parse_count(value: str | SupportsIndex, argument: str, least: float = -math.inf, most: float = math.inf) -> int:
    """A whole number within bounds, both allowed: digits as an option gives them, or any integer; never a boolean."""
    number = _whole(value)
    if number is None:
        text = isinstance(value, str)
        what = f"'{clipped(str(value), 40)}' is not a whole number" if text else f"expected a whole number, got {shown(value)}"
        fix = f"write {either(shell='digits: ', python='')}{given(argument, max(least, 8))}"
        raise ColltoolError(what, argument=argument, fix=fix)
    if not least <= number <= most:
        got = clipped(value, 40) if isinstance(value, str) else shown(number)
        fix = f"write {given(argument, max(least, min(8, most)))}"
        bounds = f"at least {least}" if number < least and most > _MOST_BARE else f"{least} to {most}"  # such a bound means none
        raise ColltoolError(f"expected {bounds}, got {got}", argument=argument, fix=fix)
    return number


_MOST_AXES = 8


def parse_shape(text: str, argument: str) -> tuple[int, ...]:
    """Axis sizes of a lattice, ``(4, 4, 2)`` of ``4x4x2`` or ``4,4,2``: at most 8 axes."""
    sizes = [_whole(part) for part in text.lower().replace(",", "x").split("x")]
    found = tuple(size for size in sizes if size and size > 0)
    if len(found) < len(sizes) or len(found) > _MOST_AXES or max(found) > 10**_MOST_AXES:
        fix = f"write {given(argument, (4, 4, 2), text='4x4x2')}"
        raise ColltoolError(f"'{clipped(text, 40)}' is not a shape", argument=argument, fix=fix)
    return found


def _whole(value: object) -> int | None:
    if isinstance(value, str):
        digits = value.strip()
        return int(digits[:_MOST_DIGITS]) if _WHOLE.fullmatch(digits) else None
    if not _is_real(value):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # what has no index is refused
    except TypeError:
        return None


def _not_negative(value: Quantity, of: _Unit) -> float:
    number = _parse(value, of)
    if number < 0:
        raise ColltoolError(f"a {of.kind} cannot be negative, got {_said(value)}", fix="write it without the sign")
    return number


# Text with a unit, or a Python number that is in SI.
parse_rate = partial(_not_negative, of=_RATE)  # bytes/s of 900GB/s, 400Gbps; text without a unit is in bytes/s too
parse_time = partial(_not_negative, of=_TIME)  # seconds of 0.5us, 500ns, 8ms
parse_flops = partial(_not_negative, of=_ARITHMETIC)  # FLOP/s of 989TFLOP/s, 312TFLOPS
parse_length = partial(_not_negative, of=_LENGTH)  # metres of 100m, 2km, 30ft
parse_energy = partial(_not_negative, of=_ENERGY)  # J/bit of 30pJ/bit
parse_power = partial(_not_negative, of=_POWER)  # watts of 1700W, 1.7kW
parse_energy_price = partial(_not_negative, of=_TARIFF)  # money per kWh of 0.10/kWh, 80/MWh


def _parse(value: Quantity, of: _Unit) -> float:
    if not isinstance(value, str):
        return _from_number(value, of)
    match = _QUANTITY.fullmatch(value) if len(value) <= _MOST_DIGITS else None
    if match is None:
        raise ColltoolError(f"'{clipped(value)}' is not a {of.kind}", fix=f"write {of.example}")
    number, unit = float(match[1]), match[2] or ""
    if not unit and of.usual:
        fix = f"a {of.kind} needs one: write {' or '.join(value.strip() + usual for usual in of.usual)}"
        raise ColltoolError(f"'{value}' has no unit", fix=fix)
    if unit and unit not in of.factors:
        what = f"'{clipped(unit)}' is not a unit of {of.kind} in '{clipped(value)}'"
        raise ColltoolError(what, fix=_unit_hint(unit, of, match[1]))
    factor = of.factors.get(unit, 1.0)
    result = number / factor if of.divides else number * factor
    if not math.isfinite(result):
        raise ColltoolError(f"'{clipped(value)}' is too large for a {of.kind}", fix=f"write {of.example}")
    return result


def _from_number(value: SupportsFloat, of: _Unit) -> float:
    fix = f"write {of.example}"
    try:
        number = float(value) if _is_real(value) else None
    except (TypeError, ValueError):
        number = None
    except OverflowError as error:
        raise ColltoolError(f"{shown(value)} is too large for a {of.kind}", fix=fix) from error
    if number is None:
        raise ColltoolError(f"expected a {of.kind}, got {_said(value)}", fix=fix)
    if not math.isfinite(number):
        raise ColltoolError(f"a {of.kind} must be finite, got {number}", fix=fix)
    return number


def _is_real(value: object) -> bool:
    """False for booleans, which nobody meant as 1, and for complex numbers; numpy's too."""
    if getattr(getattr(value, "dtype", None), "kind", "") in ("b", "c"):
        return False
    return not isinstance(value, bool) and (isinstance(value, numbers.Real) or not isinstance(value, numbers.Complex))


def _said(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, int) and not isinstance(value, bool):
        return shown(value)  # str refuses 5,000 digits
    return clipped(str(value)) if isinstance(value, str | numbers.Complex) else shown(value)


def _unit_hint(unit: str, of: _Unit, number: str) -> str:
    """The unit probably meant: another case, a bit for a byte, nccl-tests' bare M."""
    if of is _SIZE and unit in _DECIMAL:
        return f"write {number}{unit}B (10^n bytes), or {number}{unit}iB (2^n: what nccl-tests means by {number}{unit})"
    if of is _SIZE and unit in _BINARY:
        return f"write {number}{unit}B"
    if of is _SIZE and f"{unit[:-1]}B" in of.factors and unit.endswith("b"):
        return f"a size is in bytes, not bits: write {number}{unit[:-1]}B if that is what you mean"
    if of is _RATE and f"{unit}/s" in of.factors:
        return f"a rate is per second: write {number}{unit}/s"
    same = [known for known in of.factors if known.lower() == unit.lower()]
    return f"did you mean {' or '.join(number + known for known in same)}?" if same else f"write {of.example}"
