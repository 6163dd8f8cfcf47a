"""Numbers as text for people (sizes, rates, times, shares, counts), and text with a unit back to SI
numbers. Functions ``format_...`` and ``..._text`` return text, ``parse_...`` return SI numbers.

Numbers that are formatted are in SI units: bytes, bytes/s, seconds, watts, metres; a share is 1 for
the whole. ``digits`` are significant ones. The first line of a docstring is an example of the text.

Case matters: ``Gb`` is bits, ``GB`` bytes. k, M, G are powers of ten, Ki, Mi, Gi powers of two. A
size or rate without a unit is in bytes or bytes/s; everything else needs its unit.

In this order: units, numbers as text, lists and names as text, text as numbers. The last rests on
``_QuantityKind``: a table of the units of a kind, for which ``_si_number`` reads any text.
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

# Factors of the prefixes of units.
_DECIMAL = {"": 1e0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60}
_PREFIXES = {**_DECIMAL, **_BINARY}
# a bare 16M is 16 MiB to nccl-tests, and so is 16Mi
_AS_NCCL_TESTS = {**_BINARY, **{prefix[0]: factor for prefix, factor in _BINARY.items()}}


def _prefixed(unit: str, prefixes: Mapping[str, float], factor: float = 1.0) -> dict[str, float]:
    """The factors of a unit by its texts with prefixes: of ``B`` ``{"B": 1, "KB": 1e3, ...}``;
    ``factor``: that of the unit itself."""
    return {f"{prefix}{unit}": times * factor for prefix, times in prefixes.items()}


# Units of a size, the largest first: EB to B, and EiB to KiB.
_BYTES = dict(reversed(_prefixed("B", _DECIMAL).items()))
del _BYTES["kB"]  # the second spelling of KB
_BINARY_BYTES = dict(reversed(_prefixed("B", _BINARY).items()))
# Units in which :func:`size_text` looks for an exact text.
_SIZE_TEXT_UNITS = {unit: _BYTES[unit] for unit in ("GB", "MB", "KB", "B")}
_SIZE_TEXT_UNITS |= {unit: _BINARY_BYTES[unit] for unit in ("GiB", "MiB", "KiB")}
# Characters of the longest exact size that a title or column shows.
_LONGEST_TITLE = 8
# Seconds: a smaller time is a rounding error, as a byte over the fastest port takes 2e-13.
LEAST_TIME = 1e-18


# --- numbers as text


def format_size(size: float) -> str:
    """``16MB`` or ``16MiB``: the shortest text that :func:`parse_size` reads back exactly."""
    decimal = _exact_in(_BYTES, size) or f"{size!r}B"
    binary = _exact_in(_BINARY_BYTES, size) or decimal
    # the first of equal length
    return min(decimal, binary, key=len)


def _exact_in(units: Mapping[str, float], size: float) -> str:
    """The size in the largest unit that has it exactly; empty if none has. ``units``: bytes by unit,
    the largest first."""
    for unit, factor in units.items():
        # exact is what this text multiplied out gives again, bit for bit
        count = f"{size / factor:.12g}"
        if size >= factor and float(count) * factor == size:
            return f"{count}{unit}"
    return ""


def format_bytes(size: float, digits: int = 4) -> str:
    """``2.07 GB``: rounded, where :func:`format_size` is exact."""
    return _scaled(size, _BYTES, digits)


def title_size(size: float) -> str:
    """``16MB``, or ``1.049MB`` where the exact text is too long for a title or a column."""
    exact = format_size(size)
    if len(exact) <= _LONGEST_TITLE:
        return exact
    return format_bytes(size).replace(" ", "")


def size_text(size: float) -> str:
    """``64 KiB`` or ``16 MB``: the shortest text below 1000 of its unit that is exact in four digits, of
    equal ones the decimal; else as :func:`format_bytes`."""
    exact = []
    for unit, factor in _SIZE_TEXT_UNITS.items():
        count = f"{size / factor:.4g}"
        if factor <= size < 1000 * factor and float(count) * factor == size:
            exact.append(f"{count} {unit}")
    return min(exact, key=len, default=format_bytes(size))


def shape_text(shape: Sequence[int]) -> str:
    """``8x8x4``."""
    return "x".join(map(str, shape))


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``11th``, ``22nd``."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    if number % 100 in (11, 12, 13):
        ending = "th"
    return f"{number}{ending}"


def binary_size(size: int) -> str:
    """``64KiB``, of a power of two; another size is rounded down to whole units."""
    prefixes = ("", "Ki", "Mi", "Gi", "Ti")
    # a step of 2^10 to each prefix; 0 stays 0 B
    power = max(0, min(len(prefixes) - 1, (size.bit_length() - 1) // 10))
    return f"{size >> 10 * power}{prefixes[power]}B"


def range_text(first: float, last: float) -> str:
    """``64 KiB to 1 MiB``; equal ends are one size."""
    # a dict keeps the first of equal texts
    return " to ".join(dict.fromkeys((size_text(first), size_text(last))))


def format_time(seconds: float, digits: int = 4) -> str:
    """``53.44 us``; ``0 s`` below ``LEAST_TIME``."""
    if abs(seconds) < LEAST_TIME:
        return "0 s"
    return _scaled(seconds, {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}, digits)


def format_duration(seconds: float) -> str:
    """``13.89 h``, ``19.63 d``; below an hour as :func:`format_time`."""
    for unit, factor in (("d", 86400.0), ("h", 3600.0)):
        if seconds >= factor:
            return f"{_significant(seconds / factor, 4)} {unit}"
    return format_time(seconds)


def format_energy(joule: float) -> str:
    """``4.8 kJ``, in four digits."""
    units = {"GJ": 1e9, "MJ": 1e6, "kJ": 1e3, "J": 1.0, "mJ": 1e-3, "uJ": 1e-6, "nJ": 1e-9}
    # else in the smallest unit, 0 nJ
    if not joule:
        return "0 J"
    return _scaled(joule, units, 4)


def format_power(watts: float) -> str:
    """``45.9 kW``, in four digits."""
    return _scaled(watts, {"MW": 1e6, "kW": 1e3, "W": 1.0}, 4)


def format_money(amount: float, currency: str = "") -> str:
    """``1,234,567 USD``; below 100 with two decimals unless whole."""
    decimals = 0 if amount >= 100 or amount == int(amount) else 2
    return f"{amount:,.{decimals}f} {currency}".rstrip()


def format_length(metres: float) -> str:
    """``100 m``, ``1.2 km``, in six digits."""
    if metres >= 1e3:
        return f"{metres / 1e3:.6g} km"
    return f"{metres:.6g} m"


def format_bit_energy(joule_per_bit: float) -> str:
    """``30 pJ/bit``, in six digits."""
    return f"{joule_per_bit * 1e12:.6g} pJ/bit"


def format_rate(rate: float, digits: int = 4) -> str:
    """``450 GB/s``, in powers of ten."""
    return f"{format_bytes(rate, digits)}/s"


def of_rates(rate: float, whole: float) -> str:
    """``231 of 372 GB/s``; with both units where they differ."""
    return _with_one_unit(format_rate(rate, 3), "of", format_rate(whole, 3))


def changed_rate(before: float, after: float) -> str:
    """``164 -> 109 GB/s``; with both units where they differ."""
    return _with_one_unit(format_rate(before, 3), "->", format_rate(after, 3))


def of_times(seconds: float, whole: float) -> str:
    """``44.6 of 46.9 ms``; with both units where they differ."""
    return _with_one_unit(format_time(seconds, 3), "of", format_time(whole, 3))


def _with_one_unit(first: str, between: str, second: str) -> str:
    """Two numbers with their units and a word between; the first without its unit where it is the
    same."""
    number, unit = first.split(" ")
    if second.endswith(f" {unit}"):
        first = number
    return f"{first} {between} {second}"


def percent(share: float, digits: int = 1, sign: str = "") -> str:
    """``13.0%``, with ``digits`` decimals (not significant digits); above 1000% ``12 times``. ``sign``
    is ``+`` where positive numbers get a plus sign."""
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


def plain_number(value: Any) -> Any:
    """Numpy arrays and scalars as Python lists and numbers; anything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


