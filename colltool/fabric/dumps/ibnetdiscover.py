"""The text of ``ibnetdiscover``: a record for each switch and adapter, a line for each cabled port.

Format: infiniband-diags of rdma-core, ibnetdiscover.c. Rates are those of data on all lanes, one
way: InfiniBand Architecture Specification, volume 2; SDR to QDR send 8 bits of data in 10.
"""

from __future__ import annotations

import os
import re
from statistics import mode
from typing import NamedTuple

from colltool.base.errors import ColltoolError, clipped
from colltool.base.files import AnyPath, read_text
from colltool.fabric.dumps.clos import ClosNetwork, Wiring, clos_of

TOOL = "ibnetdiscover"
# Limits that no subnet reaches.
MAX_NODES = 100_000
MAX_CABLES = 1_000_000
_FIX = "write it on a node of the subnet, as root: ibnetdiscover > net.txt"

# Gb/s of data on one lane
LANE_GBPS = {
    "SDR": 2.0,
    "DDR": 4.0,
    "QDR": 8.0,
    "FDR10": 10.0,
    "FDR": 14.0,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}

# Switch  65 "S-b8599f0300a1b2c3"  # "MF0;leaf1:MQM9700/U1" enhanced port 0 base lid 3
_RECORD = re.compile(r'(Switch|Ca|Rt)\s+(\d{1,5})\s+"([^"]{1,64})"\s*(?:#\s*"([^"]*)")?')
# [1]  "H-b8599f0300d4e5f6"[1](b8599f0300d4e5f6)  # "node07 mlx5_0" lid 12 4xNDR
_CABLE = re.compile(
    r"\[(\d{1,5})\](?:\[ext \d+\])?(?:\(\w+\))?\s+"  # port of the record's own node
    r'"([^"]{1,64})"\[(\d{1,5})\](?:\[ext \d+\])?(?:\(\w+\))?\s*'  # GUID and port of the other
    r"(?:#(.*))?"
)
_RATE = re.compile(r"\b(\d{1,2})x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b")
_QUOTED = re.compile(r'"([^"]*)"')
# what follows the host in a description: node07 HCA-1, node07 mlx5_3
_ADAPTER = re.compile(r"\s+(?:HCA-\d+|(?:mlx|hfi|bnxt|ib|qib|mthca|ocrdma|irdma)\S*)$")
# descriptions that name no host: MT4129 ConnectX7 Mellanox Technologies
_NAMELESS = re.compile(r"MT\d{4,}|Mellanox Technologies|InfiniHost")
_AGGREGATION = "Aggregation Node"

End = tuple[str, int]
"""A GUID and a port."""


class _Subnet(NamedTuple):
    """The content of the text.

    Attributes:
        ports: their number, by the GUID of the switch.
        described: descriptions of switches and adapters, by GUID.
        cables: the rate of each in Gb/s, by its two ends (one of a port that is cabled to itself); 0 if
            neither end states it.
    """

    ports: dict[str, int]
    described: dict[str, str]
    cables: dict[frozenset[End], float]


def read_ibnetdiscover(path: AnyPath) -> ClosNetwork:
    """Return the Clos that a subnet is.

    Raises:
        ColltoolError: another program's text, one that is cut off, without rates, beyond the named
            limits, or no Clos.
    """
    name = os.fsdecode(path)
    subnet = _subnet(read_text(path, "topology"), name)
    if not subnet.ports or not subnet.cables:
        raise ColltoolError(
            "has no switch with a cable: not the text of ibnetdiscover", where=name, fix=_FIX
        )
    lost: set[str] = set()
    for cable in subnet.cables:
        lost.update(guid for guid, _ in cable if guid.startswith("S-"))
    lost -= subnet.ports.keys()
    if lost:
        raise ColltoolError(
            f"is cut off: {clipped(min(lost))} has a cable, but no record of its own",
            where=name,
            fix=_FIX,
        )
    return clos_of(_wiring(subnet, name))


def _subnet(content: str, name: str) -> _Subnet:
    """Read the records and their cables; ``name``: of the file, for errors."""
    subnet = _Subnet({}, {}, {})
    # the GUID whose record the lines of ports follow
    guid = ""
    for number, line in enumerate(content.splitlines(), start=1):
        if record := _RECORD.match(line):
            kind, ports, guid, description = record.groups()
            subnet.described[guid] = description or subnet.described.get(guid, "")
            if kind == "Switch":
                subnet.ports[guid] = int(ports)
        elif line.startswith("["):
            cable = _CABLE.match(line) if guid else None
            if cable is None:
                raise ColltoolError("a port's line is cut off", where=f"{name}:{number}", fix=_FIX)
            _add_cable(subnet, guid, cable)
        if len(subnet.described) > MAX_NODES or len(subnet.cables) > MAX_CABLES:
            what = f"more than {MAX_NODES} nodes or {MAX_CABLES} cables: no subnet is so large"
            raise ColltoolError(what, where=f"{name}:{number}", fix=_FIX)
    return subnet


def _add_cable(subnet: _Subnet, guid: str, cable: re.Match[str]) -> None:
    """Add the cable of a line of :data:`_CABLE` in the record of ``guid``."""
    port, other, other_port, comment = cable.groups(default="")
    ends = frozenset(((guid, int(port)), (other, int(other_port))))
    rate = _RATE.search(comment)
    gbps = int(rate[1]) * LANE_GBPS[rate[2]] if rate else 0.0
    # both ends list the cable, and only one of them may have its rate
    subnet.cables[ends] = max(gbps, subnet.cables.get(ends, 0.0))
    if description := _QUOTED.search(comment):
        subnet.described.setdefault(other, description[1])


def _wiring(subnet: _Subnet, name: str) -> Wiring:
    """The hosts, switches and cables of a subnet; aggregation nodes are part of their switch."""
    rates = [gbps for gbps in subnet.cables.values() if gbps]
    if not rates:
        raise ColltoolError("tells no rates such as 4xNDR", where=name, fix=_FIX)
    # the most frequent rate, for the few cables without one
    usual = mode(rates)
    ports = dict(subnet.ports)
    hosts: dict[str, list[tuple[str, float]]] = {}
    cables = []
    reduces = False
    for cable, gbps in subnet.cables.items():
        # a port cabled to itself
        if len(cable) != 2:
            continue
        # GUIDs of hosts begin with H-, of switches with S-: the lower end may be either
        (lower, _), (switch, _) = sorted(cable)
        if switch not in ports:
            continue
        rate_Bps = (gbps or usual) * 1e9 / 8
        description = subnet.described.get(lower, "")
        if _AGGREGATION in description:
            # inside the switch, behind a port that has no socket
            ports[switch] -= 1
            reduces = True
        elif lower in ports:
            cables.append((lower, switch, rate_Bps))
        else:
            hosts.setdefault(_host(lower, description), []).append((switch, rate_Bps))
    return Wiring(
        file=name,
        tool=TOOL,
        ports=ports,
        hosts=hosts,
        cables=cables,
        names=subnet.described,
        infiniband=True,
        reduces=reduces,
    )


def _host(guid: str, description: str) -> str:
    """The name of an adapter's host: ``node07`` of ``node07 HCA-1`` and of ``node07 mlx5_3``.

    An adapter whose description names no host is a host by itself, with its GUID for a name.
    """
    if not description or _NAMELESS.search(description):
        return guid
    return _ADAPTER.sub("", description.strip("' "))
