"""What libraries add on media of few tables, beside the rows of ``tests/data/measured``."""

from __future__ import annotations

from functools import cache
from statistics import median

import pytest
from measured_rows import Row, rows
from swept import swept

import colltool
from colltool.base.formatting import format_time
from colltool.base.primitives import AR
from colltool.fabric.library_numbers import with_p2p
from colltool.fabric.load import shipped_fabrics
from colltool.fabric.tier_media import media_of, p2p_unknown
from colltool.libraries.numbers import ProtocolNumbers

MIB = 2**20


@cache
def _off(source: str, least: int = 0, most: int = 2**40) -> float:
    """The median of |price / measured - 1| over a source's rows of these sizes."""
    several = [
        row
        for row in rows()
        if row.source.source_id == source and least <= row.bytes <= most and not row.algorithm
    ]
    assert several
    return median(abs(_ratio(row) - 1) for row in several)


@cache
def _ratio(row: Row) -> float:
    fabric = colltool.load_fabric(row.source.fabric, row.source.overrides)
    return _seconds(fabric, row.collective, row.bytes, row.ranks) / row.time_s


def _seconds(fabric: colltool.Fabric, primitive: str, size: float, ranks: int) -> float:
    """The price of what the library runs, by layers 1 to 3."""
    found = colltool.price(fabric, primitive, size=size, ranks=ranks, numbers="library")
    run = found.library.runs if found.library and found.library.runs else found.best
    return float(run.total_s)


# RCCL across nodes


def test_rccl_between_nodes_keeps_to_its_rows() -> None:
    assert _off("mi308x-2n", most=4 * MIB) < 0.05
    assert _off("mi308x-2n", 8 * MIB, 256 * MIB) < 0.15
    assert _off("mi350x-2n") < 0.15
    assert _off("oke-mi300x-2n") < 0.04  # held


def test_what_rccl_takes_beside_its_bytes_is_gone_from_half_a_gibibyte() -> None:
    fabric = colltool.load_fabric("mi300x-cluster")

    def missing(size: float) -> float:
        """Beside the straight line of the bytes from 1 to 2 GiB."""
        at = {
            one: _seconds(fabric, "all_reduce", one, 16) for one in (size, 1024 * MIB, 2048 * MIB)
        }
        line = (at[2048 * MIB] - at[1024 * MIB]) / (1024 * MIB)
        return at[size] - (at[1024 * MIB] - line * (1024 * MIB - size))

    assert missing(512 * MIB) == pytest.approx(0, abs=5e-6)
    assert 50e-6 < missing(8 * MIB) < missing(128 * MIB) < 400e-6


def test_rccl_runs_a_tree_between_nodes_for_small_messages_and_a_ring_for_large_ones() -> None:
    fabric = colltool.load_fabric("mi300x-cluster")
    assert colltool.price(fabric, "all_reduce", size="1KiB", ranks=16).best.spec.endswith(
        "double-binary-tree"
    )
    assert (
        colltool.price(fabric, "all_reduce", size="1GiB", ranks=16).best.spec == "multi-rail-ring"
    )


def test_rccl_sends_to_all_peers_at_once_across_nodes() -> None:
    best = colltool.price("mi300x-cluster", "all_to_all", size="1GiB", ranks=16).best
    assert best.spec == "direct"
    # half of a rank's bytes leave its node by its NIC of 50 GB/s, of which 0.88 are left
    assert float(best.total_s) == pytest.approx(2**30 / 2 / 44e9, rel=0.05)


def test_one_node_is_what_it_was() -> None:
    assert _off("rocm-blog-mi300x") < 0.11


# EFA


def test_efa_keeps_to_its_rows_by_generation() -> None:
    assert _off("aws-p4de") < 0.04
    assert _off("aws-p5-efa") < 0.05
    assert _off("dstack-p6-b200") < 0.05


@swept(
    ("cloud", "alike"),
    [("aws-p4d", "dgx-a100"), ("aws-p5", "dgx-h100"), ("aws-p6-b200", "dgx-b200")],
)
def test_a_small_message_takes_longer_over_efa_than_over_infiniband(cloud: str, alike: str) -> None:
    small = [
        _seconds(colltool.load_fabric(name), "all_reduce", 1024, 16) for name in (cloud, alike)
    ]
    assert small[0] > small[1] + 10e-6


