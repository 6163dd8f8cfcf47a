"""Domains: the GPUs of a system that reach each other without the network, each of which NCCL makes a
node of; and the rates that a domain's GPUs move."""

from __future__ import annotations

from typing import NamedTuple

from colltool.libraries.nccl.topology.kinds import NET, UNLIMITED_MBps
from colltool.libraries.nccl.topology.paths import Paths
from colltool.libraries.nccl.topology.system import RankedGpu, System, number_parts


def domains_of(paths: Paths) -> list[list[RankedGpu]]:
    """The GPUs of each domain, domains by their first GPU; a GPU is in the first domain of which it reaches
    any GPU without the network."""
    group_of: list[int] = []
    gpus = paths.system.gpus
    for index, gpu in enumerate(gpus):
        group = index
        for earlier in range(index):
            if paths.get(gpu, gpus[earlier]).kind < NET:
                group = min(group, group_of[earlier])
        group_of.append(group)
    groups: dict[int, list[RankedGpu]] = {}
    for gpu, group in zip(gpus, group_of, strict=True):
        groups.setdefault(group, []).append(gpu)
    return list(groups.values())


def trim(system: System, ranks: set[int]) -> None:
    """Drop the GPUs of ranks other than these; their devices, and all NICs, stay."""
    system.gpus = [gpu for gpu in system.gpus if gpu.rank in ranks]
    for device in system.devices:
        device.links = [
            link
            for link in device.links
            if not isinstance(link.to, RankedGpu) or link.to.rank in ranks
        ]
    number_parts(system)


class Totals(NamedTuple):
    """What a GPU moves: ``most_MBps`` on one path, to a NIC across nodes, else to another GPU;
    ``total_MBps`` on all of its NVLinks, or its slot."""

    most_MBps: int
    total_MBps: int


def totals_of(paths: Paths, across: bool) -> Totals:
    """The most that any device moves, ``across`` nodes or inside one; without limit for a GPU alone."""
    system = paths.system
    if len(system.gpus) == 1 and not across:
        return Totals(UNLIMITED_MBps, UNLIMITED_MBps)
    most = 0
    total = 0
    for device in system.devices:
        for end in system.nets if across else system.devices:
            if end is not device:
                most = max(most, paths.get(device, end).MBps)
        total = max(total, device.total_MBps("NVL"), device.total_MBps("PCI"))
    return Totals(most, total)
