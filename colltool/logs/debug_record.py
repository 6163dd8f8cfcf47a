"""What NCCL_DEBUG=INFO lines, settings and errors of logs say of a machine and a run, as a record.

:mod:`colltool.logs.nccl_debug` fills it in, :mod:`colltool.logs.debug_conclusions` and
:mod:`colltool.diagnosis` draw conclusions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from colltool.logs.stated import StatedLine


class SaidAt(NamedTuple):
    """Where something was said first, and its words, without what stands before them in the
    line."""

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
    # connections by transport, as NCCL names it behind "via": P2P, SHM, NET/IB, NET/IB/GDRDMA;
    # "P2P refused" of those that NCCL says it cannot make
    via: tuple[tuple[str, int], ...] = ()
    carrying: int | None = None  # NICs that connections use, on the host that uses most
    gpus: int = 0  # of a host, that open connections over these NICs
    gpudirect: bool | None = None  # NICs read GPU memory themselves, on connections or at all
    multicast: bool | None = None  # NVSwitches can reduce, for NVLS
    channels: int | None = None  # the fewest of any rank
    nvls_channels: int | None = None  # the fewest of any rank
    picks: tuple[tuple[int, str], ...] = ()  # algorithm and protocol by bytes, ascending
    begun: int = 0  # initializations of ranks that began ("Init START")
    complete: int = 0  # and those that ended ("Init COMPLETE")
    messages: int = 0  # lines that NCCL or RCCL wrote
    env: tuple[tuple[str, str], ...] = ()  # settings: variable and value
    mentioned: str = ""  # a device that the text names outside of Rank lines
    stated: tuple[StatedLine, ...] = ()  # every line that states something by itself
    # where the first line of a kind stands; a kind is what a method ``on_`` of NcclMessages returns
    places: Mapping[str, SaidAt] = MappingProxyType({})

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
