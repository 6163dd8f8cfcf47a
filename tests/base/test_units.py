"""Sizes, times and rates: strict text to SI, and back."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.formatting import (
    format_bit_energy,
    format_bytes,
    format_energy,
    format_length,
    format_rate,
    format_size,
    format_time,
    parse_count,
    parse_energy,
    parse_length,
    parse_rate,
    parse_size,
    parse_time,
)

BITS = "a size is in bytes, not bits: write 1B if that is what you mean"


@swept(
    ("text", "size"),
    [
        ("16MB", 16e6),
        ("16MiB", 2**24),
        ("4096", 4096),
        ("64KB", 64e3),
        ("64kB", 64e3),
        ("1 GB", 1e9),
        ("1.5GB", 1.5e9),
        (" 8B ", 8),
        ("1e6", 1e6),
        ("1e6B", 1e6),
        ("1TiB", 2**40),
        ("1EB", 1e18),
        ("0.5EiB", 2.0**59),
        ("1e15", 1e15),
        (10**18, 1e18),
        (16, 16),
        (np.int64(16), 16),
        (np.float32(16), 16),
    ],
)
def test_sizes(text: str, size: float) -> None:
    assert parse_size(text) == size
    assert type(parse_size(text)) is float


@swept(
    ("text", "seconds"),
    [
        ("0.5us", 5e-7),
        ("500ns", 5e-7),
        ("2ms", 2e-3),
        ("1e-6s", 1e-6),
        ("0us", 0),
        ("1\u00b5s", 1e-6),
        ("1\u03bcs", 1e-6),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert parse_time(text) == pytest.approx(seconds)


def test_a_number_is_seconds_in_python() -> None:
    assert parse_time(np.float64(1e-6)) == 1e-6


@swept(
    ("text", "rate"),
    [
        ("900GB/s", 9e11),
        ("900GBps", 9e11),
        ("400Gbps", 5e10),
        ("400Gb/s", 5e10),
        ("8b/s", 1),
        ("1GiB/s", 2**30),
        ("8Kibps", 1024),
        ("50e9", 5e10),
        (50e9, 5e10),
    ],
)
def test_rates(text: str, rate: float) -> None:
    assert parse_rate(text) == rate


@swept(
    ("parse", "text", "words"),
    [
        (parse_size, "1b", "'b' is not a unit of size in '1b'\n  " + BITS),
        (parse_size, "16mB", "'mB' is not a unit of size in '16mB'\n  did you mean 16MB?"),
        (
            parse_size,
            "0",
            "a size of 0 is outside 1 byte .. 1 EB\n  a size is bytes per rank, such as 16MB",
        ),
        (
            parse_rate,
            "900GB",
            "'GB' is not a unit of rate in '900GB'\n  a rate is per second: write 900GB/s",
        ),
        (
            parse_rate,
            "900gbps",
            "'gbps' is not a unit of rate in '900gbps'\n  did you mean 900GBps or 900Gbps?",
        ),
        (
            parse_rate,
            "-1GB/s",
            "a rate cannot be negative, got -1GB/s\n  write it without the sign",
        ),
        (parse_time, "-1us", "a time cannot be negative, got -1us\n  write it without the sign"),
        (parse_time, "1US", "'US' is not a unit of time in '1US'\n  did you mean 1us?"),
        (parse_time, "soon", "'soon' is not a time\n  write 0.5us, 500ns or 2ms"),
        (
            parse_size,
            True,
            "expected a size, got True\n  write 16MB (10^6 bytes) or 16M (2^20, as in nccl-tests)",
        ),
        (
            parse_size,
            None,
            "expected a size, got nothing\n  write 16MB (10^6 bytes) or 16M (2^20, as in nccl-tests)",
        ),
        (
            parse_size,
            math.nan,
            "a size must be finite, got nan\n  write 16MB (10^6 bytes) or 16M (2^20, as in nccl-tests)",
        ),
        (parse_size, "1e18", "'1e18' has no unit\n  a size above 1 PB needs one: write 1EB"),
        (
            parse_size,
            "2EB",
            "a size of 2EB is outside 1 byte .. 1 EB\n  a size is bytes per rank, such as 16MB",
        ),
        (
            parse_size,
            "\u0665",
            "'\u0665' is not a size\n  write 16MB (10^6 bytes) or 16M (2^20, as in nccl-tests)",
        ),
        (
            parse_size,
            1j,
            "expected a size, got 1j\n  write 16MB (10^6 bytes) or 16M (2^20, as in nccl-tests)",
        ),
        (
            parse_size,
            np.complex64(1),
            "expected a size, got (1+0j)\n  write 16MB (10^6 bytes) or 16M (2^20, as in nccl-tests)",
        ),
        (
            parse_size,
            np.True_,
            "expected a size, got a bool\n  write 16MB (10^6 bytes) or 16M (2^20, as in nccl-tests)",
        ),
        (
            parse_size,
            10**400,
            (
                "a number of more than 60 digits is too large for a size\n  write 16MB (10^6 bytes)"
                " or 16M (2^20, as in nccl-tests)"
            ),
        ),
        (
            parse_size,
            object(),
            "expected a size, got an object\n  write 16MB (10^6 bytes) or 16M (2^20, as in nccl-tests)",
        ),
        (
            parse_rate,
            math.inf,
            "a rate must be finite, got inf\n  write 900GB/s (bytes) or 400Gbps (bits)",
        ),
    ],
)
def test_refusals(parse, text, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ColltoolError) as caught:
        parse(text)
    assert str(caught.value) == words


@swept("text", ["0.5", "5", "1e-6"])
def test_a_time_needs_its_unit(text: str) -> None:
    with pytest.raises(ColltoolError, match="has no unit"):
        parse_time(text)


@swept(
    "text",
    [
        "",
        " ",
        "B",
        "1,000B",
        "0x10",
        "nan",
        "inf",
        "1e999B",
        "1 MB/s",
        "1..2",
        "1\nMB",
        "2EB",
        "1EiB",
        "\u0665",
        "9" * 5000,
        "1e18",
    ],
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ColltoolError):
        parse_size(text)


def test_bits_are_not_bytes() -> None:
    assert parse_rate("8Gbps") * 8 == parse_rate("8GBps")


@swept(
    ("size", "text"),
    [
        (16e6, "16MB"),
        (2**24, "16MiB"),
        (1, "1B"),
        (1500, "1.5KB"),
        (1e18, "1EB"),
        (0.999e18, "999PB"),
        (1e9, "1GB"),
    ],
)
def test_format_size(size: float, text: str) -> None:
    assert format_size(float(size)) == text


@swept(
    ("seconds", "text"),
    [
        (5.344e-5, "53.44 us"),
        (0, "0 s"),
        (1e-10, "0.1 ns"),
        (0.99999e-3, "1 ms"),
        (2.5, "2.5 s"),
        (-1e-6, "-1 us"),
    ],
)
def test_format_time(seconds: float, text: str) -> None:
    assert format_time(seconds) == text


def test_format_rates_and_bytes() -> None:
    assert (format_rate(4.5e11), format_bytes(2.0702e9), format_bytes(999)) == (
        "450 GB/s",
        "2.07 GB",
        "999 B",
    )


@given(st.integers(1, 10**18))
def test_whole_sizes_round_trip(size: int) -> None:
    assert parse_size(format_size(float(size))) == float(size)


@given(st.floats(1e-9, 1e3))
def test_times_round_trip_within_four_digits(seconds: float) -> None:
    assert parse_time(format_time(seconds)) == pytest.approx(seconds, rel=5.001e-4)


@given(st.floats(1, 1e17))
def test_rates_round_trip_within_four_digits(rate: float) -> None:
    assert parse_rate(format_rate(rate)) == pytest.approx(rate, rel=5.001e-4)


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_size, parse_time, parse_rate):
        with contextlib.suppress(ColltoolError):
            assert math.isfinite(parse(text))


@swept(("value", "count"), [("8", 8), (" 8 ", 8), (8, 8), (np.int32(8), 8), ("08", 8), ("-3", -3)])
def test_counts(value: str | int, count: int) -> None:
    assert parse_count(value, "ranks", -9, 10) == parse_count(value, "ranks") == count
    assert type(parse_count(value, "ranks", -9, 10)) is int


@swept(
    ("value", "shell", "python"),
    [
        ("0", "expected 2 to 10, got 0\n  write -n 8", "write ranks=8"),
        (11, "expected 2 to 10, got 11\n  write -n 8", "write ranks=8"),
        (-1, "expected 2 to 10, got -1\n  write -n 8", "write ranks=8"),
        pytest.param(
            10**5000,
            "expected 2 to 10, got a number of more than 60 digits\n  write -n 8",
            "",
            id="5000 digits",
        ),
        ("9" * 5000, f"expected 2 to 10, got {'9' * 37}...\n  write -n 8", ""),
        ("\u0665", "'\u0665' is not a whole number\n  write digits: -n 8", "write ranks=8"),
        ("8.0", "'8.0' is not a whole number\n  write digits: -n 8", "write ranks=8"),
        ("+8", "'+8' is not a whole number\n  write digits: -n 8", "write ranks=8"),
        ("1_0", "'1_0' is not a whole number\n  write digits: -n 8", "write ranks=8"),
        (8.0, "expected a whole number, got 8.0\n  write digits: -n 8", "write ranks=8"),
        (True, "expected a whole number, got true\n  write digits: -n 8", "write ranks=8"),
        (np.True_, "expected a whole number, got a bool\n  write digits: -n 8", "write ranks=8"),
        (None, "expected a whole number, got nothing\n  write digits: -n 8", "write ranks=8"),
        ([8], "expected a whole number, got a list\n  write digits: -n 8", "write ranks=8"),
    ],
)
def test_what_is_no_count(value, shell: str, python: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ColltoolError) as caught:
        parse_count(value, "ranks", 2, 10)
    assert caught.value.spelled("shell") == f"--ranks: {shell}"
    assert str(caught.value).startswith("ranks: ")
    assert str(caught.value).endswith(python)


@swept(
    ("text", "flops"),
    [
        ("989TFLOP/s", 989e12),
        ("2.5PFLOP/s", 2.5e15),
        ("312 TFLOPS", 312e12),
        (1e12, 1e12),
        ("1e3GFLOP/s", 1e12),
    ],
)
def test_rates_of_arithmetic(text: str | float, flops: float) -> None:
    from colltool.base.formatting import parse_flops

    assert parse_flops(text) == pytest.approx(flops)


@swept(
    ("text", "says"),
    [
        ("989", "write 989TFLOP/s"),
        ("989TB/s", "not a unit of rate of arithmetic"),
        ("-1TFLOP/s", "cannot be negative"),
        ("fast", "is not a rate"),
    ],
)
def test_what_is_no_rate_of_arithmetic(text: str, says: str) -> None:
    from colltool.base.formatting import parse_flops

    with pytest.raises(ColltoolError) as caught:
        parse_flops(text)
    assert says in str(caught.value)


@swept(("text", "metres"), [("100m", 100), ("2km", 2000), ("30 ft", 9.144), ("50cm", 0.5), (3, 3)])
def test_lengths(text: str, metres: float) -> None:
    assert parse_length(text) == pytest.approx(metres)


@swept(
    ("text", "joule"),
    [("30pJ/bit", 30e-12), ("1nJ/bit", 1e-9), ("500fJ/bit", 5e-13), (1e-12, 1e-12)],
)
def test_energies_of_a_bit(text: str, joule: float) -> None:
    assert parse_energy(text) == pytest.approx(joule)


@swept(
    ("parse", "text", "words"),
    [
        (parse_length, "100", "write 100m or 100km"),
        (parse_energy, "30", "write 30pJ/bit or 30nJ/bit"),
        (parse_energy, "30PJ/bit", "did you mean 30pJ/bit"),
        (parse_length, "-1m", "cannot be negative"),
    ],
)
def test_what_is_no_length_and_no_energy(parse: Any, text: str, words: str) -> None:
    with pytest.raises(ColltoolError) as caught:
        parse(text)
    assert words in str(caught.value)


def test_energies_and_lengths_as_people_read_them() -> None:
    assert [format_energy(number) for number in (4800, 0.3482, 2.5e6, 3e-9, 0)] == [
        "4.8 kJ",
        "348.2 mJ",
        "2.5 MJ",
        "3 nJ",
        "0 J",
    ]
    assert [format_length(number) for number in (100, 1200, 0.5)] == ["100 m", "1.2 km", "0.5 m"]
    assert format_bit_energy(30e-12) == "30 pJ/bit"
