"""What NCCL_DEBUG=INFO lines, and settings on a command line, say of a machine: network, NICs,
transports, environment.

The wording of NCCL 2.8 to 2.29: src/init.cc, src/transport/*.cc, src/graph/search.cc,
src/misc/param.cc; aws-ofi-nccl.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain, islice
from typing import NamedTuple, TypeVar

from colltool.base.errors import printable
from colltool.logs.log_file import open_log

_ENV = re.compile(
    r"\b((?:NCCL|RCCL)_[A-Z0-9_]{2,40})(?: set by environment to |=)"
    # a list, as of NCCL_ALGO, but not the next variable
    r"\s*([^\s,;'\"]{1,80}(?:,[A-Za-z0-9]{1,20}(?![\w=]))*)"
)
_USING = re.compile(r"Using network (\S[^\n]{0,40})")
_NICS = re.compile(r"NET/(?:IB|[A-Za-z]+) ?: Using (\[0\].{1,2000})")
_NIC = re.compile(r"\[\d{1,3}\]([\w.-]{1,40}):\d{1,3}/(\w+)")
_VIA = re.compile(r"\bvia (P2P|SHM|NET|COLLNET)/?(\w*)/?([^\s/]*)/?([\w/]*)")
_RDMA = re.compile(r"GPU Direct RDMA (Enabled|Disabled)|DMA-BUF is (available)", re.IGNORECASE)
_NET_SPEED = re.compile(r"\bNET\[(\d{1,4}(?:\.\d+)?)\] - NET/\d+")
_MULTICAST = re.compile(r"NVLS multicast support is (not )?available")
_PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is (\w+)")
_FAILED = re.compile(
    r"Test (?:NCCL|CUDA) failure .{1,160}|NCCL WARN (?!NCCL_|Could not (?:find|load)).{1,160}"
    r"|Connection (?:refused|timed out|reset).{0,80}"
)
_NO_P2P = re.compile(r"P2P is disabled between|Could not enable P2P|P2P is disabled by NCCL_P2P")
_DEVICE = re.compile(
    r"(?<![A-Za-z0-9])(GB300|GB200|GH200|B300|B200|H200|H100|H800|H20|A100|A800|V100|MI300X|MI325X|MI355X|L40S|A10G|T4)(?![0-9])",
    re.IGNORECASE,
)
_DIRECT = "/GDRDMA"  # after a transport: GPUDirect RDMA
_MOST = 1_000_000  # lines that are read, of all files
_LONGEST = 2000  # characters of a line that are read
# devices of AWS instances
_DEVICE_OF_INSTANCE = {"p4d": "A100", "p4de": "A100", "p5": "H100", "p5e": "H200", "p5en": "H200"}
_INSTANCE = re.compile(r"\b(p4de?|p5(?:en?)?)\.\d{0,2}xlarge", re.IGNORECASE)


class DebugLines(NamedTuple):
    """What the lines say; None where they do not.

    ``network`` as NCCL calls it (IB, Socket, AWS Libfabric); ``nics`` of a host, ``nic_GBps`` of
    each by NCCL's topology; ``via``: connections by transport.
    ``mentioned``: a device that the text names outside of Rank lines; ``failure``: the first error,
    quoted.
    """

    network: str = ""
    provider: str = ""
    nics: tuple[str, ...] = ()
    nic_GBps: float | None = None
    via: tuple[tuple[str, int], ...] = ()
    gpudirect: bool | None = None
    multicast: bool | None = None
    env: tuple[tuple[str, str], ...] = ()
    mentioned: str = ""
    failure: str = ""

    @property
    def any(self) -> bool:
        return bool(self.network or self.nics or self.via or self.env or self.multicast is not None)

    def connections(self, kind: str) -> int:
        """How many connections go over transports that begin with ``kind``."""
        return sum(count for name, count in self.via if name.startswith(kind))

    @property
    def on_sockets(self) -> bool:
        """Whether the network is TCP."""
        return self.network.lower().startswith("socket")


class _Gathered:
    """What the lines so far say."""

    def __init__(self) -> None:
        self.networks: Counter[str] = Counter()
        self.providers: Counter[str] = Counter()
        self.nics: tuple[str, ...] = ()
        self.speeds: Counter[float] = Counter()
        self.via: Counter[str] = Counter()
        self.rdma: set[bool] = set()
        self.multicast: set[bool] = set()
        self.env: dict[str, str] = {}
        self.devices: Counter[str] = Counter()
        self.failure = ""

    def take(self, text: str) -> None:
        """Add what one line says."""
        for name, value in _ENV.findall(text):
            # a sentence ends with a dot, a command line does not
            if "set by environment" in text:
                value = value.rstrip(".")
            self.env.setdefault(name, value)
        failed = None if self.failure else _FAILED.search(text)
        if failed:
            self.failure = failed[0].strip()
        if "NCCL" in text or "NET" in text:
            for pattern, take in _MESSAGES:
                match = pattern.search(text)
                if match:
                    take(self, match)
        device = None if "Rank" in text else _DEVICE.search(text)
        instance = _INSTANCE.search(text)
        if device:
            self.devices[device[1].upper()] += 1
        elif instance:
            self.devices[_DEVICE_OF_INSTANCE[instance[1].lower()]] += 1

    def network(self, match: re.Match[str]) -> None:
        self.networks[match[1].strip()] += 1

    def cards(self, match: re.Match[str]) -> None:
        cards = dict.fromkeys(name for name, _ in _NIC.findall(match[1]))
        self.nics = max(self.nics, tuple(cards), key=len)

    def connection(self, match: re.Match[str]) -> None:
        kind = match[1]
        if kind == "NET":
            kind = f"NET/{match[2]}"
        if "GDRDMA" in match[0]:
            kind += _DIRECT
        self.via[kind] += 1

    def direct_memory(self, match: re.Match[str]) -> None:
        self.rdma.add(match[1] is None or match[1].lower() == "enabled")

    def speed(self, match: re.Match[str]) -> None:
        self.speeds[float(match[1])] += 1

    def multicast_support(self, match: re.Match[str]) -> None:
        self.multicast.add(match[1] is None)

    def provider(self, match: re.Match[str]) -> None:
        self.providers[match[1]] += 1

    def refused(self, _: re.Match[str]) -> None:
        self.via["P2P refused"] += 1

    def gpudirect(self) -> bool | None:
        """Whether connections between hosts are direct, else whether NCCL says that it can."""
        over_rdma = [name for name in self.via if name.startswith("NET/")]
        if any("GDRDMA" in name for name in over_rdma):
            return True
        if any(not name.startswith("NET/Socket") for name in over_rdma):
            return False
        return True in self.rdma if self.rdma else None

    def lines(self) -> DebugLines:
        """What all lines say together."""
        return DebugLines(
            network=_commonest(self.networks) or "",
            provider=next(iter(self.providers), ""),
            nics=self.nics,
            nic_GBps=_commonest(self.speeds),
            via=tuple(sorted(self.via.items())),
            gpudirect=self.gpudirect(),
            multicast=True in self.multicast if self.multicast else None,
            env=tuple(sorted(self.env.items())),
            mentioned=_commonest(self.devices) or "",
            failure=self.failure,
        )


_T = TypeVar("_T")


def _commonest(counts: Counter[_T]) -> _T | None:
    for value, _ in counts.most_common(1):
        return value
    return None


_MESSAGES = (
    (_USING, _Gathered.network),
    (_NICS, _Gathered.cards),
    (_VIA, _Gathered.connection),
    (_RDMA, _Gathered.direct_memory),
    (_NET_SPEED, _Gathered.speed),
    (_MULTICAST, _Gathered.multicast_support),
    (_PROVIDER, _Gathered.provider),
    (_NO_P2P, _Gathered.refused),
)


def debug_lines(paths: Sequence[str | os.PathLike[str]]) -> DebugLines:
    """What the lines of NCCL_DEBUG=INFO in these logs say, all of one machine."""
    gathered = _Gathered()
    # one file after the other: they may be large
    lines = chain.from_iterable(open_log(os.fspath(path)).lines() for path in paths)
    for line in islice(lines, _MOST):
        if not line[:12].strip()[:1].isdigit():  # no row of numbers
            gathered.take(printable(line[:_LONGEST]))
    return gathered.lines()