def test_p5en_stands_on_what_p5_measured() -> None:
    prices = [
        _seconds(colltool.load_fabric(name), "all_reduce", 64 * MIB, 32)
        for name in ("aws-p5", "aws-p5en")
    ]
    assert prices[0] == pytest.approx(prices[1], rel=1e-9)


# What NVLSTree takes to fill


def test_what_nvls_trees_take_to_fill_holds_on_machines_that_it_was_not_taken_from() -> None:
    assert _off("nccl-1221") < 0.1  # H100 on RoCE: 20% before
    assert _off("oci-h100-2n") < 0.03  # 13% before
    assert _off("nccl-1244", 16 * MIB, 64 * MIB) < 0.1  # H20: 39% before


def test_racks_of_nvl72_take_what_two_and_twenty_of_them_show() -> None:
    assert _off("oke-gb200-2racks", most=128 * MIB) < 0.05  # 60 to 70% before
    assert _off("coreweave-48") < 0.05
    assert _off("coreweave-20racks") < 0.03  # held
    assert _off("oci-gb300-128") < 0.1  # held: 23% before


@swept(
    ("name", "ranks"),
    [
        (name, 16)
        for name in (
            "mi300x-cluster",
            "mi355x",
            "aws-p4d",
            "aws-p5",
            "aws-p6-b200",
            "dgx-h100",
            "gh200",
        )
    ]
    + [("nvl72", 144), ("nvl72", 1440), ("sockets", 16), ("l40s-pcie", 8)],
)
def test_more_bytes_never_take_less_time_by_one_way(name: str, ranks: int) -> None:
    fabric = colltool.load_fabric(name)
    first = colltool.price(fabric, "all_reduce", size="32MiB", ranks=ranks)
    ways = {row.spec for row in first.results if row.selectable}
    for way in ways:
        found = [
            float(
                colltool.price(
                    fabric,
                    "all_reduce",
                    size=2**power,
                    ranks=ranks,
                    algorithms=way,
                    numbers="library",
                ).best.total_s
            )
            for power in range(10, 34)
        ]
        assert found == sorted(found), way


# TCP sockets


def test_sockets_keep_to_their_rows() -> None:
    large = [
        row
        for row in rows()
        if row.source.source_id == "h100-loopback" and row.role == "fit" and row.bytes >= MIB
    ]
    assert max(abs(_ratio(row) - 1) for row in large) < 0.15


def test_a_faster_line_does_not_make_a_socket_faster_than_its_cpu() -> None:
    def file_of(rate: str) -> dict[str, object]:
        tier = {
            "name": "tcp",
            "topology": "clos",
            "medium": "socket",
            "size": 16,
            "bandwidth": rate,
        }
        levels = [{"name": "leaf", "group": 16, "alpha": "15us"}]
        tier |= {"eta": {"alpha": 1.0, "beta": 0.94}, "levels": levels}
        return {
            "schema": "colltool.fabric/2",
            "name": "mine",
            "device": "h100",
            "tiers": [tier],
            "library": "nccl",
        }

    slow, fast, faster = (
        _seconds(colltool.load_fabric(file_of(rate)), "all_gather", 256 * MIB, 4)
        for rate in ("1.25GB/s", "12.5GB/s", "50GB/s")
    )
    assert slow == pytest.approx(256 * MIB * 3 / 4 / (1.25e9 * 0.94), rel=0.05)
    assert fast == pytest.approx(256 * MIB * 3 / 4 / 2.7e9, rel=0.05)
    assert fast == pytest.approx(faster, rel=0.01)


# Cards in PCIe slots


@pytest.mark.parametrize("source", ["aic-l40s-2.27.3", "aic-rtx-pro-6000-2.29.2"])
def test_cards_in_slots_keep_to_their_rows(source: str) -> None:
    assert _off(source) < 0.04
    assert _off(source, 64 * MIB) < 0.02


