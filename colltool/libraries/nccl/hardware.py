"""The input of NCCL's cost model.

- :class:`Constants`: the numbers of a version, from a file (``data/nccl-2.30.toml``, every table with
  its source) or from one of the user's (:func:`add_version`); :func:`constants` is the entry.
- :class:`Hardware`: what the model knows of a group: its shape, GPUs and hosts, enabled features, and
  the channels of each :class:`Graph`.
- :class:`GpuNodes`: the input of the search for channels where no topology file is there
  (:mod:`colltool.libraries.nccl.graphs`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from colltool.algorithms.libraries import FROM_HOPPER
from colltool.base.cache import packaged_toml
from colltool.base.errors import ColltoolError, clipped
from colltool.base.primitives import Primitive

Gpu = Literal["volta", "ampere", "hopper", "blackwell"]
Cpu = Literal["intel", "amd", "arm"]
Link = Literal["nvlink", "pci"]

ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
"""Names as in NCCL's tuner file, in NCCL's scanning order."""
PROTOCOLS = ("ll", "ll128", "simple")
"""From lowest latency to highest bandwidth, in NCCL's scanning order."""
GPUS: tuple[Gpu, ...] = ("volta", "ampere", "hopper", "blackwell")

# in the order of PROTOCOLS
ByProtocol = tuple[float, float, float]
# on one node, on two, on more: Hardware.column is the index
ByNodes = tuple[float, float, float]

_FOLDER = Path(__file__).parent / "data"
_NOTHING: ByProtocol = (0.0, 0.0, 0.0)

UNVERSIONED = "2.30"
"""The version for fabrics that name none; fixed, so that data of a newer NCCL change no price by
themselves."""


@dataclass(frozen=True, kw_only=True)
class CpuConstants:
    """What a host's CPU changes: ``net_overhead_us`` is the least time of a ring step across nodes,
    ``ll_row`` the row of ``ll_most_GBps`` that holds across nodes."""

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
    """The numbers of one version, in microseconds and GB/s; ``data/nccl-2.30.toml`` explains each.

    Args:
        release: of the version, the one whose source was read.
        rules: the row of :data:`colltool.libraries.nccl.rules.RULES` that computes with them.
        algorithms: that it has for each collective that it chooses for.
        base_latency_us: by algorithm. hop_latency_us: by wires (nvlink, pci, net), then algorithm.
        latency, share, nvls, collnet, plateau, size_correction, channels, rule: tables of the file, by
            their keys.
    """

    version: str
    release: str
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
    rule: Mapping[str, Any]

    def base_us(self, algorithm: str, protocol: str) -> float:
        """The latency of a call before its hops; 0 for an algorithm that has none."""
        return self.base_latency_us.get(algorithm, _NOTHING)[PROTOCOLS.index(protocol)]

    def hop_us(self, wires: str, algorithm: str, protocol: str) -> float:
        """The latency of a hop over ``nvlink``, ``pci`` or ``net``; 0 for an algorithm that has none."""
        return self.hop_latency_us[wires].get(algorithm, _NOTHING)[PROTOCOLS.index(protocol)]


CACHE_CLEARS: list[Callable[[], None]] = []
"""Functions that clear caches of what was read of a version, called when a user's file replaces it."""
_USER_VERSIONS: dict[str, dict[str, Any]] = {}
"""Tables of the versions that files of the user describe."""


def version_file(version: str) -> Path:
    """The file of a version that ships, to start one's own from."""
    return _FOLDER / f"nccl-{version}.toml"


@cache
def _shipped() -> list[str]:
    """The versions that have a file here, in no order."""
    return [file.stem.removeprefix("nccl-") for file in _FOLDER.glob("nccl-*.toml")]


def versions() -> list[str]:
    """The versions with data, shipped and the user's own, oldest first."""
    return sorted({*_shipped(), *_USER_VERSIONS}, key=_version_parts)


def _version_parts(version: str) -> tuple[int, ...]:
    """A version for sorting: ``2.30`` is (2, 30)."""
    return tuple(map(int, version.split(".")))


