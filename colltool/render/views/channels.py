"""``fabric channels``: the channels that NCCL finds on a node, what binds them, and what would change
them.

Read from :data:`VIEWS`: :func:`_headline` first, :func:`_blocks` in the order of the screen,
:class:`ChannelsDocument` for JSON.

NCCL searches a graph for each pattern (ring, tree, NVLS, CollNet): how many channels run along which
GPUs and NICs, at which speed. ``inside`` is the speed of a channel between the GPUs of a node,
``across`` that of its part between nodes; a search has both in MB/s, results in bytes/s. The first
graph of a result is the ring's.

What is read of a ``GraphFound`` (``row``): ``searched`` is the search, ``searched.best`` the channels it
settled on, with the ``request`` (the demands of the trial) that found them; ``domain`` is the part of the
node that NCCL takes for a node, whose ``ranks`` turn a channel's GPU indices into ranks, and whose
``paths.system.nets`` are the NICs that its NIC indices count. ``binding`` is what the channels fill most;
None where they fill nothing, as those of a GPU alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from colltool.base.formatting import and_text, counted, format_bytes, format_rate, sentence
from colltool.libraries.nccl.names import ALGORITHM_NAMES, PROTOCOL_NAMES
from colltool.libraries.nccl.topology.binding import Binding, few_of
from colltool.libraries.nccl.topology.changes import NodeChange
from colltool.libraries.nccl.topology.kinds import KINDS, PATTERNS, TREE
from colltool.libraries.nccl.topology.paths import Paths
from colltool.libraries.nccl.topology.results import ChannelsFound, GraphFound
from colltool.libraries.nccl.topology.search import Searched
from colltool.libraries.nccl.topology.system import NicPort, RankedGpu, System
from colltool.render.blocks import (
    Block,
    Columns,
    Headline,
    Lines,
    Table,
    flag,
    label,
    number,
    span_text,
)
from colltool.render.dispatch import View, listed
from colltool.render.documents import Document, derived, or_null

_PATTERN_NAMES = {
    "ring": "ring",
    "tree": "tree",
    "nvls": "NVLS",
    "collnet_chain": "CollNet chain",
    "collnet_direct": "CollNet direct",
}
# by the kind of a change: ``names`` are devices of the file (of new NICs, ranks of GPUs), ``to`` the new value
_CHANGE_TEXTS = {
    "nvlinks": "{to} NVLinks to the switches on {names}",
    "gdr": "GPUDirect RDMA (gdr=1) on {names}",
    "slots": "{names} at {to}",
    "unknown-slots": "a link_speed that NCCL reads ({to}) on {names}",
    "nics": "{names} on the switch of a GPU without a NIC",
    "new-nics": "a NIC beside GPU {names}",
}
# shown without --all
_FEW_CHANNELS = 8  # rows of the table of channels
_FEW_COLUMNS = 16  # of the matrix of paths; a wider one is for --all


class _AlikeChannels(NamedTuple):
    """Neighbouring channels that are alike, in the words of a table."""

    graph: str
    channels: str  # their numbers: ``0-3``
    gpus: str  # ranks in the channel's order: ``0 1 2 3``
    nics: str  # by which it comes and leaves: ``mlx5_0 to mlx5_1``; empty on one node


def _Bps(MBps: float) -> float:
    return MBps * 1e6


def _rate_text(MBps: float) -> str:
    """``48 GB/s``."""
    return format_rate(_Bps(MBps))


_GRAPHS: Columns[GraphFound] = (
    label("graph", get=lambda row: _PATTERN_NAMES[row.pattern]),
    number("channels"),
    number("inside_Bps", "inside"),
    number("across_Bps", "across"),
    label("between_gpus", "GPUs"),
    label("to_nics", "NICs"),
    number("cross_nic", "crossNic", path="searched.best.request.cross_nic"),
    label("pattern", get=lambda row: _numbered_pattern(row.searched)),
    flag("same_order", "one order", drop=2, path="searched.best.request.same"),
    number("trial", drop=1, path="searched.best.trial"),
    number("trials", "of", drop=1, path="searched.trials"),
)
_CHANNELS: Columns[_AlikeChannels] = (
    label("graph"),
    label("channels"),
    label("gpus", "GPUs"),
    label("nics", "NICs"),
)


def _numbered_pattern(searched: Searched) -> str:
    """``3 tree``: as NCCL's debug lines number the pattern, and its name."""
    pattern = searched.best.request.pattern
    return f"{pattern} {PATTERNS[pattern]}"


