"""The network of a Slurm cluster: ``topology.conf``, ``topology.yaml``, and what topograph writes.

Formats:

* ``topology.conf`` (Slurm, topology.conf(5)): lines of ``SwitchName=NAME`` with ``Switches=`` or
  ``Nodes=``, and an optional ``LinkSpeed`` without a unit; or ``BlockName=NAME Nodes=`` and
  ``BlockSizes=``. Names of keys in any case, comments behind ``#``, lists with ranges such as
  ``n[001-004,9]``, and a line that ends in a backslash goes on.
* ``topology.yaml`` (Slurm 25.05, topology.yaml(5)): a list of topologies, each with ``tree`` (a list
  ``switches`` of ``switch`` with ``children`` or ``nodes``), ``block`` (``block_sizes``, and ``blocks`` of
  ``block`` with ``nodes``) or ``flat``. The one with ``cluster_default`` is read, else the first.
* topograph's outputs for Slurm are these two, for Slinky inside a Kubernetes ConfigMap; its models
  are maps ``switches`` (with ``switches`` or ``nodes``) and ``capacity_blocks``; its graph engine writes
  JSON of ``instances`` with ``network_layers``, leaf first.

A tree states which nodes are under which switch: the sizes of levels. A block is a domain of NVLink or
a pod. None states rates of ports, or how many cables go up.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import ceil, prod
from statistics import median_high
from typing import Any

from colltool.base.errors import ColltoolError, ManyErrors, clipped, quote
from colltool.base.files import AnyPath, read_text
from colltool.definitions.source import scan, value_at
from colltool.fabric.dumps.clos import ClosNetwork, SwitchLevel

TOOL = "Slurm topology"
# Limits that no cluster reaches.
MAX_NODES = 100_000
MAX_LEVELS = 8
_FIX = "give topology.conf or topology.yaml of Slurm, or what topograph wrote"
_BY_HAND = "describe it by hand: colltool fabric init, colltool guide fabrics"

# SwitchName=leaf1 Nodes=n[001-016]
_CONF_LINE = re.compile(r"^\s*(?:SwitchName|BlockName)\s*=", re.IGNORECASE | re.MULTILINE)
_CONFIG_MAP = re.compile(r"^kind:\s*ConfigMap\b", re.MULTILINE)
_KEY = re.compile(r"(\w+)=(\S*)")
# n[001-004,9] and, in newer versions, several ranges in a name: rack[1-2]n[1-4]
_RANGES = re.compile(r"\[([\d,\-]+)\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")

Data = Mapping[str, Any]


@dataclass
class _SlurmTree:
    """Switches or blocks by name, with the nodes right under each, and the switch above each."""

    file: str
    nodes: dict[str, list[str]] = field(default_factory=dict)
    above: dict[str, str] = field(default_factory=dict)
    blocks: bool = False

    def refuse(self, what: str, fix: str = _FIX) -> ColltoolError:
        return ColltoolError(what, where=self.file, fix=fix)

    def too_many(self) -> ColltoolError:
        return self.refuse(f"lists more than {MAX_NODES} nodes: no cluster is so large")

    def add(self, name: str, children: Iterable[str], nodes: Iterable[str]) -> None:
        if name in self.nodes:
            raise self.refuse(f"{quote(name)} is listed twice")
        self.nodes[name] = list(nodes)
        for child in children:
            if child in self.above:
                what = f"{quote(child)} is under two switches: {self.above[child]} and {name}"
                raise self.refuse(f"is no tree: {what}", _BY_HAND)
            self.above[child] = name


def read_slurm_topology(path: AnyPath) -> ClosNetwork:
    """Return the network of a cluster: its nodes, and the sizes of its levels.

    Raises:
        ColltoolError: another program's text, no tree, several trees that no switch joins, or
            beyond the limits.
    """
    name = os.fsdecode(path)
    text = read_text(path, "topology")
    tree = _SlurmTree(name)
    is_conf = _CONF_LINE.search(text) is not None
    if is_conf and not _CONFIG_MAP.search(text):
        _read_conf(tree, text)
    else:
        _read_data(tree, _content(text, name))
    if sum(map(len, tree.nodes.values())) == 0:
        raise tree.refuse("has no nodes under switches or blocks")
    return _network(tree)


# --- topology.conf


def _read_conf(tree: _SlurmTree, text: str) -> None:
    lines = re.sub(r"\\\s*\n", " ", text).splitlines()
    for line in lines:
        keys = {key.lower(): value for key, value in _KEY.findall(line.partition("#")[0])}
        nodes = _expanded(tree, keys.get("nodes", ""))
        if "switchname" in keys:
            tree.add(keys["switchname"], _expanded(tree, keys.get("switches", "")), nodes)
        elif "blockname" in keys:
            tree.blocks = True
            tree.add(keys["blockname"], (), nodes)


def _expanded(tree: _SlurmTree, text: str) -> list[str]:
    """The names of a list such as ``a,n[1-3,7]``."""
    found: list[str] = []
    for item in re.findall(r"(?:[^,\[\]\s]|\[[^\]]*\])+", text):
        found += _names(tree, item)
        if len(found) > MAX_NODES:
            raise tree.too_many()
    return found


def _names(tree: _SlurmTree, item: str) -> list[str]:
    """The names that ranges in brackets stand for, with the zeros of their first ends: ``n[08-10]`` is
    n08, n09 and n10."""
    # texts and ranges in turn: "rack", "1-2", "n", "1-4", ""
    parts = _RANGES.split(item)
    choices = [[text] for text in parts]
    for index in range(1, len(parts), 2):
        choices[index] = list(_numbers(tree, parts[index]))
    if prod(map(len, choices)) > MAX_NODES:
        raise tree.too_many()
    return list(map("".join, product(*choices)))


def _numbers(tree: _SlurmTree, text: str) -> Iterator[str]:
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise tree.refuse(f"{quote(part)} is no range of numbers")
        start = int(found[1])
        end = int(found[2] or start)
        if end - start > MAX_NODES:
            raise tree.too_many()
        for number in range(start, end + 1):
            yield f"{number:0{len(found[1])}d}"


# --- YAML and JSON


def _content(text: str, name: str) -> Data:
    """The data of a file; a list of topologies is under ``topologies``."""
    # a definition is a mapping, and topology.yaml a list
    body = re.sub(r"^---.*\n", "", text.lstrip())
    if body.startswith("-"):
        body = "topologies:\n" + body
    source, problems = scan(body, name)
    if problems:
        raise ManyErrors([problem.error for problem in problems])
    return source.data


def _read_data(tree: _SlurmTree, data: Data) -> None:
    """Read a tree from data of any of the known shapes."""
    inner = data.get("data")
    if isinstance(inner, dict):
        _read_config_map(tree, inner)
    elif isinstance(data.get("topologies"), list):
        _read_topologies(tree, data["topologies"])
    elif isinstance(data.get("switches"), dict):
        for name, switch in _mappings(tree, data["switches"]):
            tree.add(name, _listed(tree, switch, "switches"), _listed(tree, switch, "nodes"))
    elif isinstance(data.get("capacity_blocks"), dict):
        tree.blocks = True
        for name, block in _mappings(tree, data["capacity_blocks"]):
            tree.add(name, (), _listed(tree, block, "nodes"))
    elif isinstance(data.get("instances"), list):
        _read_instances(tree, data["instances"])
    elif {"tree", "block"} & data.keys():
        _read_topologies(tree, [data])
    else:
        raise tree.refuse("has no switches or blocks of Slurm or topograph")


def _read_config_map(tree: _SlurmTree, texts: Data) -> None:
    """A Kubernetes ConfigMap: the first of its texts that is a topology."""
    for key, text in texts.items():
        if isinstance(text, str) and ("topology" in key or "Name=" in text):
            if _CONF_LINE.search(text):
                _read_conf(tree, text)
            else:
                _read_data(tree, _content(text, tree.file))
            return
    raise tree.refuse("is a ConfigMap without topology.conf or topology.yaml")


def _read_topologies(tree: _SlurmTree, topologies: list[Any]) -> None:
    """Read the default one of several topologies: a tree or blocks."""
    topology = _default_topology(topologies)
    if topology is None:
        fix = "give one with tree or block: a flat topology states no network"
        raise tree.refuse("has no topology with tree or block", fix)
    # a topology has one of the two
    kind = "tree"
    key = "switch"
    plural = "switches"
    if "tree" not in topology:
        tree.blocks = True
        kind = "block"
        key = "block"
        plural = "blocks"
    items = value_at((kind, plural), topology)
    if not isinstance(items, list):
        raise tree.refuse(f"expected a list {plural} in {kind}, got {quote(items)}")
    for item in items:
        if not isinstance(value_at((key,), item), str | int):
            raise tree.refuse(f"expected a mapping with {key}, got {quote(item)}")
        children = _listed(tree, item, "children")
        tree.add(str(item[key]), children, _listed(tree, item, "nodes"))


def _default_topology(topologies: list[Any]) -> Data | None:
    """The default of the cluster, else the first, of those that state a network."""
    usable = None
    for topology in topologies:
        if not isinstance(topology, dict) or not {"tree", "block"} & topology.keys():
            continue
        if topology.get("cluster_default") is True:
            return topology
        usable = usable or topology
    return usable


def _mappings(tree: _SlurmTree, data: Data) -> Iterator[tuple[str, Data]]:
    for key, value in data.items():
        if value is not None and not isinstance(value, dict):
            raise tree.refuse(f"expected a mapping as {clipped(str(key))}, got {quote(value)}")
        yield str(key), value or {}


def _listed(tree: _SlurmTree, data: Data, key: str) -> list[str]:
    """The names of a list, or of a text with a list, each with ranges."""
    items = data.get(key) or []
    if not isinstance(items, list):
        items = [items]
    for item in items:
        if not isinstance(item, str | int) or isinstance(item, bool):
            raise tree.refuse(f"expected names as {key}, got {quote(item)}")
    return _expanded(tree, ",".join(map(str, items)))


def _read_instances(tree: _SlurmTree, instances: list[Any]) -> None:
    """topograph's graph: each node with the switches above it, leaf first."""
    leaves: dict[str, list[str]] = defaultdict(list)
    for instance in instances:
        if not isinstance(instance, dict):
            raise tree.refuse(f"expected an instance, got {quote(instance)}")
        layers = _listed(tree, instance, "network_layers")
        if not layers or len(layers) > MAX_LEVELS:
            raise tree.refuse(f"expected 1 to {MAX_LEVELS} network_layers, got {len(layers)}")
        leaves[layers[0]].append(str(instance.get("id")))
        for low, high in pairwise(layers):
            if tree.above.setdefault(low, high) != high:
                what = f"{quote(low)} is under two switches: {tree.above[low]} and {high}"
                raise tree.refuse(f"is no tree: {what}", _BY_HAND)
    tree.nodes |= leaves


