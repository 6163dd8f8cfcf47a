"""The graphs that NCCL's search found, as the lines of NCCL_DEBUG_SUBSYS=GRAPH state them.

Forms of NCCL 2.6 to 2.30: ``bw`` or ``speed``; GPUs by rank (``GPU/3``) or by bus id
(``GPU/0-1b000``, ``GPU/0-0-1b000``). The lines of ranks are mixed: what stands before a message
says whose it is.

:func:`graph_lines` is the entry. A rank prints, for each communicator, the tree of its node
("=== System"), then its graphs, the ring first, each with its channels, then how many ranks there
are: a :class:`LoggedNode`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from colltool.logs.log_file import each_line
from colltool.logs.nccl_messages import NICS

# "node1:4711:4790 [3]"
_PREFIX = re.compile(r"(?P<host>[\w.-]{1,80}):\d+:\d+ \[-?\d+\]")
# "Pattern 4, crossNic 0, nChannels 8, bw 40.0/40.0, type NVL/PIX, sameChannels 1"
_PATTERN = re.compile(
    r"Pattern (?P<pattern>[1-6]), crossNic (?P<cross>\d), nChannels (?P<channels>\d{1,3}),"
    r" (?:bw|speed) (?P<inside>[\d.]{1,16})/(?P<across>[\d.]{1,16}),"
    r" type (?P<near>\w{3,4})/(?P<far>\w{3,4})"
)
# "NCCL INFO  0 : NET/0 GPU/0 GPU/7 GPU/6 NET/0", of GPUs by bus id "GPU/0-1b000"
_CHANNEL = re.compile(r"(?:INFO|\]) +\d{1,3} : (?P<path>(?:(?:NET|GPU)/\S+ ?)+)")
# "comm 0x55 rank 3 nranks 16 cudaDev 3 nvmlDev 3 busId ab000"
# "rank 3 nRanks 16 nNodes 2 localRanks 8 localRank 3"
_COMM = re.compile(
    r"rank (?P<rank>\d{1,7}) n[Rr]anks (?P<ranks>\d{1,7})"
    r"(?: nNodes (?P<nodes>\d{1,6}) localRanks (?P<local>\d{1,4}))?"
    r"(?:.{0,60}? busId (?P<busid>[0-9a-fA-F]{1,16}))?"
)
# "NCCL version 2.28.9+cuda12.9"
_VERSION = re.compile(r"\bNCCL version (?P<release>\d{1,2}\.\d{1,3}(?:\.\d{1,3})?)")
# "[1]mlx5_1:1/RoCE"
_NIC = re.compile(r"\[\d{1,3}\](?P<nic>[^\s:;\[]{1,120})")
# "NCCL INFO CPU/0-0 (1/1/2)"
_CPU = re.compile(r"INFO CPU/(?P<id>[0-9A-Fa-f-]{1,40}) \(")
# "NCCL INFO     + PCI[24.0] - GPU/0-1b000 (3)": two blanks more for each level
_LINK = re.compile(
    r"INFO (?P<indent> *)\+ (?P<kind>[A-Z0-9]{3})\[(?P<GBps>[\d.]{1,10})\] - (?P<type>[A-Z]{3})/"
    r"(?P<id>[0-9A-Fa-f-]{1,40})"
)
_LINES = 1_000_000  # that are read, of all files
_LONGEST = 4000  # characters of a line that are read
# names of graphs by NCCL's number of the pattern; all other patterns are trees
_RING = 4
_NAMES = {_RING: "ring", 5: "nvls", 6: "collnet_direct"}


class LoggedChannel(NamedTuple):
    """A channel: GPUs, each a rank or a bus id, and NCCL's numbers of its NICs."""

    gpus: tuple[int, ...]
    nets: tuple[int, ...]


class GraphFigures(NamedTuple):
    """What NCCL's line says of a graph."""

    pattern: int  # NCCL's number: 4 is a ring
    cross_nic: bool  # a channel may come by one NIC and leave by another
    channels: int
    inside_Bps: float  # of a channel, between GPUs
    across_Bps: float  # of a channel, to NICs
    between_gpus: str  # the farthest type of path: NVL
    to_nics: str  # the farthest type of path: PIX


class LoggedGraph(NamedTuple):
    """A graph of a host."""

    figures: GraphFigures
    orders: tuple[LoggedChannel, ...] = ()  # its channels; empty where their lines are cut
    by_busid: bool = False  # channels name GPUs by bus id, else by rank

    @property
    def gpus(self) -> set[int]:
        """All GPUs that channels name."""
        return set(chain.from_iterable(channel.gpus for channel in self.orders))


