"""NCCL's own files: a fabric's node for NCCL_TOPO_FILE, on which NCCL finds what prices use, and the
channels of a node for NCCL_GRAPH_FILE."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import effort
import pytest
from golden_graphs import FOLDER, graph, rows, same_numbers, same_orders, xml_of
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.estimate.nccl_hardware import hardware_on
from colltool.extras.interop.nccl_graph import nccl_graph
from colltool.extras.interop.nccl_topo import nccl_topo
from colltool.fabric.dumps.nccl_topo import read_nccl_topo
from colltool.fabric.dumps.read import import_dumps
from colltool.fabric.load import load_fabric, shipped_fabrics
from colltool.libraries.nccl.hardware import Graph
from colltool.libraries.nccl.topology.connect import communicator_of
from colltool.libraries.nccl.topology.graphs import graphs_of
from colltool.libraries.nccl.topology.kinds import KINDS
from colltool.libraries.nccl.topology.to_hardware import hardware_of

pytestmark = pytest.mark.usefixtures("whole_nodes_alone")

# Shipped nodes that differ in what NCCL's search asks of them; the rest are like one of these.
QUICK = ("dgx-h100", "dgx-b300", "hgx-a800", "sockets")
NODES = (
    *QUICK,
    *("dgx-a100", "dgx-b200", "hgx-h800", "aws-p4d", "gcp-a3-mega", "gh200"),
    *("nvl72", "gb300-nvl72", "oci-gb200"),
)
# what prices use and the search does not find, and why
DIFFERENT = {
    # prices take the star as the file has it; the links between pairs need rings of several orders
    ("gh200", 1): {"same_channels"},
}


def exported(name: str, folder: Path, *overrides: str, gpus: int | None = None) -> Path:
    path = folder / "node.xml"
    path.write_text(nccl_topo(load_fabric(name, overrides), gpus)[0], encoding="utf-8")
    return path


def channels(found: Graph | None) -> tuple[float, float, float] | None:
    return None if found is None else (found.channels, found.inside_GBps, found.across_GBps)


@pytest.mark.ci
@swept("name", NODES if effort.thorough else QUICK)
def test_on_the_exported_node_nccl_finds_the_channels_that_prices_use(
    name: str, tmp_path: Path
) -> None:
    path = exported(name, tmp_path)
    gpus = len(read_nccl_topo(path).accelerators)
    for nodes in (1, 2):
        if gpus * nodes == 1:
            continue
        node = graphs_of(path, nodes)
        found = hardware_of(node, communicator_of(node), "2.30")
        used = hardware_on(load_fabric(name), gpus * nodes)
        for graphs in ("ring", "tree", "nvls_graph"):
            assert channels(getattr(found, graphs)) == channels(getattr(used, graphs))
        keys = ("channels", "simple_tree", "same_channels", "gpu", "cpu", "nodes", "ranks")
        different = {key for key in keys if getattr(found, key) != getattr(used, key)}
        # on one node nothing depends on the host
        assert different - {"cpu"} == DIFFERENT.get((name, nodes), set())


@swept(
    ("name", "gpus"),
    [("nvl72", 4), ("nvl72", 16), ("nvl72", 36), ("hgx-h800", 3), ("dgx-b300", 4), ("dgx-h100", 2)],
    most=2,
)
def test_so_it_does_for_a_part_of_a_node(name: str, gpus: int, tmp_path: Path) -> None:
    node = graphs_of(exported(name, tmp_path, gpus=gpus))
    found = hardware_of(node, communicator_of(node), "2.30")
    used = hardware_on(load_fabric(name), gpus)
    assert channels(found.ring) == channels(used.ring)
    assert channels(found.nvls_graph) == channels(used.nvls_graph)
    assert found.channels == used.channels


@swept("name", [name for name in NODES if name not in ("gh200", "gcp-a3-mega", "sockets")], most=2)
def test_an_import_of_the_exported_node_is_the_node(name: str, tmp_path: Path) -> None:
    fabric = load_fabric(name)
    path = exported(name, tmp_path)
    (tmp_path / "mine.yaml").write_text(import_dumps(["nccl-topo", str(path)], nodes=2))
    made = load_fabric(str(tmp_path / "mine.yaml"))
    for tier, back in zip(reversed(fabric.tiers), reversed(made.tiers), strict=False):
        assert back.bandwidth == tier.bandwidth
    assert made.device == fabric.device
    assert fabric.library_facts is not None
    assert made.library_facts is not None
    assert made.library_facts.cpu == fabric.library_facts.cpu
    assert made.tiers[0].endpoints == fabric.tiers[0].endpoints


def test_a_star_without_multicast_stands_for_links_between_pairs(tmp_path: Path) -> None:
    """6 of the 18 NVLinks of a GH200 lead to each of three others."""
    node = read_nccl_topo(exported("gh200", tmp_path))
    assert set(node.pairs.values()) == {6}
    assert len(node.pairs) == 6
    notes = nccl_topo(load_fabric("gh200"))[1]
    assert any("6 between every two GPUs" in note for note in notes)


def test_links_of_a_graph_and_counts_of_gpus(tmp_path: Path) -> None:
    cube = exported("dgx-1v", tmp_path, "library={name: nccl, gpu: volta}")
    assert read_nccl_topo(cube).pairs[0, 3] == 2
    assert read_nccl_topo(cube).pairs[0, 1] == 1


@pytest.mark.ci
def test_a_rack_names_its_hosts(tmp_path: Path) -> None:
    tray = exported("nvl72", tmp_path, gpus=4)
    assert "host_hash" not in tray.read_text()
    assert read_nccl_topo(tray).hosts == 1
    assert read_nccl_topo(exported("nvl72", tmp_path)).hosts == 18


def test_the_file_says_what_the_fabric_does_not(tmp_path: Path) -> None:
    text, notes = nccl_topo(load_fabric("l40s-pcie"))
    assert len(notes) == 3
    assert all(f"<!-- {note} -->" in text for note in notes)
    assert "library.cpu" in notes[-1]
    # NCCL reads no declaration
    assert text.startswith("<!-- colltool export nccl-topo: 8 GPUs of l40s-pcie -->\n")
    assert "\n<system" in text


@swept(
    ("name", "overrides", "words"),
    [
        ("torus512", [], "does not say which GPUs"),
        ("mi300x", [], "NCCL runs on NVIDIA GPUs, and mi300x has MI300X"),
        ("tpu-v5p", [], "NCCL runs on NVIDIA GPUs"),
        ("vera-rubin-nvl72", [], "compute capability of VR200"),
        ("dgx-spark", [], "slots of hosts of NVIDIA GB10"),
        ("uneven-racks", [], "64 + 72 ranks"),
        ("dgx-h100", ["nvlink.bandwidth=440GB/s"], "no number of NVLinks of 25GB/s"),
        ("torus512", ["device=h100", "torus.medium=nvlink4"], "a torus"),
    ],
)
def test_what_is_no_node_of_nvidia_gpus_is_refused(
    name: str, overrides: list[str], words: str
) -> None:
    with pytest.raises(ColltoolError) as caught:
        nccl_topo(load_fabric(name, overrides))
    assert words in caught.value.what
    assert caught.value.fix


def test_every_shipped_fabric_is_written_or_refused() -> None:
    written = []
    for name in shipped_fabrics():
        fabric = load_fabric(name)
        try:
            nccl_topo(fabric)
        except ColltoolError:
            assert fabric.library_name != "nccl" or name in (
                "dgx-spark",
                "uneven-racks",
                "vera-rubin-nvl72",
            )
        else:
            written.append(name)
    assert {*NODES, "l40s-pcie", "juwels-booster"} <= set(written)


def read_back(text: str) -> dict[int, dict[str, Any]]:
    """The graphs of a file by NCCL's number, as the golden rows have them."""
    found = {}
    for element in ElementTree.fromstring(text):
        one = element.attrib
        every = list(element)
        found[int(one["id"])] = {
            "pattern": int(one["pattern"]),
            "crossNic": int(one["crossnic"]),
            "nChannels": int(one["nchannels"]),
            "bwIntra": float(one["speedintra"]),
            "bwInter": float(one["speedinter"]),
            "typeIntra": one["typeintra"],
            "typeInter": one["typeinter"],
            "sameChannels": int(one["samechannels"]),
            "latencyInter": float(one["latencyinter"]),
            "gpus": [[int(gpu.get("dev"), 16) for gpu in each.iter("gpu")] for each in every],
            "nets": [[int(net.get("dev"), 16) for net in each.iter("net")] for each in every],
        }
        # NICs are first and last, GPUs between them
        for each in every:
            tags = [part.tag for part in each]
            assert tags in (["gpu"] * len(tags), ["net", *["gpu"] * (len(tags) - 2), "net"])
    return found


