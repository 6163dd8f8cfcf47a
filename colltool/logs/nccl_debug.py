"""What NCCL_DEBUG=INFO lines, settings and errors in logs say of a machine and a run.

The wording is that of NCCL 2.8 to 2.29 (src/init.cc, src/transport/*.cc, src/graph/search.cc,
src/misc/param.cc), RCCL and aws-ofi-nccl, behind whatever launchers and collectors put before a
line. What several lines say together is concluded in :mod:`colltool.logs.debug_conclusions`.

:func:`debug_lines` is the entry; it hands every line to :class:`_Gathered`, and that a message of
NCCL to the method which :data:`_MESSAGES` names, a sample line above each.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from colltool.base.errors import printable
from colltool.logs.log_file import each_line
from colltool.logs.nccl_settings import SettingsReader, stated_by
from colltool.logs.stated import StatedLine, stated_in, wrong_row

_MOST = 1_000_000  # lines that are read, of all files
_LONGEST = 2000  # characters of a line that are read
_MOST_QUOTED = 160  # characters of a line that are quoted
_MOST_STATED = 500  # different statements that are kept
_DIRECT = "/GDRDMA"  # after a transport: GPUDirect RDMA


class SaidAt(NamedTuple):
    """Where something was said first, and its words."""

    file: str
    line: int
    quoted: str


class DebugLines(NamedTuple):
    """What the lines say; None, 0 or empty where they do not."""

    network: str = ""  # as NCCL calls it: IB, Socket, AWS Libfabric
    provider: str = ""  # of libfabric
    nics: tuple[str, ...] = ()  # of the host that lists most
    nic_GBps: float | None = None  # of each NIC, by NCCL's topology
    links: tuple[tuple[str, str], ...] = ()  # IB or RoCE, by the NIC's name
    nic_Mbps: tuple[tuple[str, int], ...] = ()  # by the NIC's name
    via: tuple[tuple[str, int], ...] = ()  # connections by transport
    carrying: int | None = None  # NICs that connections use, on the host that uses most
    gpus: int = 0  # of a host, that open connections over these NICs
    gpudirect: bool | None = None
    multicast: bool | None = None
    channels: int | None = None  # the fewest of any rank
    nvls_channels: int | None = None  # the fewest of any rank
    picks: tuple[tuple[int, str], ...] = ()  # algorithm and protocol by bytes, ascending
    begun: int = 0  # initializations of ranks that began
    complete: int = 0  # and those that ended
    messages: int = 0  # lines that NCCL or RCCL wrote
    env: tuple[tuple[str, str], ...] = ()  # settings: variable and value
    mentioned: str = ""  # a device that the text names outside of Rank lines
    failure: str = ""  # the first error, quoted
    stated: tuple[StatedLine, ...] = ()  # every line that states something by itself
    places: Mapping[str, SaidAt] = MappingProxyType({})  # where the first line of a kind stands

    @property
    def describes_machine(self) -> bool:
        """Whether NCCL itself says anything of the machine; a command line alone is no log."""
        return bool(self.places.keys() - {"init COMPLETE"})

    def connections(self, kind: str) -> int:
        """How many connections go over transports that begin with ``kind``."""
        return sum(count for name, count in self.via if name.startswith(kind))

    @property
    def on_sockets(self) -> bool:
        """Whether the network is TCP."""
        return self.network.lower().startswith("socket")


def debug_lines(paths: Sequence[str | os.PathLike[str]]) -> DebugLines:
    """What the lines of these logs state, all of one machine."""
    gathered = _Gathered()
    each_line(paths, gathered.begin, gathered.take, most=_MOST, longest=_LONGEST)
    return gathered.lines()


# --- lines that are no message of NCCL

# a row of nccl-tests, behind a launcher's tag or a time:
# "[1,0]<stdout>: 1048576  262144  float  sum  -1  45.12  23.24  43.58  0  44.98  23.31  43.71  0"
_ROW = re.compile(r"\s*+(?:\S{1,60}\s++){0,3}?(\d{1,20}\s++\d{1,20}\s++[a-z]\w*\s.*)")
# what stands before the error that cut a row: all of "1048576  262144  float  sum  -1  45.12  " in
# "1048576  262144  float  sum  -1  45.12  node1: Test NCCL failure common.cu:594"
_CELLS = re.compile(
    r"^.*?"  # tags
    r"\d{1,20}\s+\d{1,20}\s+[a-z]\w*\s+"  # size, count and type
    r"(?:[a-z]\w*\s+)?"  # operation
    r"(?:-?[\d.]+(?:e[+-]\d+)?\s+|N/A\s+)*"  # root, times, rates and counts of wrong values
)
# "# Avg bus bandwidth    : 380.2", "# Collective test concluded: all_reduce_perf"
_ENDED = ("# Avg bus", "Collective test concluded")
# "\x1b[0;32mnode1\x1b[0m": colours of a terminal
_ANSI = re.compile(r"\x1b\[[0-9;?]{0,40}[A-Za-z]")
# "gpu: NVIDIA H100 80GB HBM3"
_DEVICE = re.compile(
    r"(?<![A-Za-z0-9])"
    r"(GB300|GB200|GH200|B300|B200|H200|H100|H800|H20|A100|A800|V100|MI300X|MI325X|MI355X|L40S|A10G|T4)"
    r"(?![0-9])",
    re.IGNORECASE,
)
# "instance type: p5.48xlarge", and the devices of these instances of AWS
_INSTANCE = re.compile(r"\b(p4de?|p5(?:en?)?)\.\d{0,2}xlarge", re.IGNORECASE)
_DEVICE_OF_INSTANCE = {"p4d": "A100", "p4de": "A100", "p5": "H100", "p5e": "H200", "p5en": "H200"}
# "node1:4711:4790 [3] NCCL INFO ...": the host and the GPU of a message
_ON_HOST = re.compile(r"(?<![\w.-])([\w-][\w.-]{0,80}):\d+:\d+ \[(-?\d+)\]")
# what stands before a message: time, launcher's tag, host:process:thread and device
_BEFORE = re.compile(r"^.{0,200}?:\d+:\d+ \[-?\d+\]\s*(?:NCCL INFO )?")
# "/build/nccl/src/transport/net_ib.cc:123 NCCL WARN ...": the folders of a source file
_FOLDERS = re.compile(r"^/?(?:[\w.+-]+/)+(?=[\w.+-]+:\d+ NCCL)")


class _Gathered:
    """What the lines so far say. Its ``on_`` methods note a message of NCCL, and return the key
    under which the first line of its kind is remembered."""

    def __init__(self) -> None:
        self.networks: Counter[str] = Counter()
        self.provider = ""
        self.nics: tuple[str, ...] = ()
        self.links: dict[str, str] = {}
        self.nic_Mbps: dict[str, int] = {}
        self.speeds: Counter[float] = Counter()
        self.via: Counter[str] = Counter()
        self.carrying: dict[str, set[str]] = {}  # NICs by host
        self.gpus: dict[str, set[str]] = {}  # by host
        self.rdma: set[bool] = set()
        self.multicast: set[bool] = set()
        self.channels: list[int] = []
        self.nvls_channels: list[int] = []
        self.picks: dict[int, str] = {}
        self.inits: Counter[str] = Counter()
        self.messages = 0
        self.env: dict[str, str] = {}
        self.devices: Counter[str] = Counter()
        self.stated: dict[tuple[str, str], StatedLine] = {}
        self.places: dict[str, SaidAt] = {}
        self.ended: dict[str, int] = {}  # the last line that ends a run, by file
        self.begin("")

    def begin(self, file: str) -> None:
        """Begin a file."""
        self.file = file
        self.line = 0
        self.settings = SettingsReader()
        # of the table of nccl-tests: its columns, and the indices of those that count wrong values
        self.columns = 0
        self.wrong_columns: tuple[int, ...] = ()

    def take(self, line: str) -> None:
        """Add what one line says."""
        self.line += 1
        if "\x1b" in line:
            line = _ANSI.sub("", line)
        text = line if line.isascii() and line.isprintable() else printable(line)
        row = _ROW.match(line)
        if row:
            self._take_row(row[1], text)
            return
        self._take_statement(text, text)
        if "#wrong" in text:
            self._take_header(text)
        if text.lstrip().startswith(_ENDED):
            self.ended[self.file] = self.line
        for setting in self.settings.take(text):
            self.env.setdefault(setting.name, setting.value)
            self._state(stated_by(setting, self.file, self.line))
        if "NCCL" in text or "NET" in text or "RDMA" in text or " via " in text:
            self._take_message(text)
        self._take_device(text)

    def _take_row(self, row: str, text: str) -> None:
        """A row of nccl-tests; its result is wrong where a count of wrong values is not 0."""
        cells = row.split()
        if len(cells) == self.columns:
            counts = [int(cells[at]) for at in self.wrong_columns if cells[at].isdigit()]
            if any(counts):
                self._state(wrong_row(float(cells[0]), max(counts), self.file, self.line))
        # a row that does not end with a number was cut by an error
        if not text.rstrip()[-1:].isdigit():
            self._take_statement(text, _CELLS.sub("", text))

    def _take_statement(self, text: str, said: str) -> None:
        """A line that states something by itself, in the words ``said``."""
        found = stated_in(text)
        if found:
            host, _ = _host_and_gpu(text)
            self._state(found.stated(_quoted(said), self.file, self.line, host))

    def _take_header(self, text: str) -> None:
        """The columns of a table of nccl-tests."""
        names = text.partition("#")[2].split()
        self.columns = len(names)
        self.wrong_columns = tuple(at for at, column in enumerate(names) if column == "#wrong")

    def _take_device(self, text: str) -> None:
        device = None if "Rank" in text else _DEVICE.search(text)
        instance = _INSTANCE.search(text) if "xlarge" in text else None
        if device:
            self.devices[device[1].upper()] += 1
        elif instance:
            self.devices[_DEVICE_OF_INSTANCE[instance[1].lower()]] += 1

    def _take_message(self, text: str) -> None:
        self.messages += "NCCL INFO" in text or "NCCL WARN" in text
        for word, pattern, take in _MESSAGES:
            match = pattern.search(text) if word in text else None
            if match is None:
                continue
            key = take(self, match)
            if key and key not in self.places:
                self.places[key] = SaidAt(self.file, self.line, _quoted(text))

    def _state(self, stated: StatedLine) -> None:
        """Keep a statement, or count it where the same was stated before."""
        key = (stated.code, stated.quoted if stated.code == "setting" else stated.means)
        known = self.stated.get(key)
        if known:
            self.stated[key] = known._replace(times=known.times + 1)
        elif len(self.stated) < _MOST_STATED:
            self.stated[key] = stated

    def on_network(self, match: re.Match[str]) -> str:
        self.networks[match["network"].strip()] += 1
        return "network"

    def on_nics(self, match: re.Match[str]) -> str:
        links = dict(_NIC.findall(match["nics"]))
        self.links |= links
        self.nics = max(self.nics, tuple(links), key=len)
        return "nics" if links else ""

    def on_nic_speed(self, match: re.Match[str]) -> str:
        self.links[match["nic"]] = match["link"]
        self.nic_Mbps[match["nic"]] = int(match["Mbps"])
        return "nic-speed"

    def on_net_connection(self, match: re.Match[str]) -> str:
        transport = f"NET/{match['plugin'] or match['bare']}"
        if "GDRDMA" in match["rest"]:
            transport += _DIRECT
        host, gpu = _host_and_gpu(match.string)
        if match["nic"]:
            self.carrying.setdefault(host, set()).add(match["nic"])
        if gpu:
            self.gpus.setdefault(host, set()).add(gpu)
        return self._connected(transport)

    def on_connection(self, match: re.Match[str]) -> str:
        return self._connected(match["transport"])

    def on_refused_p2p(self, _: re.Match[str]) -> str:
        return self._connected("P2P refused")

    def _connected(self, transport: str) -> str:
        self.via[transport] += 1
        return f"via {transport}"

    def on_rdma(self, match: re.Match[str]) -> str:
        # DMA-BUF is only named where it is available
        enabled = match["state"] is None or match["state"].lower() == "enabled"
        self.rdma.add(enabled)
        return "gpudirect" if enabled else "no-gpudirect"

    def on_speed(self, match: re.Match[str]) -> str:
        self.speeds[float(match["GBps"])] += 1
        return "speed"

    def on_multicast(self, match: re.Match[str]) -> str:
        self.multicast.add(match["no"] is None)
        return "no-multicast" if match["no"] else "multicast"

    def on_provider(self, match: re.Match[str]) -> str:
        # every rank selects the same one; a network is named by ranks that fall back to sockets,
        # too
        self.provider = self.provider or match["name"]
        return "provider"

    def on_channels(self, match: re.Match[str]) -> str:
        self.channels.append(int(match["channels"]))
        if match["nvls"] is not None:
            self.nvls_channels.append(int(match["nvls"]))
        return "channels"

    def on_pick(self, match: re.Match[str]) -> str:
        self.picks[int(match["bytes"])] = f"{match['algorithm']} {match['protocol']}"
        return "picks"

    def on_init(self, match: re.Match[str]) -> str:
        self.inits[match["stage"]] += 1
        return f"init {match['stage']}"

    def _gpudirect(self) -> bool | None:
        """Whether connections between hosts are direct, else whether NCCL says that it can."""
        over_rdma = [via for via in self.via if via.startswith("NET/")]
        if any(_DIRECT in via for via in over_rdma):
            return True
        if any(not via.startswith("NET/Socket") for via in over_rdma):
            return False
        return True in self.rdma if self.rdma else None

    def lines(self) -> DebugLines:
        """What all lines say together."""
        stated = tuple(map(self._if_ended, self.stated.values()))
        failures = [found.quoted for found in stated if found.kind == "failed"]
        return DebugLines(
            network=_commonest(self.networks) or "",
            provider=self.provider,
            nics=self.nics,
            nic_GBps=_commonest(self.speeds),
            links=tuple(self.links.items()),
            nic_Mbps=tuple(self.nic_Mbps.items()),
            via=tuple(sorted(self.via.items())),
            carrying=max(map(len, self.carrying.values()), default=None),
            gpus=max(map(len, self.gpus.values()), default=0),
            gpudirect=self._gpudirect(),
            multicast=True in self.multicast if self.multicast else None,
            channels=min(self.channels, default=None),
            nvls_channels=min(self.nvls_channels, default=None),
            picks=tuple(sorted(self.picks.items())),
            begun=self.inits["START"],
            complete=self.inits["COMPLETE"],
            messages=self.messages,
            env=tuple(sorted(self.env.items())),
            mentioned=_commonest(self.devices) or "",
            failure=next(iter(failures), ""),
            stated=stated,
            places=self.places,
        )

    def _if_ended(self, stated: StatedLine) -> StatedLine:
        """A warning in place of a failure, where the run went on to its end."""
        if stated.soft and stated.line < self.ended.get(stated.file, 0):
            return stated._replace(kind="warning")
        return stated


def _host_and_gpu(text: str) -> tuple[str, str]:
    """The host and the GPU that a message names itself, empty where it does not."""
    on = _ON_HOST.search(text)
    return (on[1], on[2]) if on else ("", "")


def _quoted(text: str) -> str:
    """A line as it is quoted: without what launchers and NCCL put before the message."""
    message = _FOLDERS.sub("", _BEFORE.sub("", text.strip(), count=1), count=1)
    return message[:_MOST_QUOTED].strip()


_T = TypeVar("_T")


def _commonest(counts: Counter[_T]) -> _T | None:
    for value, _ in counts.most_common(1):
        return value
    return None


# --- messages of NCCL


class _NcclMessage(NamedTuple):
    """A message of NCCL; ``word`` is in it, which is far cheaper to look for than the pattern."""

    word: str
    pattern: re.Pattern[str]
    take: Callable[[_Gathered, re.Match[str]], str]


NICS = re.compile(r"NET/[A-Za-z]+ ?: Using (?P<nics>\[0\].{1,2000})")
"""The list of NICs that NCCL opened: ``NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE``."""
# "[1]mlx5_1:1/RoCE"
_NIC = re.compile(r"\[\d{1,3}\](?P<nic>[\w.-]{1,40}):\d{1,3}/(?P<link>\w+)")
# "GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", "DMA-BUF is available on GPU device 0"
_RDMA = re.compile(
    r"GPU Direct RDMA (?P<state>Enabled|Disabled)|DMA-BUF is available", re.IGNORECASE
)

_MESSAGES = (
    # NCCL INFO Using network IB
    _NcclMessage(
        "Using network",
        re.compile(r"Using network (?P<network>\S[^\n]{0,40})"),
        _Gathered.on_network,
    ),
    _NcclMessage("Using [0]", NICS, _Gathered.on_nics),
    # NCCL INFO NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=400000 context=...
    # speed in Mbit/s; of NCCL 2.8 to 2.29
    _NcclMessage(
        "speed=",
        re.compile(
            r"NET/IB ?: ?\[\d{1,3}\] ?(?P<nic>[\w.-]{1,40}):\S{0,30}?\d{0,2}/(?P<link>\w+)"
            r".{0,80}?speed=(?P<Mbps>\d{3,7})"
        ),
        _Gathered.on_nic_speed,
    ),
    # NCCL INFO Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA
    # NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/AWS Libfabric/3/GDRDMA
    _NcclMessage(
        "via NET",
        re.compile(
            r"\bvia NET/(?:(?P<plugin>[A-Za-z][\w .+-]{0,40}?)[/:](?P<nic>\d{1,3})|(?P<bare>\w+))"
            r"(?P<rest>\S*)"
        ),
        _Gathered.on_net_connection,
    ),
    # NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
    # NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
    _NcclMessage(
        " via ",
        re.compile(r"\bvia (?P<transport>P2P|SHM|COLLNET)\b"),
        _Gathered.on_connection,
    ),
    _NcclMessage("Direct RDMA", _RDMA, _Gathered.on_rdma),
    _NcclMessage("DMA-BUF", _RDMA, _Gathered.on_rdma),
    # NCCL INFO + NET[50.0] - NET/0 (...): GB/s, in the print of NCCL's topology
    _NcclMessage(
        "NET[",
        re.compile(r"\bNET\[(?P<GBps>\d{1,4}(?:\.\d+)?)\] - NET/\d+"),
        _Gathered.on_speed,
    ),
    # NCCL INFO NVLS multicast support is not available on dev 0
    _NcclMessage(
        "ulticast support",
        re.compile(r"NVLS multicast support is (?P<no>not )?available", re.IGNORECASE),
        _Gathered.on_multicast,
    ),
    # NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)
    _NcclMessage(
        "NET/OFI Selected",
        re.compile(r"NET/OFI Selected [Pp]rovider is (?P<name>[\w;+-]+)"),
        _Gathered.on_provider,
    ),
    # NCCL INFO 24 coll channels, 0 collnet channels, 16 nvls channels, 32 p2p channels, ...
    _NcclMessage(
        "coll channels",
        re.compile(
            r"(?P<channels>\d+) coll channels(?:, \d+ collnet channels)?"
            r"(?:, (?P<nvls>\d+) nvls channels)?"
        ),
        _Gathered.on_channels,
    ),
    # NCCL INFO AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}
    _NcclMessage(
        "-> Algo",
        re.compile(
            r"\b(?P<bytes>\d{1,15}) Bytes -> Algo (?P<algorithm>\w{2,20}) proto (?P<protocol>\w{2,20})"
        ),
        _Gathered.on_pick,
    ),
    # NCCL INFO ncclCommInitRank comm 0x55d0 rank 0 nranks 8 ... - Init COMPLETE
    _NcclMessage("Init ", re.compile(r"Init (?P<stage>START|COMPLETE)"), _Gathered.on_init),
    # NCCL INFO P2P is disabled between connected GPUs 1 and 0
    # NCCL INFO Could not enable P2P between dev 0(=1000) and dev 1(=2000)
    _NcclMessage(
        "P2P",
        re.compile(r"P2P is disabled between|Could not enable P2P|P2P is disabled by NCCL_P2P"),
        _Gathered.on_refused_p2p,
    ),
)