def _channels_text(row: GraphFound) -> str:
    """``8 ring channels of 48 GB/s``."""
    channels = counted(row.channels, f"{_PATTERN_NAMES[row.pattern]} channel")
    text = f"{channels} of {format_rate(row.inside_Bps)}"
    across = row.across_Bps
    if across is not None and across != row.inside_Bps:
        text += f" inside and {format_rate(across)} across"
    return text


def _headline(result: ChannelsFound) -> str:
    """Say what is found, how many channels a communicator gets, and what binds the rings."""
    count = result.node.nodes
    nodes = "one node" if count == 1 else f"{count} nodes"
    usual = [row for row in result.graphs if row.pattern in ("ring", "tree", "nvls")]
    channels = and_text(list(map(_channels_text, usual)))
    text = (
        f"NCCL {result.release} finds {channels} on {nodes} like {result.file}, and gives a"
        f" communicator {counted(result.communicator.channels, 'channel')}."
    )
    ring = result.graphs[0]
    if ring.binding is not None:
        text += f" What binds the rings: {ring.binding.text}."
    return text


def _system_lines(result: ChannelsFound) -> Iterator[str]:
    """GPUs, NICs, CPUs and PCI switches of a node, a line each."""
    system = result.node.system
    # ``sm`` is the compute capability without its point: 90 is 9.0
    capabilities = sorted({device.sm for device in system.devices})
    capability_names = [f"{number // 10}.{number % 10}" for number in capabilities]
    slots_MBps = [gpu.device.total_MBps("PCI") for gpu in system.gpus]
    text = f"{counted(len(system.gpus), 'GPU')} of compute capability {and_text(capability_names)}"
    text += f", slots of {_rate_range(slots_MBps)}"
    nvlinks_MBps = [gpu.device.total_MBps("NVL") for gpu in system.gpus]
    if any(nvlinks_MBps):
        text += f", NVLinks of {_rate_range(nvlinks_MBps)}"
    if system.nvswitch is not None:
        text += " to NVSwitches"
    yield text
    if system.nets:
        ports_MBps = [net.MBps for net in system.nets]
        yield f"{counted(len(ports_MBps), 'NIC')} of {_rate_range(ports_MBps)}"
    else:
        yield "no NIC for collectives"
    cpus = f"{counted(len(system.cpus), 'NUMA domain')} ({system.cpus[0].vendor or 'unknown CPU'})"
    if len(system.cpus) > 1:
        cpus += f", {_rate_range([cpu.MBps for cpu in system.cpus])} from one to another"
    yield cpus
    if system.switches:
        yield f"PCI switches: {len(system.switches)}"


def _rate_range(MBps: Sequence[int]) -> str:
    """``48 GB/s``, or ``24 GB/s to 48 GB/s`` where rates, in MB/s, differ."""
    return span_text(_rate_text(min(MBps)), _rate_text(max(MBps)))


def _path_matrix(system: System, paths: Paths) -> Lines:
    """Types of paths from each GPU to all GPUs and NICs:

         G0  G1  N0
    G0  LOC NVL PXB
    """
    ends: list[RankedGpu | NicPort] = [*system.gpus, *system.nets]
    gpus = [f"G{gpu.rank}" for gpu in system.gpus]
    lines = [_matrix_row("", [*gpus, *(f"N{net.dev}" for net in system.nets)])]
    for name, gpu in zip(gpus, system.gpus, strict=True):
        lines.append(_matrix_row(name, _path_kinds(paths, gpu, ends)))
    title = "types of paths, from GPU to GPU (G, by rank) and NIC (N, by number)"
    return Lines(title, lines, verbatim=True, first=None if len(ends) <= _FEW_COLUMNS else 0)