# --- the levels


def _network(tree: _SlurmTree) -> ClosNetwork:
    """The network of a tree: the nodes of the usual switch of each level."""
    hosts = sum(map(len, tree.nodes.values()))
    if hosts > MAX_NODES:
        raise tree.too_many()
    if tree.blocks:
        levels, notes = _block_levels(tree, hosts)
    else:
        levels, notes = _tree_levels(tree, hosts)
    return ClosNetwork(
        file=tree.file,
        tool=TOOL,
        hosts=hosts,
        ports=None,
        port_Bps=None,
        rails=1,
        levels=tuple(levels),
        radix=None,
        infiniband=False,
        reduces=None,
        notes=tuple(notes),
        assumed=("uplinks as fast as all downlinks; the file lists no cables",),
    )


def _block_levels(tree: _SlurmTree, hosts: int) -> tuple[list[SwitchLevel], list[str]]:
    """Blocks under one network."""
    sizes = [len(nodes) for nodes in tree.nodes.values() if nodes]
    return _grouped([sizes], hosts)


def _tree_levels(tree: _SlurmTree, hosts: int) -> tuple[list[SwitchLevel], list[str]]:
    """The levels of switches, leaves first: how many nodes are under each switch of them."""
    under: dict[str, int] = defaultdict(int)
    height: dict[str, int] = defaultdict(int)
    for leaf, nodes in tree.nodes.items():
        if not nodes:
            continue
        switch = leaf
        for level in range(MAX_LEVELS + 1):
            under[switch] += len(nodes)
            height[switch] = max(height[switch], level)
            if switch not in tree.above:
                break
            switch = tree.above[switch]
        else:
            raise tree.refuse(
                f"has more than {MAX_LEVELS} levels, or switches in a circle", _BY_HAND
            )
    tops = [switch for switch in under if switch not in tree.above]
    if len(tops) > 1:
        what = f"{len(tops)} switches have none above, such as {clipped(tops[0])}"
        raise tree.refuse(f"is no tree: {what}, {clipped(tops[1])}", _BY_HAND)
    sizes: list[list[int]] = [[] for _ in range(max(height.values()) + 1)]
    for switch, count in under.items():
        sizes[height[switch]].append(count)
    return _grouped(sizes, hosts)


def _grouped(sizes: list[list[int]], hosts: int) -> tuple[list[SwitchLevel], list[str]]:
    """Levels by the nodes under each of their switches; a group is whole groups of the level below."""
    levels: list[SwitchLevel] = []
    notes = []
    below = 1
    for number, counts in enumerate(sizes, start=1):
        usual = median_high(counts)
        group = ceil(usual / below) * below
        if levels and group <= below:
            continue
        odd = sum(count != usual for count in counts)
        if odd:
            notes.append(
                f"{odd} of {len(counts)} switches of level {number} have not {usual} hosts"
            )
        levels.append(SwitchLevel(group, len(counts), oversubscription=1.0))
        below = group
    if below < hosts:
        # blocks, and trees whose switches are unlike: one level joins all
        levels.append(SwitchLevel(ceil(hosts / below) * below, 1, oversubscription=1.0))
    return levels, notes
