"""The overrides by which a dumped node and its network differ from the bundled fabric that they are
like: :func:`overrides_of`, the key ``set`` of a fabric file that is ``like`` another.

Keys are those of ``--set``: ``nvlink.size``, ``ib.levels``, ``library.cpu``. A tier is named as in the
bundled fabric (the stand-in). ``Data`` is a mapping as a fabric file has it; ``changes`` is one of new
values by the keys below a tier or ``library``, empty if nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from colltool.base.formatting import counted
from colltool.fabric.bundled_for import DeviceMatch
from colltool.fabric.dumps.clos import ClosNetwork
from colltool.fabric.dumps.link_rates import link_rate
from colltool.fabric.dumps.node import InnerTier, NodeDump, NodeSearch
from colltool.fabric.dumps.rates import OTHER_MEDIA, Data, DumpedMachine, StandIn
from colltool.fabric.dumps.written_tiers import network_tier
from colltool.fabric.load import fabric_data

# The values that keys of ``library`` have where a fabric file leaves them out.
_LIBRARY_DEFAULTS = {"link": "nvlink"}


def overrides_of(node: NodeDump, inner: InnerTier, dumps: DumpedMachine, base: DeviceMatch) -> Data:
    """Return values by key, in the order in which they are to be set.

    Args:
        node: that of ``dumps``.
        inner: its only inner tier, of the kind of the stand-in's first.
        base: the stand-in, with the overrides that its usual machine needs at first.
    """
    data = fabric_data(base.fabric)
    scale_up, *between_nodes = data["tiers"]
    tier = scale_up["name"]
    overrides: Data = {}
    # of the usual machine, KEY=VALUE each; numbers are written as such, not as text
    for override in base.differs:
        key, value = override.split("=")
        overrides[key] = int(value) if value.isdigit() else value
    inside: Data = {
        "size": inner.size,
        "source.size": f"{counted(inner.size, 'accelerator')}: {node.file}",
    }
    max_size = overrides.get(f"{tier}.max_size", scale_up.get("max_size", inner.size))
    if inner.size > int(max_size):
        inside["max_size"] = inner.size
    rate = link_rate(node, inner, base.fabric)
    if rate is not None:
        inside["bandwidth"] = rate.text
        inside["source.bandwidth"] = rate.source
    overrides |= _below(tier, inside)
    overrides |= _below("library", _library_changes(node, data.get("library")))
    if between_nodes:
        outer = StandIn(base.fabric, between_nodes[-1])
        overrides |= _below(outer.tier["name"], _network_changes(dumps, outer))
    return overrides


def library_of_search(node: NodeDump, search: NodeSearch) -> Data:
    """Return the keys of a file's ``library`` that NCCL's search on a node tells, ``source`` among
    them."""
    library: Data = {
        "gpu": search.gpu,
        "cpu": search.cpu,
        "link": search.link,
    }
    if node.nics:
        library["nics"] = len(node.nics)
    if not node.gpudirect:
        library["gpudirect"] = False
    library["channels"] = [dict(group) for group in search.groups]
    source = f"NCCL {search.release}'s topology search on {node.file}"
    library["source"] = {"channels": source}
    return library


def _below(key: str, values: Data) -> Data:
    """The same values by longer keys: below ``ib`` the key ``size`` becomes ``ib.size``."""
    return {f"{key}.{name}": value for name, value in values.items()}


def _library_changes(node: NodeDump, library: Any) -> Data:
    """What a node changes of the stand-in's ``library``, by key; nothing where the stand-in has none, or
    its name alone."""
    if not isinstance(library, dict):
        return {}
    dumped: Data = {}
    if node.search is not None and library["name"] == "nccl":
        dumped = library_of_search(node, node.search)
    else:
        if not node.gpudirect:
            dumped["gpudirect"] = False
        if node.cpu and "cpu" in library:
            dumped["cpu"] = node.cpu
    source = dumped.pop("source", {})
    changes: Data = {}
    for key, value in dumped.items():
        if library.get(key, _LIBRARY_DEFAULTS.get(key)) != value:
            changes[key] = value
    return changes | _below("source", source)


def _network_changes(dumps: DumpedMachine, outer: StandIn) -> Data:
    """What the dumps change of the outermost tier of the stand-in, by key."""
    tier = outer.tier
    in_network = tier.get("in_network") or {}
    dumped = network_tier(dumps, outer)
    changes: Data = {"size": dumps.size}
    if dumps.has_network:
        changes["bandwidth"] = dumped["bandwidth"]
        changes["source.bandwidth"] = dumped["source"]["bandwidth"]
    if dumps.network is not None:
        changes["levels"] = dumped["levels"]
        if "sizing" in dumped:
            changes["sizing"] = dumped["sizing"]
        if in_network:
            changes |= _below("in_network", _in_network_changes(in_network, dumps.network))
    else:
        changes |= _wider_top_level(tier.get("levels", ()), dumps.size)
    if dumps.medium in OTHER_MEDIA and tier.get("medium") != dumps.medium:
        changes["medium"] = dumps.medium
        changes |= _below("in_network", _without_abilities(in_network))
    name = dumps.network_name(outer)
    if name != tier["name"]:
        # last, as the keys above are set below the name of the stand-in
        changes["name"] = name
    return changes


def _in_network_changes(in_network: Data, network: ClosNetwork) -> Data:
    """The values that take away in-network abilities which the dumped network does not have; unknown ones
    stay."""
    changes: Data = {}
    if network.reduces is False:
        changes |= _without_abilities(in_network)
        changes["source.reduce"] = f"no aggregation node answers: {network.file}"
    # without the key the switches of all levels compute, however many there are
    if (in_network.get("levels") or 1) > len(network.levels):
        changes["levels"] = len(network.levels)
    return changes


def _without_abilities(in_network: Data) -> Data:
    """The values that take away what switches of InfiniBand do with a message, as far as they do it."""
    changes = {}
    for ability in ("reduce", "multicast"):
        if in_network.get(ability):
            changes[ability] = False
    return changes


def _wider_top_level(levels: Sequence[Data], size: int) -> Data:
    """The value that widens the top level, in whole groups of the level below, if it joins fewer than
    ``size`` endpoints."""
    if not levels or size <= levels[-1]["group"]:
        return {}
    *lower, top = levels
    group_below = 1
    if lower:
        group_below = lower[-1]["group"]
    group = ceil(size / group_below) * group_below
    return {f"levels.{top['name']}.group": group}
