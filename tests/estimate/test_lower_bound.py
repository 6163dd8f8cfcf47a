"""Where a fabric of real hardware has no launch overhead, a price says below which size it is a
lower bound."""

from __future__ import annotations

import numpy as np
import pytest
from small import fabric, star
from swept import swept

import colltool
from colltool.base.formatting import parse_size
from colltool.fabric.model import Fabric

WORDS = "the fabric gives no launch overhead"


def said(where: Fabric | str, size: float, **more: object) -> list[str]:
    one = colltool.price(where, "ar", size=size, **more)
    return [note for row in one.results for note in row.notes if WORDS in note]


def ring_alone(**keys: object) -> Fabric:
    return fabric(star(8, 0.5, 100.0), **keys)


def reaches_10_us() -> float:
    """t = 14 α + 14/8 M/BW of a ring on 8 = 10 us."""
    return (10e-6 - 14 * 0.5e-6) / 1.75 * 100e9


def test_the_size_is_the_one_at_which_a_launch_of_10_us_is_half() -> None:
    (note,) = said(ring_alone(), 1e3, algorithms="ring")
    stated = parse_size(note.split("below ")[1].split(" this is")[0].replace(" ", ""))
    assert stated == pytest.approx(reaches_10_us(), rel=1e-3)
    price = colltool.price(ring_alone(), "ar", size=reaches_10_us(), algorithms="ring")
    assert float(price.best.total_s) == pytest.approx(10e-6)


def test_above_that_size_nothing_is_said() -> None:
    assert said(ring_alone(), reaches_10_us() * 0.999, algorithms="ring")
    assert not said(ring_alone(), reaches_10_us() * 1.001, algorithms="ring")


def test_the_fastest_row_carries_it_and_it_is_about_the_fastest() -> None:
    one = colltool.price(ring_alone(), "ar", size=1e3)
    noted = [row for row in one.results if any(WORDS in note for note in row.notes)]
    assert noted == [one.best]
    sizes = np.geomspace(1e3, 1e8, 400)
    rows = colltool.price(ring_alone(), "ar", size=sizes).leading
    fastest = np.min([row.total_s for row in rows], axis=0)
    crossing = float(np.interp(10e-6, fastest, sizes))
    (note,) = said(ring_alone(), 1e3)
    assert parse_size(
        note.split("below ")[1].split(" this is")[0].replace(" ", "")
    ) == pytest.approx(crossing, rel=0.02)


@swept(
    "keys",
    [{"launch_overhead": "5us"}, {"launch_overhead": "0us"}, {"hypothetical": True}],
)
def test_a_stated_launch_and_a_hypothetical_fabric_have_no_note(keys: dict[str, object]) -> None:
    assert not said(ring_alone(**keys), 1e3)


def test_a_launch_of_a_protocol_is_one() -> None:
    tier = star(8, 0.5, 100.0) | {"protocols": [{"name": "LL", "launch_overhead": "5us"}]}
    assert not said(fabric(tier), 1e3)


def test_what_takes_longer_than_10_us_at_any_size_is_no_lower_bound_to_speak_of() -> None:
    assert not said(fabric(star(8, 5.0, 100.0)), 8.0, algorithms="ring")


def test_arrays_of_sizes_carry_it_on_every_row() -> None:
    rows = colltool.price(ring_alone(), "ar", size=np.array([1e3, 1e9])).results
    assert all(any(WORDS in note for note in row.notes) for row in rows)


def test_the_shipped_ones() -> None:
    real = {"tpu-v4-512", "tpu-v4-twisted", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu7x"}
    real |= {
        "atlas-950",
        "cloudmatrix384",
        "dgx-1v",
        "frontier",
        "juwels-booster",
        "rubin-ultra-nvl576",
        "tomahawk-ultra",
        "ub-mesh",
    }
    real |= {"trn2-ultraserver", "trn3-ultraserver", "helios-mi455x"}
    real |= {"tpu-8t", "tpu-8i", "maia-200"}
    noted = {
        name for name in colltool.list_fabrics() if name != "dgx-spark" and said(name, 8.0, ranks=4)
    }
    assert noted == real
