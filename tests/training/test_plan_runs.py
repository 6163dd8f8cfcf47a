"""Compression, whole runs and energy through ``plan``: the documents' worked numbers (P9 to P12),
and what does not count."""

from __future__ import annotations

from typing import Any

import pytest
from planning import adds_up, dense, part, shown, star, two_tiers
from swept import swept

import colltool
from colltool.training.compression import GradientCompression
from colltool.training.plan import Plan

RTOL = 0.02  # the documents' own rounding
SCHEMES = {
    "fp16": ({"scheme": "fp16"}, 2.0),
    "int8": ({"scheme": "int8"}, 4.0),
    "int8 by 128": ({"scheme": "int8", "block": 128}, 3.8788),
    "int8 by 64": ({"scheme": "int8", "block": 64}, 3.7647),
    "1 bit": ({"scheme": "1bit"}, 32.0),
    "a thousandth": ({"scheme": "topk", "keep": 0.001}, 500.0),
    "a hundredth": ({"scheme": "topk", "keep": 0.01}, 50.0),
    "1-bit Adam, 15%": ({"scheme": "1bit-adam", "warmup": 0.15}, 5.66),
    "as it was realised": ({"scheme": "topk", "keep": 0.01, "ratio": 8}, 8.0),
    "1-bit Adam, 20%": ({"scheme": "1bit-adam", "warmup": 0.20}, 4.44),
}


def known(
    compute: str, collective: str, compression: dict[str, Any] | None = None, **keys: Any
) -> Plan:
    """A step of known times: gradients of 4 bytes after all of compute."""
    job: dict[str, Any] = {
        "layout": {"dp": 8},
        "compute": {"forward": "0us", "backward": compute},
        "overlap": {"dp": False},
        "calls": [{"primitive": "ar", "group": "dp", "size": "1GB", "time": collective}],
    } | keys
    return colltool.plan(
        job | ({"compression": compression} if compression else {}), star(8, "1us", "100GB/s")
    )


def small(found: Plan) -> GradientCompression:
    assert found.compression is not None
    return found.compression


@swept("name", SCHEMES)
def test_ratio_of_a_scheme(name: str) -> None:
    """P9, and the time that it divides."""
    given, ratio = SCHEMES[name]
    found = known("300ms", "200ms", given)
    assert small(found).ratio == pytest.approx(ratio, rel=0.002)
    assert small(found).times_fewer == small(found).ratio
    assert part(found, "dp").exposed_s == pytest.approx(0.2 / small(found).ratio)


@pytest.mark.parametrize(
    ("t", "after", "pays", "largest"),
    [("40ms", 7e-3, True, 35e-3), ("1ms", 2.125e-3, False, 0.875e-3)],
)
def test_compression_pays(t: str, after: float, pays: bool, largest: float) -> None:
    """P10: a ratio of 8 and 2 ms of overhead: 40 ms become 7, 5.7 times less; 1 ms becomes
    2.125."""
    found = known("0us", t, {"scheme": "topk", "keep": 1 / 16, "overhead": "2ms"})
    assert small(found).ratio == 8
    assert found.step_s == pytest.approx(after)
    assert small(found).each_s == pytest.approx(after)
    assert small(found).pays is pays
    assert small(found).largest_overhead_s == pytest.approx(largest)
    if pays:
        assert small(found).plain_each_s / small(found).each_s == pytest.approx(5.7, rel=RTOL)
    assert f"an overhead of 2 ms {'pays' if pays else 'does not pay'} (it pays below" in shown(
        found
    )


@pytest.mark.parametrize(
    ("t", "before", "after", "change", "break_even"),
    [("200ms", 50000, 38500, -0.23, 0.4286), ("30ms", 33000, 33825, 0.025, 0.0732)],
)
def test_time_to_accuracy(
    t: str, before: float, after: float, change: float, break_even: float
) -> None:
    """P11: 100,000 steps of 300 ms and t, a ratio of 4, 10% more steps."""
    found = known("300ms", t, {"scheme": "int8", "extra_steps": "10%"}, steps=100000)
    assert found.run_s == pytest.approx(after)
    assert small(found).plain_run_s(100000) == pytest.approx(before)
    assert found.run_s / small(found).plain_run_s(100000) - 1 == pytest.approx(change, abs=1e-3)
    assert small(found).break_even_extra_steps == pytest.approx(break_even, abs=5e-5)
    assert small(found).gains is (change < 0)
    at_it = known("300ms", t, {"scheme": "int8", "extra_steps": break_even}, steps=100000)
    assert at_it.run_s == pytest.approx(before, rel=1e-4)


def test_a_run_without_compression() -> None:
    found = known("300ms", "200ms", steps=100000)
    assert found.run_s == pytest.approx(50000)
    assert found.compression is None
    assert "100,000 steps take 13.89 h\n" in shown(found)
    assert known("300ms", "200ms").run_s is None


