"""What versions of NCCL's search do differently (``versions.toml``), and what its settings change."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from colltool.base.cache import packaged_toml
from colltool.libraries.nccl.topology.kinds import KINDS, LOC, P2C, PHB, PIX, PXB, SYS

RELEASE = "2.30.7"
"""The release that is computed unless another is named."""

# Rates that are tried for a channel, falling, in MB/s.
Rates = Sequence[int]


class Version(NamedTuple):
    """A version's search.

    Args:
        since: the first release that searches so, as its three numbers.
        read_in: the release whose source was read for it.
        nearest_kind_first: of two paths the one of the nearer type is better, then the one with the
            higher rate, then the one of fewer links. Before: only one that has fewer links and a
            higher rate. The same for the CPU of a GPU.
        ampere_inside ... blackwell_across: the rates that are tried, by the GPUs' generation, on one node
            and with a network.
        rails: rails and planes of NICs are read.
        farthest_before_hopper: GPUs before Hopper may reach NICs by a path of any type up to SYS,
            not only up to the farthest one that the node has.
        nic_over_c2c: a NIC on the CPU of a GPU with C2C is near (P2C), and a GPU relays to it.
        blackwell_link_MBps: one NVLink from compute capability 100 on.
        nvls_channels_grow: NVLS's channels become the communicator's if they are more.
        peers: the farthest type of path on which GPUs copy to each other; None: NCCL's own choice
            by the host.
        gdr: the farthest type of path on which NICs read and write GPUs.
        pxn: GPUs relay to NICs.
        cross_nic: the setting NCCL_CROSS_NIC: whether a ring may leave a node by another NIC than
            it came by. 0: never, 1: yes, 2: where that is faster.
    """

    since: list[int]
    read_in: str
    ampere_inside: Rates
    ampere_across: Rates
    hopper_inside: Rates
    hopper_across: Rates
    blackwell_inside: Rates
    blackwell_across: Rates
    blackwell_link_MBps: int
    nearest_kind_first: bool
    rails: bool
    farthest_before_hopper: bool
    nic_over_c2c: bool
    nvls_channels_grow: bool
    # of the settings, not of the version
    peers: int | None = None
    gdr: int = P2C
    pxn: bool = True
    cross_nic: int = 2

    def speeds(self, sm: int, *, across: bool) -> Rates:
        """The rates that are tried for a channel of GPUs of a compute capability."""
        if sm >= 100:
            return self.blackwell_across if across else self.blackwell_inside
        if sm >= 90:
            return self.hopper_across if across else self.hopper_inside
        return self.ampere_across if across else self.ampere_inside


@cache
def _versions() -> list[Version]:
    """All versions, newest first."""
    all_versions = []
    # a row of the file says only what differs from the newer one before it
    fields: dict[str, Any] = {}
    for row in packaged_toml(Path(__file__).with_suffix(".toml"))["version"]:
        fields |= row
        all_versions.append(Version(**fields))
    return all_versions


def version_of(release: str) -> Version:
    """The search of a release: that of the newest version that is not newer than it.

    A release without a patch is taken for its last one, and one before 2.26 for 2.26:

    >>> [version_of(release).read_in for release in ("2.29.1", "2.29", "2.30", "2.24.3")]
    ['2.29.2', '2.29.7', '2.30.7', '2.26.2']
    """
    parts = list(map(int, re.findall(r"\d+", release)[:3]))
    if len(parts) < 3:
        parts.append(99)  # above every patch
    for version in _versions():
        if version.since <= parts:
            return version
    return _versions()[-1]


# NCCL_P2P_LEVEL and NCCL_NET_GDR_LEVEL as numbers, as releases before 2.5 had them
_LEVELS = {"0": LOC, "1": PIX, "2": PXB, "3": PXB, "4": PHB, "5": SYS}


def with_settings(version: Version, env: Mapping[str, str]) -> Version:
    """A version's search under NCCL's settings; other variables and values change nothing.

    >>> KINDS[with_settings(version_of("2.30"), {"NCCL_NET_GDR_LEVEL": "PHB"}).gdr]
    'PHB'
    """
    peers = _path_type(env.get("NCCL_P2P_LEVEL", ""))
    if env.get("NCCL_P2P_DISABLE", "0") != "0":
        peers = LOC
    if peers is not None:
        version = version._replace(peers=peers)
    gdr = _path_type(env.get("NCCL_NET_GDR_LEVEL", ""))
    if gdr is not None:
        version = version._replace(gdr=gdr)
    if env.get("NCCL_PXN_DISABLE", "0") != "0":
        version = version._replace(pxn=False)
    if env.get("NCCL_CROSS_NIC") in ("0", "1"):
        version = version._replace(cross_nic=int(env["NCCL_CROSS_NIC"]))
    return version


def _path_type(text: str) -> int | None:
    """The type of path that a setting names, in letters or as a number; None if it names none."""
    word = text.strip().upper()
    if word in KINDS:
        return KINDS.index(word)
    return _LEVELS.get(word)
