"""What NCCL_DEBUG=INFO lines, and settings on a command line, say of a machine: network, NICs,
transports, environment.

The wording of NCCL 2.8 to 2.29: src/init.cc, src/transport/*.cc, src/graph/search.cc,
src/misc/param.cc; aws-ofi-nccl.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

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
_MOST = 1_000_000  # lines that are looked at, of all files
_LONGEST = 2000  # characters of a line that are looked at
_OF_INSTANCE = {"p4d": "A100", "p4de": "A100", "p5": "H100", "p5e": "H200", "p5en": "H200"}  # EC2
_INSTANCE = re.compile(r"\b(p4de?|p5(?:en?)?)\.\d{0,2}xlarge", re.IGNORECASE)


class DebugLines(NamedTuple):
    """``network`` as NCCL calls it (IB, Socket, AWS Libfabric); ``nics`` of a host, ``nic_GBps`` of
    each by NCCL's topology; ``via``: connections by transport; None where nothing is said.
    ``mentioned``: a device that the text names outside of Rank lines; ``failure``: the first error,
    quoted."""

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
        return sum(count for name, count in self.via if name.startswith(kind))


class _Gathered:
    def __init__(self) -> None:
        self.networks: Counter[str] = Counter()
        self.providers: dict[str, None] = {}
        self.nics: tuple[str, ...] = ()
        self.speeds: Counter[float] = Counter()
        self.via: Counter[str] = Counter()
        self.rdma: Counter[bool] = Counter()
        self.multicast: Counter[bool] = Counter()
        self.env: dict[str, str] = {}
        self.devices: Counter[str] = Counter()
        self.failure = ""

    def take(self, text: str) -> None:
        for name, value in _ENV.findall(text):
            self.env.setdefault(name, value.rstrip(".") if "set by environment" in text else value)
        if not self.failure and (failed := _FAILED.search(text)):
            self.failure = failed[0].strip()
        if "NCCL" in text or "NET" in text:
            for pattern, take in self._patterns():
                if match := pattern.search(text):
                    take(match)
        if "Rank" not in text and (found := _DEVICE.search(text)):
            self.devices[found[1].upper()] += 1
        elif found := _INSTANCE.search(text):
            self.devices[_OF_INSTANCE[found[1].lower()]] += 1

    def _patterns(self) -> Iterable[tuple[re.Pattern[str], Callable[[re.Match[str]], None]]]:
        return (
            (_USING, lambda match: self.networks.update([match[1].strip()])),
            (_NICS, self._cards),
            (_VIA, self._connection),
            (
                _RDMA,
                lambda match: self.rdma.update([match[1] is None or match[1].lower() == "enabled"]),
            ),
            (_NET_SPEED, lambda match: self.speeds.update([float(match[1])])),
            (_MULTICAST, lambda match: self.multicast.update([match[1] is None])),
            (_PROVIDER, lambda match: self.providers.setdefault(match[1])),
            (_NO_P2P, lambda _: self.via.update(["P2P refused"])),
        )

    def _cards(self, match: re.Match[str]) -> None:
        cards = tuple(dict.fromkeys(name for name, _ in _NIC.findall(match[1])))
        self.nics = max(self.nics, cards, key=len)

    def _connection(self, match: re.Match[str]) -> None:
        kind = match[1] if match[1] != "NET" else f"NET/{match[2]}"
        direct = "GDRDMA" in match[0]
        self.via[f"{kind}/GDRDMA" if direct else kind] += 1

    def lines(self) -> DebugLines:
        sent = {
            direct: sum(
                n
                for name, n in self.via.items()
                if name.startswith("NET/") and ("GDRDMA" in name) is direct
            )
            for direct in (True, False)
        }
        sockets = sum(n for name, n in self.via.items() if name.startswith("NET/Socket"))
        gpudirect = (
            sent[True] > 0
            if sent[True] or sent[False] > sockets
            else self.rdma[True] > 0
            if self.rdma
            else None
        )
        return DebugLines(
            network=self.networks.most_common(1)[0][0] if self.networks else "",
            provider=next(iter(self.providers), ""),
            nics=self.nics,
            nic_GBps=self.speeds.most_common(1)[0][0] if self.speeds else None,
            via=tuple(sorted(self.via.items())),
            gpudirect=gpudirect,
            multicast=self.multicast[True] > 0 if self.multicast else None,
            env=tuple(sorted(self.env.items())),
            mentioned=self.devices.most_common(1)[0][0] if self.devices else "",
            failure=self.failure,
        )


def debug_lines(paths: Sequence[str | os.PathLike[str]]) -> DebugLines:
    """What the lines of NCCL_DEBUG=INFO in these logs say, all of one machine."""
    said, left = _Gathered(), _MOST
    for path in paths:
        for line in open_log(os.fspath(path)).lines():
            left -= 1
            if left < 0:
                return said.lines()
            if not line[:12].strip()[:1].isdigit():  # no row of numbers
                said.take(printable(line[:_LONGEST]))
    return said.lines()
