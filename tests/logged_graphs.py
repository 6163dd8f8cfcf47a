"""Logs of NCCL's graphs, made of the search itself; and topology files of nodes with something
broken."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from golden_graphs import graph
from small_nodes import written

from colltool.libraries.nccl.topology.graphs import NodeGraphs

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


def replaced(parts: Iterable[str], old: str, new: str, count: int = 1) -> list[str]:
    """Parts of a file with the first of a text in all of them replaced."""
    text = "\n".join(parts)
    assert old in text
    return text.replace(old, new, count).split("\n")
