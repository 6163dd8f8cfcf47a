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
from collections.abc import Iterator, Mapping
from itertools import pairwise, product
from math import prod
from typing import Any

from colltool.base.errors import ManyErrors, clipped, quote
from colltool.base.files import AnyPath, read_text
from colltool.definitions.source import scan, value_at
from colltool.fabric.dumps.clos import ClosNetwork
from colltool.fabric.dumps.slurm_tree import MAX_LEVELS, MAX_NODES, SlurmTree, network_of

# SwitchName=leaf1 Nodes=n[001-016]
_CONF_LINE = re.compile(r"^\s*(?:SwitchName|BlockName)\s*=", re.IGNORECASE | re.MULTILINE)
_KEY = re.compile(r"(\w+)=(\S*)")
# a backslash at the end of a line
_CONTINUED = re.compile(r"\\\s*\n")
_CONFIG_MAP = re.compile(r"^kind:\s*ConfigMap\b", re.MULTILINE)
# the items of a,n[1-3,7]: commas in brackets part none
_ITEM = re.compile(r"(?:[^,\[\]\s]|\[[^\]]*\])+")
# n[001-004,9] and, in newer versions, several ranges in a name: rack[1-2]n[1-4]
_RANGES = re.compile(r"\[([\d,\-]+)\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
# the mark of a YAML document's start, ---
_DOCUMENT_START = re.compile(r"^---.*\n")

Data = Mapping[str, Any]


def read_slurm_topology(path: AnyPath) -> ClosNetwork:
    """Return the network of a cluster: its nodes, and the sizes of its levels.

    Raises:
        ColltoolError: another program's text, no tree, several trees that no switch joins, or
            beyond the limits.
    """
    tree = SlurmTree(os.fsdecode(path))
    text = read_text(path, "topology")
    _read_text(tree, text)
    return network_of(tree)


def _read_text(tree: SlurmTree, text: str) -> None:
    """Add the switches or blocks of a text in any of the formats."""
    # a ConfigMap may hold the lines of a topology.conf
    if _CONF_LINE.search(text) and not _CONFIG_MAP.search(text):
        _read_conf(tree, text)
    else:
        _read_data(tree, _content(text, tree.file))


# --- topology.conf


def _read_conf(tree: SlurmTree, text: str) -> None:
    """Add the switches or blocks of ``topology.conf``, a line each; other lines are left out. A line may
    go on behind a backslash."""
    lines = _CONTINUED.sub(" ", text).splitlines()
    for line in lines:
        statement = line.partition("#")[0]
        keys = {}
        for key, value in _KEY.findall(statement):
            keys[key.lower()] = value
        nodes = _expanded(tree, keys.get("nodes", ""))
        if "switchname" in keys:
            children = _expanded(tree, keys.get("switches", ""))
            tree.add(keys["switchname"], children, nodes)
        elif "blockname" in keys:
            tree.are_blocks = True
            tree.add(keys["blockname"], (), nodes)


def _expanded(tree: SlurmTree, text: str) -> list[str]:
    """The names of a list such as ``a,n[1-3,7]``: a, n1, n2, n3, n7. An error if there are more than
    ``MAX_NODES``."""
    names: list[str] = []
    for item in _ITEM.findall(text):
        names += _names(tree, item)
        # as soon as possible: a short text may stand for millions
        if len(names) > MAX_NODES:
            raise tree.too_many_error()
    return names


def _names(tree: SlurmTree, item: str) -> list[str]:
    """The names that ranges in brackets stand for, with the zeros of their first ends: ``n[08-10]`` is
    n08, n09 and n10."""
    # texts and ranges in turn: "rack", "1-2", "n", "1-4", ""
    parts = _RANGES.split(item)
    choices = [[text] for text in parts]
    for index in range(1, len(parts), 2):
        choices[index] = list(_numbers(tree, parts[index]))
    if prod(map(len, choices)) > MAX_NODES:
        raise tree.too_many_error()
    return list(map("".join, product(*choices)))


def _numbers(tree: SlurmTree, ranges: str) -> Iterator[str]:
    """The numbers of ranges such as ``001-004,9`` as text, each with as many digits as the first end of its
    range: 001, 002, 003, 004, 9."""
    for part in ranges.split(","):
        ends = _RANGE.fullmatch(part)
        if ends is None:
            raise tree.error(f"{quote(part)} is no range of numbers")
        width = len(ends[1])
        start = int(ends[1])
        end = start
        if ends[2]:
            end = int(ends[2])
        if end - start > MAX_NODES:
            raise tree.too_many_error()
        for number in range(start, end + 1):
            yield str(number).zfill(width)


# --- YAML and JSON


def _content(text: str, name: str) -> Data:
    """The data of YAML or JSON, whose errors are raised; a list of topologies is under
    ``topologies``."""
    # :func:`scan` reads mappings, and topology.yaml is a list
    body = _DOCUMENT_START.sub("", text.lstrip())
    if body.startswith("-"):
        body = "topologies:\n" + body
    source, problems = scan(body, name)
    if problems:
        raise ManyErrors([problem.error for problem in problems])
    return source.data


def _read_data(tree: SlurmTree, data: Data) -> None:
    """Add the switches or blocks of data of any of the known shapes, told by their keys."""
    config_map = data.get("data")
    if isinstance(config_map, dict):
        _read_config_map(tree, config_map)
    elif isinstance(data.get("topologies"), list):
        _read_topologies(tree, data["topologies"])
    elif isinstance(data.get("switches"), dict):
        for name, switch in _mappings(tree, data["switches"]):
            children = _listed(tree, switch, "switches")
            nodes = _listed(tree, switch, "nodes")
            tree.add(name, children, nodes)
    elif isinstance(data.get("capacity_blocks"), dict):
        tree.are_blocks = True
        for name, block in _mappings(tree, data["capacity_blocks"]):
            nodes = _listed(tree, block, "nodes")
            tree.add(name, (), nodes)
    elif isinstance(data.get("instances"), list):
        _read_instances(tree, data["instances"])
    elif {"tree", "block"} & data.keys():
        _read_topologies(tree, [data])
    else:
        raise tree.error("has no switches or blocks of Slurm or topograph")


def _read_config_map(tree: SlurmTree, texts: Data) -> None:
    """A Kubernetes ConfigMap: the first of its texts that is a topology."""
    for key, text in texts.items():
        if isinstance(text, str) and ("topology" in key or "Name=" in text):
            _read_text(tree, text)
            return
    raise tree.error("is a ConfigMap without topology.conf or topology.yaml")


def _read_topologies(tree: SlurmTree, topologies: list[Any]) -> None:
    """Add the switches or blocks of the default one of several topologies of ``topology.yaml``."""
    topology = _default_topology(topologies)
    if topology is None:
        fix = "give one with tree or block: a flat topology states no network"
        raise tree.error("has no topology with tree or block", fix)
    # a topology has one of the two
    kind = "tree"
    list_key = "switches"
    name_key = "switch"
    if "tree" not in topology:
        tree.are_blocks = True
        kind = "block"
        list_key = "blocks"
        name_key = "block"
    items = value_at((kind, list_key), topology)
    if not isinstance(items, list):
        raise tree.error(f"expected a list {list_key} in {kind}, got {quote(items)}")
    for item in items:
        name = value_at((name_key,), item)
        if not isinstance(name, str | int):
            raise tree.error(f"expected a mapping with {name_key}, got {quote(item)}")
        children = _listed(tree, item, "children")
        nodes = _listed(tree, item, "nodes")
        # a name may be a number
        tree.add(str(name), children, nodes)


def _default_topology(topologies: list[Any]) -> Data | None:
    """The default of the cluster, else the first, of those that state a network; None if none
    does."""
    first = None
    for topology in topologies:
        if not isinstance(topology, dict) or not {"tree", "block"} & topology.keys():
            continue
        if topology.get("cluster_default") is True:
            return topology
        if first is None:
            first = topology
    return first


def _mappings(tree: SlurmTree, data: Data) -> Iterator[tuple[str, Data]]:
    """The mappings under the keys of a mapping; an empty one where nothing stands."""
    for key, value in data.items():
        name = str(key)
        if value is not None and not isinstance(value, dict):
            raise tree.error(f"expected a mapping as {clipped(name)}, got {quote(value)}")
        yield name, value or {}


def _listed(tree: SlurmTree, data: Data, key: str) -> list[str]:
    """The names under a key, each with ranges: of a list, or a text such as ``n1,n[3-4]``; none where
    the key is missing or empty."""
    items = data.get(key)
    if not items:
        return []
    if not isinstance(items, list):
        items = [items]
    for item in items:
        if not isinstance(item, str | int) or isinstance(item, bool):
            raise tree.error(f"expected names as {key}, got {quote(item)}")
    return _expanded(tree, ",".join(map(str, items)))


def _read_instances(tree: SlurmTree, instances: list[Any]) -> None:
    """topograph's graph: each node with the switches above it, leaf first."""
    leaves: dict[str, list[str]] = defaultdict(list)
    for instance in instances:
        if not isinstance(instance, dict):
            raise tree.error(f"expected an instance, got {quote(instance)}")
        layers = _listed(tree, instance, "network_layers")
        if not layers or len(layers) > MAX_LEVELS:
            raise tree.error(f"expected 1 to {MAX_LEVELS} network_layers, got {len(layers)}")
        leaf = layers[0]
        node = str(instance.get("id"))
        leaves[leaf].append(node)
        # instances of a leaf repeat the switches above it
        for low, high in pairwise(layers):
            if tree.above.setdefault(low, high) != high:
                raise tree.two_above_error(low, high)
    tree.nodes |= leaves
