"""Pictures of sweeps, comparisons and sensitivities: drawn, the same twice, and refused where there
is nothing to draw."""

from __future__ import annotations

import re
from typing import Any

import pytest

import colltool
from colltool.base.errors import ColltoolError
from colltool.extras.pictures.plot import picture

pytestmark = pytest.mark.usefixtures("datasheet")

pytest.importorskip("matplotlib")

CHOICES: dict[str, Any] = {
    "sweep": lambda: colltool.sweep(
        "dgx-h100", "ar", ranks=[8, 64], sizes=["1MB", "1GB"], vary="ib.bandwidth=25GB/s,50GB/s"
    ),
    "compare": lambda: colltool.compare(
        ["mi300x", "dgx-h100"], "ar", ranks=[8, 64], sizes=["1MB", "1GB"]
    ),
    "sensitivity": lambda: colltool.sensitivity(
        "dgx-h100", "ar", size="32MB", ranks=64, samples=200
    ),
}


@pytest.mark.alike(1)
@pytest.mark.parametrize("name", CHOICES)
def test_the_same_choice_is_the_same_picture(name: str) -> None:
    first, again = (picture(CHOICES[name](), ".svg") for _ in range(2))
    assert first == again
    assert picture(CHOICES[name](), ".png").startswith(b"\x89PNG")


def test_what_the_pictures_say() -> None:
    texts = {name: picture(make(), ".svg").decode() for name, make in CHOICES.items()}
    assert all(
        word in texts["sweep"]
        for word in ("ring", "1 GB", "ib.bandwidth 25GB/s", "fastest: all-reduce on dgx-h100")
    )
    assert all(
        word in texts["compare"] for word in ("dgx-h100", "mi300x", "all-reduce, 64 ranks", "busbw")
    )
    assert all(word in texts["sensitivity"] for word in ("ib.eta.beta", "wins", "percentile"))
    assert not re.search("nan|inf<", texts["compare"])


def test_one_value_on_every_axis_is_no_map() -> None:
    with pytest.raises(ColltoolError, match="makes no map"):
        picture(colltool.sweep("dgx-h100", "ar", ranks=8, sizes=["1MB"]), ".png")
