"""Numbers as text for people (sizes, rates, times, shares, counts), and text with a unit back to SI
numbers. Functions ``format_...`` and ``..._text`` return text, ``parse_...`` return SI numbers.

Case matters: ``Gb`` is bits, ``GB`` bytes. k, M, G are powers of ten, Ki, Mi, Gi powers of two. A
size or rate without a unit is in bytes or bytes/s; everything else needs its unit.
"""

from __future__ import annotations

import math
import numbers
import operator
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby, islice, pairwise
from typing import Any, NamedTuple, SupportsFloat, SupportsIndex

from colltool.base.errors import ColltoolError, argument_text, clipped, either, quote

# Endpoints or ranks along each axis of a lattice.
Shape = tuple[int, ...]

_DECIMAL = {"": 1e0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60}
_PREFIXES = {**_DECIMAL, **_BINARY}
# a bare 16M is 16 MiB to nccl-tests, and so is 16Mi
_AS_NCCL_TESTS = {**_BINARY, **{prefix[0]: factor for prefix, factor in _BINARY.items()}}
_BYTES = {f"{prefix}B": factor for prefix, factor in reversed(_DECIMAL.items()) if prefix != "k"}
_BINARY_BYTES = {f"{prefix}B": factor for prefix, factor in reversed(_BINARY.items())}
# Units of sizes in which :func:`size_text` looks for an exact text.
_NEAR = {unit: _BYTES[unit] for unit in ("GB", "MB", "KB", "B")}
_NEAR |= {"GiB": 2.0**30, "MiB": 2.0**20, "KiB": 2.0**10}
# Characters of an exact size in a title or column.
_LONGEST_TITLE = 8
# Seconds: a smaller time is a rounding error, as a byte over the fastest port takes 2e-13.
LEAST_TIME = 1e-18


def disambiguate(names: Sequence[str], typed: Sequence[str]) -> list[str]:
    """Make equal names distinct by the end of the path that was typed, else by a number.

    >>> disambiguate(["mine", "mine", "nvl72"], ["a/x.yaml", "b/x.yaml", "nvl72"])
    ['mine (a/x.yaml)', 'mine (b/x.yaml)', 'nvl72']
    """
    found = list(names)
    for name, count in Counter(names).items():
        if count > 1:
            equal = [index for index, other in enumerate(names) if other == name]
            ends = _path_ends([typed[index] for index in equal])
            for index, end in zip(equal, ends, strict=True):
                found[index] = f"{name} ({end})"
    return found


