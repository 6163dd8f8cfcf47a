"""Where NICs do not reach the GPUs' memory: no LL128 across nodes, by ``library.gpudirect`` or over
TCP sockets."""

from __future__ import annotations

import pytest
from swept import swept

import colltool
from colltool.base.primitives import AG, AR, Primitive
from colltool.estimate.nccl_hardware import hardware_on
from colltool.fabric.tier_media import has_gpudirect
from colltool.libraries.nccl.model import estimates

# What NCCL 2.28.9 printed on hosts of one H100 over a socket of 10 Gbit/s
# (NCCL_DEBUG_SUBSYS=TUNING): latency in us, GB/s
PRINTED = {
    (4, AR, "tree", "ll"): (26.8, 0.1),
    (4, AR, "ring", "ll"): (36.6, 0.4),
    (4, AR, "ring", "simple"): (92.4, 0.8),
    (4, AG, "ring", "ll"): (21.6, 0.8),
    (4, AG, "ring", "simple"): (50.4, 1.6),
    (16, AG, "ring", "ll"): (81.6, 0.6),
    (16, AG, "ring", "simple"): (218.4, 1.3),
    (16, AR, "ring", "ll"): (156.6, 0.3),
    (16, AR, "ring", "simple"): (428.4, 0.6),
}


@swept(("key", "printed"), PRINTED.items())
def test_over_sockets_the_model_is_what_nccl_prints(
    key: tuple[int, Primitive, str, str], printed: tuple[float, float]
) -> None:
    nodes, primitive, algorithm, protocol = key
    on = hardware_on(colltool.load_fabric("sockets", ["tcp.bandwidth=1.25GB/s"]), nodes)
    (found,) = (
        one
        for one in estimates(on, primitive, 4)
        if (one.algorithm, one.protocol) == (algorithm, protocol)
    )
    assert found.latency_s == pytest.approx(printed[0] * 1e-6, rel=0.002)
    # a tree's bandwidth is corrected by size, which the printed table is not
    if algorithm == "ring":
        assert found.bandwidth_Bps == pytest.approx(printed[1] * 1e9, abs=0.05e9)


@swept(
    "fabric",
    [
        ("sockets", []),
        ("dgx-h100", ["library.gpudirect=false"]),
        ("dgx-h100", ["ib.medium=socket"]),
    ],
)
def test_ll128_runs_inside_a_node_alone(fabric: tuple[str, list[str]]) -> None:
    loaded = colltool.load_fabric(*fabric)
    assert not has_gpudirect(loaded)
    ways = estimates(hardware_on(loaded, 16), AR, 2**20)
    assert all(one.seconds is None for one in ways if one.protocol == "ll128")
    outer = loaded.tiers[-1]
    assert outer.library is not None
    assert "LL128" not in outer.protocols_for(AR)


def test_one_node_needs_no_gpudirect() -> None:
    with_it, without = (
        colltool.load_fabric("dgx-h100", [f"library.gpudirect={flag}"])
        for flag in ("true", "false")
    )
    prices = [
        colltool.price(fabric, "all_gather", size="16MiB", ranks=8).best.total_s
        for fabric in (with_it, without)
    ]
    assert prices[0] == prices[1]


def test_a_file_that_says_so_keeps_gpudirect_over_sockets() -> None:
    assert has_gpudirect(colltool.load_fabric("sockets", ["library.gpudirect=true"]))
    assert has_gpudirect(colltool.load_fabric("dgx-h100"))


def rate_GBps(name: str, *overrides: str) -> float:
    """What a NIC carries of a large all-gather over two nodes."""
    fabric = colltool.load_fabric(name, list(overrides))
    found = colltool.price(
        fabric, "all_gather", size="8GiB", ranks=16, algorithms="multi-rail-ring"
    )
    return 2**33 * 15 / 16 / float(found.best.total_s) / 8e9


def test_through_the_hosts_memory_a_fast_nic_has_half_a_slot() -> None:
    assert rate_GBps("dgx-h100") > 40
    assert rate_GBps("dgx-h100", "library.gpudirect=false") == pytest.approx(20, rel=0.05)
    # a NIC of 50 Gbit/s is no faster than that
    assert rate_GBps("aws-p4d", "library.gpudirect=false") == pytest.approx(
        rate_GBps("aws-p4d"), rel=0.01
    )
