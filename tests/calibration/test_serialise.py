"""A fit in the words of a fabric file: protocols, the primitives that each speaks for, times and
rates as text."""

from __future__ import annotations

import pytest
from handmade import series
from swept import swept

from colltool.base.formatting import parse_rate, parse_size, parse_time
from colltool.base.primitives import AR, BC
from colltool.calibration.old_form import rate_text, time_text
from colltool.calibration.serialise import (
    FittedProtocol,
    format_size,
    protocol_entries,
)
from colltool.fabric.tier_parts import Protocol

SERIES, LARGER = (series(lambda _: 1e-5, sizes) for sizes in ([512.0, 2.0**20], [1024.0, 16e6]))
PLAIN = FittedProtocol("simple", 20e-6, 1.4e-6, 360e9, None, None, {}, ())


def test_an_entry_is_what_the_model_reads() -> None:
    (entry,) = protocol_entries(
        [PLAIN._replace(copy_Bps=500e9)], [AR, BC], [SERIES, LARGER], "here", eta=False
    )
    assert list(entry) == [
        "name",
        "launch_overhead",
        "alpha",
        "bandwidth",
        "local_copy",
        "primitives",
        "measured",
        "source",
    ]
    read = Protocol.model_validate(entry)
    assert (read.launch_overhead, read.alpha, read.bandwidth) == pytest.approx(
        (20e-6, 1.4e-6, 360e9)
    )
    assert (read.local_copy, read.primitives, read.source, read.eta) == (
        500e9,
        (AR, BC),
        "here",
        None,
    )
    assert read.measured is not None
    assert (read.measured.smallest, read.measured.largest, read.measured.ranks) == (512, 16e6, (8,))


@swept(
    ("size", "text"),
    [
        (1.0, "1B"),
        (512.0, "512B"),
        (1024.0, "1KiB"),
        (1025.0, "1.025KB"),
        (16e6, "16MB"),
        (3 * 2.0**29, "1.5GiB"),
        (2.0**59, "512PiB"),
    ],
)
def test_sizes_read_back_exactly(size: float, text: str) -> None:
    assert parse_size(format_size(size)) == size
    assert format_size(size) == text


def test_a_share_of_the_line_rate_stands_for_the_bandwidth() -> None:
    shared, above = protocol_entries(
        [PLAIN._replace(eta_beta=0.80001), PLAIN], [AR], [SERIES], "here", eta=False
    )
    assert shared["eta"] == {"alpha": 1.0, "beta": 0.8}
    assert "bandwidth" not in shared
    assert above["bandwidth"] == "360GB/s"
    assert "eta" not in above


def test_a_tiers_eta_is_undone() -> None:
    (entry,) = protocol_entries([PLAIN], [AR], [SERIES], "here", eta=True)
    assert (entry["bandwidth"], entry["eta"]) == ("360GB/s", {"alpha": 1.0, "beta": 1.0})


@swept("seconds", [0.0, 1e-10, 1.23456e-9, 0.8e-6, 20.05e-6, 3e-3, 0.99])
def test_times_read_back_to_four_digits(seconds: float) -> None:
    assert parse_time(time_text(seconds)) == pytest.approx(seconds, rel=1e-3)


@swept("rate", [1e6, 1.2345e9, 39.987e9, 360e9, 1e15])
def test_rates_read_back_to_five_digits(rate: float) -> None:
    assert parse_rate(rate_text(rate)) == pytest.approx(rate, rel=1e-4)