def _matrix_row(name: str, cells: Sequence[str]) -> str:
    return f"{name:<5}" + "".join(f"{cell:>4}" for cell in cells)


def _path_kinds(paths: Paths, gpu: RankedGpu, ends: Sequence[RankedGpu | NicPort]) -> list[str]:
    """NCCL's types of the paths from a GPU, such as ``NVL``, in the order of the ends."""
    return [KINDS[paths.get(gpu, end).kind] for end in ends]


def _alike_channels(result: ChannelsFound) -> Iterator[_AlikeChannels]:
    """The rows of the table of channels, graph by graph, numbered from 0."""
    for row in result.graphs:
        nets = row.domain.paths.system.nets
        first = 0
        for channel, alike in groupby(row.searched.best.channels):
            last = first + len(list(alike)) - 1
            # a channel has indices of GPUs and of NICs
            gpus = " ".join(str(row.domain.ranks[gpu]) for gpu in channel.gpus)
            nics = " to ".join(nets[net].name for net in channel.nets)
            channels = str(first) if first == last else f"{first}-{last}"
            yield _AlikeChannels(_PATTERN_NAMES[row.pattern], channels, gpus, nics)
            first = last + 1


def _trial_lines(result: ChannelsFound) -> Iterator[str]:
    """Say which trials of the searches found something, and with what demands: the farthest types of path
    between GPUs (``inside``) and to NICs (``across``)."""
    for row in result.graphs:
        name = _PATTERN_NAMES[row.pattern]
        for attempt in row.searched.log:
            request = attempt.request
            text = f"trial {attempt.trial} of {row.searched.trials}: {attempt.channels} of"
            text += f" {_rate_text(request.inside_MBps)}, GPUs up to {KINDS[request.inside]} apart"
            if row.domain.across:
                text += f", NICs up to {KINDS[request.across]}, crossNic {request.cross_nic}"
            yield f"{name}, {text}"
        if row.searched.is_emergency:
            yield f"{name}: none of {row.searched.trials} trials found any"


def _change_text(change: NodeChange, result: ChannelsFound) -> str:
    """``with 18 NVLinks to the switches on 0000:1b:00.0: 12 ring channels of 30 GB/s instead of 10
    of 25 GB/s``.

    A change that leaves the rings as they are moves another graph, which is then named.
    """
    change_text = _CHANGE_TEXTS[change.kind].format(names=few_of(change.names), to=change.to)
    before = result.graphs[0].searched
    # ``first``: the domain of rank 0, which results show
    after = change.after.first.graphs["ring"]
    groups = len(change.after.domains)
    channels = counted(after.best.channel_count, "ring channel")
    text = f"with {change_text}: {channels} of {_rate_text(after.inside_MBps)}"
    if groups != len(result.node.domains):
        text += f" in {counted(groups, 'group')} of GPUs"
    before_channels = before.best.channel_count
    if (before_channels, before.inside_MBps) == (after.best.channel_count, after.inside_MBps):
        return f"{text} as before, and other {_moved_graphs_text(change, result)}"
    return f"{text} instead of {before_channels} of {_rate_text(before.inside_MBps)}"


def _moved_graphs_text(change: NodeChange, result: ChannelsFound) -> str:
    """``tree channels and NVLS channels``: the graphs whose number of channels or speeds a change moves;
    ``graphs`` where none has other figures (then only the orders of GPUs differ)."""
    moved = []
    for row in result.graphs:
        after = change.after.first.graphs.get(row.pattern)
        if after is None or _channel_figures(after) != _channel_figures(row.searched):
            moved.append(f"{_PATTERN_NAMES[row.pattern]} channels")
    return and_text(moved or ["graphs"])