def _path_ends(paths: Sequence[str]) -> list[str]:
    """The shortest ends of paths that tell them apart; numbers where none do."""
    parts = [path.replace("\\", "/").split("/") for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        ends = ["/".join(path[-length:]) for path in parts]
        if len(set(ends)) == len(ends) and all(ends):
            return ends
    return [str(number) for number in range(1, len(paths) + 1)]


def format_size(size: float) -> str:
    """``16MB`` or ``16MiB``: the shortest text that :func:`parse_size` reads back exactly."""
    decimal = _exact_in(_BYTES, size) or f"{size!r}B"
    binary = _exact_in(_BINARY_BYTES, size)
    return binary if binary and len(binary) < len(decimal) else decimal


def _exact_in(units: Mapping[str, float], size: float) -> str:
    """The size in the largest unit that has it exactly; empty if none has."""
    for unit, factor in units.items():
        if size >= factor and float(f"{size / factor:.12g}") * factor == size:
            return f"{size / factor:.12g}{unit}"
    return ""


def format_bytes(size: float, digits: int = 4) -> str:
    """``2.07 GB``: rounded, where :func:`format_size` is exact."""
    return _scaled(size, _BYTES, digits)


def title_size(size: float) -> str:
    """``16MB``, or ``1.049MB`` where the exact text is too long for a title or a column."""
    exact = format_size(size)
    return exact if len(exact) <= _LONGEST_TITLE else format_bytes(size).replace(" ", "")


def size_text(size: float) -> str:
    """``64 KiB`` or ``16 MB``: whichever is exact in four digits, else rounded."""
    exact = []
    for unit, factor in _NEAR.items():
        count = f"{size / factor:.4g}"
        if factor <= size < 1000 * factor and float(count) * factor == size:
            exact.append(f"{count} {unit}")
    return min(exact, key=len, default=format_bytes(size))


def shape_text(shape: Sequence[int]) -> str:
    """``8x8x4``."""
    return "x".join(map(str, shape))


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``11th``, ``22nd``."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{endings.get(number % 10, 'th')}"


def binary_size(size: int) -> str:
    """``64KiB``, of a power of two."""
    prefixes = ("", "Ki", "Mi", "Gi", "Ti")
    power = max(0, min(len(prefixes) - 1, (size.bit_length() - 1) // 10))
    return f"{size >> 10 * power}{prefixes[power]}B"


def range_text(first: float, last: float) -> str:
    """``64 KiB to 1 MiB``; equal ends are one size."""
    return " to ".join(dict.fromkeys((size_text(first), size_text(last))))


def format_time(seconds: float, digits: int = 4) -> str:
    """``53.44 us``. What no byte takes on any wire is the rounding of a difference: ``0 s``."""
    if abs(seconds) < LEAST_TIME:
        return "0 s"
    return _scaled(seconds, {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}, digits)


def format_duration(seconds: float) -> str:
    """``13.89 h``, ``19.63 d``; below an hour as :func:`format_time`."""
    for unit, factor in (("d", 86400.0), ("h", 3600.0)):
        if seconds >= factor:
            return f"{_significant(seconds / factor, 4)} {unit}"
    return format_time(seconds)


def format_energy(joule: float, digits: int = 4) -> str:
    """``4.8 kJ``."""
    units = {"GJ": 1e9, "MJ": 1e6, "kJ": 1e3, "J": 1.0, "mJ": 1e-3, "uJ": 1e-6, "nJ": 1e-9}
    return _scaled(joule, units, digits) if joule else "0 J"


def format_power(watts: float, digits: int = 4) -> str:
    """``45.9 kW``."""
    return _scaled(watts, {"MW": 1e6, "kW": 1e3, "W": 1.0}, digits)


def format_money(amount: float, currency: str = "") -> str:
    """``1,234,567 USD``; below 100 with two decimals unless whole."""
    decimals = 0 if amount >= 100 or amount == int(amount) else 2
    return f"{amount:,.{decimals}f} {currency}".rstrip()


def format_length(metres: float) -> str:
    """``100 m``, ``1.2 km``."""
    if metres >= 1e3:
        return f"{metres / 1e3:.6g} km"
    return f"{metres:.6g} m"


def format_bit_energy(joule_per_bit: float) -> str:
    """``30 pJ/bit``."""
    return f"{joule_per_bit * 1e12:.6g} pJ/bit"


def format_rate(rate: float, digits: int = 4) -> str:
    """``450 GB/s``, in powers of ten."""
    return f"{format_bytes(rate, digits)}/s"


def of_rates(rate: float, whole: float) -> str:
    """``231 of 372 GB/s``."""
    return _with_one_unit(format_rate(rate, 3), "of", format_rate(whole, 3))


def changed_rate(before: float, after: float) -> str:
    """``164 -> 109 GB/s``."""
    return _with_one_unit(format_rate(before, 3), "->", format_rate(after, 3))


def of_times(seconds: float, whole: float) -> str:
    """``44.6 of 46.9 ms``."""
    return _with_one_unit(format_time(seconds, 3), "of", format_time(whole, 3))


def _with_one_unit(first: str, between: str, second: str) -> str:
    """Two numbers, with one unit where it is the same."""
    number, unit = first.split(" ")
    if second.endswith(f" {unit}"):
        first = number
    return f"{first} {between} {second}"


def percent(share: float, digits: int = 1, sign: str = "") -> str:
    """``13.0%``; above 1000% ``12 times``; ``sign`` is ``+`` for a signed error."""
    if abs(share) <= 10:
        return f"{share:{sign}.{digits}%}"
    return f"{share:{sign}.0f} times"


def short_percent(share: float, digits: int = 4, sign: str = "") -> str:
    """``12.5%``, ``+2%``: significant digits without trailing zeros."""
    return f"{100 * share:{sign}.{digits}g}%"


def whole_percent(share: float) -> str:
    """``13%``."""
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
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


_MOST_RUNS = 3  # runs of consecutive ranks that a text names


def ranks_text(ranks: Sequence[int]) -> str:
    """``rank 1``, ``ranks 1 to 7``, ``every 8th rank from 8 to 56``,
    ``ranks 1 to 3, 8, 10 and 3 more``."""
    strides = {after - before for before, after in pairwise(ranks)}
    if len(ranks) > _MOST_RUNS and len(strides) == 1 and strides != {1}:
        return f"every {ordinal(strides.pop())} rank from {ranks[0]} to {ranks[-1]}"
    named: list[str] = []
    left = len(ranks)
    # ranks that follow each other keep their distance from their place in the list
    runs = groupby(enumerate(ranks), key=lambda entry: entry[1] - entry[0])
    for _, entries in islice(runs, _MOST_RUNS):
        run = [rank for _, rank in entries]
        named.append(f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}")
        left -= len(run)
    if left:
        named[-1] += f" and {left} more"
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(named)}"


def plain_number(value: Any) -> Any:
    """Numpy arrays and scalars as Python lists and numbers; anything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


def whole_bytes(size: Any) -> Any:
    """Whole bytes as an int; of an array a list."""
    plain = plain_number(size)
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def sentence(text: str) -> str:
    """A text with a capital letter at its start; names inside keep theirs."""
    return text[:1].upper() + text[1:]


def and_text(parts: Sequence[object]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return _joined(parts, "and")


def or_text(parts: Sequence[object]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return _joined(parts, "or")


def _joined(parts: Sequence[object], word: str) -> str:
    *first, last = map(str, parts)
    return f"{', '.join(first)} {word} {last}" if first else last


def _scaled(number: float, units: dict[str, float], digits: int) -> str:
    """A number in the largest unit that leaves at least one when rounded, else in the last."""
    for unit, factor in units.items():  # noqa: B007 - the last one stays
        if abs(number) >= factor * 0.99995:
            break
    return f"{_significant(number / factor, digits)} {unit}"


def _significant(number: float, digits: int) -> str:
    """Fixed-point, never in exponent notation between 1e-5 and 1e15."""
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(number))))
    text = f"{number:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


class _QuantityKind(NamedTuple):
    """A kind of quantity and the factors of its units.

    ``usual``: units to suggest for a number without a unit; empty if it needs none. ``divides``: SI is
    the number over the factor instead of times it: 5/1e6 is exactly 5e-06, 5*1e-6 is not.
    """

    kind: str
    factors: dict[str, float]
    example: str
    usual: tuple[str, ...] = ()
    divides: bool = False


_RATES: dict[str, float] = {}
for _per in ("/s", "ps"):
    _RATES |= {f"{prefix}B{_per}": factor for prefix, factor in _PREFIXES.items()}
    _RATES |= {f"{prefix}b{_per}": factor / 8 for prefix, factor in _PREFIXES.items()}
_FLOPS = {f"{prefix}FLOP/s": factor for prefix, factor in _DECIMAL.items()}
_FLOPS |= {f"{prefix}FLOPS": factor for prefix, factor in _DECIMAL.items()}
_TIMES = {"s": 1.0, "ms": 1e3, "us": 1e6, "\u00b5s": 1e6, "\u03bcs": 1e6, "ns": 1e9}
_ENERGIES = {"fJ/bit": 1e15, "pJ/bit": 1e12, "nJ/bit": 1e9}

_SIZE = _QuantityKind(
    "size",
    {f"{prefix}B": factor for prefix, factor in _PREFIXES.items()} | _AS_NCCL_TESTS,
    "16MB (10^6 bytes) or 16M (2^20, as in nccl-tests)",
)
_RATE = _QuantityKind("rate", _RATES, "900GB/s (bytes) or 400Gbps (bits)")
_TIME = _QuantityKind("time", _TIMES, "0.5us, 500ns or 2ms", ("us", "ns"), divides=True)
_ARITHMETIC = _QuantityKind(
    "rate of arithmetic", _FLOPS, "989TFLOP/s or 2.5PFLOP/s", ("TFLOP/s", "PFLOP/s")
)
_LENGTH = _QuantityKind(
    "length", {"m": 1.0, "km": 1e3, "cm": 1e-2, "ft": 0.3048}, "100m, 2km or 30ft", ("m", "km")
)
_ENERGY = _QuantityKind(
    "bit energy", _ENERGIES, "30pJ/bit or 1nJ/bit", ("pJ/bit", "nJ/bit"), divides=True
)
_POWER = _QuantityKind("power", {"W": 1.0, "kW": 1e3, "MW": 1e6}, "1700W or 1.7kW", ("W", "kW"))
_TARIFF = _QuantityKind(
    "price of energy",
    {"/kWh": 1.0, "/MWh": 1e3},
    "0.10/kWh or 80/MWh",
    ("/kWh", "/MWh"),
    divides=True,
)

_QUANTITY = re.compile(
    r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[ ]?([^\s\d]\S*)?\s*"
)
_WHOLE = re.compile("-?[0-9]+")

# Bytes: more than an exabyte per rank is a typing error.
MAX_SIZE = 1e18
# A larger number without a unit is a wrong exponent.
_MOST_BARE = 1e15
# A longer number is no quantity, and takes quadratic time to read.
_MOST_DIGITS = 100
# Axes of a shape, and the digits of their sizes.
_MOST_AXES = 8

Quantity = str | SupportsFloat


def parse_size(value: Quantity) -> float:
    """Return the bytes of ``16MB``, ``16MiB``, ``4096`` or a number, from 1 B to 1 EB; an error for bits,
    and for text above 1 PB without a unit."""
    size = _parse(value, _SIZE)
    if not 1 <= size <= MAX_SIZE:
        raise ColltoolError(
            f"a size of {_plain(value)} is outside 1 byte .. 1 EB",
            fix="a size is bytes per rank, such as 16MB",
        )
    if size > _MOST_BARE and isinstance(value, str) and "B" not in value:
        raise ColltoolError(
            f"'{clipped(value)}' has no unit",
            fix=f"a size above 1 PB needs one: write {format_size(size)}",
        )
    return size


def parse_count(
    value: str | SupportsIndex, argument: str, least: float = -math.inf, most: float = math.inf
) -> int:
    """Return a whole number within inclusive bounds, from text or any integer but a boolean."""
    number = _whole(value)
    if number is None:
        what = f"expected a whole number, got {quote(value)}"
        if isinstance(value, str):
            what = f"'{clipped(value, 40)}' is not a whole number"
        fix = f"write {either(shell='digits: ', python='')}{argument_text(argument, max(least, 8))}"
        raise ColltoolError(what, argument=argument, fix=fix)
    if not least <= number <= most:
        got = clipped(value, 40) if isinstance(value, str) else quote(number)
        bounds = f"{least} to {most}"
        if number < least and most > _MOST_BARE:  # such a bound means none
            bounds = f"at least {least}"
        fix = f"write {argument_text(argument, max(least, min(8, most)))}"
        raise ColltoolError(f"expected {bounds}, got {got}", argument=argument, fix=fix)
    return number


def parse_shape(text: str, argument: str) -> tuple[int, ...]:
    """Return the axis sizes of a lattice, ``(4, 4, 2)`` of ``4x4x2`` or ``4,4,2``: at most 8 axes."""
    sizes = [_whole(part) for part in text.lower().replace(",", "x").split("x")]
    found = tuple(size for size in sizes if size and size > 0)
    if len(found) < len(sizes) or len(found) > _MOST_AXES or max(found) > 10**_MOST_AXES:
        raise ColltoolError(
            f"'{clipped(text, 40)}' is not a shape",
            argument=argument,
            fix=f"write {argument_text(argument, (4, 4, 2), text='4x4x2')}",
        )
    return found


def _whole(value: object) -> int | None:
    """A whole number; None for anything else."""
    if isinstance(value, str):
        digits = value.strip()
        return int(digits[:_MOST_DIGITS]) if _WHOLE.fullmatch(digits) else None
    # numpy's integers have an index too, and its floats none
    if isinstance(value, SupportsIndex) and _is_real(value):
        with suppress(TypeError):
            return operator.index(value)
    return None


def _not_negative(value: Quantity, of: _QuantityKind) -> float:
    """Text with a unit, or a Python number that is in SI."""
    number = _parse(value, of)
    if number < 0:
        raise ColltoolError(
            f"a {of.kind} cannot be negative, got {_plain(value)}", fix="write it without the sign"
        )
    return number


# bytes/s of 900GB/s, 400Gbps; text without a unit is in bytes/s too
parse_rate = partial(_not_negative, of=_RATE)
# seconds of 0.5us, 500ns, 8ms
parse_time = partial(_not_negative, of=_TIME)
# FLOP/s of 989TFLOP/s, 312TFLOPS
parse_flops = partial(_not_negative, of=_ARITHMETIC)
# metres of 100m, 2km, 30ft
parse_length = partial(_not_negative, of=_LENGTH)
# J/bit of 30pJ/bit
parse_energy = partial(_not_negative, of=_ENERGY)
# watts of 1700W, 1.7kW
parse_power = partial(_not_negative, of=_POWER)
# money per kWh of 0.10/kWh, 80/MWh
parse_energy_price = partial(_not_negative, of=_TARIFF)


def _parse(value: Quantity, of: _QuantityKind) -> float:
    """The SI number of text with a unit, or of a number."""
    if not isinstance(value, str):
        return _from_number(value, of)
    match = _QUANTITY.fullmatch(value) if len(value) <= _MOST_DIGITS else None
    if match is None:
        raise ColltoolError(f"'{clipped(value)}' is not a {of.kind}", fix=f"write {of.example}")
    number, unit = float(match[1]), match[2] or ""
    if not unit and of.usual:
        usual = " or ".join(value.strip() + unit for unit in of.usual)
        raise ColltoolError(f"'{value}' has no unit", fix=f"a {of.kind} needs one: write {usual}")
    if unit and unit not in of.factors:
        what = f"'{clipped(unit)}' is not a unit of {of.kind} in '{clipped(value)}'"
        raise ColltoolError(what, fix=_unit_hint(unit, of, match[1]))
    factor = of.factors.get(unit, 1.0)
    result = number / factor if of.divides else number * factor
    if not math.isfinite(result):
        what = f"'{clipped(value)}' is too large for a {of.kind}"
        raise ColltoolError(what, fix=f"write {of.example}")
    return result


def _from_number(value: SupportsFloat, of: _QuantityKind) -> float:
    fix = f"write {of.example}"
    try:
        number = float(value) if _is_real(value) else None
    except (TypeError, ValueError):
        number = None
    except OverflowError as error:
        raise ColltoolError(f"{quote(value)} is too large for a {of.kind}", fix=fix) from error
    if number is None:
        raise ColltoolError(f"expected a {of.kind}, got {_plain(value)}", fix=fix)
    if not math.isfinite(number):
        raise ColltoolError(f"a {of.kind} must be finite, got {number}", fix=fix)
    return number


def _is_real(value: object) -> bool:
    """False for booleans, which are never meant as 1, and for complex numbers; numpy's too."""
    if getattr(getattr(value, "dtype", None), "kind", "") in ("b", "c"):
        return False
    return not isinstance(value, bool) and (
        isinstance(value, numbers.Real) or not isinstance(value, numbers.Complex)
    )


def _plain(value: object) -> str:
    """A value as in :func:`quote`, but text without quotes, and any number by its digits unless there
    are too many."""
    if isinstance(value, int) and not isinstance(value, bool):
        return quote(value)
    return clipped(str(value)) if isinstance(value, str | numbers.Complex) else quote(value)


def _unit_hint(unit: str, of: _QuantityKind, number: str) -> str:
    """The unit probably meant: another case, a bit for a byte, nccl-tests' bare M."""
    if of is _SIZE and f"{unit[:-1]}B" in of.factors and unit.endswith("b"):
        return f"a size is in bytes, not bits: write {number}{unit[:-1]}B if that is what you mean"
    if of is _RATE and f"{unit}/s" in of.factors:
        return f"a rate is per second: write {number}{unit}/s"
    same = [number + known for known in of.factors if known.lower() == unit.lower()]
    return f"did you mean {' or '.join(same)}?" if same else f"write {of.example}"
