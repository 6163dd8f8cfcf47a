"""The constants of NCCL's cost model: one file per version, ``data/nccl-2.30.toml``, every table with its source."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive

Gpu = Literal["volta", "ampere", "hopper", "blackwell"]
Cpu = Literal["intel", "amd", "arm"]
Link = Literal["nvlink", "pci"]

ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
"""Names as in NCCL's tuner file, in NCCL's scanning order."""

PROTOCOLS = ("ll", "ll128", "simple")
"""From lowest latency to highest bandwidth, in NCCL's scanning order."""

GPUS: tuple[Gpu, ...] = ("volta", "ampere", "hopper", "blackwell")

ByProtocol = tuple[float, float, float]
ByNodes = tuple[float, float, float]

_FOLDER = Path(__file__).parent / "data"


@dataclass(frozen=True, kw_only=True)
class CpuConstants:
    """``net_overhead_us``: the least time of a ring step across nodes; ``ll_row``: its row in the LL limits."""

    net_overhead_us: float
    ll_row: Gpu
    x86: bool


@dataclass(frozen=True, kw_only=True)
class ChannelSearch:
    """What NCCL's channel search knows of a GPU generation; all rates in GB/s.

    Args:
        link_GBps: NVLink of a GPU, one way.
        nic_GBps: the most that a NIC reaches through PCIe.
        inside, across: channel rates it tries on one node and with a network, falling.
    """

    link_GBps: float
    nic_GBps: float
    inside: tuple[float, ...]
    across: tuple[float, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Constants:
    """The numbers of one version, in microseconds and GB/s; the file explains each."""

    version: str
    rules: str
    source: str
    algorithms: Mapping[Primitive, tuple[str, ...]]
    base_latency_us: Mapping[str, ByProtocol]
    hop_latency_us: Mapping[str, Mapping[str, ByProtocol]]
    latency: Mapping[str, float]
    cpu: Mapping[Cpu, CpuConstants]
    ll_most_GBps: Mapping[Gpu, ByNodes]
    ring_ll128_channel_GBps: Mapping[Gpu, ByNodes]
    tree_ll128_channel_GBps: Mapping[Gpu, ByNodes]
    tree_channel_GBps: Mapping[Gpu, ByNodes]
    nvls_tree_channel_GBps: Mapping[Gpu, ByNodes]
    share: Mapping[str, float]
    nvls: Mapping[str, Any]
    collnet: Mapping[str, int]
    plateau: Mapping[str, Any]
    size_correction: Mapping[str, Any]
    search: Mapping[Gpu, ChannelSearch]
    channels: Mapping[str, Any]

    def base_us(self, algorithm: str, protocol: str) -> float:
        return self.base_latency_us.get(algorithm, _NOTHING)[PROTOCOLS.index(protocol)]

    def hop_us(self, wires: str, algorithm: str, protocol: str) -> float:
        """A hop over ``nvlink``, ``pci`` or ``net``."""
        return self.hop_latency_us[wires].get(algorithm, _NOTHING)[PROTOCOLS.index(protocol)]


_NOTHING: ByProtocol = (0.0, 0.0, 0.0)


UNVERSIONED = "2.30"
"""The version for fabrics that name none; fixed, so that data of a newer NCCL changes no price unasked."""


@cache
def versions() -> list[str]:
    found = [match[1] for file in _FOLDER.iterdir() if (match := re.fullmatch(r"nccl-(\d+\.\d+)\.toml", file.name))]
    return sorted(found, key=lambda version: tuple(map(int, version.split("."))))


def constants(version: str = "") -> Constants:
    """The numbers of a version of NCCL (default :data:`UNVERSIONED`).

    Raises:
        ColltoolError: there is no data for it.
    """
    known, wanted = versions(), version or UNVERSIONED
    if wanted not in known:
        what = f"there is no data of NCCL {wanted}'s cost model"
        raise ColltoolError(what, where="library.version", fix=f"there is for: {', '.join(known)}")
    return _read(wanted)


def tuned(version: str = "") -> tuple[Primitive, ...]:
    """The collectives that a version chooses an algorithm for; :data:`UNVERSIONED`'s if it has no data."""
    return tuple(constants(version if version in versions() else "").algorithms)


@cache
def _read(version: str) -> Constants:
    tables = tomllib.loads((_FOLDER / f"nccl-{version}.toml").read_text(encoding="utf-8"))
    bare: dict[str, Any] = {name: _bare(table) if isinstance(table, dict) else table for name, table in tables.items()}
    bare["algorithms"] = {Primitive(name): own for name, own in bare["algorithms"].items()}
    bare["cpu"] = {name: CpuConstants(**one) for name, one in bare["cpu"].items()}
    bare["search"] = {name: ChannelSearch(**one) for name, one in bare["search"].items()}
    return Constants(**bare)


def _bare(table: Mapping[str, Any]) -> dict[str, Any]:
    """Drop the source; lists become tuples."""
    return {name: _value(value) for name, value in table.items() if name != "source"}


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return _bare(value) if isinstance(value, dict) else value
