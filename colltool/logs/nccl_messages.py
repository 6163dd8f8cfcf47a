"""Messages of NCCL in a log: what each states, gathered over all lines.

The wording is that of NCCL 2.8 to 2.29 (src/init.cc, src/transport/*.cc, src/graph/search.cc),
RCCL and aws-ofi-nccl, behind whatever launchers and collectors put before a line.

:class:`NcclMessages` is handed lines by :mod:`colltool.logs.nccl_debug`; its methods ``on_`` take
one kind of message each, which the table :data:`_KINDS` below it names, a sample line above each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from colltool.logs.debug_record import SaidAt

_MOST_QUOTED = 160  # characters of a line that are quoted
_DIRECT = "/GDRDMA"  # behind a transport: GPUDirect RDMA
# "node1:4711:4790 [3] NCCL INFO ...": the host and the GPU of a message
_ON_HOST = re.compile(r"(?<![\w.-])([\w-][\w.-]{0,80}):\d+:\d+ \[(-?\d+)\]")
# what stands before a message: time, launcher's tag, host:process:thread and device
_BEFORE = re.compile(r"^.{0,200}?:\d+:\d+ \[-?\d+\]\s*(?:NCCL INFO )?")
# "/build/nccl/src/transport/net_ib.cc:123 NCCL WARN ...": the folders of a source file
_FOLDERS = re.compile(r"^/?(?:[\w.+-]+/)+(?=[\w.+-]+:\d+ NCCL)")


def host_and_gpu(text: str) -> tuple[str, str]:
    """The host and the GPU that a message names itself, empty where it does not."""
    match = _ON_HOST.search(text)
    return (match[1], match[2]) if match else ("", "")


def quoted_message(text: str) -> str:
    """A line as it is quoted: without what launchers and NCCL put before the message."""
    message = _FOLDERS.sub("", _BEFORE.sub("", text.strip(), count=1), count=1)
    return message[:_MOST_QUOTED].strip()


class NcclMessages:
    """What messages of NCCL say so far. Its ``on_`` methods note a message, and return the key
    under which the first line of its kind is kept in ``places``; empty for none."""

    def __init__(self) -> None:
        self.count = 0  # lines that NCCL or RCCL wrote
        self.places: dict[str, SaidAt] = {}
        self.networks: Counter[str] = Counter()
        self.provider = ""
        self.nics: tuple[str, ...] = ()  # of the host that lists most
        self.links: dict[str, str] = {}  # IB or RoCE, by the NIC's name
        self.nic_Mbps: dict[str, int] = {}  # by the NIC's name
        self.topology_GBps: Counter[float] = Counter()  # of NICs, in NCCL's topology
        self.connections: Counter[str] = Counter()  # by transport
        self.nics_by_host: dict[str, set[str]] = {}  # that connections use
        self.gpus_by_host: dict[str, set[str]] = {}  # that connect over NICs
        self.rdma: set[bool] = set()  # whether GPUDirect RDMA is enabled, as lines say
        self.multicast: set[bool] = set()  # whether it is available, as lines say
        self.channels: list[int] = []
        self.nvls_channels: list[int] = []
        self.picks: dict[int, str] = {}  # algorithm and protocol, by bytes
        self.inits: Counter[str] = Counter()  # START or COMPLETE

    def take(self, text: str, file: str, line: int) -> None:
        """Add what a line says, of every kind that it matches."""
        self.count += "NCCL INFO" in text or "NCCL WARN" in text
        for word, pattern, on_message in _KINDS:
            match = pattern.search(text) if word in text else None
            if match is None:
                continue
            key = on_message(self, match)
            if key and key not in self.places:
                self.places[key] = SaidAt(file, line, quoted_message(text))

    def on_network(self, match: re.Match[str]) -> str:
        """The network that a rank uses."""
        self.networks[match["network"].strip()] += 1
        return "network"

    def on_nics(self, match: re.Match[str]) -> str:
        """The NICs that NCCL opened on a host, each with its link."""
        links = dict(_NIC.findall(match["nics"]))
        self.links |= links
        self.nics = max(self.nics, tuple(links), key=len)
        return "nics" if links else ""

    def on_nic_speed(self, match: re.Match[str]) -> str:
        """The link and the speed of one NIC."""
        self.links[match["nic"]] = match["link"]
        self.nic_Mbps[match["nic"]] = int(match["Mbps"])
        return "nic-speed"

    def on_net_connection(self, match: re.Match[str]) -> str:
        """A connection over a NIC, and the host, GPU and NIC that it is of."""
        transport = f"NET/{match['plugin'] or match['bare']}"
        if "GDRDMA" in match["rest"]:
            transport += _DIRECT
        host, gpu = host_and_gpu(match.string)
        if match["nic"]:
            self.nics_by_host.setdefault(host, set()).add(match["nic"])
        if gpu:
            self.gpus_by_host.setdefault(host, set()).add(gpu)
        return self._count_connection(transport)

    def on_connection(self, match: re.Match[str]) -> str:
        """A connection by any other transport."""
        return self._count_connection(match["transport"])

    def on_refused_p2p(self, _: re.Match[str]) -> str:
        """Two GPUs that cannot reach each other's memory, counted as a transport of its own."""
        return self._count_connection("P2P refused")

    def _count_connection(self, transport: str) -> str:
        """Count a connection; the key of its first line."""
        self.connections[transport] += 1
        return f"via {transport}"

    def on_rdma(self, match: re.Match[str]) -> str:
        """Whether a NIC or a GPU has GPUDirect RDMA."""
        # DMA-BUF is only named where it is available
        enabled = match["state"] is None or match["state"].lower() == "enabled"
        self.rdma.add(enabled)
        return "gpudirect" if enabled else "no-gpudirect"

    def on_topology_speed(self, match: re.Match[str]) -> str:
        """The rate of a NIC in NCCL's print of its topology."""
        self.topology_GBps[float(match["GBps"])] += 1
        return "speed"

    def on_multicast(self, match: re.Match[str]) -> str:
        """Whether the NVSwitches can reduce."""
        self.multicast.add(match["no"] is None)
        return "no-multicast" if match["no"] else "multicast"

    def on_provider(self, match: re.Match[str]) -> str:
        """The provider that libfabric selected."""
        # every rank selects the same one; a network is named by ranks that fall back to sockets,
        # too
        self.provider = self.provider or match["name"]
        return "provider"

    def on_channels(self, match: re.Match[str]) -> str:
        """How many channels a rank has, and how many of NVLS where the line says it."""
        self.channels.append(int(match["channels"]))
        if match["nvls"] is not None:
            self.nvls_channels.append(int(match["nvls"]))
        return "channels"

    def on_pick(self, match: re.Match[str]) -> str:
        """The algorithm and the protocol that NCCL picked for a size; the last for each counts."""
        self.picks[int(match["bytes"])] = f"{match['algorithm']} {match['protocol']}"
        return "picks"

    def on_init(self, match: re.Match[str]) -> str:
        """A rank whose initialization began or ended."""
        self.inits[match["stage"]] += 1
        return f"init {match['stage']}"

    def gpudirect(self) -> bool | None:
        """Whether connections between hosts read GPU memory themselves; where there are none but
        over TCP, whether NCCL says that they can, None if it does not say."""
        between_hosts = [
            transport for transport in self.connections if transport.startswith("NET/")
        ]
        if any(_DIRECT in transport for transport in between_hosts):
            return True
        if any(not transport.startswith("NET/Socket") for transport in between_hosts):
            return False
        return True in self.rdma if self.rdma else None