@cache
def constants(version: str = "") -> Constants:
    """The numbers of a version of NCCL (default :data:`UNVERSIONED`); a ColltoolError if there is
    no data for it.

    Patch releases share the data of their version: 2.30.7 has 2.30's.
    """
    requested = version or UNVERSIONED
    with_data = known_version(requested)
    if not with_data:
        nearest = version_label(nearest_version(requested))
        raise ColltoolError(
            f"there is no data of NCCL {requested}'s cost model",
            where="library.version",
            fix=f"the nearest is {nearest}; there is for: {', '.join(versions())}",
        )
    return _read(with_data)


def known_version(requested: str) -> str:
    """The version whose data serve a release; empty if there are none."""
    known = versions()
    if requested in known:
        return requested
    minor = re.match(r"\d+\.\d+(?!\d)", requested)
    return minor[0] if minor and minor[0] in known else ""


def version_label(version: str) -> str:
    """A version with data as text, such as ``2.31 (its pre-release 2.31.0a7)`` where no release of it was
    read."""
    release = _read(version).release
    if re.search(r"\d(a|b|rc)\d", release):
        return f"{version} (its pre-release {release})"
    return version


def nearest_version(requested: str) -> str:
    """The newest known one that is not newer, else the oldest."""
    parts = tuple(map(int, re.findall(r"\d+", requested)[:2]))
    older = [version for version in versions() if _version_parts(version) <= parts]
    return older[-1] if older else versions()[0]


RULE_WORDS = {
    "bandwidth_from": ("inside", "across", "min"),
    "lone_rank_hop": ("tree", "own"),
    "rooted_hops": ("inside", "net"),
}
"""The words that a rule of a version's file may have."""
KeyPath = tuple[str | int, ...]
"""A key of a file, from the outside in: ("nvls", "efficiency", "hopper")."""
_NO_TABLES = ("schema", "name", "like", "version", "source", "rules")
"""Keys of a user's file that replace no table of the version that it is like."""


def add_version(data: Mapping[str, Any], at: Callable[[KeyPath], str]) -> str:
    """Add a version from a file of the user and return its name; ``at`` gives the place of a key.

    Raises:
        ColltoolError: it names no version, one that ships, or one to be like that does not exist;
            or a value that no version has.
    """
    version = str(data.get("version", ""))
    like = str(data.get("like", UNVERSIONED))
    if not re.fullmatch(r"\d{1,4}\.\d{1,4}", version):
        raise ColltoolError(
            "a version is two numbers in quotes", where=at(("version",)), fix='version = "2.99"'
        )
    if version in _shipped():
        raise ColltoolError(
            f"NCCL {version} ships", where=at(("version",)), fix="give yours another number"
        )
    if like not in _shipped():
        raise ColltoolError(
            f"no NCCL {clipped(like)} ships",
            where=at(("like",)),
            fix=f"one of {', '.join(_shipped())}",
        )
    tables = {key: value for key, value in data.items() if key not in _NO_TABLES}
    _check_alike(_data(like), tables, (), at)
    _USER_VERSIONS[version] = tables | {
        "version": version,
        "release": version,
        "source": str(data.get("source", "a file of the user's")),
        "like": like,
    }
    for clear in (_read.cache_clear, constants.cache_clear, *CACHE_CLEARS):
        clear()
    return version