def test_gathered_weights_are_no_gradients() -> None:
    """Under ZeRO-1 compression halves the scatter of gradients, and the gather of weights stays."""
    job = dense(layout={"dp": 64}, overlap={"dp": False})
    plain = colltool.plan(job, two_tiers(), 64)
    found = colltool.plan(job | {"compression": {"scheme": "fp16"}}, two_tiers(), 64)
    times = [
        {
            str(one.sent.call.primitive): one.sent.cost.bandwidth_s
            for one in each.collectives
            if one.sent.call.calls > 1
        }
        for each in (plain, found)
    ]
    assert times[1]["reduce_scatter"] == pytest.approx(times[0]["reduce_scatter"] / 2)
    assert times[1]["all_gather"] == times[0]["all_gather"]
    assert found.wires[0].busy_s < plain.wires[0].busy_s, "the wires carry less"
    adds_up(found)


def test_gradients_of_two_bytes_shrink_less() -> None:
    job = dense(
        layout={"dp": 64}, shard={"mode": "ddp", "grad_bytes": 2}, compression={"scheme": "int8"}
    )
    assert small(colltool.plan(job, two_tiers(), 64)).times_fewer == 2
    same = dense(
        layout={"dp": 64}, shard={"mode": "ddp", "grad_bytes": 2}, compression={"scheme": "fp16"}
    )
    assert small(colltool.plan(same, two_tiers(), 64)).times_fewer == 1, "16 bits already"


def powered(fabric: dict[str, Any], **energies: str) -> dict[str, Any]:
    tiers = [
        tier | ({"energy": energies[tier["name"]]} if tier["name"] in energies else {})
        for tier in fabric["tiers"]
    ]
    return fabric | {"tiers": tiers}


def test_energy_of_an_all_reduce_over_ten_thousand() -> None:
    """P12: 10,000 ranks, 1 GB twice over the wires at 30 pJ a bit: 4.8 kJ."""
    fabric = powered(
        star(10000, "1us", "50GB/s", algorithms={"all_reduce": ["ring"]}), switch="30pJ/bit"
    )
    job = {
        "layout": {"dp": 10000},
        "energy": True,
        "calls": [{"primitive": "ar", "group": "dp", "size": "1GB"}],
    }
    found = colltool.plan(job, fabric)
    assert found.energy_J == pytest.approx(4800, rel=1e-3)
    assert "communication takes 4.8 kJ per step" in shown(found)
    assert colltool.plan(job | {"energy": False}, fabric).energy_J is None


def test_energy_is_that_of_every_group_and_call() -> None:
    """TP 8 on every node: each of 64 ranks sends 7/8 of a vector both ways, 4 + 4 times a layer and
    micro-batch and again."""
    fabric = powered(two_tiers(), nvlink="5pJ/bit", ib="30pJ/bit")
    found = colltool.plan(dense(energy=True), fabric, 64)
    tp = [one for one in found.collectives if one.sent.call.dimension == "tp"]
    moved = sum(one.sent.call.calls * one.sent.call.bytes * 7 / 8 for one in tp)
    assert sum(one.energy_J or 0.0 for one in tp) == pytest.approx(64 * moved * 8 * 5e-12)
    borders = [one for one in found.collectives if one.sent.call.dimension == "pp"]
    for one in borders:  # of two stages one has somebody to send to
        assert one.energy_J == pytest.approx(
            32 * one.sent.call.calls * one.sent.call.bytes * 8 * 30e-12
        )
    assert found.energy_J == pytest.approx(sum(one.energy_J or 0.0 for one in found.collectives))


def test_energy_of_fewer_bytes_and_of_a_hot_expert() -> None:
    fabric = powered(two_tiers(), nvlink="5pJ/bit", ib="30pJ/bit")
    job = dense(layout={"dp": 64}, shard={"mode": "ddp"}, energy=True)
    plain = colltool.plan(job, fabric, 64)
    half = colltool.plan(job | {"compression": {"scheme": "fp16"}}, fabric, 64)
    spent = [
        sum(one.energy_J or 0.0 for one in each.collectives if one.sent.call.dimension == "dp")
        for each in (plain, half)
    ]
    assert spent[1] == pytest.approx(spent[0] / 2)
    shape = {"layers": 4, "hidden": 1024, "heads": 16, "ffn": 4096, "vocab": 32000}
    experts = dense(
        layout={"ep": 8},
        energy=True,
        model=shape | {"moe": {"experts": 8, "top_k": 2, "ffn": 4096}},
    )
    hot = experts | {
        "model": shape | {"moe": {"experts": 8, "top_k": 2, "ffn": 4096, "imbalance": 2}}
    }
    each = [colltool.plan(job, fabric, 64) for job in (experts, hot)]
    assert part(each[1], "ep").exposed_s > 1.5 * part(each[0], "ep").exposed_s
    tokens = [
        sum(one.energy_J or 0.0 for one in found.collectives if one.sent.call.dimension == "ep")
        for found in each
    ]
    assert tokens[0] == pytest.approx(tokens[1]), "somebody else sends less"


def test_a_tier_that_says_nothing_of_its_energy_is_named() -> None:
    found = colltool.plan(dense(energy=True), powered(two_tiers(), ib="30pJ/bit"), 64)
    assert "nvlink has no energy figure and counts as 0; set nvlink.energy=30pJ/bit" in shown(found)
    assert found.energy_J is not None
    silent = colltool.plan(dense(energy=True), two_tiers(), 64)
    assert silent.energy_J is None
    assert "ib has no energy figure" in shown(silent)
