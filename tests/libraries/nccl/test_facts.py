"""The hardware of a group on a fabric; what is missing is named, with what to write."""

from __future__ import annotations

from dataclasses import replace

import pytest
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.primitives import AG, AR, BC, RS, Primitive
from colltool.estimate.nccl_hardware import hardware_on
from colltool.estimate.placement import GroupSpec
from colltool.estimate.price import price
from colltool.fabric.load import load_fabric
from colltool.libraries.nccl.hardware import Graph
from colltool.libraries.nccl.model import estimates, pick
from colltool.libraries.nccl.names import spec_of
from tests.nccl_machines import cluster, machine

pytestmark = pytest.mark.usefixtures("datasheet")


def refused(name: str, overrides: list[str], ranks: int | None = None) -> str:
    with pytest.raises(ColltoolError) as caught:
        hardware_on(load_fabric(name, overrides), ranks)
    return str(caught.value)


def test_a_dgx_h100_is_what_the_shipped_file_says() -> None:
    found = hardware_on(load_fabric("dgx-h100"), 64)
    assert (found.nodes, found.ranks_per_node, found.ranks, found.nics) == (8, 8, 64, 8)
    assert found == machine(8)
    assert (found.nvls, found.collnet, found.nvswitch, found.simple_tree) == (
        True,
        False,
        True,
        True,
    )


@pytest.mark.parametrize("name", ["dgx-h100", "clos-4to1"])
def test_the_shipped_h100_fabrics_have_all_that_the_model_needs(name: str) -> None:
    fabric = load_fabric(name)
    assert pick(hardware_on(fabric, 8), AR, 2**30).algorithm == "nvls"
    assert pick(hardware_on(fabric, 64), AR, 2**28).algorithm == "nvls_tree"


@swept(("ranks", "nodes"), [(4, 1), (8, 1), (16, 2), (256, 32)])
def test_nodes_are_domains(ranks: int, nodes: int) -> None:
    assert hardware_on(load_fabric("dgx-h100"), ranks).nodes == nodes


def test_below_a_clos_every_rank_is_a_node() -> None:
    assert hardware_on(cluster(16, gpus=1)).nodes == 16


def test_without_facts_all_are_named_at_once_with_what_to_write() -> None:
    told = refused("dgx-h100", ["library=nccl"], 64)
    assert (
        told
        == "library: NCCL's model needs the GPU generation and the hosts' CPU, which dgx-h100 does"
        " not give\n  write library: {name: nccl, gpu: hopper, cpu: intel}"
    )


def test_on_one_node_nobody_asks_for_the_cpu() -> None:
    assert hardware_on(load_fabric("dgx-h100", ["library={name: nccl, gpu: hopper}"]), 8).nodes == 1
    assert "gpu: hopper}" in refused("star512", ["library=nccl"])


@swept(
    ("name", "overrides", "words"),
    [
        ("dgx-h100", ["library.gpu=volta"], "the channels of GPUs of volta joined by NVLink"),
        ("dgx-h100", ["library.link=pci"], "joined by PCIe"),
        ("dgx-h100", ["library.nics=4"], "8 GPUs with 4 NICs"),
        ("dgx-h100", ['library.version="2.27"'], "there is for: 2.30"),
        ("torus512", [], "'torus' is a torus"),
    ],
)
def test_what_no_rule_gives_is_refused(name: str, overrides: list[str], words: str) -> None:
    assert words in refused(name, overrides, 64 if name == "dgx-h100" else None)


def test_channels_of_the_file_go_first_and_make_the_rest_possible() -> None:
    graphs = (
        "{ring: {channels: 4, inside: 20GB/s}, tree: {channels: 4, inside: 20GB/s, across: 10GB/s},"
        " total: 6}"
    )
    fabric = load_fabric("dgx-h100", ["library.gpu=volta", f"library.channels={graphs}"])
    found = hardware_on(fabric, 64)
    assert (found.ring, found.tree, found.channels) == (Graph(4, 20, 20), Graph(4, 20, 10), 6)
    assert found.nvls_graph is None
    rates = {
        one[:2]: one.bandwidth_Bps for one in estimates(found, AR, 1) if one.seconds is not None
    }
    assert rates["ring", "simple"] == pytest.approx(80e9 * 64 / 126)
    assert pick(found, AR, 2**20).seconds is not None


def test_the_cure_for_missing_channels_can_be_pasted() -> None:
    told = refused("l40s-pcie", []).split("write library: ")[1].split(" with your numbers")[0]
    assert hardware_on(load_fabric("l40s-pcie", [f"library={told}"])).ring == Graph(8, 40, 40)


