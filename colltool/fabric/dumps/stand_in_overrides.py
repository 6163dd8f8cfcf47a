"""The overrides by which a dumped node and its network differ from the bundled fabric that they are
like: :func:`overrides_of`, the key ``set`` of a fabric file that is ``like`` another.

Keys are those of ``--set``: ``nvlink.size``, ``ib.levels``, ``library.cpu``. A tier is named as in the
bundled fabric (the stand-in).
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

# What holds of a key of ``library`` that a fabric file leaves out.
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
    key = scale_up["name"]
    overrides: Data = {}
    for override in base.differs:
        name, value = override.split("=")
        overrides[name] = int(value) if value.isdigit() else value
    overrides[f"{key}.size"] = inner.size
    overrides[f"{key}.source.size"] = f"{counted(inner.size, 'accelerator')}: {node.file}"
    max_size = overrides.get(f"{key}.max_size", scale_up.get("max_size", inner.size))
    if inner.size > int(max_size):
        overrides[f"{key}.max_size"] = inner.size
    rate = link_rate(node, inner, base.fabric)
    if rate is not None:
        overrides[f"{key}.bandwidth"] = rate.text
        overrides[f"{key}.source.bandwidth"] = rate.source
    overrides |= _library_overrides(node, data.get("library"))
    if between_nodes:
        overrides |= _network_overrides(dumps, StandIn(base.fabric, between_nodes[-1]))
    return overrides


def library_of_search(node: NodeDump, search: NodeSearch) -> Data:
    """Return the keys of a file's ``library`` that NCCL's search on a node tells, as overrides name
    them: the source of its channels is ``source.channels``."""
    library: Data = {"gpu": search.gpu, "cpu": search.cpu, "link": search.link}
    if node.nics:
        library["nics"] = len(node.nics)
    if not node.gpudirect:
        library["gpudirect"] = False
    library["channels"] = [dict(group) for group in search.groups]
    library["source.channels"] = f"NCCL {search.release}'s topology search on {node.file}"
    return library


def _library_overrides(node: NodeDump, library: Any) -> Data:
    """The overrides by which a node changes the stand-in's library: a mapping, or a name alone, which
    has nothing to change."""
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
    overrides: Data = {}
    for key, value in dumped.items():
        if library.get(key, _LIBRARY_DEFAULTS.get(key)) != value:
            overrides[f"library.{key}"] = value
    return overrides


def _network_overrides(dumps: DumpedMachine, outer: StandIn) -> Data:
    """The overrides by which the dumps change the outermost tier of the stand-in."""
    tier = outer.tier
    key = tier["name"]
    dumped = network_tier(dumps, outer)
    overrides: Data = {f"{key}.size": dumps.size}
    if dumps.has_network:
        overrides[f"{key}.bandwidth"] = dumped["bandwidth"]
        overrides[f"{key}.source.bandwidth"] = dumped["source"]["bandwidth"]
    if dumps.network is not None:
        overrides[f"{key}.levels"] = dumped["levels"]
        if "sizing" in dumped:
            overrides[f"{key}.sizing"] = dumped["sizing"]
        if tier.get("in_network"):
            overrides |= _in_network_overrides(
                f"{key}.in_network", tier["in_network"], dumps.network
            )
    else:
        overrides |= _wider_top_level(key, tier.get("levels", ()), dumps.size)
    if dumps.medium in OTHER_MEDIA and tier.get("medium") != dumps.medium:
        overrides[f"{key}.medium"] = dumps.medium
        overrides |= _without_abilities(f"{key}.in_network", tier.get("in_network") or {})
    name = dumps.network_name(outer)
    if name != key:
        # last, as the keys above have the name of the stand-in
        overrides[f"{key}.name"] = name
    return overrides


def _in_network_overrides(key: str, in_network: Data, network: ClosNetwork) -> Data:
    """The overrides of ``key`` that remove in-network abilities which the network does not have."""
    overrides: Data = {}
    if network.reduces is False:
        overrides |= _without_abilities(key, in_network)
        overrides[f"{key}.source.reduce"] = f"no aggregation node answers: {network.file}"
    # without the key the switches of all levels compute, however many there are
    if (in_network.get("levels") or 1) > len(network.levels):
        overrides[f"{key}.levels"] = len(network.levels)
    return overrides


def _without_abilities(key: str, in_network: Data) -> Data:
    """The overrides of ``key`` that remove what switches of InfiniBand do with a message."""
    overrides = {}
    for ability in ("reduce", "multicast"):
        if in_network.get(ability):
            overrides[f"{key}.{ability}"] = False
    return overrides


def _wider_top_level(key: str, levels: Sequence[Data], size: int) -> Data:
    """The override that widens the top level of the tier ``key``, in whole groups of the level below,
    if it joins fewer than ``size`` endpoints."""
    if not levels or size <= levels[-1]["group"]:
        return {}
    *lower, top = levels
    group_below = 1
    if lower:
        group_below = lower[-1]["group"]
    return {f"{key}.levels.{top['name']}.group": ceil(size / group_below) * group_below}