class LoggedLink(NamedTuple):
    """A link of the tree that NCCL prints of a node, made of a ``kind``, from one part to another:
    their types (CPU, PCI, DEV, GPU, NIC, NET, NVS) and bus ids or numbers."""

    kind: str
    MBps: int
    above: tuple[str, int]
    below: tuple[str, int]


class LoggedNode(NamedTuple):
    """What a rank says of its host.

    Args:
        host: empty where nothing before its messages names it.
        graphs: by name: ring, tree, nvls, collnet_chain, collnet_direct.
        ranks, nodes, local: ranks and nodes of the communicator, and ranks of this node, as NCCL
            counts them; 0 if it is not said.
        tree: the links of the node; empty without.
        where: file and line of the first graph.
    """

    host: str
    graphs: dict[str, LoggedGraph]
    ranks: int = 0
    nodes: int = 0
    local: int = 0
    tree: tuple[LoggedLink, ...] = ()
    where: str = ""

    @property
    def nets(self) -> set[int]:
        """NCCL's numbers of the NICs that channels use."""
        channels = chain.from_iterable(graph.orders for graph in self.graphs.values())
        return set(chain.from_iterable(channel.nets for channel in channels))

    @property
    def has_collnet(self) -> bool:
        """Whether there are graphs of CollNet."""
        return any(name.startswith("collnet") for name in self.graphs)


class GraphLines(NamedTuple):
    """What logs say of NCCL's search: a node for each communicator of a rank, in the order of the
    logs.

    Args:
        nics: names by NCCL's number, of the host that lists most.
        busids: of the GPUs of each host.
        ranks: of the largest communicator, 0 if no line says.
        release: NCCL's; empty if no line says.
        rccl: lines are AMD's library's.
    """

    nodes: tuple[LoggedNode, ...]
    nics: tuple[str, ...]
    busids: dict[str, tuple[int, ...]]
    ranks: int
    release: str
    rccl: bool

    def unlisted(self, ports: Collection[str]) -> list[str]:
        """The ports of a node that the list of NICs lacks; none where it has other names."""
        if set(ports).isdisjoint(self.nics):
            return []
        return [port for port in ports if port not in self.nics]


@dataclass
class _RankLines:
    """The lines of one rank so far."""

    host: str
    tree: list[LoggedLink] = field(default_factory=list)  # of the node that is printed next
    node: LoggedNode | None = None  # whose graphs are being printed
    graph: str = ""  # the name of the last one
    # of the tree: the parts above the next line, each with its indent
    above: list[tuple[int, tuple[str, int]]] = field(default_factory=list)


