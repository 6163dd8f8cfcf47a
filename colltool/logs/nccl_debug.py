"""What NCCL_DEBUG=INFO lines, settings and errors in logs say of a machine and a run.

The wording is that of NCCL 2.8 to 2.29 (src/init.cc, src/transport/*.cc, src/graph/search.cc,
src/misc/param.cc), RCCL and aws-ofi-nccl, behind whatever launchers and collectors put before a
line. What several lines say together is concluded in :mod:`colltool.logs.debug_conclusions`.

:func:`debug_lines` is the entry; it hands every line to :class:`_Gathered`, whose methods note
what a kind of line says.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from colltool.base.errors import printable
from colltool.logs.log_file import open_log
from colltool.logs.nccl_settings import SettingsReader, stated_by
from colltool.logs.stated import StatedLine, stated_in, wrong_row

_USING = re.compile(r"Using network (?P<network>\S[^\n]{0,40})")
NICS = re.compile(r"NET/[A-Za-z]+ ?: Using (?P<nics>\[0\].{1,2000})")
"""The list of NICs that NCCL opened."""
_NIC = re.compile(r"\[\d{1,3}\](?P<nic>[\w.-]{1,40}):\d{1,3}/(?P<link>\w+)")
# of NCCL 2.8 to 2.29, per NIC; speed in Mbit/s
_NIC_SPEED = re.compile(
    r"NET/IB ?: ?\[\d{1,3}\] ?(?P<nic>[\w.-]{1,40}):\S{0,30}?\d{0,2}/(?P<link>\w+)"
    r".{0,80}?speed=(?P<Mbps>\d{3,7})"
)
_NET = re.compile(
    r"\bvia NET/(?:(?P<plugin>[A-Za-z][\w .+-]{0,40}?)[/:](?P<nic>\d{1,3})|(?P<bare>\w+))"
    r"(?P<rest>\S*)"
)
_VIA = re.compile(r"\bvia (?P<transport>P2P|SHM|COLLNET)\b")
_RDMA = re.compile(
    r"GPU Direct RDMA (?P<state>Enabled|Disabled)|DMA-BUF is available", re.IGNORECASE
)
_NET_SPEED = re.compile(r"\bNET\[(?P<GBps>\d{1,4}(?:\.\d+)?)\] - NET/\d+")
_MULTICAST = re.compile(r"NVLS multicast support is (?P<no>not )?available", re.IGNORECASE)
_PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is (?P<name>[\w;+-]+)")
_CHANNELS = re.compile(
    r"(?P<channels>\d+) coll channels(?:, \d+ collnet channels)?"
    r"(?:, (?P<nvls>\d+) nvls channels)?"
)
_PICK = re.compile(
    r"\b(?P<bytes>\d{1,15}) Bytes -> Algo (?P<algorithm>\w{2,20}) proto (?P<protocol>\w{2,20})"
)
_INIT = re.compile(r"Init (?P<stage>START|COMPLETE)")
_NO_P2P = re.compile(r"P2P is disabled between|Could not enable P2P|P2P is disabled by NCCL_P2P")
_ON_HOST = re.compile(r"(?<![\w.-])([\w-][\w.-]{0,80}):\d+:\d+ \[(-?\d+)\]")
_ANSI = re.compile(r"\x1b\[[0-9;?]{0,40}[A-Za-z]")
_DEVICE = re.compile(
    r"(?<![A-Za-z0-9])(GB300|GB200|GH200|B300|B200|H200|H100|H800|H20|A100|A800|V100|MI300X|MI325X|MI355X|L40S|A10G|T4)(?![0-9])",
    re.IGNORECASE,
)
# behind a launcher's tag or a time
_ROW = re.compile(r"\s*+(?:\S{1,60}\s++){0,3}?(\d{1,20}\s++\d{1,20}\s++[a-z]\w*\s.*)")
# the cells of a row that an error cut
_CELLS = re.compile(
    r"^.*?\d{1,20}\s+\d{1,20}\s+[a-z]\w*\s+(?:[a-z]\w*\s+)?(?:-?[\d.]+(?:e[+-]\d+)?\s+|N/A\s+)*"
)
_ENDED = ("# Avg bus", "Collective test concluded")
_DIRECT = "/GDRDMA"  # after a transport: GPUDirect RDMA
_MOST = 1_000_000  # lines that are read, of all files
_LONGEST = 2000  # characters of a line that are read
_MOST_QUOTED = 160  # characters of a line that are quoted
_MOST_STATED = 500  # different statements that are kept
# devices of AWS instances
_DEVICE_OF_INSTANCE = {"p4d": "A100", "p4de": "A100", "p5": "H100", "p5e": "H200", "p5en": "H200"}
_INSTANCE = re.compile(r"\b(p4de?|p5(?:en?)?)\.\d{0,2}xlarge", re.IGNORECASE)
# what stands before a message: time, launcher's tag, host:process:thread and device
_BEFORE = re.compile(r"^.{0,200}?:\d+:\d+ \[-?\d+\]\s*(?:NCCL INFO )?")
_FOLDERS = re.compile(r"^/?(?:[\w.+-]+/)+(?=[\w.+-]+:\d+ NCCL)")


class SaidAt(NamedTuple):
    """Where something was said first, and its words."""

    file: str
    line: int
    quoted: str


class DebugLines(NamedTuple):
    """What the lines say; None where they do not.

    ``network`` as NCCL calls it (IB, Socket, AWS Libfabric); ``nics`` of a host, ``nic_GBps`` of
    each by NCCL's topology, ``links`` of them by name (IB, RoCE), ``nic_Mbps`` by name;
    ``via``: connections by transport; ``carrying``: NICs that connections use on the host that uses
    most, ``gpus`` of a host that open them. ``channels``, ``nvls_channels``: the fewest.
    ``picks``: algorithm and protocol by bytes, ascending; ``begun``, ``complete``: initializations of
    ranks. ``messages``: lines that NCCL or RCCL wrote.
    ``mentioned``: a device that the text names outside of Rank lines; ``failure``: the first error,
    quoted. ``stated``: every line that states something by itself, and ``places``: where each of
    these was said first.
    """

    network: str = ""
    provider: str = ""
    nics: tuple[str, ...] = ()
    nic_GBps: float | None = None
    links: tuple[tuple[str, str], ...] = ()
    nic_Mbps: tuple[tuple[str, int], ...] = ()
    via: tuple[tuple[str, int], ...] = ()
    carrying: int | None = None
    gpus: int = 0
    gpudirect: bool | None = None
    multicast: bool | None = None
    channels: int | None = None
    nvls_channels: int | None = None
    picks: tuple[tuple[int, str], ...] = ()
    begun: int = 0
    complete: int = 0
    messages: int = 0
    env: tuple[tuple[str, str], ...] = ()
    mentioned: str = ""
    failure: str = ""
    stated: tuple[StatedLine, ...] = ()
    places: Mapping[str, SaidAt] = MappingProxyType({})

    @property
    def any(self) -> bool:
        """Whether NCCL itself says anything of the machine; a command line alone is no log."""
        return bool(self.places.keys() - {"init COMPLETE"})

    def connections(self, kind: str) -> int:
        """How many connections go over transports that begin with ``kind``."""
        return sum(count for name, count in self.via if name.startswith(kind))

    @property
    def on_sockets(self) -> bool:
        """Whether the network is TCP."""
        return self.network.lower().startswith("socket")


class _Gathered:
    """What the lines so far say. :data:`_MESSAGES` calls the method of each message that it finds,
    with the match and the line."""

    def __init__(self) -> None:
        self.networks: Counter[str] = Counter()
        self.providers: Counter[str] = Counter()
        self.nics: tuple[str, ...] = ()
        self.links: dict[str, str] = {}
        self.nic_Mbps: dict[str, int] = {}
        self.speeds: Counter[float] = Counter()
        self.via: Counter[str] = Counter()
        self.carrying: dict[str, set[str]] = {}
        self.gpus: dict[str, set[str]] = {}
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
        self.ended: dict[str, int] = {}
        self.file = ""
        self.line = 0
        self.settings = SettingsReader()
        self.wrong_at: tuple[int, ...] = ()
        self.columns = 0

    def begin(self, file: str) -> None:
        """Begin a file."""
        self.file = file
        self.line = 0
        self.settings = SettingsReader()
        self.wrong_at = ()

    def take(self, line: str) -> None:
        """Add what one line says."""
        self.line += 1
        if "\x1b" in line:
            line = _ANSI.sub("", line)
        row = _ROW.match(line)
        if row:
            self._row(row[1].split())
        text = line if line.isascii() and line.isprintable() else printable(line)
        # a whole row ends with a number
        whole = row and text.rstrip()[-1:].isdigit()
        found = None if whole else stated_in(text)
        if found:
            said = _CELLS.sub("", text) if row else text
            self._state(found.stated(_quoted(said), self.file, self.line, _host_and_gpu(text)[0]))
        if row:
            return
        if "#wrong" in text:
            self._header(text)
        if text.lstrip().startswith(_ENDED):
            self.ended[self.file] = self.line
        for setting in self.settings.take(text):
            self.env.setdefault(setting.name, setting.value)
            self._state(stated_by(setting, self.file, self.line))
        if "NCCL" in text or "NET" in text or "RDMA" in text or " via " in text:
            self._message(text)
        self._mentioned(text)

    def _message(self, text: str) -> None:
        self.messages += "NCCL INFO" in text or "NCCL WARN" in text
        for word, pattern, take in _MESSAGES:
            match = pattern.search(text) if word in text else None
            if match:
                take(self, match, text)

    def _mentioned(self, text: str) -> None:
        device = None if "Rank" in text else _DEVICE.search(text)
        instance = _INSTANCE.search(text) if "xlarge" in text else None
        if device:
            self.devices[device[1].upper()] += 1
        elif instance:
            self.devices[_DEVICE_OF_INSTANCE[instance[1].lower()]] += 1

    def _state(self, stated: StatedLine) -> None:
        """Keep a statement, or count it where the same was stated before."""
        key = (stated.code, stated.quoted if stated.code == "setting" else stated.means)
        known = self.stated.get(key)
        if known:
            self.stated[key] = known._replace(times=known.times + 1)
        elif len(self.stated) < _MOST_STATED:
            self.stated[key] = stated

    def _header(self, text: str) -> None:
        """The columns of a table of nccl-tests that count wrong values."""
        names = text.partition("#")[2].split()
        self.columns = len(names)
        self.wrong_at = tuple(at for at, column in enumerate(names) if column == "#wrong")

    def _row(self, words: list[str]) -> None:
        """A row of nccl-tests: its result is wrong where a count of wrong values is not 0."""
        if len(words) != self.columns:
            return
        counts = [int(words[at]) for at in self.wrong_at if words[at].isdigit()]
        if any(counts):
            self._state(wrong_row(float(words[0]), max(counts), self.file, self.line))

    def _first(self, key: str, text: str) -> None:
        """Remember where something was said first."""
        if key not in self.places:
            self.places[key] = SaidAt(self.file, self.line, _quoted(text))

    def network(self, match: re.Match[str], text: str) -> None:
        self.networks[match["network"].strip()] += 1
        self._first("network", text)

    def cards(self, match: re.Match[str], text: str) -> None:
        links = dict(_NIC.findall(match["nics"]))
        if links:
            self._first("nics", text)
        self.links |= links
        self.nics = max(self.nics, tuple(links), key=len)

    def card_speed(self, match: re.Match[str], text: str) -> None:
        self.links[match["nic"]] = match["link"]
        self.nic_Mbps[match["nic"]] = int(match["Mbps"])
        self._first("nic-speed", text)

    def connection(self, match: re.Match[str], text: str) -> None:
        self._connected(match["transport"], text)

    def net_connection(self, match: re.Match[str], text: str) -> None:
        kind = f"NET/{match['plugin'] or match['bare']}"
        if "GDRDMA" in match["rest"]:
            kind += _DIRECT
        self._connected(kind, text)
        host, gpu = _host_and_gpu(text)
        if match["nic"]:
            self.carrying.setdefault(host, set()).add(match["nic"])
        if gpu:
            self.gpus.setdefault(host, set()).add(gpu)

    def _connected(self, kind: str, text: str) -> None:
        self.via[kind] += 1
        self._first(f"via {kind}", text)

    def direct_memory(self, match: re.Match[str], text: str) -> None:
        # DMA-BUF is only named where it is available
        enabled = match["state"] is None or match["state"].lower() == "enabled"
        self.rdma.add(enabled)
        key = "gpudirect" if enabled else "no-gpudirect"
        self._first(key, text)

    def speed(self, match: re.Match[str], text: str) -> None:
        self.speeds[float(match["GBps"])] += 1
        self._first("speed", text)

    def multicast_support(self, match: re.Match[str], text: str) -> None:
        self.multicast.add(match["no"] is None)
        key = "no-multicast" if match["no"] else "multicast"
        self._first(key, text)

    def provider(self, match: re.Match[str], text: str) -> None:
        self.providers[match["name"]] += 1
        self._first("provider", text)

    def channel_counts(self, match: re.Match[str], text: str) -> None:
        self.channels.append(int(match["channels"]))
        self._first("channels", text)
        if match["nvls"] is not None:
            self.nvls_channels.append(int(match["nvls"]))

    def pick(self, match: re.Match[str], text: str) -> None:
        self.picks[int(match["bytes"])] = f"{match['algorithm']} {match['protocol']}"
        self._first("picks", text)

    def init(self, match: re.Match[str], text: str) -> None:
        self.inits[match["stage"]] += 1
        self._first(f"init {match['stage']}", text)

    def refused(self, _: re.Match[str], text: str) -> None:
        self.via["P2P refused"] += 1
        self._first("via P2P refused", text)

    def gpudirect(self) -> bool | None:
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
            provider=next(iter(self.providers), ""),
            nics=self.nics,
            nic_GBps=_commonest(self.speeds),
            links=tuple(self.links.items()),
            nic_Mbps=tuple(self.nic_Mbps.items()),
            via=tuple(sorted(self.via.items())),
            carrying=max(map(len, self.carrying.values()), default=None),
            gpus=max(map(len, self.gpus.values()), default=0),
            gpudirect=self.gpudirect(),
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


class _NcclMessage(NamedTuple):
    """A message of NCCL; ``word`` is in it, which is far cheaper to look for than the pattern."""

    word: str
    pattern: re.Pattern[str]
    take: Callable[[_Gathered, re.Match[str], str], None]


_MESSAGES = (
    _NcclMessage("Using network", _USING, _Gathered.network),
    _NcclMessage("Using [0]", NICS, _Gathered.cards),
    _NcclMessage("speed=", _NIC_SPEED, _Gathered.card_speed),
    _NcclMessage("via NET", _NET, _Gathered.net_connection),
    _NcclMessage(" via ", _VIA, _Gathered.connection),
    _NcclMessage("Direct RDMA", _RDMA, _Gathered.direct_memory),
    _NcclMessage("DMA-BUF", _RDMA, _Gathered.direct_memory),
    _NcclMessage("NET[", _NET_SPEED, _Gathered.speed),
    _NcclMessage("ulticast support", _MULTICAST, _Gathered.multicast_support),
    _NcclMessage("NET/OFI Selected", _PROVIDER, _Gathered.provider),
    _NcclMessage("coll channels", _CHANNELS, _Gathered.channel_counts),
    _NcclMessage("-> Algo", _PICK, _Gathered.pick),
    _NcclMessage("Init ", _INIT, _Gathered.init),
    _NcclMessage("P2P", _NO_P2P, _Gathered.refused),
)


def debug_lines(paths: Sequence[str | os.PathLike[str]]) -> DebugLines:
    """What the lines of these logs state, all of one machine."""
    gathered = _Gathered()
    left = _MOST
    # one file after the other: they may be large
    for path in paths:
        log = open_log(os.fspath(path))
        gathered.begin(printable(os.fspath(path)))
        for line in log.lines():
            if left <= 0:
                break
            left -= 1
            gathered.take(line[:_LONGEST])
    return gathered.lines()
