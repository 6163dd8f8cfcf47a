"""A log's channels beside those of a topology file: logs are made of NCCL's search itself, on the
file's node as it is and with something broken."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import effort
import pytest
from golden_graphs import FOLDER, graph
from small_nodes import INTEL, TO_SWITCH, gpu, h100, linked, nic, written

import colltool
from colltool.base.errors import ColltoolError
from colltool.diagnosis.results import Diagnosis
from colltool.libraries.nccl.topology.graphs import NodeGraphs, graphs_of
from colltool.render.views.doctor import diagnosed

HALF = 'link_speed="16.0 GT/s PCIe" link_width="16"'
PREFIX = "n0:70:71 [0] NCCL INFO "


def graph_lines_of(node: NodeGraphs, *, first: int = 0) -> Iterable[str]:
    """What NCCL prints of a node's graphs; ``first``: rank of the first GPU."""
    for name in ("ring", "tree", "nvls"):
        if name not in node.first.graphs:
            continue
        found = graph(node.first, node.first.graphs[name])
        yield (
            f"Pattern {found['pattern']}, crossNic {found['crossNic']}, nChannels"
            f" {found['nChannels']}, bw {found['bwIntra']:f}/{found['bwInter']:f}, type"
            f" {found['typeIntra']}/{found['typeInter']}, sameChannels {found['sameChannels']}"
        )
        for number, gpus in enumerate(found["gpus"]):
            nets = [f"NET/0-{net:x}" for net in found.get("nets", [[]] * (number + 1))[number]]
            path = [*nets[:1], *(f"GPU/{first + rank}" for rank in gpus), *nets[1:]]
            yield f"{number:2d} : {' '.join(path)}"


def log_of(folder: Path, node: NodeGraphs, *more: str, nodes: int = 2, host: str = "n0") -> Path:
    """The log of a run on nodes like one."""
    ranks = node.system.ranks
    lines = ["NCCL version 2.30.7+cuda13.0", *more, *graph_lines_of(node)]
    own = len(node.first.ranks)
    parts = nodes * ranks // own
    lines.append(
        f"comm 0x1 rank 0 nRanks {nodes * ranks} nNodes {parts} localRanks {own} localRank 0"
    )
    file = folder / "nccl.log"
    text = "".join(f"{PREFIX}{line}\n" for line in lines)
    file.write_text(text.replace("n0:", f"{host}:"), encoding="utf-8")
    return file


def broken(folder: Path, name: str, *cpus: str) -> Path:
    inner = folder / name
    inner.mkdir()
    return written(inner, *cpus)


def diagnosis(
    folder: Path, whole: Iterable[str], ill: Iterable[str], *more: str, nodes: int = 2
) -> Diagnosis:
    """What a log of a broken node gives beside the whole node's file."""
    node = graphs_of(broken(folder, "ill", *ill), nodes)
    log = log_of(folder, node, *more, nodes=nodes)
    return colltool.doctor(log, topology_file=broken(folder, "whole", *whole))


def kinds(result: Diagnosis) -> list[tuple[str, ...]]:
    """Kinds of the damages that explain a log, with what they are of."""
    assert result.topology is not None
    (node,) = result.topology.compared
    assert node.explained is not None
    return [(damage.kind, *damage.names) for damage in node.explained.damages]


def said(result: Diagnosis) -> str:
    return diagnosed(result)


def replaced(parts: Iterable[str], old: str, new: str, count: int = 1) -> list[str]:
    """Parts of a file with the first of a text in all of them replaced."""
    text = "\n".join(parts)
    assert old in text
    return text.replace(old, new, count).split("\n")


# small: each search is some milliseconds
NODE = h100(2, 2)


