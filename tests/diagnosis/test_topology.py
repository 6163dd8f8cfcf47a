"""A log's channels beside those of a topology file: logs are made of NCCL's search itself, on the
file's node as it is and with something broken."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import effort
import pytest
from golden_graphs import FOLDER
from logged_graphs import PREFIX, broken, log_of, replaced
from small_nodes import INTEL, TO_SWITCH, gpu, h100, linked, nic
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.xml_tree import read_xml
from colltool.diagnosis import damage_trials
from colltool.diagnosis.results import Diagnosis
from colltool.libraries.nccl.topology.graphs import graphs_of, graphs_of_xml
from colltool.libraries.nccl.topology.system_reader import FORMAT
from colltool.libraries.nccl.topology.versions import version_of, with_settings
from colltool.render.dispatch import rendered
from colltool.render.text import Screen
from colltool.render.views.doctor_answer import diagnosed

HALF = 'link_speed="16.0 GT/s PCIe" link_width="16"'


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
    assert node.explained.exact
    return [(damage.kind, *damage.names) for damage in node.explained.damages]


def said(result: Diagnosis) -> str:
    return diagnosed(result)


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
    result = diagnosis(tmp_path, NODE, replaced(NODE, nic(1), ""))
    assert not result.ok
    assert kinds(result)[0] == ("nic-missing", "mlx5_1")
    text = said(result)
    assert "ring channels" in text
    assert ": NCCL does not see GPU 1's NIC (mlx5_1). Next: ibstat" in text
    # the log does not list its NICs: the NIC may be there and of no use
    assert "The same channels would follow if GPUDirect RDMA is off at GPU 1's NIC" in text


def test_nics_that_the_log_lists(tmp_path: Path) -> None:
    one = "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>"
    env = "NCCL_IB_HCA set by environment to mlx5_0"
    ill = replaced(NODE, nic(1), "")
    result = diagnosis(tmp_path, NODE, ill, one, env)
    assert kinds(result)[0] == ("nic-missing", "mlx5_1")
    assert "Next: unset NCCL_IB_HCA (mlx5_0 in the log); ibstat" in said(result)
    assert result.topology is not None
    assert result.topology.missing == ("mlx5_1",)
    # and something else is broken
    (tmp_path / "a").mkdir()
    slow = replaced(ill, nic(0), nic(0, slot=HALF))
    result = diagnosis(tmp_path / "a", NODE, slow, one)
    assert "NCCL does not see NIC mlx5_1" in said(result) or "GPU 1's NIC" in said(result)
    assert "24 GB/s instead of" in said(result)
    # all are listed: none is missing
    both = one.replace(" [RO]", " [1]mlx5_1:1/IB [RO]")
    (tmp_path / "b").mkdir()
    result = diagnosis(tmp_path / "b", NODE, ill, both)
    assert kinds(result)[0] == ("gdr-nic", "mlx5_1")


def test_nics_that_the_log_lists_and_channels_that_nothing_explains(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    log.write_text(
        "n0:1:1 [0] NCCL INFO NCCL version 2.27.3+cuda12.9\n"
        "n0:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
        "n0:1:2 [0] NCCL INFO comm 0x55 rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0\n"
        "n0:1:2 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 1, bw 7.000000/7.000000, "
        "type NVL/PIX, sameChannels 1\n"
    )
    result = colltool.doctor(log, topology_file=broken(tmp_path, "whole", *NODE))
    text = said(result)
    assert "NCCL does not see NIC mlx5_1, and something else differs" in text
    assert "Next: ibstat" in text
    screen = rendered(result, "table", Screen(80))
    assert "| ring " in screen
    assert max(map(len, screen.splitlines())) <= 80


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
    assert kinds(result)[0] == ("nvlinks", "0", "1")
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
    result = diagnosis(tmp_path / "b", NODE, h100(2, 2, slot=HALF))
    assert kinds(result)[0] == ("nic-slot", "mlx5_0", "mlx5_1")
    assert ": PCIe at all NICs runs at 24 GB/s instead of 48 GB/s. Next: lspci" in said(result)


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
    """The log says why: GPUs may not reach each other."""
    file = broken(tmp_path, "node", *NODE)
    version = with_settings(version_of("2.30.7"), {"NCCL_P2P_DISABLE": "1"})
    node = graphs_of_xml(read_xml(file, FORMAT), "node.xml", 1, version)
    log = log_of(tmp_path, node, "NCCL_P2P_DISABLE set by environment to 1.", nodes=1)
    result = colltool.doctor(log, topology_file=file)
    assert kinds(result)[0] == ("setting", "NCCL_P2P_DISABLE=1")
    assert "NCCL_P2P_DISABLE=1 gives these channels. Next: unset it" in said(result)


def test_the_tree_of_the_log_tells_several_at_once(tmp_path: Path) -> None:
    """Two things are broken: no single damage gives the channels."""
    ill = replaced(replaced(NODE, nic(1), ""), nic(0), nic(0, slot=HALF))
    tree = ["=== System : maxBw 48.0 totalBw 370.8 ==="]
    for dev in range(2):
        tree.append(f"CPU/0-{dev} (1/1/2)")
        tree.append(f"+ PCI[48.0] - PCI/0-{dev + 1:x}000 (0)")
        tree.append(f"              + PCI[48.0] - GPU/0-{dev + 16:x}000 ({dev})")
        tree.append("                            + NVL[370.8] - NVS/0-0")
        if dev == 0:
            tree.append("              + PCI[24.0] - NIC/0-40000")
            tree.append("                            + NET[50.0] - NET/0-0 (0/1/1/50.000000)")
    result = diagnosis(tmp_path, NODE, ill, *tree)
    assert result.topology is not None
    explained = result.topology.compared[0].explained
    assert explained is not None
    first = explained.damages[0]
    assert [(part.kind, part.names) for part in first.together] == [
        ("nic-slot", ("mlx5_0",)),
        ("nic-missing", ("mlx5_1",)),
    ]
    assert "runs at 24 GB/s instead of 48 GB/s and NCCL does not see GPU 1's NIC" in said(result)


def test_what_no_damage_explains(tmp_path: Path) -> None:
    file = broken(tmp_path, "node", *NODE)
    log = log_of(tmp_path, graphs_of(file, 2))
    log.write_text(log.read_text().replace(", bw 24.", ", bw 7."))
    result = colltool.doctor(log, topology_file=file)
    assert not result.ok
    assert "kinds of damage to the node of" in said(result)
    assert "NCCL_TOPO_DUMP_FILE=now.xml" in said(result)


# --- what is not compared


def test_a_run_on_some_gpus(tmp_path: Path) -> None:
    busids = [
        f"ncclCommInitRank comm 0x1 rank {rank} nranks 2 cudaDev {rank} busId {rank + 16:x}000 commId"
        " 0x2 - Init START"
        for rank in range(2)
    ]
    part = graphs_of(broken(tmp_path, "part", *NODE), 1)
    log = log_of(tmp_path, part, *busids, nodes=1)
    result = colltool.doctor(log, topology_file=broken(tmp_path, "whole", *h100(4, 0)))
    assert result.topology is not None
    assert result.topology.compared[0].gpus_used == 2
    assert "the run used 2 of the file's GPUs: compared with these alone" in result.topology.notes


@pytest.mark.ci
def test_a_run_on_gpus_that_are_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage_trials, "_VISITS", 50_000)
    log = log_of(tmp_path, graphs_of(broken(tmp_path, "part", *NODE), 1), nodes=1)
    result = colltool.doctor(log, topology_file=broken(tmp_path, "whole", *h100(4, 0)))
    assert result.ok
    assert said(result).startswith("Not compared: NCCL's channels join 2 GPUs of a node")


def test_a_log_without_orders(tmp_path: Path) -> None:
    """The lines of single channels may be cut."""
    file = broken(tmp_path, "node", *NODE)
    log = log_of(tmp_path, graphs_of(broken(tmp_path, "ill", *replaced(NODE, nic(1), "")), 2))
    lines = [line for line in log.read_text().splitlines() if "GPU/" not in line]
    log.write_text("\n".join(lines) + "\n")
    assert ("nic-missing", "mlx5_1") in kinds(colltool.doctor(log, topology_file=file))


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


NAMES = sorted(file.stem for file in FOLDER.glob("*.xml"))


@swept("name", NAMES if effort.thorough else FEW)
def test_logs_of_the_files_agree(name: str, tmp_path: Path) -> None:
    file = FOLDER / f"{name}.xml"
    for nodes in (1, 2):
        try:
            node = graphs_of(file, nodes)
        except ColltoolError:  # no NIC
            continue
        result = colltool.doctor(log_of(tmp_path, node, nodes=nodes), topology_file=file)
        assert result.ok, said(result)