def whole_bytes(size: Any) -> Any:
    """A number of bytes without numpy: whole ones as an int, others as a float; of an array a list."""
    plain = plain_number(size)
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def _scaled(number: float, units: dict[str, float], digits: int) -> str:
    """A number in the first unit of which it is at least one in four digits, however many ``digits`` are
    written; else in the last. ``units``: factors by unit, the largest first."""
    for unit, factor in units.items():  # noqa: B007 - the last one stays
        # 0.99995 rounds to 1.000
        if abs(number) >= factor * 0.99995:
            break
    return f"{_significant(number / factor, digits)} {unit}"


def _significant(number: float, digits: int) -> str:
    """A number in so many digits, without trailing zeros and without an exponent."""
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(number))))
    text = f"{number:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# --- lists and names as text


def sentence(text: str) -> str:
    """A text with a capital letter at its start; names inside keep theirs."""
    return text[:1].upper() + text[1:]


def and_text(parts: Sequence[object]) -> str:
    """``a``, ``a and b``, ``a, b and c``; one part at least."""
    return _joined(parts, "and")


def or_text(parts: Sequence[object]) -> str:
    """``a``, ``a or b``, ``a, b or c``; one part at least."""
    return _joined(parts, "or")


def _joined(parts: Sequence[object], word: str) -> str:
    """The parts with commas between, and before the last one a word."""
    *first, last = map(str, parts)
    if not first:
        return last
    return f"{', '.join(first)} {word} {last}"