def test_a_healthy_node_agrees(tmp_path: Path) -> None:
    for nodes in (1, 2):
        folder = tmp_path / str(nodes)
        folder.mkdir()
        result = diagnosis(folder, NODE, NODE, nodes=nodes)
        assert result.ok
        assert said(result).startswith("NCCL's channels are those that ")
        assert result.topology is not None
        assert result.topology.agrees
        assert (result.topology.nodes, result.topology.release) == (nodes, "2.30.7")


def test_a_nic_that_is_missing(tmp_path: Path) -> None:
    ill = replaced(NODE, nic(2), "")
    result = diagnosis(tmp_path, NODE, ill)
    assert not result.ok
    assert kinds(result)[0] == ("nic-missing", "mlx5_2")
    text = said(result)
    assert text.startswith(
        "NCCL found 3 of 4 ring channels on n0: NCCL does not see GPU 2's NIC (mlx5_2). Next: ibstat"
    )
    # the log does not list its NICs: the NIC may be there and of no use
    assert "The same channels would follow if GPUDirect RDMA is off at GPU 2's NIC" in text


def test_nics_that_the_log_lists(tmp_path: Path) -> None:
    listed = (
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_3:1/IB [RO]; OOB eth0:10.0.0.1<0>"
    )
    env = "NCCL_IB_HCA set by environment to mlx5_0,mlx5_1,mlx5_3"
    result = diagnosis(tmp_path, NODE, replaced(NODE, nic(2), ""), listed, env)
    assert kinds(result)[0] == ("nic-missing", "mlx5_2")
    assert "Next: unset NCCL_IB_HCA (mlx5_0,mlx5_1,mlx5_3 in the log); ibstat" in said(result)
    assert result.topology is not None
    assert result.topology.missing == ("mlx5_2",)
    # all are listed: none is missing
    listed = listed.replace("[2]mlx5_3:1/IB", "[2]mlx5_2:1/IB [3]mlx5_3:1/IB")
    (tmp_path / "b").mkdir()
    result = diagnosis(
        tmp_path / "b", NODE, replaced(NODE, 'guid="0x3" gdr="1"', 'guid="0x3" gdr="0"'), listed
    )
    assert kinds(result)[0] == ("gdr-nic", "mlx5_2")


def test_gpudirect_that_is_off(tmp_path: Path) -> None:
    ill = [part.replace('gdr="1" ', 'gdr="0" ') for part in NODE]
    result = diagnosis(tmp_path, NODE, ill)
    assert kinds(result)[0] == ("gdr",)
    assert ": GPUDirect RDMA is off. Next: lsmod | grep nvidia_peermem" in said(result)


def test_links_that_are_missing(tmp_path: Path) -> None:
    ill = replaced(NODE, TO_SWITCH, TO_SWITCH.replace("18", "9"))
    result = diagnosis(tmp_path, NODE, ill, nodes=1)
    assert ("nvlinks", "0") in kinds(result)
    assert "9 of 18 NVLinks work at GPU 0" in said(result)
    (tmp_path / "b").mkdir()
    result = diagnosis(
        tmp_path / "b", NODE, [part.replace(TO_SWITCH, "") for part in NODE], nodes=1
    )
    assert kinds(result)[0] == ("nvlinks", "0", "1", "2", "3")
    assert "0 of 18 NVLinks work at all GPUs" in said(result)


def test_a_bridge_that_is_missing(tmp_path: Path) -> None:
    pairs = [gpu(0, linked(1)), gpu(1, linked(0)), gpu(2, linked(3)), gpu(3, linked(2))]
    kind = f'<cpu host_hash="0x1" numaid="0" {INTEL}>'
    whole = [kind, *pairs, "</cpu>"]
    result = diagnosis(
        tmp_path, whole, replaced(replaced(whole, linked(3), ""), linked(2), ""), nodes=1
    )
    assert ("nvlink-pair", "2", "3") in kinds(result)