def _check_alike(shipped: Any, value: Any, path: KeyPath, at: Callable[[KeyPath], str]) -> None:
    """Raise a ColltoolError for a value of a user's file, or one inside it, that has another form than the
    shipped one of the same key: another type, a key that is not there, a list of another length, a word
    that no version has, a number out of range. Sources are free text.

    Args:
        path: keys of the file down to the value.
        at: gives the place of such a path, for the error.
    """

    def error_here(what: str, fix: str) -> ColltoolError:
        return ColltoolError(what, where=at(path), fix=fix)

    if path and path[-1] == "source":
        return
    match shipped:
        case dict():
            if not isinstance(value, dict):
                raise error_here("expected a table", f"with {', '.join(shipped)}")
            for key, inner in value.items():
                if key not in shipped and key != "source":
                    raise ColltoolError(
                        f"NCCL's model has no '{clipped(key)}' there",
                        where=at((*path, key)),
                        fix=f"it has {', '.join(shipped)}",
                    )
                _check_alike(shipped.get(key), inner, (*path, key), at)
        case list():
            if not isinstance(value, list) or len(value) != len(shipped):
                raise error_here(f"expected a list of {len(shipped)}", f"such as {shipped[:6]}")
            for shipped_item, item in zip(shipped, value, strict=True):
                _check_alike(shipped_item, item, path, at)
        case str():
            # the words of a rule are fixed, whatever shipped versions use of them
            words = next((words for key, words in RULE_WORDS.items() if key in path), None)
            if not isinstance(value, str) or (words is not None and value not in words):
                fix = f"one of {', '.join(words or (shipped,))}"
                raise error_here(f"'{clipped(str(value))}' is not known", fix)
        case _:
            if not _is_like_number(shipped, value):
                least = "above 0" if shipped > 0 else "from 0 on"
                raise error_here(
                    f"'{clipped(str(value))}' is no number {least}", f"such as {shipped}"
                )


def _is_like_number(shipped: float, value: Any) -> bool:
    """Whether a value may stand for a shipped number or flag; a flag is no number."""
    if isinstance(shipped, bool) or isinstance(value, bool):
        same_kind = isinstance(shipped, bool) and isinstance(value, bool)
    else:
        same_kind = isinstance(value, int | float)
    return same_kind and _is_allowed(shipped, value)


def _is_allowed(shipped: float, value: float) -> bool:
    """Whether a number is finite and not negative: prices divide by rates, which may not be zero, while a
    latency may be where the shipped one is."""
    return 0 <= value < 1e12 and (value > 0 or shipped == 0)


def _data(version: str) -> dict[str, Any]:
    """A version's tables, as in its file; of a user's version, over those of the one that it is like."""
    tables = dict(_USER_VERSIONS.get(version, {}))
    if not tables:
        tables = packaged_toml(version_file(version))
    if "like" not in tables:
        return tables
    base = _data(tables.pop("like"))
    return base | {key: _merge(base.get(key), value) for key, value in tables.items()}


def _merge(base: Any, value: Any) -> Any:
    """A value of the user in place of a shipped one; tables are merged key by key."""
    if not isinstance(base, dict) or not isinstance(value, dict):
        return value
    return base | {key: _merge(base.get(key), inner) for key, inner in value.items()}


def tuned(version: str) -> tuple[Primitive, ...]:
    """The collectives that a version chooses an algorithm for; of a version without data, and of an empty
    one, those of :data:`UNVERSIONED`."""
    return tuple(constants(known_version(version)).algorithms)


@cache
def _read(version: str) -> Constants:
    """The numbers of a version with data."""
    tables = _without_sources(_data(version))
    tables["algorithms"] = {Primitive(name): names for name, names in tables["algorithms"].items()}
    tables["cpu"] = {name: CpuConstants(**row) for name, row in tables["cpu"].items()}
    tables["search"] = {name: ChannelSearch(**row) for name, row in tables["search"].items()}
    return Constants(**tables)


def _without_sources(value: Any, top: bool = True) -> Any:
    """A file's value without the sources of its tables, but with the file's own (``top``); lists become
    tuples."""
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, dict):
        return value
    wanted = {name: inner for name, inner in value.items() if top or name != "source"}
    return {name: _without_sources(inner, top=False) for name, inner in wanted.items()}


