"""Protocols are named by NCCL's flip sizes and the fitted rates, never by their place; what cannot
be told has no name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from generated import fit, only
from handmade import by_steps, series
from swept import swept

from colltool.base.primitives import A2A, AG, AR, BC, RS, Primitive
from colltool.calibration.calibrate import Calibration
from colltool.diagnosis.validate import validate
from colltool.estimate.nccl_hardware import hardware_on
from colltool.estimate.price import price
from colltool.fabric.load import fabric_data, load_fabric
from colltool.fabric.model import Fabric
from colltool.libraries.nccl.model import estimates, switch_points
from colltool.libraries.nccl.names import PROTOCOL_NAMES, protocol_of
from colltool.logs.series import Measurements, Series

pytestmark = pytest.mark.usefixtures("datasheet")

ALL, LARGE = by_steps(1024, 2**32, 2), by_steps(2**25, 2**33, 2)
ANY = tuple(PROTOCOL_NAMES)


def by_nccl(
    primitive: Primitive,
    ranks: int,
    size: float,
    protocols: Sequence[str] = ANY,
    algorithm: str = "",
) -> float:
    """What NCCL's model takes a call on a DGX H100 to cost, some protocols or algorithms switched
    off."""
    found = estimates(hardware_on(load_fabric("dgx-h100"), ranks), primitive, size)
    return min(
        float(e.seconds)
        for e in found
        if e.seconds and e.protocol in protocols and algorithm in ("", e.algorithm)
    )


def modelled(
    primitive: Primitive = AG,
    ranks: int = 8,
    sizes: Sequence[float] = ALL,
    protocols: Sequence[str] = ANY,
    slower: Callable[[float], float] = lambda _: 1.0,
    **more: Any,
) -> Series:
    """A series as NCCL's model has it."""
    algorithm = more.pop("algorithm", "")
    return series(
        lambda size: by_nccl(primitive, ranks, size, protocols, algorithm) * slower(size),
        sizes,
        ranks,
        primitive,
        **more,
    )


def on_h100(*measured: Series, **wanted: Any) -> Calibration:
    return fit(fabric_data("dgx-h100", []), *measured, **wanted)


def names(found: Calibration) -> list[str]:
    return [one.name for one in found.series[0].protocols]


@cache
def bare() -> Fabric:
    return load_fabric("dgx-h100")


@pytest.mark.parametrize("primitive", [AG, RS])
@pytest.mark.parametrize("ranks", [4, 8])
def test_at_each_size_the_price_names_what_nccl_runs(primitive: Primitive, ranks: int) -> None:
    one = only(on_h100(modelled(primitive, ranks)))
    turns = [flip.from_bytes for flip in switch_points(hardware_on(bare(), ranks), primitive)]
    for residual in one.residuals:
        if all(not 0.5 < residual.bytes / turn < 2 for turn in turns):
            flip = [
                f
                for f in switch_points(hardware_on(bare(), ranks), primitive)
                if f.from_bytes <= residual.bytes
            ][-1]
            assert residual.protocol == PROTOCOL_NAMES[flip.protocol], residual.bytes
    assert one.mape < 0.02
    assert one.confidence == "as NCCL 2.30's own model picks"


@pytest.mark.parametrize(
    ("sizes", "protocols", "found"),
    [
        (ALL, ANY, ["LL", "LL128", "Simple"]),
        # the second of two is no LL128, nor the first of three when LL is off
        (ALL, ("ll", "simple"), ["LL", "Simple"]),
        # too fast for LL, too small for others
        (ALL, ("ll128", "simple"), ["segment-1", "Simple"]),
        (LARGE, ANY, ["Simple"]),
        (by_steps(1024, 2**20, 2), ANY, ["LL"]),
        (by_steps(2**20, 2**31, 2), ("ll", "simple"), ["LL", "Simple"]),
    ],
)
def test_a_protocol_is_named_by_what_it_is(
    sizes: list[float], protocols: Sequence[str], found: list[str]
) -> None:
    assert names(on_h100(modelled(sizes=sizes, protocols=protocols, algorithm="ring"))) == found


def test_nvls_runs_under_simple() -> None:
    found = on_h100(modelled(AR))
    assert found.series[0].algorithms == ("ring", "in-network")
    assert names(found) == ["LL", "Simple"]
    switch: Any = found.fabric.tiers[0].in_network
    assert switch.protocols == ("Simple",)


def test_several_segments_of_one_protocol_share_its_name() -> None:
    """Small messages on fewer channels: NCCL's LL of small sizes has a line of its own, and is no
    protocol more."""
    found = on_h100(
        modelled(
            sizes=ALL, protocols=("ll", "simple"), slower=lambda size: 1.0 if size > 2**15 else 0.6
        )
    )
    assert names(found) == ["short-LL", "LL", "Simple"]
    assert "all-gather, short-LL: LL where messages are short, which takes less time" in found.notes


