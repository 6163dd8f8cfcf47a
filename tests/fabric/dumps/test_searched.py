"""A node of a topology file has the channels, rates and picks that NCCL's search gives it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import golden_graphs
import pytest
import yaml

from colltool.base.errors import ColltoolError
from colltool.base.xml_tree import read_xml
from colltool.estimate.nccl_hardware import hardware_on
from colltool.estimate.placement import GroupSpec
from colltool.fabric.dumps.read import import_dumps
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric
from colltool.libraries.nccl.hardware import Graph
from colltool.libraries.nccl.topology.graphs import graphs_of_xml
from colltool.libraries.nccl.topology.system_reader import FORMAT
from colltool.libraries.nccl.topology.versions import version_of

FOLDER = golden_graphs.FOLDER
# which are searched in a moment: a flat virtual machine, cards on PCIe that NCCL makes two nodes of,
# bridged cards, two of a mesh, GH200, a search that finds nothing
FAST = (
    *(
        "vm80-pair",
        "a100pcie-skl-nogdr",
        "bridge-h100nvl-2",
        "a100-sub04",
        "real-azure-ncv4-bridged",
    ),
    *("dgx1v-sub07", "gh200-1", "pcie120-8-amd-root", "h100-1of8"),
)
thorough = pytest.mark.thorough
ROWS = {row["id"]: row for row in golden_graphs.rows()}


def imported(name: str, nodes: int = 1, **changes: Any) -> Fabric:
    text = import_dumps(["nccl-topo", str(FOLDER / f"{name}.xml")], nodes=nodes)
    return load_fabric(yaml.safe_load(text), **changes)


@pytest.mark.parametrize(
    "name", [*FAST, *(pytest.param(name, marks=thorough) for name in ROWS if name not in FAST)]
)
def test_an_imported_machine_picks_as_nccl_does(name: str) -> None:
    for found in golden_graphs.imported(ROWS[name], FOLDER / f"{name}.xml"):
        assert not found.refused
        assert (found.same_ring, found.same_picks) == (True, True)


@pytest.mark.parametrize(
    ("name", "inside_GBps", "across_GBps"),
    [
        # whole: 450 GB/s, and 50 GB/s a GPU; slots that NCCL does not know
        ("vm90-4gpu", 450, 12.5),
        pytest.param("hgx90-dead7", 450, 43.75, marks=thorough),
        pytest.param("hgx90-gen-1", 450, 25, marks=thorough),
        pytest.param("h100-gpu3-13links", 325, 50, marks=thorough),
    ],
)
def test_tiers_carry_what_the_rings_carry(
    name: str, inside_GBps: float, across_GBps: float
) -> None:
    inside, across = imported(name, 2).tiers
    assert inside.bandwidth == pytest.approx(inside_GBps * 1e9)
    assert across.bandwidth == pytest.approx(across_GBps * 1e9)


@pytest.mark.ci
def test_groups_of_fewer_gpus_have_graphs_of_their_own() -> None:
    path = FOLDER / "vm90-4gpu.xml"
    fabric = imported("vm90-4gpu", 2)
    for nodes in (1, 2):
        two = graphs_of_xml(
            read_xml(path, FORMAT), str(path), nodes, version_of("2.30.7"), ranks=range(2)
        )
        ring = two.first.graphs["ring"]
        own = hardware_on(fabric, GroupSpec(2 * nodes, stride=1 if nodes == 1 else 2)).ring
        assert own.channels == ring.best.channel_count
        assert own.inside_GBps == pytest.approx(ring.inside_MBps / 1000)
    # three of four: those of the node
    assert hardware_on(fabric, 3).ring == hardware_on(fabric, 4).ring


def test_nodes_of_one_host_are_joined_by_the_network() -> None:
    """A NIC at each CPU is nearer to its GPUs, and faster, than what joins the CPUs."""
    fabric = imported("a100pcie-skl-nogdr", 4)
    assert [tier.endpoints for tier in fabric.tiers] == [2, 8]
    assert hardware_on(fabric).nodes == 8


def test_graphs_by_hand_replace_those_of_the_search() -> None:
    graphs = "{ring: {channels: 3, inside: 7GB/s}, tree: {channels: 3, inside: 7GB/s}}"
    fabric = imported("a100-sub04", 2, overrides=[f"library.channels={graphs}"])
    assert hardware_on(fabric).ring == Graph(3, 7, 7)


def test_nodes_of_different_sizes_are_refused(tmp_path: Path) -> None:
    text = (FOLDER / "a100pcie-skl-nogdr.xml").read_text()
    path = tmp_path / "node.xml"
    path.write_text(text.replace('rank="3"', ""))
    with pytest.raises(ColltoolError, match="nodes of 2 and 1 GPUs") as caught:
        import_dumps(["nccl-topo", str(path)])
    assert "CUDA_VISIBLE_DEVICES=0,1" in str(caught.value)