def test_slots_of_an_older_generation(tmp_path: Path) -> None:
    slow = nic(1, slot=HALF)
    result = diagnosis(tmp_path, NODE, replaced(NODE, nic(1), slow))
    assert ("nic-slot", "mlx5_1") in kinds(result)
    assert "24 GB/s instead of 48 GB/s" in said(result)
    (tmp_path / "b").mkdir()
    result = diagnosis(tmp_path / "b", NODE, h100(4, 4, slot=HALF))
    assert kinds(result)[0] == ("nic-slot", "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")
    assert (
        "NCCL's 4 ring channels count as 24 of 48 GB/s each on n0: PCIe at all NICs runs at 24 GB/s"
        in said(result)
    )


def test_what_a_container_hides(tmp_path: Path) -> None:
    ill = [part.replace(" PCIe", "") for part in NODE]
    result = diagnosis(tmp_path, NODE, ill)
    assert kinds(result)[0] == ("slots-unknown",)
    assert "NCCL_TOPO_FILE" in said(result)


def test_a_nic_behind_the_other_socket(tmp_path: Path) -> None:
    moved = replaced(NODE, nic(0), "")
    moved[-1] = moved[-1].replace("</cpu>", f"{nic(0)}</cpu>")
    listed = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [3]mlx5_3:1/IB [RO]"
    result = diagnosis(tmp_path, NODE, moved, listed)
    found = kinds(result)
    assert ("nic-far", "mlx5_0") in found or ("nic-apart", "mlx5_0") in found


def test_a_setting_of_the_log(tmp_path: Path) -> None:
    """The log says why: NCCL was kept from it."""
    file = broken(tmp_path, "node", *h100(2, 2))
    from colltool.base.xml_tree import read_xml
    from colltool.libraries.nccl.topology.graphs import graphs_of_xml
    from colltool.libraries.nccl.topology.system import FORMAT
    from colltool.libraries.nccl.topology.versions import version_of, with_settings

    env = {"NCCL_CROSS_NIC": "0"}
    version = with_settings(version_of("2.30.7"), env)
    node = graphs_of_xml(read_xml(file, FORMAT), "node.xml", 2, version)
    log = log_of(tmp_path, node, "NCCL_CROSS_NIC set by environment to 0.")
    result = colltool.doctor(log, topology_file=file)
    assert kinds(result)[0] == ("setting", "NCCL_CROSS_NIC=0")
    assert "NCCL_CROSS_NIC=0 gives these channels. Next: unset it" in said(result)


def test_the_tree_of_the_log_tells_several_at_once(tmp_path: Path) -> None:
    """Two things are broken: no single damage gives the channels."""
    ill = replaced(replaced(NODE, nic(2), ""), nic(1), nic(1, slot=HALF))
    tree = ["=== System : maxBw 48.0 totalBw 370.8 ===", "CPU/0-0 (1/1/2)"]
    for dev in range(4):
        if dev == 2:
            tree.append("CPU/0-1 (1/1/2)")
        tree.append(f"+ PCI[48.0] - PCI/0-{dev + 1:x}000 (0)")
        tree.append(f"              + PCI[48.0] - GPU/0-{dev + 16:x}000 ({dev})")
        tree.append("                            + NVL[370.8] - NVS/0-0")
        if dev != 2:
            rate = 24 if dev == 1 else 48
            tree.append(f"              + PCI[{rate}.0] - NIC/0-{dev + 64:x}000")
            tree.append(
                f"                            + NET[50.0] - NET/0-{dev:x} (0/1/1/50.000000)"
            )
    result = diagnosis(tmp_path, NODE, ill, *tree)
    assert result.topology is not None
    explained = result.topology.compared[0].explained
    assert explained is not None
    first = explained.damages[0]
    assert [(part.kind, part.names) for part in first.together] == [
        ("nic-slot", ("mlx5_1",)),
        ("nic-missing", ("mlx5_2",)),
    ]
    assert "PCIe at NIC mlx5_1" in said(result) or "PCIe at GPU 1's NIC (mlx5_1)" in said(result)


