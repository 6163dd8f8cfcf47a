"""NCCL's own graphs of topology files (``golden.jsonl`` beside XML files), and ours in the same form.

A row has the graphs of one node (``inside``) and of several (``across``), and of communicators by
number of nodes their channels, the cost model's table and picks; rates in GB/s, latencies in us. Made
by NCCL 2.30.7's own functions without GPUs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from colltool.base.errors import ColltoolError, localize
from colltool.base.primitives import AG, AR, BC, REDUCE, RS
from colltool.estimate.groups import place
from colltool.estimate.library_pick import schedule_on
from colltool.estimate.nccl_hardware import hardware_on
from colltool.estimate.price import price
from colltool.fabric.dumps.read import import_dumps
from colltool.fabric.library_numbers import with_p2p
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.tier_media import p2p_unknown
from colltool.libraries.nccl.hardware import Hardware
from colltool.libraries.nccl.model import pick, pieces
from colltool.libraries.nccl.rules import rules_of
from colltool.libraries.nccl.topology.connect import communicator_of, rings_over
from colltool.libraries.nccl.topology.graphs import DomainGraphs, NodeGraphs, graphs_of
from colltool.libraries.nccl.topology.kinds import KINDS
from colltool.libraries.nccl.topology.paths import Path as TopologyPath
from colltool.libraries.nccl.topology.search import Searched
from colltool.libraries.nccl.topology.to_hardware import hardware_of

FOLDER = Path(__file__).parent / "data" / "nccl-graph"
WORDS = (
    *("pattern", "crossNic", "nChannels", "bwIntra", "bwInter", "typeIntra", "typeInter"),
    "sameChannels",
)
_PRIMITIVES = {
    "broadcast": BC,
    "reduce": REDUCE,
    "allgather": AG,
    "reducescatter": RS,
    "allreduce": AR,
}
_SIZES = range(8, 35)


def rows(folder: Path = FOLDER) -> list[dict[str, Any]]:
    lines = (folder / "golden.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def xml_of(row: dict[str, Any], folder: Path, unpacked: Path) -> Path:
    """The topology file of a row; packed ones are written to a folder."""
    for plain in (folder / f"{row['id']}.xml", folder / "xml" / f"{row['id']}.xml"):
        if plain.exists():
            return plain
    file = unpacked / f"{row['id']}.xml"
    file.write_bytes(gzip.decompress((folder / "xml" / f"{row['id']}.xml.gz").read_bytes()))
    return file


def files(asked: argparse.Namespace) -> Iterator[tuple[dict[str, Any], Path]]:
    """The rows that a benchmark was asked for, each with its file (:func:`arguments`)."""
    with tempfile.TemporaryDirectory() as unpacked:
        for row in rows(asked.folder):
            if asked.only in ("", row["class"]):
                yield row, xml_of(row, asked.folder, Path(unpacked))


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--class", dest="only", default="")
    return parser


def graph(domain: DomainGraphs, result: Searched) -> dict[str, Any]:
    """A graph in the words of the file."""
    request = result.best.request
    nets = domain.paths.system.nets
    channels = result.best.channels
    found = {
        "pattern": request.pattern,
        "crossNic": request.cross_nic,
        "nChannels": len(channels),
        "bwIntra": result.inside_MBps / 1000,
        "bwInter": result.across_MBps / 1000,
        "typeIntra": KINDS[result.inside],
        "typeInter": KINDS[result.across],
        "sameChannels": int(request.same),
        "latencyInter": result.best.latency_us,
        "gpus": [[domain.ranks[gpu] for gpu in channel.gpus] for channel in channels],
    }
    if domain.across:
        found["nets"] = [[nets[net].id for net in channel.nets] for channel in channels]
    return found


def near(one: Any, other: Any) -> bool:
    if one == other:
        return True
    if isinstance(one, str) or other is None:
        return False
    return bool(abs(one - other) <= 1e-3 * max(1, abs(one), abs(other)))


def same_numbers(want: dict[str, Any], have: dict[str, Any] | None) -> bool:
    return have is not None and all(near(want[word], have[word]) for word in WORDS)


def same_orders(want: dict[str, Any], have: dict[str, Any] | None) -> bool:
    if have is None:
        return False
    gpus = want["gpus"] * (want["nChannels"] if want.get("all_alike") else 1)
    return bool(gpus == have["gpus"] and want.get("nets") == have.get("nets"))


def table_of(hardware: Hardware) -> dict[str, dict[str, list[float]]]:
    """Latency in us and bandwidth in GB/s of each way that runs, by collective."""
    rules = rules_of(hardware.constants)
    found = {}
    for name, primitive in _PRIMITIVES.items():
        ways = {}
        for way in pieces(hardware, primitive):
            what = (hardware, primitive, way.algorithm, way.protocol)
            if way.pieces:
                latency_us = sum(term.times * term.us for term in rules.latency_terms(*what))
                ways[f"{way.algorithm}/{way.protocol}"] = [latency_us, rules.bandwidth_GBps(*what)]
        found[name] = ways
    return found


def picks_of(hardware: Hardware) -> dict[str, list[list[Any]]]:
    """Powers of two where the pick changes, and the pick."""
    found = {}
    for name, primitive in _PRIMITIVES.items():
        changes: list[list[Any]] = []
        for power in _SIZES:
            way = pick(hardware, primitive, 2.0**power)
            text = f"{way.algorithm}/{way.protocol}"
            if not changes or changes[-1][1] != text:
                changes.append([power, text])
        found[name] = changes
    return found


def same_table(want: dict[str, Any], have: dict[str, Any]) -> bool:
    for name, ways in want.items():
        if set(ways) != set(have[name]):
            return False
        for way, numbers in ways.items():
            if not all(map(near, numbers, have[name][way])):
                return False
    return True


def same_picks(want: dict[str, Any], have: dict[str, Any]) -> bool:
    return all([change[:2] for change in changes] == have[name] for name, changes in want.items())


def judged(row: dict[str, Any], file: Path) -> Iterator[tuple[str, str, bool]]:
    """What was compared of a row, of how many nodes, and whether it is equal."""
    found: dict[bool, NodeGraphs] = {}
    for across, side in ((False, "inside"), (True, "across")):
        if "graphs" not in row.get(side, {}):
            continue
        found[across] = graphs_of(file, 2 if across else 1)
        domain = found[across].first
        have = {name: graph(domain, result) for name, result in domain.graphs.items()}
        want = row[side]["graphs"]
        numbers = all(same_numbers(graph_, have.get(name)) for name, graph_ in want.items())
        orders = all(same_orders(graph_, have.get(name)) for name, graph_ in want.items())
        yield "numbers", side, numbers and set(want) == set(have)
        yield "orders", side, orders
    for nodes, want in row["comm"].items():
        if (node := found.get(nodes != "1")) is None:
            continue
        joined = communicator_of(node, int(nodes))
        counts = (joined.nodes, joined.channels, joined.nvls_channels)
        wanted = (want["nNodes"], want["nChannels"], want["nvlsChannels"])
        side = f"{nodes} nodes"
        yield (
            "channels",
            side,
            counts == wanted and near(want["minNetBw"], joined.least_nic_MBps / 1000),
        )
        hardware = hardware_of(node, joined, "2.30")
        yield "tuner", side, same_table(want["table"], table_of(hardware))
        yield "picks", side, same_picks(want["picks"], picks_of(hardware))
        if "rings" in want and nodes == "2":
            rings = rings_over(node)
            # two are told, also of one ring that is doubled
            yield "rings", side, want["rings"] == (rings * 2)[:2]


class ImportedRow(NamedTuple):
    """A row's file as ``fabric import`` reads it for so many nodes, beside NCCL's own.

    Args:
        refused: why it was not imported, or has no hardware of NCCL's model.
        share: busbw of a ring all-reduce of 8 GiB as we price it, of NCCL's channels x bandwidth.
    """

    name: str
    nodes: int
    refused: str = ""
    same_ring: bool = False
    same_picks: bool = False
    nccl_GBps: float = 0.0
    priced_GBps: float = 0.0

    @property
    def share(self) -> float:
        return self.priced_GBps / self.nccl_GBps if self.priced_GBps else 0.0

    @property
    def line(self) -> str:
        if self.refused:
            return f"{self.name} on {self.nodes}: {self.refused}"
        differs = "" if self.same_ring and self.same_picks else ", DIFFERS"
        return (
            f"{self.name} on {self.nodes}: NCCL {self.nccl_GBps:g} GB/s, priced"
            f" {self.priced_GBps:.1f}{differs}"
        )


def imported(row: dict[str, Any], file: Path) -> Iterator[ImportedRow]:
    """A file imported for two nodes where it has NICs, and groups of one node and of all."""
    sizes = [int(nodes) for nodes in row["comm"] if int(nodes) <= 2]
    try:
        text = import_dumps(["nccl-topo", str(file)], nodes=max(sizes))
        fabric = load_fabric(yaml.safe_load(text))
    except ColltoolError as error:
        for nodes in sizes:
            yield ImportedRow(row["id"], nodes, localize(f"{error.what}; {error.fix}"))
        return
    if p2p_unknown(fabric):
        fabric = with_p2p(fabric, True)
    for nodes in sizes:
        yield _imported(row, fabric, nodes, fabric.ranks * nodes // max(sizes))


def _imported(row: dict[str, Any], fabric: Fabric, nodes: int, ranks: int) -> ImportedRow:
    want = row["comm"][str(nodes)]
    across = want["nNodes"] > 1
    try:
        hardware = hardware_on(fabric, ranks)
    except ColltoolError as error:
        return ImportedRow(row["id"], nodes, localize(f"{error.what}; {error.fix}"))
    side = row["across" if across and "graphs" in row["across"] else "inside"]
    ring = side["graphs"]["ring"]
    rate = ring["bwIntra"]
    same = near(hardware.ring.inside_GBps, rate) and hardware.ring.channels == ring["nChannels"]
    if across:
        rate = min(rate, ring["bwInter"])
    spec = schedule_on("ring", AR, hardware, place(fabric, ranks))
    priced = price(fabric, AR, 2.0**33, ranks, only=[spec] if spec else ()).results[0]
    return ImportedRow(
        row["id"],
        nodes,
        same_ring=same and hardware.nodes == want["nNodes"],
        same_picks=same_picks(want["picks"], picks_of(hardware)),
        nccl_GBps=ring["nChannels"] * rate,
        priced_GBps=float(priced.busbw_Bps) / 1e9,
    )


def path_text(path: TopologyPath) -> str:
    """``NVL/370.8/4``: type, rate in GB/s, links."""
    return f"{KINDS[path.kind]}/{path.MBps / 1000:g}/{len(path.links)}"