def _channel_figures(searched: Searched) -> tuple[float, ...]:
    """Return (channels, MB/s inside, MB/s across) of a search."""
    return (searched.best.channel_count, searched.inside_MBps, searched.across_MBps)


def _notes(result: ChannelsFound) -> Iterator[str]:
    """Say what binds the graphs beside the ring's, and what of the answer needs a caution."""
    for row in result.graphs[1:]:
        if row.binding is not None:
            yield f"{_PATTERN_NAMES[row.pattern]}: {row.binding.text}"
    domains = result.node.domains
    if len(domains) > 1:
        yield (
            f"NCCL takes the GPUs of a node for {len(domains)} nodes: their NICs are faster than the"
            " path between them; shown are those of rank 0"
        )
    if any(row.searched.is_emergency for row in result.graphs):
        yield (
            "nothing was found, so that NCCL takes one channel at 0.1 GB/s: the job runs at what the"
            " hardware gives, but NCCL's choice of algorithms is blind"
        )
    pattern = domains[0].graphs["tree"].best.request.pattern
    if pattern == TREE and result.node.across and len(domains[0].ranks) > 1:
        yield "tree: all traffic of a NIC goes through one GPU, which NCCL counts as 15% less"
    if result.communicator.ranks == 1:
        yield "one GPU alone: its ring means nothing"
    if any(row.pattern.startswith("collnet") for row in result.graphs):
        yield (
            "CollNet: what NCCL_COLLNET_ENABLE=1 would add; this part was compared with NCCL on few"
            " files"
        )


def _pick_lines(result: ChannelsFound) -> Iterator[str]:
    """``from 1 B: Tree/LL``, by rising size."""
    for pick in result.picks:
        algorithm = f"{ALGORITHM_NAMES[pick.algorithm]}/{PROTOCOL_NAMES[pick.protocol]}"
        start = "from 1 B" if pick.from_bytes <= 1 else f"from {format_bytes(pick.from_bytes)}"
        yield f"{start}: {algorithm}"


def _table(result: ChannelsFound) -> Table:
    return Table(_GRAPHS, result.graphs)


def _blocks(result: ChannelsFound) -> Iterator[Block]:
    """The answer, the graphs and what would change them first; the node, paths, channels and trials after
    them."""
    node = result.node
    yield Headline(_headline(result))
    yield _table(result)
    changes = (_change_text(change, result) for change in result.changes)
    yield from listed("what would change it", changes)
    yield from listed("notes", map(sentence, _notes(result)))
    yield from listed("the node as NCCL reads it", _system_lines(result))
    yield _path_matrix(node.system, node.paths)
    yield Table(
        _CHANNELS, list(_alike_channels(result)), title="channels, by rank", first=_FEW_CHANNELS
    )
    yield from listed("trials that found them", _trial_lines(result), first=0)
    yield from listed("NCCL's pick for an all-reduce", _pick_lines(result), first=0)


class ChannelDocument(Document):
    """A channel: ranks in order, and NCCL's numbers of the NICs that it comes and leaves by."""

    gpus: list[int]
    nics: list[int]


class BindingDocument(Document, of=Binding):
    """The parts of a node that the channels fill most."""

    part: str
    names: list[str]
    used_Bps: float
    of_Bps: float


def _channel_documents(row: GraphFound) -> Iterator[dict[str, Any]]:
    """Each channel, as :class:`ChannelDocument` has it."""
    nets = row.domain.paths.system.nets
    for channel in row.searched.best.channels:
        gpus = [row.domain.ranks[gpu] for gpu in channel.gpus]
        yield {"gpus": gpus, "nics": [nets[net].id for net in channel.nets]}