@dataclass
class _GraphReader:
    """What the lines so far say; from ``nodes`` on the fields are those of :class:`GraphLines`."""

    file: str = ""  # that is being read
    line: int = 0  # its last line that was taken
    rank_lines: dict[str, _RankLines] = field(default_factory=dict)  # by what begins a rank's lines
    nodes: list[LoggedNode] = field(default_factory=list)  # that are complete
    nics: tuple[str, ...] = ()
    busids: dict[str, dict[int, None]] = field(default_factory=dict)  # dicts keep the order
    ranks: int = 0
    release: str = ""
    rccl: bool = False

    def begin(self, file: str) -> None:
        """Begin a file."""
        self._finish_file()
        self.file = file
        self.line = 0
        self.rank_lines = {}

    def _finish_file(self) -> None:
        """Keep the nodes that the ranks of a file have begun."""
        for lines in self.rank_lines.values():
            self._finish_node(lines)

    def _finish_node(self, lines: _RankLines) -> None:
        """Keep the node whose graphs a rank has printed, if there is one."""
        if lines.node is not None:
            self.nodes.append(lines.node)
        lines.node = None

    def take(self, text: str) -> None:
        """Add what the next line of the file says."""
        self.line += 1
        self.rccl = self.rccl or "RCCL" in text
        version = _VERSION.search(text) if not self.release and "NCCL version" in text else None
        if version:
            self.release = version["release"]
        if "Using [0]" in text:
            nics = NICS.search(text)
            if nics:
                self.nics = max(self.nics, tuple(_NIC.findall(nics["nics"])), key=len)
        if "NCCL" not in text:
            return
        # a line is of the first kind whose words it has; these are far cheaper to look for than the
        # patterns
        lines = self._lines_of_rank(text)
        if "nChannels" in text:
            self._take_graph(lines, text)
        elif "GPU/" in text and " : " in text:
            _take_channel(lines, text)
        elif "=== System" in text:
            self._finish_node(lines)
            lines.tree = []
        elif "] - " in text:
            _take_link(lines, text)
        elif "CPU/" in text and " :" not in text:
            cpu = _CPU.search(text)
            if cpu:
                lines.above = [(-1, ("CPU", _hexadecimal(cpu["id"])))]
        elif "anks " in text:
            self._take_communicator(lines, text)

    def _lines_of_rank(self, text: str) -> _RankLines:
        """The lines so far of the rank that a message is of, by what stands before it; lines
        without that are taken for one rank's."""
        prefix = _PREFIX.search(text)
        key = prefix[0] if prefix else ""
        if key not in self.rank_lines:
            self.rank_lines[key] = _RankLines(prefix["host"] if prefix else "")
        return self.rank_lines[key]

    def _take_graph(self, lines: _RankLines, text: str) -> None:
        """Begin a graph, and with a ring the node that it is of."""
        match = _PATTERN.search(text)
        if match is None:
            return
        pattern = int(match["pattern"])
        if pattern == _RING or lines.node is None:
            self._finish_node(lines)
            lines.node = LoggedNode(
                lines.host, {}, tree=tuple(lines.tree), where=f"{self.file}:{self.line}"
            )
        name = _NAMES.get(pattern, "tree")
        # the second tree is that of CollNet
        if name == "tree" and "tree" in lines.node.graphs:
            name = "collnet_chain"
        lines.graph = name
        figures = GraphFigures(
            pattern=pattern,
            cross_nic=match["cross"] != "0",
            channels=int(match["channels"]),
            inside_Bps=_MBps(match["inside"]) * 1e6,
            across_Bps=_MBps(match["across"]) * 1e6,
            between_gpus=match["near"],
            to_nics=match["far"],
        )
        lines.node.graphs[name] = LoggedGraph(figures)

    def _take_communicator(self, lines: _RankLines, text: str) -> None:
        """Note a communicator's ranks, and the bus id of the rank's GPU."""
        match = _COMM.search(text)
        if match is None:
            return
        ranks = int(match["ranks"])
        self.ranks = max(self.ranks, ranks)
        if match["busid"]:
            self.busids.setdefault(lines.host, {})[int(match["busid"], 16)] = None
        if lines.node is not None:
            lines.node = lines.node._replace(
                ranks=ranks,
                nodes=int(match["nodes"] or lines.node.nodes),
                local=int(match["local"] or lines.node.local),
            )

    def lines(self) -> GraphLines:
        """What all lines say."""
        self._finish_file()
        busids = {host: tuple(of_host) for host, of_host in self.busids.items()}
        return GraphLines(tuple(self.nodes), self.nics, busids, self.ranks, self.release, self.rccl)


def _take_channel(lines: _RankLines, text: str) -> None:
    """Add a channel to the graph that a rank is printing; none where the line is cut, or no graph
    was begun."""
    match = _CHANNEL.search(text)
    if match is None or lines.node is None or not lines.graph:
        return
    graph = lines.node.graphs[lines.graph]
    parts = match["path"].split()
    try:
        gpus = [_number(part) for part in parts if part.startswith("GPU")]
        nets = [_number(part) for part in parts if part.startswith("NET")]
    except ValueError:  # the line is cut
        return
    lines.node.graphs[lines.graph] = graph._replace(
        orders=(*graph.orders, LoggedChannel(tuple(gpus), tuple(nets))),
        by_busid=any("-" in part for part in parts if part.startswith("GPU")),
    )


def _take_link(lines: _RankLines, text: str) -> None:
    """Add a link to the tree that a rank is printing: to the part above it, which is indented
    less."""
    match = _LINK.search(text)
    if match is None:
        return
    indent = len(match["indent"])
    while lines.above and lines.above[-1][0] >= indent:
        lines.above.pop()
    below = (match["type"], _hexadecimal(match["id"]))
    if lines.above:
        _, above = lines.above[-1]
        lines.tree.append(LoggedLink(match["kind"], _MBps(match["GBps"]), above, below))
    lines.above.append((indent, below))


def _hexadecimal(part_id: str) -> int:
    """The bus id or number behind the last dash of ``0-1b000``."""
    return int(part_id.rpartition("-")[2], 16)


def _MBps(GBps: str) -> int:
    """A printed rate in whole MB/s; 0 for what is no number."""
    try:
        return round(float(GBps) * 1000)
    except ValueError:
        return 0


def _number(part: str) -> int:
    """The number of ``GPU/3``, ``NET/0-b`` or ``GPU/0-0-1b000``: what has dashes is hexadecimal."""
    *before, last = part.rpartition("/")[2].split("-")
    return int(last, 16 if before else 10)


def graph_lines(paths: Sequence[str | os.PathLike[str]]) -> GraphLines:
    """What the lines of these logs state of NCCL's search; ColltoolError for a file that cannot be
    read."""
    reader = _GraphReader()
    each_line(paths, reader.begin, reader.take, most=_LINES, longest=_LONGEST)
    return reader.lines()