class _MessageKind(NamedTuple):
    """A kind of message; ``word`` is in it, which is far cheaper to look for than the pattern."""

    word: str
    pattern: re.Pattern[str]
    on_message: Callable[[NcclMessages, re.Match[str]], str]


NICS = re.compile(r"NET/[A-Za-z]+ ?: Using (?P<nics>\[0\].{1,2000})")
"""The list of NICs that NCCL opened: ``NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE``."""
# "[1]mlx5_1:1/RoCE"
_NIC = re.compile(r"\[\d{1,3}\](?P<nic>[\w.-]{1,40}):\d{1,3}/(?P<link>\w+)")
# "GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", "DMA-BUF is available on GPU device 0"
_RDMA = re.compile(
    r"GPU Direct RDMA (?P<state>Enabled|Disabled)|DMA-BUF is available", re.IGNORECASE
)

_KINDS = (
    # NCCL INFO Using network IB
    _MessageKind(
        "Using network",
        re.compile(r"Using network (?P<network>\S[^\n]{0,40})"),
        NcclMessages.on_network,
    ),
    _MessageKind("Using [0]", NICS, NcclMessages.on_nics),
    # NCCL INFO NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=400000 context=...
    # speed in Mbit/s; of NCCL 2.8 to 2.29
    _MessageKind(
        "speed=",
        re.compile(
            r"NET/IB ?: ?\[\d{1,3}\] ?(?P<nic>[\w.-]{1,40}):\S{0,30}?\d{0,2}/(?P<link>\w+)"
            r".{0,80}?speed=(?P<Mbps>\d{3,7})"
        ),
        NcclMessages.on_nic_speed,
    ),
    # NCCL INFO Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA
    # NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/AWS Libfabric/3/GDRDMA
    _MessageKind(
        "via NET",
        re.compile(
            r"\bvia NET/(?:(?P<plugin>[A-Za-z][\w .+-]{0,40}?)[/:](?P<nic>\d{1,3})|(?P<bare>\w+))"
            r"(?P<rest>\S*)"
        ),
        NcclMessages.on_net_connection,
    ),
    # NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
    # NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
    _MessageKind(
        " via ",
        re.compile(r"\bvia (?P<transport>P2P|SHM|COLLNET)\b"),
        NcclMessages.on_connection,
    ),
    _MessageKind("Direct RDMA", _RDMA, NcclMessages.on_rdma),
    _MessageKind("DMA-BUF", _RDMA, NcclMessages.on_rdma),
    # NCCL INFO + NET[50.0] - NET/0 (...): GB/s, in the print of NCCL's topology
    _MessageKind(
        "NET[",
        re.compile(r"\bNET\[(?P<GBps>\d{1,4}(?:\.\d+)?)\] - NET/\d+"),
        NcclMessages.on_topology_speed,
    ),
    # NCCL INFO NVLS multicast support is not available on dev 0
    _MessageKind(
        "ulticast support",
        re.compile(r"NVLS multicast support is (?P<no>not )?available", re.IGNORECASE),
        NcclMessages.on_multicast,
    ),
    # NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)
    _MessageKind(
        "NET/OFI Selected",
        re.compile(r"NET/OFI Selected [Pp]rovider is (?P<name>[\w;+-]+)"),
        NcclMessages.on_provider,
    ),
    # NCCL INFO 24 coll channels, 0 collnet channels, 16 nvls channels, 32 p2p channels, ...
    _MessageKind(
        "coll channels",
        re.compile(
            r"(?P<channels>\d+) coll channels(?:, \d+ collnet channels)?"
            r"(?:, (?P<nvls>\d+) nvls channels)?"
        ),
        NcclMessages.on_channels,
    ),
    # NCCL INFO AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}
    _MessageKind(
        "-> Algo",
        re.compile(
            r"\b(?P<bytes>\d{1,15}) Bytes -> Algo (?P<algorithm>\w{2,20}) proto (?P<protocol>\w{2,20})"
        ),
        NcclMessages.on_pick,
    ),
    # NCCL INFO ncclCommInitRank comm 0x55d0 rank 0 nranks 8 ... - Init COMPLETE
    _MessageKind("Init ", re.compile(r"Init (?P<stage>START|COMPLETE)"), NcclMessages.on_init),
    # NCCL INFO P2P is disabled between connected GPUs 1 and 0
    # NCCL INFO Could not enable P2P between dev 0(=1000) and dev 1(=2000)
    _MessageKind(
        "P2P",
        re.compile(r"P2P is disabled between|Could not enable P2P|P2P is disabled by NCCL_P2P"),
        NcclMessages.on_refused_p2p,
    ),
)