def test_what_no_damage_explains(tmp_path: Path) -> None:
    file = broken(tmp_path, "node", *NODE)
    log = log_of(tmp_path, graphs_of(file, 2))
    text = log.read_text().replace("nChannels 4, bw 48.", "nChannels 4, bw 7.")
    log.write_text(text)
    result = colltool.doctor(log, topology_file=file)
    assert not result.ok
    assert "kinds of damage to the node of" in said(result)
    assert "NCCL_TOPO_DUMP_FILE=now.xml" in said(result)


# --- what is not compared


def test_a_run_on_some_gpus(tmp_path: Path) -> None:
    busids = [
        f"ncclCommInitRank comm 0x1 rank {rank} nranks 4 cudaDev {rank} nvmlDev {rank} busId {rank + 16:x}000 commId 0x2 - Init START"
        for rank in range(2)
    ]
    part = graphs_of(broken(tmp_path, "part", *h100(2, 2)), 2)
    log = log_of(tmp_path, part, *busids)
    result = colltool.doctor(log, topology_file=broken(tmp_path, "whole", *NODE))
    assert result.topology is not None
    assert result.topology.compared[0].kept == (0, 1)
    assert "the run used 2 of the file's GPUs: compared with these alone" in result.topology.notes


def test_a_log_without_graphs(tmp_path: Path) -> None:
    file = broken(tmp_path, "node", *NODE)
    log = tmp_path / "nccl.log"
    log.write_text(f"{PREFIX}Using network IB\n")
    result = colltool.doctor(log, topology_file=file)
    assert result.ok
    assert "NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET,ENV" in said(result)


def test_a_log_of_rccl(tmp_path: Path) -> None:
    file = broken(tmp_path, "node", *NODE)
    log = log_of(tmp_path, graphs_of(file, 2), "RCCL version : 2.22.3")
    result = colltool.doctor(log, topology_file=file)
    assert result.topology is not None
    assert not result.topology.compared
    assert [note.code for note in result.topology.notes] == ["rccl-graphs"]


def test_notes(tmp_path: Path) -> None:
    file = broken(tmp_path, "node", *NODE)
    log = log_of(tmp_path, graphs_of(file, 2), "NET/OFI : Using [0]rdmap0:1/RoCE [1]rdmap1:1/RoCE")
    text = log.read_text().replace("2.30.7", "2.21.5")
    log.write_text(
        text
        + f"{PREFIX}Pattern 3, crossNic 0, nChannels 4, bw 9.0/9.0, type NVL/PIX, sameChannels 1\n"
    )
    result = colltool.doctor(log, topology_file=file)
    assert result.topology is not None
    codes = {note.code for note in result.topology.notes}
    assert {"old-search", "other-nics"} <= codes


def test_a_dump_of_the_run_is_named(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    log.write_text(
        f"{PREFIX}NCCL_TOPO_DUMP_FILE set by environment to /tmp/node.xml\n{PREFIX}Using network IB\n"
    )
    result = colltool.doctor(log)
    assert any(note.code == "topology-dumped" for note in result.notes)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    log.write_text(f"{PREFIX}Using network IB\n")
    other = tmp_path / "node.xml"
    other.write_text("<topology/>")
    with pytest.raises(ColltoolError, match="another program"):
        colltool.doctor(log, topology_file=other)


FEW = ("h100-1of8", "vm80-pair", "pcie120-8-amd-root", "real-azure-ncv4-bridged", "gh200-1")


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.xml")))
def test_logs_of_the_files_agree(name: str, tmp_path: Path) -> None:
    if name not in FEW and not effort.thorough:
        pytest.skip("--thorough")
    file = FOLDER / f"{name}.xml"
    for nodes in (1, 2):
        try:
            node = graphs_of(file, nodes)
        except ColltoolError:  # no NIC
            continue
        result = colltool.doctor(log_of(tmp_path, node, nodes=nodes), topology_file=file)
        assert result.ok, said(result)