def test_nvls_needs_a_switch_that_reduces_and_multicasts_and_can_be_switched_off() -> None:
    assert (
        hardware_on(load_fabric("dgx-h100", ["nvlink.in_network.multicast=false"]), 8).nvls is False
    )
    assert hardware_on(load_fabric("dgx-h100", ["library.nvls=false"]), 8).nvls is False


def test_sharp_of_an_all_gather_needs_a_nic_for_each_gpu() -> None:
    """8 GPUs at nine tenths of 48 GB/s; with fewer NICs CollNet has none."""
    on = machine(8, collnet=True)
    rates = {one[:2]: one for one in estimates(on, AG, 1)}
    assert rates["collnet_direct", "simple"].bandwidth_Bps == pytest.approx(8 * 0.9 * 48e9)
    assert rates["nvls", "simple"].bandwidth_Bps == pytest.approx(8 * 40e9 * 0.85 * 7 / 8 * 7 / 8)
    fewer = {one[:2]: one for one in estimates(replace(on, nics=4), AG, 1)}
    assert (
        "a NIC for each GPU"
        in fewer["collnet_direct", "simple"].reason
        == fewer["nvls", "simple"].reason
    )


def test_ll128_needs_nvlink() -> None:
    graphs = (
        "{ring: {channels: 2, inside: 20GB/s}, tree: {channels: 2, inside: 20GB/s}, nvls:"
        " {channels: 2, inside: 20GB/s}}"
    )
    found = hardware_on(
        load_fabric("dgx-h100", ["library.link=pci", f"library.channels={graphs}"]), 8
    )
    reasons = {one[:2]: one.reason for one in estimates(found, AR, 1)}
    assert "NVLink" in reasons["ring", "ll128"]
    assert not reasons["ring", "ll"]
    rates = {one[:2]: one.latency_s for one in estimates(found, AR, 1)}
    assert rates["ring", "simple"] == pytest.approx((8.4 + 14 * 5.7) * 1e-6)


@swept("primitive", [AR, AG, RS, BC])
@swept("nodes", [1, 2, 8])
def test_every_pick_has_a_schedule_of_ours_that_runs_there(
    nodes: int, primitive: Primitive
) -> None:
    fabric = load_fabric("dgx-h100")
    on = hardware_on(fabric, 8 * nodes)
    for size in (1024, 2**20, 2**24, 2**28, 2**32):
        spec = spec_of(pick(on, primitive, size).algorithm, primitive, on)
        assert spec
        row = price(fabric, primitive, float(size), 8 * nodes, only=[spec]).results[0]
        assert row.spec == spec


def test_picks_of_ranks_alone_on_their_nodes_have_one_too() -> None:
    fabric = cluster(8, gpus=1)
    on = hardware_on(fabric)
    for primitive, size in ((AR, 1024), (AR, 2**30), (AG, 2**20), (BC, 2**20)):
        spec = spec_of(pick(on, primitive, size).algorithm, primitive, on)
        assert price(fabric, primitive, float(size), 8, only=[spec]).results[0].spec == spec


def test_a_tree_on_one_node_has_none() -> None:
    """It is a chain up and down in NCCL."""
    assert spec_of("tree", AR, machine(1)) == ""


def test_a_group_of_one_rank_a_node_is_a_cluster_of_such_nodes() -> None:
    assert hardware_on(cluster(16), GroupSpec(16, 8)) == hardware_on(cluster(16, gpus=1), 16)
    assert hardware_on(load_fabric("dgx-h100"), GroupSpec(16, 8)) != hardware_on(
        load_fabric("dgx-h100"), 16
    )


def test_a_group_brings_the_nics_of_its_own_members() -> None:
    found = hardware_on(cluster(16), GroupSpec(32, 4))
    assert (found.nodes, found.ranks_per_node, found.nics) == (16, 2, 2)
    assert hardware_on(cluster(16, nics=8), GroupSpec(32, 4)).nics == 2


def test_channels_that_were_given_for_a_node_are_shared_by_its_groups() -> None:
    given = {"ring": {"channels": 16, "inside": "40GB/s", "across": "20GB/s"}, "total": 32}
    whole, part = (
        hardware_on(cluster(16, channels=given), group)
        for group in (GroupSpec(128), GroupSpec(16, 8))
    )
    assert (whole.ring, whole.channels) == (Graph(16, 40.0, 20.0), 32)
    assert (part.ring, part.channels) == (Graph(2, 40.0, 20.0), 4)