def test_what_eight_cards_reach_is_said_with_p2p_and_without() -> None:
    """SGLang 0.5.12 on L40S: busbw 20.8 GB/s at 1 GiB; NCCL 2.27.3 on another box: 1.5."""

    def busbw_GBps(*overrides: str) -> float:
        return (
            1.75
            * 1024
            * MIB
            / _seconds(
                colltool.load_fabric("l40s-pcie", list(overrides)), "all_reduce", 1024 * MIB, 8
            )
            / 1e9
        )

    assert busbw_GBps("library.p2p=true") == pytest.approx(20.8, rel=0.02)
    assert busbw_GBps("library.p2p=false") == pytest.approx(1.5, rel=0.02)
    assert busbw_GBps() == busbw_GBps("library.p2p=false")


def test_an_answer_that_p2p_would_change_says_by_how_much() -> None:
    unknown = colltool.load_fabric("l40s-pcie")
    assert p2p_unknown(unknown)
    first = colltool.price(unknown, "all_reduce", size="256MB", ranks=8).results[0]
    with_it = colltool.price(with_p2p(unknown, True), "all_reduce", size="256MB", ranks=8).best
    assert f"with it {format_time(float(with_it.total_s))}" in first.notes[0]
    for known in (
        colltool.load_fabric("l40s-pcie", ["library.p2p=true"]),
        colltool.load_fabric("rtx-pro-6000-pcie"),
    ):
        assert not p2p_unknown(known)
        assert not any(
            "P2P" in note
            for note in colltool.price(known, "all_reduce", size="1MB", ranks=8).results[0].notes
        )


def test_a_slot_without_nvlink_is_the_only_thing_that_p2p_is_asked_of() -> None:
    asked = [name for name in shipped_fabrics() if p2p_unknown(colltool.load_fabric(name))]
    assert asked == ["a100-pcie", "l40s-pcie"]


def test_a_share_between_two_rank_counts_lies_between_them() -> None:
    row = ProtocolNumbers("Simple", by_ranks=((2, 0.8), (8, 0.2)))
    assert [row.share_on(count) for count in (1, 2, 8, 16)] == [0.8, 0.8, 0.2, 0.2]
    assert row.share_on(4) == pytest.approx(0.4)


@swept(
    ("rate", "medium"),
    [("16GB/s", "pcie3"), ("32GB/s", "pcie4"), ("64GB/s", "pcie5"), ("100GB/s", "pcie6")],
)
def test_the_rate_of_a_slot_says_its_generation(rate: str, medium: str) -> None:
    tier = {
        "name": "pcie",
        "topology": "star",
        "size": 4,
        "alpha": "0.5us",
        "bandwidth": rate,
        "eta": {"alpha": 1.0, "beta": 0.75},
    }
    fabric = colltool.load_fabric(
        {"schema": "colltool.fabric/2", "name": "mine", "tiers": [tier], "library": "nccl"}
    )
    found = media_of(fabric)[0]
    assert found is not None
    assert found.name == medium


# Slingshot, and LL's rate


def test_a_tree_over_slingshot_fills_as_two_clusters_show() -> None:
    for source in ("alps-gh200", "cscs-gh200"):
        several = [
            row
            for row in rows()
            if row.source.source_id == source
            and row.ranks > 4
            and 8 * MIB <= row.bytes <= 128 * MIB
        ]
        assert median(abs(_ratio(row) - 1) for row in several) < 0.08  # 39% before


def test_a_hump_of_one_cluster_does_not_stand() -> None:
    """Alps takes 921 us for 1 MiB on 8 ranks, 129 us for 2 MiB."""
    fabric = colltool.load_fabric("gh200")
    times = [_seconds(fabric, "all_reduce", 2**power, 8) for power in range(17, 28)]
    assert times == sorted(times)
    assert _seconds(fabric, "all_reduce", MIB, 8) < 300e-6


@swept(
    ("name", "rate_GBps"),
    [("dgx-a100", 1.7), ("dgx-h100", 2.57), ("dgx-b200", 1.51), ("hgx-h200", 1.15)],
)
def test_lls_rate_between_hosts_is_their_generations(name: str, rate_GBps: float) -> None:
    outer = colltool.load_fabric(name).tiers[-1]
    assert outer.library is not None
    row = outer.library.protocols_for(AR)["LL"]
    assert row.share * outer.bandwidth * outer.eta.beta == pytest.approx(rate_GBps * 1e9, rel=0.01)