IDS = {0: "ring", 1: "tree", 3: "nvls"}
ON_ONE_HOST = ("hgx90-400g-pix-spr", "h100-1of8", "a100-sub04")


@swept("row", [row for row in rows() if row["id"] in ON_ONE_HOST])
def test_a_graph_file_reads_back_as_what_nccl_found(row: dict[str, Any]) -> None:
    """Against NCCL's own graphs: on these hosts the numbers of devices are the ranks, in order."""
    path = xml_of(row, FOLDER, FOLDER)
    devs = [int(gpu.get("dev")) for gpu in ElementTree.parse(path).iter("gpu")]
    ranks = [int(gpu.get("rank")) for gpu in ElementTree.parse(path).iter("gpu")]
    for nodes, side in ((1, "inside"), (2, "across")):
        found = read_back(nccl_graph(path, nodes))
        assert {IDS[number] for number in found} == set(row[side]["graphs"])
        for number, have in found.items():
            want = row[side]["graphs"][IDS[number]]
            have["gpus"] = [[ranks[devs.index(dev)] for dev in order] for order in have["gpus"]]
            if nodes == 1:
                del have["nets"]
            assert same_numbers(want, have)
            assert same_orders(want, have)


def test_hosts_of_a_domain_are_in_the_numbers_of_their_devices(tmp_path: Path) -> None:
    path = exported("nvl72", tmp_path, gpus=8)
    domain = graphs_of(path).first
    ring = read_back(nccl_graph(path))[0]
    want = graph(domain, domain.graphs["ring"])["gpus"]
    assert ring["gpus"] == [[(rank // 4 << 56) + rank % 4 for rank in order] for order in want]


def test_types_that_such_files_have_no_word_for() -> None:
    """An emergency graph without NICs is of type DIS, which no node asks for."""
    text = nccl_graph(FOLDER / "pcie120-8-amd-root.xml")
    assert {one["typeInter"] for one in read_back(text).values()} <= set(KINDS) - {"DIS", "NET"}
    several = FOLDER / "dgx1v-sub07.xml"
    assert len(graphs_of(several).domains) == 2
    with pytest.raises(ColltoolError, match="2 nodes, each with graphs of its own"):
        nccl_graph(several)
