"""The text of ``ibnetdiscover``: a record for each switch and channel adapter, a line for each of
its cabled ports.

Format: infiniband-diags of rdma-core, ibnetdiscover.c. Rates are of the data on all lanes, one way:
    InfiniBand Architecture
Specification volume 2; SDR to QDR send 8 bits of data in 10.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import NamedTuple

from colltool.base.errors import ColltoolError, clipped
from colltool.base.files import AnyPath, read_text
from colltool.fabric.dumps.clos import ClosNetwork, Wiring, clos_of

TOOL = "ibnetdiscover"
MAX_NODES, MAX_CABLES = 100_000, 1_000_000
_FIX = "write it on a node of the subnet, as root: ibnetdiscover > net.txt"

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

_RECORD = re.compile(r'(Switch|Ca|Rt)\s+(\d{1,5})\s+"([^"]{1,64})"\s*(?:#\s*"([^"]*)")?')
_CABLE = re.compile(
    r'\[(\d{1,5})\](?:\[ext \d+\])?(?:\(\w+\))?\s+"([^"]{1,64})"\[(\d{1,5})\](?:\[ext'
    r" \d+\])?(?:\(\w+\))?\s*(?:#(.*))?"
)
_RATE = re.compile(r"\b(\d{1,2})x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b")
_QUOTED = re.compile(r'"([^"]*)"')
_ADAPTER = re.compile(r"\s+(?:HCA-\d+|(?:mlx|hfi|bnxt|ib|qib|mthca|ocrdma|irdma)\S*)$")
_NAMELESS = re.compile(r"MT\d{4,}|Mellanox Technologies|InfiniHost")
_AGGREGATION = "Aggregation Node"

End = tuple[str, int]
"""A GUID and a port."""


class _Text(NamedTuple):
    ports: dict[str, int]
    described: dict[str, str]
    cables: dict[frozenset[End], float]
    """Gb/s; 0 where neither end tells its rate."""


def read_ibnetdiscover(path: AnyPath) -> ClosNetwork:
    """The Clos that a subnet is.

    Raises:
        ColltoolError: another program's text, one that is cut off, without rates, beyond the named
            limits, or no Clos.
    """
    name = os.fsdecode(path)
    text = _text(read_text(path, "topology"), name)
    if not text.ports or not text.cables:
        raise ColltoolError(
            "has no switch with a cable: not the text of ibnetdiscover", where=name, fix=_FIX
        )
    ends = {guid for cable in text.cables for guid, _ in cable}
    lost = sorted(guid for guid in ends if guid.startswith("S-") and guid not in text.ports)
    if lost:
        raise ColltoolError(
            f"is cut off: {clipped(lost[0])} has a cable, but no record of its own",
            where=name,
            fix=_FIX,
        )
    return clos_of(_wiring(text, name))


def _text(content: str, name: str) -> _Text:
    found = _Text({}, {}, {})
    at = ""
    for number, line in enumerate(content.splitlines(), start=1):
        if record := _RECORD.match(line):
            kind, count, at, described = record.groups()
            found.described[at] = described or found.described.get(at, "")
            if kind == "Switch":
                found.ports[at] = int(count)
        elif at and (cable := _CABLE.match(line)):
            port, other, theirs, more = cable.groups()
            rate = _RATE.search(more or "")
            gbps = int(rate[1]) * LANE_GBPS[rate[2]] if rate else 0.0
            ends = frozenset(((at, int(port)), (other, int(theirs))))
            found.cables[ends] = max(gbps, found.cables.get(ends, 0.0))
            if described := _QUOTED.search(more or ""):
                found.described.setdefault(other, described[1])
        elif line.startswith("["):
            raise ColltoolError("a port's line is cut off", where=f"{name}:{number}", fix=_FIX)
        if len(found.described) > MAX_NODES or len(found.cables) > MAX_CABLES:
            raise ColltoolError(
                f"more than {MAX_NODES} nodes or {MAX_CABLES} cables: no subnet is so large",
                where=f"{name}:{number}",
                fix=_FIX,
            )
    return found


def _wiring(text: _Text, name: str) -> Wiring:
    rates = Counter(rate for rate in text.cables.values() if rate)
    if not rates:
        raise ColltoolError("tells no rates such as 4xNDR", where=name, fix=_FIX)
    usual = rates.most_common(1)[0][0]  # of the few cables that do not tell it
    ports, hosts, cables = dict(text.ports), dict[str, list[tuple[str, float]]](), []
    reduces = False
    for cable, gbps in text.cables.items():
        if len(cable) != 2:
            continue  # a port cabled to itself
        (one, _), (other, _) = sorted(cable)  # H- before S-
        rate_Bps = (gbps or usual) * 1e9 / 8
        if _AGGREGATION in text.described.get(one, ""):
            ports[other] -= 1  # inside the switch, behind a port that has no socket
            reduces = True
        elif one in ports and other in ports:
            cables.append((one, other, rate_Bps))
        elif other in ports:
            hosts.setdefault(_host(one, text.described.get(one, "")), []).append((other, rate_Bps))
    return Wiring(
        file=name,
        tool=TOOL,
        ports=ports,
        hosts=hosts,
        cables=cables,
        names=text.described,
        infiniband=True,
        reduces=reduces,
    )


def _host(guid: str, described: str) -> str:
    """``node07 HCA-1`` and ``node07 mlx5_3`` are of node07; adapters that nobody named are hosts of
    their own."""
    return (
        guid
        if not described or _NAMELESS.search(described)
        else _ADAPTER.sub("", described.strip("' "))
    )
