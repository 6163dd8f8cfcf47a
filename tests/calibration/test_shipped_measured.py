"""The shipped fabrics that were fitted: each is as far from the published times as its file says."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean

import pytest

from colltool.diagnosis.validate import validate
from colltool.fabric.load import load_fabric, shipped_fabrics, shipped_folder
from colltool.measurements.read import read_logs

DATA = Path(__file__).parent.parent / "data"
PUBLISHED = {"dgx-h100-measured": "h100_nccl_2_29_2.csv", "mi300x-measured": "mi300x_rccl.csv"}
CLAIM = re.compile(r"^# (.+): mean ([\d.]+)%, worst ([+-][\d.]+)%", re.MULTILINE)


def claims(name: str) -> dict[str, tuple[float, float, dict[str, float]]]:
    """The mean and worst error of each series as the head of a file has them, and the error of each size that was used."""
    head = (shipped_folder() / f"{name}.yaml").read_text(encoding="utf-8").partition("schema:")[0]
    found = {}
    for claim, block in zip(CLAIM.finditer(head), CLAIM.split(head)[4::4], strict=True):
        listed = re.sub(r"\n#\s+", " ", block.partition("\n#\n")[0].partition("off the curve")[0])
        found[claim[1]] = (
            float(claim[2]),
            float(claim[3]),
            {size: float(e) for size, e in re.findall(r"(\w+B) ([+-][\d.]+)", listed)},
        )
    return found


def test_every_measured_fabric_is_held() -> None:
    assert set(PUBLISHED) == {name for name in shipped_fabrics() if name.endswith("-measured")}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_error_is_what_the_file_says(name: str) -> None:
    said = claims(name)
    series = validate(load_fabric(name), read_logs([DATA / PUBLISHED[name]])).series
    assert len(series) == {"dgx-h100-measured": 4, "mi300x-measured": 1}[name]
    for one in series:
        mean, worst, used = said[one.series.title]
        errors = {point.bytes: 100 * point.relative_error for point in one.points}
        stated = {float(binary(size)): error for size, error in used.items()}
        assert len(stated) >= 0.8 * len(errors)
        for size, error in stated.items():
            assert errors[size] == pytest.approx(error, abs=0.051), (one.series.title, size)
        assert fmean(abs(errors[size]) for size in stated) == pytest.approx(mean, abs=0.051)
        assert max((errors[size] for size in stated), key=abs) == pytest.approx(worst, abs=0.051)


def binary(text: str) -> int:
    """``512B`` or ``64KiB`` in bytes."""
    number, unit = re.fullmatch(r"(\d+)(\w+)", text).groups()  # type: ignore[union-attr]
    return int(number) * {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_measured_range_is_that_of_the_times(name: str) -> None:
    (tier, *_) = load_fabric(name).tiers
    for one in read_logs([DATA / PUBLISHED[name]]).series:
        for protocol in tier.protocols_for(one.primitive).values():
            if protocol.measured is None:
                assert "Not seen on one node" in str(protocol.source)
                continue
            ends = protocol.measured.smallest, protocol.measured.largest
            assert ends == (one.points[0].bytes, one.points[-1].bytes)
