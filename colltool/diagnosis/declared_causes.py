"""What logs say of causes themselves, in lines of NCCL_DEBUG=INFO and settings: believed unless the
numbers refute it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from colltool.diagnosis.hypotheses import CauseName, Hypothesis
from colltool.logs.nccl_debug import DebugLines

SAID = -0.5  # handicap of what the log states
_OFF = {"0", "false", "off", "LOC"}


class Told(NamedTuple):
    """``quoted``: as the log has it."""

    cause: CauseName
    quoted: str


def told(debug: DebugLines) -> tuple[Told, ...]:
    """The causes that the logs state, first those that cost most."""
    failure = [Told("failed", debug.failure)] if debug.failure else []
    return (*failure, *_network(debug), *_inside(debug), *_settings(dict(debug.env)))


def _network(debug: DebugLines) -> Iterator[Told]:
    env = dict(debug.env)
    if debug.network.lower().startswith("socket"):
        yield Told("sockets", f"Using network {debug.network}")
    elif sockets := debug.connections("NET/Socket"):
        yield Told("sockets", f"{sockets} connections via NET/Socket")
    elif env.get("NCCL_IB_DISABLE") == "1" and not debug.provider:
        yield Told("sockets", "NCCL_IB_DISABLE=1")
    elif env.get("NCCL_NET", "").lower() == "socket":
        yield Told("sockets", "NCCL_NET=Socket")
    elif debug.gpudirect is False:
        yield Told(
            "gpudirect",
            (
                "no connection via NET with GDRDMA"
                if debug.connections("NET/")
                else "GPU Direct RDMA Disabled"
            ),
        )
    elif env.get("NCCL_NET_GDR_LEVEL") in _OFF:
        yield Told("gpudirect", f"NCCL_NET_GDR_LEVEL={env['NCCL_NET_GDR_LEVEL']}")


def _inside(debug: DebugLines) -> Iterator[Told]:
    env = dict(debug.env)
    if env.get("NCCL_P2P_DISABLE") == "1":
        yield Told("pcie", "NCCL_P2P_DISABLE=1")
    elif env.get("NCCL_P2P_LEVEL") in _OFF:
        yield Told("pcie", f"NCCL_P2P_LEVEL={env['NCCL_P2P_LEVEL']}")
    elif debug.connections("P2P refused"):
        yield Told("pcie", "P2P is disabled between GPUs")
    elif debug.connections("SHM") and not debug.connections("P2P"):
        yield Told("pcie", "connections via SHM, none via P2P")
    if env.get("NCCL_NVLS_ENABLE") == "0":
        yield Told("nvls-off", "NCCL_NVLS_ENABLE=0")
    elif debug.multicast is False:
        yield Told("nvls-off", "NVLS multicast support is not available")


def _settings(env: Mapping[str, str]) -> Iterator[Told]:
    algorithm, protocol = env.get("NCCL_ALGO", ""), env.get("NCCL_PROTO", "")
    if algorithm.lower() in ("ring", "tree"):
        yield Told(
            "algorithm-ring" if algorithm.lower() == "ring" else "algorithm-tree",
            f"NCCL_ALGO={algorithm}",
        )
    if protocol.upper() in ("LL", "LL128"):
        yield Told("protocol-ll", f"NCCL_PROTO={protocol}")
    if hcas := env.get("NCCL_IB_HCA", ""):
        yield Told("rails", f"NCCL_IB_HCA={hcas}")


def denied(debug: DebugLines) -> Iterator[CauseName]:
    """What lines of NCCL_DEBUG=INFO rule out."""
    if (
        debug.network
        and not debug.network.lower().startswith("socket")
        and not debug.connections("NET/Socket")
    ):
        yield "sockets"
    if debug.gpudirect:
        yield "gpudirect"
    if (
        debug.connections("P2P")
        and not debug.connections("SHM")
        and not debug.connections("P2P refused")
    ):
        yield "pcie"
    if debug.multicast:
        yield "nvls-off"


def weighed(causes: tuple[Hypothesis, ...], debug: DebugLines) -> tuple[Hypothesis, ...]:
    """The causes with what the logs say of each."""
    said = {one.cause: one.quoted for one in reversed(told(debug))}
    out = frozenset(denied(debug)) - said.keys()
    return tuple(_weighed(one, said.get(one.name, "")) for one in causes if one.name not in out)


def _weighed(one: Hypothesis, quoted: str) -> Hypothesis:
    if not quoted:
        return one
    plain, most = one.said, 1.0 if one.name == "sockets" else one.most
    weight = 0.0 if one.name == "rails" else SAID  # naming NICs is usual, naming too few is not
    handicap = one.handicap + weight
    return one._replace(
        said=lambda value: f"{plain(value)}; the log: {quoted}",
        handicap=handicap,
        most=most,
        exact=False,
    )
