"""What versions of NCCL's search do differently, a row each, and what its settings change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from colltool.libraries.nccl.topology.kinds import KINDS, LOC, P2C, PHB, PIX, PXB, SYS

RELEASE = "2.30.7"
"""The release that is computed unless another is named."""

_BEFORE_AMPERE = (40_000, 30_000, 20_000, 18_000, 15_000, 12_000, 10_000, 9_000, 7_000, 6_000)
_UP_TO_AMPERE_INSIDE = (*_BEFORE_AMPERE, 5_000, 4_000, 3_000)
_UP_TO_AMPERE_ACROSS = (
    *(48_000, 30_000, 28_000, 24_000, 20_000, 18_000, 15_000, 12_000, 10_000, 9_000, 7_000),
    *(6_000, 5_000, 4_000, 3_000, 2_400, 1_200, 240, 120),
)
_HOPPER_INSIDE = (
    *(60_000, 50_000, 40_000, 30_000, 24_000, 20_000, 15_000, 12_000, 11_000, 6_000, 3_000),
)
_LOW_ACROSS = (
    *(42_000, 40_000, 30_000, 24_000, 22_000, 20_000, 17_500, 15_000, 12_000, 6_000, 3_000),
    *(2_400, 1_200, 240, 120),
)
_HOPPER_ACROSS = (48_000, 45_000, *_LOW_ACROSS)
_HIGH_INSIDE = (90_000, 80_000, 70_000, 60_000, 50_000)
_LOW_INSIDE = (40_000, 30_000, 24_000, 20_000, 19_000)


class Version(NamedTuple):
    """A version's search.

    Args:
        since: the first release that does so.
        nearest_kind_first: a path is better by type, then rate, then links; else if it has fewer
            links and a higher rate. A GPU's CPU likewise.
        rails: rails and planes of NICs are read.
        farthest_before_hopper: GPUs before Hopper may reach NICs at SYS, not at the farthest type.
        nic_over_c2c: a NIC on the CPU of a GPU with C2C is near (P2C), and a GPU relays to it.
        blackwell_link_MBps: one NVLink from compute capability 100 on.
        blackwell_inside, blackwell_across: MB/s a channel that are tried from there on.
        nvls_channels_grow: NVLS's channels become the communicator's if they are more.
        peers, gdr: the farthest types of path on which GPUs copy to each other, and NICs read and
            write GPUs; None: NCCL's own choice by the host.
        pxn: GPUs relay to NICs.
        cross_nic: NCCL_CROSS_NIC.
    """

    since: tuple[int, ...]
    nearest_kind_first: bool = True
    rails: bool = True
    farthest_before_hopper: bool = True
    nic_over_c2c: bool = True
    blackwell_link_MBps: int = 40_100
    blackwell_inside: tuple[int, ...] = (*_HIGH_INSIDE, 45_000, *_LOW_INSIDE, 18_000)
    blackwell_across: tuple[int, ...] = (
        *(96_000, 86_000, 80_000, 48_000, 45_100),
        *_LOW_ACROSS,
    )
    nvls_channels_grow: bool = False
    peers: int | None = None
    gdr: int = P2C
    pxn: bool = True
    cross_nic: int = 2

    def speeds(self, sm: int, *, across: bool) -> tuple[int, ...]:
        """The rates a channel that are tried, falling, in MB/s."""
        if sm >= 100:
            return self.blackwell_across if across else self.blackwell_inside
        if sm >= 90:
            return _HOPPER_ACROSS if across else _HOPPER_INSIDE
        return _UP_TO_AMPERE_ACROSS if across else _UP_TO_AMPERE_INSIDE


_NEWEST = Version((2, 30, 7))
_2_30_3 = _NEWEST._replace(since=(2, 30, 3), nearest_kind_first=False, rails=False)
_2_29_7 = _2_30_3._replace(
    since=(2, 29, 7), blackwell_across=(96_000, 80_000, 48_000, 45_100, *_LOW_ACROSS)
)
_2_29_2 = _2_29_7._replace(
    since=(2, 29, 0), blackwell_across=(96_000, 48_000, 45_100, *_LOW_ACROSS)
)
_2_28_9 = _2_29_2._replace(
    since=(2, 28, 0),
    farthest_before_hopper=False,
    blackwell_inside=(*_HIGH_INSIDE, *_LOW_INSIDE, 18_000),
)
_2_27_7 = _2_28_9._replace(since=(2, 27, 0), nic_over_c2c=False, nvls_channels_grow=True)
_2_26_2 = _2_27_7._replace(
    since=(2, 26, 0),
    blackwell_link_MBps=40_000,
    blackwell_inside=(*_HIGH_INSIDE, *_LOW_INSIDE),
    blackwell_across=_HOPPER_ACROSS,
)
_VERSIONS = (_NEWEST, _2_30_3, _2_29_7, _2_29_2, _2_28_9, _2_27_7, _2_26_2)


def version_of(release: str) -> Version:
    """The search of a release such as 2.28.9: the newest row that is not newer, 2.30's of what names
    no patch; before 2.26 that row.

    >>> version_of("2.30").since, version_of("2.29.1").since
    ((2, 30, 7), (2, 29, 0))
    """
    parts = tuple(map(int, re.findall(r"\d+", release)[:3]))
    if len(parts) < 3:
        # a minor version stands for its last patch
        parts = (*parts, 99)
    for version in _VERSIONS:
        if version.since <= parts:
            return version
    return _VERSIONS[-1]


# levels as numbers, as before 2.5
_LEVELS = {"0": LOC, "1": PIX, "2": PXB, "3": PXB, "4": PHB, "5": SYS}
SETTINGS = (
    *("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL", "NCCL_PXN_DISABLE"),
    "NCCL_CROSS_NIC",
)
"""The settings that :func:`with_settings` knows."""


def with_settings(version: Version, env: Mapping[str, str]) -> Version:
    """A version's search under NCCL's settings; other variables and values change nothing.

    >>> KINDS[with_settings(version_of("2.30"), {"NCCL_NET_GDR_LEVEL": "PHB"}).gdr]
    'PHB'
    """
    level = _level(env.get("NCCL_P2P_LEVEL", ""))
    if env.get("NCCL_P2P_DISABLE", "0") != "0":
        level = LOC
    if level is not None:
        version = version._replace(peers=level)
    level = _level(env.get("NCCL_NET_GDR_LEVEL", ""))
    if level is not None:
        version = version._replace(gdr=level)
    if env.get("NCCL_PXN_DISABLE", "0") != "0":
        version = version._replace(pxn=False)
    if env.get("NCCL_CROSS_NIC") in ("0", "1"):
        version = version._replace(cross_nic=int(env["NCCL_CROSS_NIC"]))
    return version


def _level(text: str) -> int | None:
    word = text.strip().upper()
    if word in KINDS:
        return KINDS.index(word)
    return _LEVELS.get(word)