_MOST_RUNS = 3  # runs of consecutive ranks that a text names


def ranks_text(ranks: Sequence[int]) -> str:
    """``rank 1``, ``ranks 1 to 7``, ``every 8th rank from 8 to 56`` of four or more,
    ``ranks 1 to 3, 8, 10 and 3 more``; ranks ascend, and there is one at least."""
    strides = {after - before for before, after in pairwise(ranks)}
    # a stride of 1 is one run, as "1 to 7"
    if len(ranks) > _MOST_RUNS and len(strides) == 1 and strides != {1}:
        return f"every {ordinal(strides.pop())} rank from {ranks[0]} to {ranks[-1]}"
    run_texts: list[str] = []
    not_named = len(ranks)
    # rank minus index is the same all along a run of consecutive ranks
    runs = groupby(enumerate(ranks), key=lambda entry: entry[1] - entry[0])
    for _, entries in islice(runs, _MOST_RUNS):
        run = [rank for _, rank in entries]
        run_texts.append(f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}")
        not_named -= len(run)
    if not_named:
        run_texts[-1] += f" and {not_named} more"
    noun = "rank" if len(ranks) == 1 else "ranks"
    return f"{noun} {', '.join(run_texts)}"


def disambiguate(names: Sequence[str], paths: Sequence[str]) -> list[str]:
    """Return names of which equal ones are told apart by the end of the path that was typed for each,
    else by a number; ``paths`` are in the order of the names.

    >>> disambiguate(["mine", "mine", "nvl72"], ["a/x.yaml", "b/x.yaml", "nvl72"])
    ['mine (a/x.yaml)', 'mine (b/x.yaml)', 'nvl72']
    """
    distinct = list(names)
    for name, count in Counter(names).items():
        if count > 1:
            places = [place for place, other_name in enumerate(names) if other_name == name]
            ends = _path_ends([paths[place] for place in places])
            for place, end in zip(places, ends, strict=True):
                distinct[place] = f"{name} ({end})"
    return distinct


