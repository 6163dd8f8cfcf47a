"""NCCL's lines on the graphs that its search found, in the forms of its versions: typed after public
issue threads, which are named."""

from __future__ import annotations

from pathlib import Path

from swept import swept

from colltool.logs.nccl_graph_lines import (
    GraphFigures,
    GraphLines,
    LoggedChannel,
    LoggedLink,
    graph_lines,
)

PREFIX = "n1:70:71 [0] NCCL INFO "


def read(folder: Path, *lines: str, prefix: str = PREFIX) -> GraphLines:
    file = folder / "nccl.log"
    file.write_text("".join(f"{prefix}{line}\n" for line in lines), encoding="utf-8")
    return graph_lines([file])


# NVIDIA/nccl issue 340, NCCL 2.6: rates are called speed
FIRST = (
    "Pattern 4, crossNic 0, nChannels 1, speed 21.000000/21.000000, type NVL/PIX, sameChannels 1",
    " 0 : GPU/0 GPU/1",
    "Pattern 2, crossNic 0, nChannels 1, speed 21.000000/21.000000, type NVL/PIX, sameChannels 1",
    " 0 : GPU/0 GPU/1",
    "Pattern 3, crossNic 0, nChannels 1, speed 21.000000/21.000000, type NVL/PIX, sameChannels 1",
    " 0 : GPU/0 GPU/1",
)
# issue 1189, NCCL 2.19 on two nodes, with the first lines of the node's tree
TWO_NODES = (
    "=== System : maxBw 48.0 totalBw 370.8 ===",
    "CPU/0 (1/1/2)",
    "+ PCI[48.0] - PCI/16000 (1000c0301000100b)",
    "              + PCI[48.0] - GPU/18000 (0)",
    "                            + NVL[370.8] - NVS/0",
    "              + PCI[48.0] - NIC/19000",
    "                            + NET[50.0] - NET/3 (aa24210003bd70c4/1/50.000000)",
    "+ PCI[48.0] - NIC/26000",
    "==========================================",
    "GPU/18000 :GPU/18000 (0/5000.000000/LOC) NET/3 (3/48.000000/PIX)",
    "Pattern 4, crossNic 1, nChannels 4, bw 24.000000/24.000000, type NVL/PIX, sameChannels 0",
    " 0 : NET/3 GPU/0 GPU/1 NET/2",
    " 1 : NET/2 GPU/1 GPU/0 NET/3",
    "comm 0x55 rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0",
)
# issue 1519, NCCL 2.2x: heads of NVLS, and 0 for the others
HEADS = (
    "Pattern 4, crossNic 0, nChannels 1, bw 3.000000/3.000000, type NVL/PHB, sameChannels 0",
    "Pattern 5, crossNic 0, nChannels 2, bw 3.000000/3.000000, type NVL/PHB, sameChannels 0",
    " 0 : NET/1 GPU/0 GPU/0 GPU/0 NET/1",
    " 1 : NET/3 GPU/1 GPU/0 GPU/0 NET/3",
)
# NVIDIA/nccl-tests issue 256, and logs of 2.27 to 2.29: bus ids behind the system's number
BY_BUSID = (
    "CPU/0-0 (1/2/-1)",
    "+ SYS[16.0] - CPU/0-1",
    "+ PCI[0.2] - PCI/0-65000 (104c823200000000)",
    "             + PCI[48.0] - NIC/0-67000",
    "                           + NET[50.0] - NET/0-c (0/d4f9fc0003ae6d94/1/50.000000)",
    "Pattern 4, crossNic 0, nChannels 12, bw 20.000000/20.000000, type NVL/PIX, sameChannels 1",
    " 0 : NET/0-0-c GPU/0-0-47000 GPU/0-0-ce000 NET/0-0-c",
)


def test_speeds_of_the_first_form(tmp_path: Path) -> None:
    (node,) = read(tmp_path, *FIRST).nodes
    # the third pattern is CollNet's chain
    assert list(node.graphs) == ["ring", "tree", "collnet_chain"]
    ring = node.graphs["ring"]
    assert ring.figures == GraphFigures(4, False, 1, 21e9, 21e9, "NVL", "PIX")
    assert ring.orders == (LoggedChannel((0, 1), ()),)
    assert not ring.by_busid
    assert node.where.endswith("nccl.log:1")


