"""What the lines of NCCL_DEBUG=INFO say together: the network that carries, its NICs, GPUDirect,
the ways inside a host, NVLS and channels.

Each conclusion is a :class:`StatedLine` with the first line that says it, from ``DebugLines.places``:
by the key that :class:`~colltool.logs.nccl_messages.NcclMessages` gives a kind of message, such as
``network`` or ``via NET/Socket``. Where the field that a message sets is there, so is its place. The
words stand in ``stated_conclusions.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from colltool.base.formatting import and_text, counted, size_text
from colltool.base.statements import word_table
from colltool.logs.debug_record import DebugLines, SaidAt
from colltool.logs.nccl_settings import ALGORITHMS, allowed_by_list
from colltool.logs.stated import StatedLine, worded_line, worst_first

# "GPU Direct RDMA Disabled for GPU 0 / HCA 1 (distance 7 > 4)"
_TOO_FAR = re.compile(r"distance (\d+) > (\d+)")
# libfabric's providers that run over the kernel's TCP or UDP
_OVER_TCP = re.compile(r"(?:sockets|tcp|udp|net)\b", re.IGNORECASE)
# words in the name of a network that is RDMA
_RDMA_PLUGINS = ("IB", "Libfabric", "RDMA", "OFI", "UCX", "FasTrak", "Fastrak", "gIB", "cxi", "CXI")
# what NCCL calls a NIC's link, in lower case, and its name for people
_LINKS = {"ib": "InfiniBand", "roce": "RoCE"}
# channels that cannot load several NICs
_FEW_CHANNELS = 2
# changes of the algorithm that are named
_MOST_PICKS = 6
# generations whose NVSwitch can reduce; others have no NVLS
_WITH_NVLS = ("H100", "H200", "H800", "H20", "B200", "B300", "GH200", "GB200", "GB300")


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    """The words of each conclusion by its code."""
    return word_table("colltool.logs", "stated_conclusions.toml")


def stated_together(debug: DebugLines) -> tuple[StatedLine, ...]:
    """Everything that logs state, the worst first: conclusions before the single lines and settings
    of their kind."""
    concluded = [
        *_network(debug),
        *_nics(debug),
        *_gpudirect(debug),
        *_inside_hosts(debug),
        *_nvls(debug),
        *_channels(debug),
        *_initialization(debug),
        *_picks(debug),
    ]
    single_lines = [_in_context(stated, debug) for stated in debug.stated]
    return worst_first([*concluded, *single_lines])


def _conclude(code: str, place: SaidAt, quoted: str = "", **fields: object) -> StatedLine:
    """A conclusion by its code, with the line at ``place``; ``quoted``: in place of that line's
    words, ``fields``: for the ``{name}`` in ours."""
    where = (quoted or place.quoted, place.file, place.line)
    return worded_line(_table()[code], code, where, fields)


def over_tcp(debug: DebugLines) -> bool:
    """Whether TCP carries what leaves a host, by the network, its provider or its connections."""
    return (
        debug.on_sockets
        or bool(_OVER_TCP.match(debug.provider))
        or bool(debug.connections("NET/Socket"))
    )


def _over_rdma(debug: DebugLines) -> bool:
    """Whether NCCL names a network of RDMA, or a provider of libfabric that is none of TCP."""
    is_named = any(word in debug.network for word in _RDMA_PLUGINS)
    return (is_named or bool(debug.provider)) and not over_tcp(debug)


def _network(debug: DebugLines) -> Iterator[StatedLine]:
    """The network between hosts, where it is TCP, and where it is not."""
    places = debug.places
    if debug.provider:
        place = places["provider"]
        code = "provider"
        if _OVER_TCP.match(debug.provider):
            code = "provider-tcp"
        quoted = f"NET/OFI Selected provider is {debug.provider}"
        yield _conclude(code, place, quoted, provider=debug.provider)
    if debug.on_sockets:
        quoted = f"Using network {debug.network}"
        yield _conclude("network-sockets", places["network"], quoted, network=debug.network)
        return
    sockets = debug.connections("NET/Socket")
    if sockets:
        quoted = f"{counted(sockets, 'connection')} via NET/Socket"
        yield _conclude("network-sockets", places["via NET/Socket"], quoted)
        return
    if debug.network:
        quoted = f"Using network {debug.network}"
        yield _conclude("network", places["network"], quoted, network=debug.network)


def _nics(debug: DebugLines) -> Iterator[StatedLine]:
    """The NICs of a host: how many, of which kind and speed, and how many carry."""
    place = debug.places.get("nics") or debug.places.get("nic-speed")
    kinds: dict[str, list[str]] = {}
    for nic, link in debug.links:
        kinds.setdefault(_LINKS.get(link.lower(), link), []).append(nic)
    if place and kinds:
        named = [f"{and_text(nics)} ({link})" for link, nics in kinds.items()]
        code = "nics"
        if kinds.keys() >= set(_LINKS.values()):
            code = "nics-mixed"
        yield _conclude(code, place, nics=and_text(named))
    rates: dict[int, list[str]] = {}
    for nic, speed in debug.nic_Mbps:
        rates.setdefault(speed, []).append(nic)
    if rates:
        named = [f"{and_text(nics)} at {speed / 1e3:g} Gb/s" for speed, nics in rates.items()]
        code = "nic-speeds"
        if len(rates) > 1:
            code = "nic-speeds-differ"
        yield _conclude(code, debug.places["nic-speed"], nics=and_text(named))
    carrying = _carrying_place(debug)
    if carrying and debug.carrying == 1:
        # a host of one GPU has one NIC more often than not
        code = "nic-alone"
        if debug.gpus > 1:
            code = "nic-single"
        # where a NIC carries, there is a connection over a network
        first = next(transport for transport, _ in debug.via if transport.startswith("NET/"))
        yield _conclude(code, carrying, network=first.removesuffix("/GDRDMA"))


def _carrying_place(debug: DebugLines) -> SaidAt | None:
    """The line of the first connection over a network; None without, and where that is TCP."""
    if over_tcp(debug):
        return None
    for key, place in debug.places.items():
        if key.startswith("via NET/"):
            return place
    return None


def _gpudirect(debug: DebugLines) -> Iterator[StatedLine]:
    """Whether NICs read GPU memory themselves."""
    if debug.gpudirect is None or over_tcp(debug):
        return
    connected = _carrying_place(debug)
    if debug.gpudirect:
        place = connected or debug.places["gpudirect"]
        yield _conclude("gpudirect", place)
        direct = sum(count for transport, count in debug.via if transport.endswith("/GDRDMA"))
        without = debug.connections("NET/") - direct
        if without:
            yield _conclude(
                "gpudirect-partly", place, without=without, count=debug.connections("NET/")
            )
    elif connected:
        yield _conclude("no-gpudirect", connected, "no connection via NET with GDRDMA")
    else:
        place = debug.places["no-gpudirect"]
        far = _TOO_FAR.search(place.quoted)
        if far:
            yield _conclude("gpudirect-far", place, distance=far[1], most=far[2])
        else:
            yield _conclude("no-gpudirect", place)


def _inside_hosts(debug: DebugLines) -> Iterator[StatedLine]:
    """How GPUs of a host reach each other."""
    if debug.connections("P2P refused"):
        yield _conclude("no-p2p", debug.places["via P2P refused"], "P2P is disabled between GPUs")
    elif debug.connections("SHM") and not debug.connections("P2P"):
        yield _conclude("no-p2p", debug.places["via SHM"], "connections via SHM, none via P2P")


def _nvls(debug: DebugLines) -> Iterator[StatedLine]:
    """Reduction in the NVSwitch."""
    if debug.multicast is False:
        quoted = "NVLS multicast support is not available"
        yield _conclude("no-multicast", debug.places["no-multicast"], quoted)
        return
    if debug.nvls_channels != 0:
        return
    algorithms = dict(debug.env).get("NCCL_ALGO", "")
    is_named = "nvls" in algorithms.lower()
    allowed = allowed_by_list(algorithms, ALGORITHMS)
    code = "no-nvls"
    if is_named and "NVLS" in allowed.get("allreduce", allowed.get("", ())):
        code = "no-nvls-wanted"
    elif debug.multicast or debug.mentioned in _WITH_NVLS:
        code = "no-nvls-possible"
    yield _conclude(code, debug.places["channels"])


def _channels(debug: DebugLines) -> Iterator[StatedLine]:
    """How many channels NCCL runs, where they are few for several NICs."""
    if debug.channels is None:
        return
    # one GPU a host runs two channels, and TCP no more
    several = debug.gpus > 1 and not over_tcp(debug)
    code = "channels"
    if debug.channels <= _FEW_CHANNELS and several:
        code = "channels-few"
    yield _conclude(code, debug.places["channels"], count=counted(debug.channels, "channel"))


def _initialization(debug: DebugLines) -> Iterator[StatedLine]:
    """How many ranks began to initialize, where none finished and no error says why."""
    failed = any(stated.kind == "failed" for stated in debug.stated)
    if debug.begun and not debug.complete and not failed:
        yield _conclude(
            "init-unfinished", debug.places["init START"], count=counted(debug.begun, "rank")
        )


def _picks(debug: DebugLines) -> Iterator[StatedLine]:
    """The algorithms and protocols that NCCL picked, by the size from which on."""
    changes: list[str] = []
    pick_before = ""
    for size, pick in debug.picks:
        if pick != pick_before:
            changes.append(f"{pick} from {size_text(float(size))}")
        pick_before = pick
    if changes:
        yield _conclude("picks", debug.places["picks"], picks=and_text(changes[:_MOST_PICKS]))


def _in_context(stated: StatedLine, debug: DebugLines) -> StatedLine:
    """A statement by what the lines say beside it: a setting that changes nothing there is a mere
    fact."""
    name = stated.quoted.partition("=")[0]
    # a plugin such as EFA's needs no InfiniBand of NCCL's own
    if name == "NCCL_IB_DISABLE" and stated.cause and _over_rdma(debug):
        return stated._replace(kind="fact", cause="", do="")
    return stated