@dataclass(frozen=True)
class Graph:
    """The channels that NCCL's search found for a pattern.

    Args:
        inside_GBps, across_GBps: of each channel, inside a node and between nodes.
        latency_us: of the NICs, as their plugin tells it.
        link: between the GPUs of a node; None: the group's.
        runs_ll128: LL128 runs on it; None: as the group's links and NICs let it.
    """

    channels: int
    inside_GBps: float
    across_GBps: float
    latency_us: float = 0.0
    link: Link | None = None
    runs_ll128: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """A group as NCCL sees it.

    Args:
        version: of NCCL, with data.
        cpu: vendor; matters only across nodes.
        nodes: NVLink domains, or hosts.
        nics: per node; 0 on one node.
        link: between the GPUs of a node.
        nvls: NVLink SHARP is available and enabled.
        collnet: CollNet is enabled and its plugin loaded (NCCL_COLLNET_ENABLE=1; off by default).
        ring, tree, nvls_graph, collnet_graph: what the search found; None: that it has none.
        channels: of a communicator.
        simple_tree: a node had to use the pattern TREE, with all traffic of a NIC through one GPU.
        same_channels: all rings visit the GPUs in the same order.
        gpudirect: NICs reach the GPUs' memory, or there are none.
        collnet_direct_graph: None where it is ``collnet_graph``.
        all_ranks: where nodes have different numbers of them; 0: all have ``ranks_per_node``.
    """

    version: str
    gpu: Gpu
    cpu: Cpu
    nodes: int
    ranks_per_node: int
    nics: int
    link: Link
    nvswitch: bool
    nvls: bool
    collnet: bool
    ring: Graph
    tree: Graph
    nvls_graph: Graph | None
    collnet_graph: Graph | None
    channels: int
    simple_tree: bool
    same_channels: bool
    gpudirect: bool = True
    collnet_direct_graph: Graph | None = None
    all_ranks: int = 0

    @property
    def ranks(self) -> int:
        """All ranks of the communicator."""
        return self.all_ranks or self.nodes * self.ranks_per_node

    def graph_of(self, algorithm: str) -> Graph:
        """The graph that an algorithm runs on; the ring's if it has none."""
        graphs = {
            "tree": self.tree,
            "nvls": self.nvls_graph,
            "nvls_tree": self.nvls_graph,
            "collnet_chain": self.collnet_graph,
            "collnet_direct": self.collnet_direct_graph or self.collnet_graph,
        }
        return graphs.get(algorithm) or self.ring

    def link_of(self, algorithm: str) -> Link:
        """What joins the GPUs of a node in an algorithm's graph."""
        return self.graph_of(algorithm).link or self.link

    @property
    def constants(self) -> Constants:
        return constants(self.version)

    @property
    def nvls_channels(self) -> int:
        """Channels of NVLS's kernels: as many as the GPU's generation has, or the communicator's."""
        return int(self.constants.channels["nvls"].get(self.gpu, self.channels))

    @property
    def tree_levels(self) -> int:
        """floor(log2(nodes)), as NCCL counts them."""
        return self.nodes.bit_length() - 1

    @property
    def from_hopper(self) -> bool:
        return self.gpu in FROM_HOPPER

    @property
    def column(self) -> int:
        """Index into tables by nodes: 1, 2, or more."""
        return min(self.nodes, 3) - 1


class GpuNodes(NamedTuple):
    """Input of the channel search.

    Args:
        gpus: on each node.
        nic_GBps: of a NIC; 0 on one node.
        staged: the NICs' bytes go through the hosts' memory, which is what ``cpu`` matters for.
        link_share: the GPU's NVLinks over those that its generation usually has.
        wide_slots: PCIe slots twice as wide as its generation's usual ones.
    """

    gpu: Gpu
    nodes: int
    gpus: int
    nic_GBps: float
    staged: bool = False
    cpu: Cpu = "intel"
    link_share: float = 1.0
    wide_slots: bool = False

    def search(self, numbers: Constants) -> ChannelSearch:
        """What the search knows of its GPUs."""
        usual = numbers.search[self.gpu]
        nic_GBps = usual.nic_GBps
        if self.wide_slots:
            nic_GBps *= 2
        return replace(usual, link_GBps=usual.link_GBps * self.link_share, nic_GBps=nic_GBps)

    @property
    def from_hopper(self) -> bool:
        return self.gpu in FROM_HOPPER