def _path_ends(paths: Sequence[str]) -> list[str]:
    """The shortest ends of paths that tell them apart, all of as many parts; numbers from 1 where
    none do."""
    parts = [path.replace("\\", "/").split("/") for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        ends = ["/".join(path[-length:]) for path in parts]
        # an empty end, of a path that was not typed or ends in a slash, says nothing
        if len(set(ends)) == len(ends) and all(ends):
            return ends
    return [str(number) for number in range(1, len(paths) + 1)]


# --- text as numbers


class _QuantityKind(NamedTuple):
    """A kind of quantity and its units.

    Attributes:
        noun: how errors call it.
        factors: by unit, what a number in it is multiplied by to be in SI (the price of energy: per
            kWh).
        example: texts to write, for errors.
        usual_units: those to suggest where a unit is missing; empty if a number needs no unit.
        divides: numbers are divided by the factors instead: 5/1e6 is exactly 5e-06, 5*1e-6 is not.
    """

    noun: str
    factors: dict[str, float]
    example: str
    usual_units: tuple[str, ...] = ()
    divides: bool = False


# bytes/s: 900GB/s and 900GBps, 400Gb/s and 400Gbps
_RATES: dict[str, float] = {}
for _per in ("/s", "ps"):
    _RATES |= _prefixed(f"B{_per}", _PREFIXES)
    _RATES |= _prefixed(f"b{_per}", _PREFIXES, 1 / 8)
_FLOPS = _prefixed("FLOP/s", _DECIMAL) | _prefixed("FLOPS", _DECIMAL)
# Divisors: units in a second. Both micro signs of Unicode are a u.
_TIMES = {"s": 1.0, "ms": 1e3, "us": 1e6, "\u00b5s": 1e6, "\u03bcs": 1e6, "ns": 1e9}
# Divisors: units in one J/bit.
_ENERGIES = {"fJ/bit": 1e15, "pJ/bit": 1e12, "nJ/bit": 1e9}

_SIZE = _QuantityKind(
    "size",
    _prefixed("B", _PREFIXES) | _AS_NCCL_TESTS,
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

# -1.5e3 GB/s: a number, at most one space, and a unit
_QUANTITY = re.compile(
    r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[ ]?([^\s\d]\S*)?\s*"
)
_WHOLE = re.compile("-?[0-9]+")

# Bytes: more than an exabyte per rank is a typing error.
MAX_SIZE = 1e18
# A size above it (bytes) without a unit is a wrong exponent.
_MOST_BARE = 1e15
# An upper bound above it only catches typing errors: no message names it.
_LARGEST_BOUND_TOLD = 1e15
# A longer text is no quantity, and Python takes quadratic time to read so many digits.
_MOST_DIGITS = 100
# Axes of a shape, and the largest size of one.
_MOST_AXES = 8
_LARGEST_AXIS = 10**8
# A count to suggest where any would do: the GPUs of a usual node.
_USUAL_COUNT = 8

Quantity = str | SupportsFloat


def parse_size(value: Quantity) -> float:
    """Return the bytes of ``16MB``, ``16MiB``, ``4096`` or a number.

    Raises:
        ColltoolError: no size, bits, less than 1 B or more than 1 EB, or text above 1 PB without
            a ``B``.
    """
    size = _si_number(value, _SIZE)
    if not 1 <= size <= MAX_SIZE:
        raise ColltoolError(
            f"a size of {_text_of_value(value)} is outside 1 byte .. 1 EB",
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
    """Return a whole number from text or any integer but a boolean.

    Args:
        argument: that takes it, for errors.
        least, most: inclusive bounds.

    Raises:
        ColltoolError: no whole number, or one out of bounds.
    """
    number = _integer_of(value)
    if number is None:
        what = f"expected a whole number, got {quote(value)}"
        if isinstance(value, str):
            what = f"'{clipped(value, 40)}' is not a whole number"
        # a shell user reads "write digits: --ranks 8", a Python user "write ranks=8"
        fix = f"write {either(shell='digits: ', python='')}{argument_text(argument, max(least, _USUAL_COUNT))}"
        raise ColltoolError(what, argument=argument, fix=fix)
    if not least <= number <= most:
        got = clipped(value, 40) if isinstance(value, str) else quote(number)
        bounds = f"{least} to {most}"
        if number < least and most > _LARGEST_BOUND_TOLD:
            bounds = f"at least {least}"
        fix = f"write {argument_text(argument, max(least, min(_USUAL_COUNT, most)))}"
        raise ColltoolError(f"expected {bounds}, got {got}", argument=argument, fix=fix)
    return number


def parse_shape(text: str, argument: str) -> tuple[int, ...]:
    """Return the axis sizes of a lattice, ``(4, 4, 2)`` of ``4x4x2`` or ``4,4,2``.

    Raises:
        ColltoolError: no such text, an axis below 1 or above 10^8, or more than 8 axes; it names
            ``argument``.
    """
    parts = text.lower().replace(",", "x").split("x")
    sizes = []
    for part in parts:
        size = _integer_of(part)
        if size is not None and 0 < size <= _LARGEST_AXIS:
            sizes.append(size)
    if len(sizes) < len(parts) or len(sizes) > _MOST_AXES:
        raise ColltoolError(
            f"'{clipped(text, 40)}' is not a shape",
            argument=argument,
            fix=f"write {argument_text(argument, (4, 4, 2), text='4x4x2')}",
        )
    return tuple(sizes)


def _integer_of(value: object) -> int | None:
    """The int of a whole number, or of text that is one; None for anything else. Of a text of more than
    100 digits the first 100 count: no bounds are so wide."""
    if isinstance(value, str):
        digits = value.strip()
        if not _WHOLE.fullmatch(digits):
            return None
        # cut: Python refuses to read thousands of digits
        return int(digits[:_MOST_DIGITS])
    # numpy's integers have an index too, and its floats none
    if isinstance(value, SupportsIndex) and _is_real(value):
        with suppress(TypeError):
            return operator.index(value)
    return None


def _parse_not_negative(value: Quantity, kind: _QuantityKind) -> float:
    """The SI number of text with a unit, or of a number that is in SI; an error below 0."""
    number = _si_number(value, kind)
    if number < 0:
        raise ColltoolError(
            f"a {kind.noun} cannot be negative, got {_text_of_value(value)}",
            fix="write it without the sign",
        )
    return number


# bytes/s of 900GB/s, 400Gbps; text without a unit is in bytes/s too
parse_rate = partial(_parse_not_negative, kind=_RATE)
# seconds of 0.5us, 500ns, 8ms
parse_time = partial(_parse_not_negative, kind=_TIME)
# FLOP/s of 989TFLOP/s, 312TFLOPS
parse_flops = partial(_parse_not_negative, kind=_ARITHMETIC)
# metres of 100m, 2km, 30ft
parse_length = partial(_parse_not_negative, kind=_LENGTH)
# J/bit of 30pJ/bit
parse_energy = partial(_parse_not_negative, kind=_ENERGY)
# watts of 1700W, 1.7kW
parse_power = partial(_parse_not_negative, kind=_POWER)
# money per kWh of 0.10/kWh, 80/MWh
parse_energy_price = partial(_parse_not_negative, kind=_TARIFF)


def _si_number(value: Quantity, kind: _QuantityKind) -> float:
    """The SI number of text with a unit, or of a number that is in SI; an error for anything else."""
    if not isinstance(value, str):
        return _from_number(value, kind)
    match = _QUANTITY.fullmatch(value) if len(value) <= _MOST_DIGITS else None
    if match is None:
        raise ColltoolError(f"'{clipped(value)}' is not a {kind.noun}", fix=f"write {kind.example}")
    number = float(match[1])
    unit = match[2] or ""
    if not unit and kind.usual_units:
        usual = " or ".join(value.strip() + usual_unit for usual_unit in kind.usual_units)
        raise ColltoolError(f"'{value}' has no unit", fix=f"a {kind.noun} needs one: write {usual}")
    if unit and unit not in kind.factors:
        what = f"'{clipped(unit)}' is not a unit of {kind.noun} in '{clipped(value)}'"
        raise ColltoolError(what, fix=_unit_hint(unit, kind, match[1]))
    factor = kind.factors.get(unit, 1.0)
    si_number = number / factor if kind.divides else number * factor
    if not math.isfinite(si_number):
        what = f"'{clipped(value)}' is too large for a {kind.noun}"
        raise ColltoolError(what, fix=f"write {kind.example}")
    return si_number


def _from_number(value: SupportsFloat, kind: _QuantityKind) -> float:
    """The finite float of a real number; an error for anything else."""
    fix = f"write {kind.example}"
    try:
        number = float(value) if _is_real(value) else None
    except (TypeError, ValueError):
        number = None
    except OverflowError as error:
        raise ColltoolError(f"{quote(value)} is too large for a {kind.noun}", fix=fix) from error
    if number is None:
        raise ColltoolError(f"expected a {kind.noun}, got {_text_of_value(value)}", fix=fix)
    if not math.isfinite(number):
        raise ColltoolError(f"a {kind.noun} must be finite, got {number}", fix=fix)
    return number


def _is_real(value: object) -> bool:
    """False for booleans, which are never meant as 1, and for complex numbers; numpy's too. True for
    whatever may be a number, as :class:`decimal.Decimal`."""
    # numpy's kinds: b is a boolean, c a complex number
    if getattr(getattr(value, "dtype", None), "kind", "") in ("b", "c"):
        return False
    if isinstance(value, bool):
        return False
    # numbers.Real is a part of numbers.Complex; Decimal is neither
    return isinstance(value, numbers.Real) or not isinstance(value, numbers.Complex)


def _text_of_value(value: object) -> str:
    """A value as in :func:`quote`, but text without quotes, and any number by its digits unless there
    are too many."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    # quote() counts the digits of an integer before it writes them
    if isinstance(value, str | numbers.Complex) and not is_integer:
        return clipped(str(value))
    return quote(value)


def _unit_hint(unit: str, kind: _QuantityKind, number: str) -> str:
    """What to write for a ``unit`` that the kind lacks, by the one that was probably meant: bytes for
    bits, a rate for a size, another case. ``number``: the text before the unit."""
    if kind is _SIZE and f"{unit[:-1]}B" in kind.factors and unit.endswith("b"):
        return f"a size is in bytes, not bits: write {number}{unit[:-1]}B if that is what you mean"
    if kind is _RATE and f"{unit}/s" in kind.factors:
        return f"a rate is per second: write {number}{unit}/s"
    in_other_case = [number + known for known in kind.factors if known.lower() == unit.lower()]
    if in_other_case:
        return f"did you mean {' or '.join(in_other_case)}?"
    return f"write {kind.example}"