def test_two_nodes_with_the_tree(tmp_path: Path) -> None:
    lines = read(tmp_path, "NCCL version 2.19.3+cuda12.3", *TWO_NODES)
    (node,) = lines.nodes
    assert (node.host, node.ranks, node.nodes, node.local) == ("n1", 4, 2, 2)
    assert (lines.release, lines.ranks) == ("2.19.3", 4)
    assert node.graphs["ring"].orders[1] == LoggedChannel((1, 0), (2, 3))
    assert node.tree == (
        LoggedLink("PCI", 48_000, ("CPU", 0), ("PCI", 0x16000)),
        LoggedLink("PCI", 48_000, ("PCI", 0x16000), ("GPU", 0x18000)),
        LoggedLink("NVL", 370_800, ("GPU", 0x18000), ("NVS", 0)),
        LoggedLink("PCI", 48_000, ("PCI", 0x16000), ("NIC", 0x19000)),
        LoggedLink("NET", 50_000, ("NIC", 0x19000), ("NET", 3)),
        LoggedLink("PCI", 48_000, ("CPU", 0), ("NIC", 0x26000)),
    )


def test_heads_of_nvls(tmp_path: Path) -> None:
    (node,) = read(tmp_path, *HEADS).nodes
    assert node.graphs["nvls"].orders[1] == LoggedChannel((1, 0, 0), (3, 3))


def test_gpus_by_bus_id(tmp_path: Path) -> None:
    (node,) = read(tmp_path, *BY_BUSID).nodes
    ring = node.graphs["ring"]
    assert ring.by_busid
    assert ring.orders == (LoggedChannel((0x47000, 0xCE000), (0xC, 0xC)),)
    assert node.tree[-1] == LoggedLink("NET", 50_000, ("NIC", 0x67000), ("NET", 0xC))


def test_lines_without_host_or_end(tmp_path: Path) -> None:
    """As people paste them."""
    line = "Pattern 4, crossNic 0, nChannels 12, bw 20.000000/20.000000, type NVL/PIX"
    (node,) = read(tmp_path, line, prefix="NCCL INFO ").nodes
    assert node.host == ""
    assert node.graphs["ring"].figures.channels == 12


def test_ranks_are_kept_apart(tmp_path: Path) -> None:
    """Their lines are mixed; a rank may have several communicators."""
    lines = []
    for line in HEADS:
        lines += [f"n1:70:71 [0] NCCL INFO {line}", f"n2:90:91 [1] NCCL INFO {line}"]
    lines.append(f"n1:70:71 [0] NCCL INFO {HEADS[0]}")
    found = read(tmp_path, *lines, prefix="").nodes
    assert sorted((node.host, len(node.graphs)) for node in found) == [
        ("n1", 1),
        ("n1", 2),
        ("n2", 2),
    ]


def test_nics_bus_ids_and_the_library(tmp_path: Path) -> None:
    lines = read(
        tmp_path,
        "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1+mlx5_2:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
        "ncclCommInitRank comm 0x1 rank 1 nranks 8 cudaDev 1 nvmlDev 1 busId 1b000 commId 0x2 - Init START",
        "RCCL Unroll Factor (pre-set): 4",
    )
    assert lines.nics == ("mlx5_0", "mlx5_1+mlx5_2")
    assert lines.busids == {"n1": (0x1B000,)}
    assert (lines.ranks, lines.rccl, lines.nodes) == (8, True, ())


@swept(
    "line",
    [
        "Pattern 4, crossNic",
        "Pattern 9, crossNic 0, nChannels 1, bw 1/1, type NVL/PIX",
        " 0 : GPU/0-zz NET/",
        "+ PCI[x] - PCI/1",
        "rank 1 nranks",
    ],
)
def test_cut_lines_are_nothing(line: str, tmp_path: Path) -> None:
    assert read(tmp_path, line).nodes == ()