def test_a_rate_that_speaks_against_the_size_leaves_the_name_open() -> None:
    found = on_h100(modelled(sizes=LARGE, slower=lambda _: 6.0))
    assert names(found) == ["segment-1"]
    assert (
        "all-gather, segment-1: sizes and rates do not show which of NCCL's protocols this is"
        in found.notes
    )


@pytest.mark.parametrize("library", ["MPI", "RCCL"])
def test_another_library_has_none_of_nccls_names(library: str) -> None:
    found = on_h100(modelled(library=library))
    assert all(name.startswith("segment-") for name in names(found))
    assert any(
        note.startswith("segments are parts of a fit, small sizes first") for note in found.notes
    )


@swept("facts", [None, "nccl", {"name": "nccl", "cpu": "intel"}, {"name": "rccl", "gpu": "hopper"}])
def test_without_facts_nothing_is_named(facts: Any) -> None:
    data = {key: value for key, value in fabric_data("dgx-h100", []).items() if key != "library"}
    found = fit(data | ({"library": facts} if facts else {}), modelled())
    assert names(found) == ["segment-1", "segment-2", "segment-3"]
    assert "picks" not in found.series[0].confidence


def test_the_data_win_over_the_picks() -> None:
    """Rings alone ran, as with NCCL_ALGO=ring: NVLS would be 32% faster."""
    found = on_h100(*(modelled(AR, n, algorithm="ring") for n in (4, 8)))
    one = found.series[-1]
    assert one.algorithms == ("ring",)
    said = (
        "not as NCCL 2.30's own model picks, ring + in-network: another version, other settings, or"
        " CollNet"
    )
    assert said in one.confidence
    assert names(found) == ["LL", "LL128", "Simple"]  # of the rings that ran


def test_nothing_is_told_of_a_collective_that_was_not_measured() -> None:
    found = on_h100(modelled(AG, sizes=LARGE))
    tier = found.fabric.tiers[0]
    assert {primitive for one in tier.protocols or () for primitive in one.primitives or ()} == {AG}
    assert set(tier.algorithms or {}) == {AG}
    assert not tier.protocols_for(BC)
    for primitive in (BC, AR, RS, A2A):
        got, own = (price(one, primitive, 1e6, 8).best for one in (found.fabric, bare()))
        assert (got.total_s, got.protocol) == (own.total_s, "")
        assert any("was not measured on nvlink" in note for note in got.notes)


@swept(
    ("size", "ranks", "said"),
    [
        (1024.0, 8, ["below the smallest measured size of 32 MiB: extrapolated"]),
        (2.0**34, 8, ["above the largest measured size of 8 GiB: extrapolated"]),
        (2.0**26, 8, []),
        (2.0**26, 4, []),
        (2.0**26, 2, ["measured on 4, 8 ranks, not on 2: extrapolated"]),
        (2.0**26, 6, ["measured on 4, 8 ranks, not on 6: interpolated"]),
        (
            1024.0,
            2,
            [
                "below the smallest measured size of 32 MiB: extrapolated",
                "measured on 4, 8 ranks, not on 2: extrapolated",
            ],
        ),
    ],
)
def test_a_price_outside_what_was_measured_says_so(
    size: float, ranks: int, said: list[str]
) -> None:
    found = on_h100(*(modelled(AG, n, LARGE) for n in (4, 8)))
    notes = price(found.fabric, AG, size, ranks).best.notes
    assert [note for note in notes if "measured" in note] == said


def test_old_names_still_load_and_price() -> None:
    """What calibrate wrote before it knew names: three protocols by their place, for everything."""
    old = [
        {
            "name": name,
            "launch_overhead": f"{launch}us",
            "alpha": "0.8us",
            "bandwidth": f"{rate}GB/s",
        }
        for name, launch, rate in (
            ("low-latency", 5, 40),
            ("mid", 9, 180),
            ("high-bandwidth", 20, 360),
        )
    ]
    data = fabric_data("dgx-h100", []) | {"schema": "colltool.fabric/1"}
    data["tiers"][0]["protocols"] = old
    made = [modelled(AG, n) for n in (4, 8)]
    assert [price(_read(data), AG, size, 8).best.protocol for size in (1e3, 2e6, 1e9)] == [
        "low-latency",
        "mid",
        "high-bandwidth",
    ]
    again = fit(data, *made)  # and can be calibrated again
    assert set(names(again)) <= {"LL", "LL128", "Simple"}
    assert validate(again.fabric, Measurements(tuple(made), ())).mape < 0.02


def _read(data: dict[str, Any]) -> Fabric:
    from colltool.fabric.load import read_fabric
    from colltool.fabric.yaml_writer import fabric_text

    return read_fabric(fabric_text(data), "old.yaml")


@swept(
    ("name", "protocol"),
    [
        ("LL", "ll"),
        ("short-LL", "ll"),
        ("shorter-LL128", "ll128"),
        ("simple", "simple"),
        ("segment-1", ""),
        ("low-latency", ""),
    ],
)
def test_a_name_says_which_protocol_or_nothing(name: str, protocol: str) -> None:
    assert protocol_of(name) == protocol