class GraphDocument(Document, of=GraphFound):
    """The channels of a pattern. ``trial``: the number of the search's trial that found them, 0 if none
    did; ``orders``: the channels themselves."""

    graph: str = derived("pattern")
    pattern: int = derived("searched.best.request.pattern")
    cross_nic: int = derived("searched.best.request.cross_nic")
    channels: int
    inside_Bps: float
    across_Bps: float | None
    between_gpus: str
    to_nics: str | None
    same_order: bool = derived("searched.best.request.same")
    nic_latency_us: float = derived("searched.best.latency_us")
    emergency: bool = derived("searched.is_emergency")
    trial: int = derived("searched.best.trial")
    trials: int = derived("searched.trials")
    binding: BindingDocument | None
    orders: list[ChannelDocument] = derived(_channel_documents)


class GpuDocument(Document):
    """A GPU as NCCL reads it; ``to_gpus``, ``to_nics``: types of the paths to all of them."""

    rank: int
    dev: int
    busid: str = derived("name")
    compute_capability: int = derived("device.sm")
    nvlink_Bps: float = derived(lambda gpu: _Bps(gpu.device.total_MBps("NVL")))
    slot_Bps: float = derived(lambda gpu: _Bps(gpu.device.total_MBps("PCI")))
    to_gpus: list[str]
    to_nics: list[str]


class NicDocument(Document):
    """A NIC's port as NCCL reads it, with NCCL's number."""

    id: int
    name: str
    rate_Bps: float = derived(lambda net: _Bps(net.MBps))


class NodeDocument(Document):
    """A node as NCCL reads it; ``groups``: ranks that reach each other without the network."""

    gpus: list[GpuDocument] = derived(lambda node: _gpu_documents(node.system, node.paths))
    nics: list[NicDocument] = derived(lambda node: map(NicDocument.of, node.system.nets))
    numa_domains: int = derived(lambda node: len(node.system.cpus))
    switches: int = derived(lambda node: len(node.system.switches))
    nvswitch: bool = derived(lambda node: node.system.nvswitch is not None)
    groups: list[list[int]] = derived(lambda node: [list(domain.ranks) for domain in node.domains])


def _gpu_documents(system: System, paths: Paths) -> Iterator[dict[str, Any]]:
    """Each GPU, with the types of its paths."""
    for gpu in system.gpus:
        to_gpus = _path_kinds(paths, gpu, system.gpus)
        to_nics = _path_kinds(paths, gpu, system.nets)
        yield GpuDocument.of(gpu, to_gpus=to_gpus, to_nics=to_nics)


class AllReducePickDocument(Document):
    """NCCL's choice for an all-reduce from a size on."""

    from_bytes: float
    algorithm: str
    protocol: str


class NodeChangeDocument(Document):
    """A change to the node, and the rings with it."""

    change: str = derived("kind")
    names: list[str]
    to: str | None = or_null("to")
    ring_channels: int = derived(
        lambda change: change.after.first.graphs["ring"].best.channel_count
    )
    ring_inside_Bps: float = derived(
        lambda change: _Bps(change.after.first.graphs["ring"].inside_MBps)
    )
    groups: int = derived(lambda change: len(change.after.domains))
    text: str


def _change_documents(result: ChannelsFound) -> Iterator[dict[str, Any]]:
    for change in result.changes:
        yield NodeChangeDocument.of(change, text=_change_text(change, result))


class ChannelsDocument(Document):
    """The channels that a release of NCCL finds on a node, or on several like it."""

    file: str
    nccl: str = derived("release")
    nodes: int = derived("node.nodes")
    nccl_nodes: int = derived("communicator.nodes")
    channels: int = derived("communicator.channels")
    nvls_channels: int = derived("communicator.nvls_channels")
    graphs: list[GraphDocument]
    picks: list[AllReducePickDocument] = derived(
        lambda result: map(AllReducePickDocument.of, result.picks)
    )
    changes: list[NodeChangeDocument] = derived(_change_documents)
    node: NodeDocument = derived(lambda result: NodeDocument.of(result.node))
    notes: list[str] = derived(lambda result: map(sentence, _notes(result)))


VIEWS = {ChannelsFound: View("channels", _blocks, ChannelsDocument.of, _table, _headline)}
