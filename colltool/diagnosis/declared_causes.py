"""Causes that logs declare themselves, in lines of NCCL_DEBUG=INFO and settings: believed unless
the numbers refute them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from colltool.diagnosis.hypotheses import CauseName, Hypothesis
from colltool.logs.nccl_debug import DebugLines

# handicap of a cause that the log states: it leads unless another one fits far better
DECLARED = -0.5
# values of NCCL_NET_GDR_LEVEL and NCCL_P2P_LEVEL that switch it off
_OFF = {"0", "false", "off", "LOC"}


class DeclaredCause(NamedTuple):
    """A cause, and the words of the log that state it."""

    cause: CauseName
    quoted: str


def declared_causes(debug: DebugLines) -> tuple[DeclaredCause, ...]:
    """The causes that the logs state, first those that cost most."""
    found: list[DeclaredCause | None] = []
    if debug.failure:
        found.append(DeclaredCause("failed", debug.failure))
    env = dict(debug.env)
    found += [_network(debug, env), _peers(debug, env), _multicast(debug, env)]
    found += _settings(env)
    return tuple(cause for cause in found if cause)


def _network(debug: DebugLines, env: Mapping[str, str]) -> DeclaredCause | None:
    """TCP sockets, or no GPUDirect RDMA."""
    sockets = debug.connections("NET/Socket")
    if debug.on_sockets:
        return DeclaredCause("sockets", f"Using network {debug.network}")
    if sockets:
        return DeclaredCause("sockets", f"{sockets} connections via NET/Socket")
    if env.get("NCCL_IB_DISABLE") == "1" and not debug.provider:
        return DeclaredCause("sockets", "NCCL_IB_DISABLE=1")
    if env.get("NCCL_NET", "").lower() == "socket":
        return DeclaredCause("sockets", "NCCL_NET=Socket")
    if debug.gpudirect is False:
        quoted = "GPU Direct RDMA Disabled"
        if debug.connections("NET/"):
            quoted = "no connection via NET with GDRDMA"
        return DeclaredCause("gpudirect", quoted)
    level = env.get("NCCL_NET_GDR_LEVEL")
    if level in _OFF:
        return DeclaredCause("gpudirect", f"NCCL_NET_GDR_LEVEL={level}")
    return None


def _peers(debug: DebugLines, env: Mapping[str, str]) -> DeclaredCause | None:
    """No direct access between the devices of a host."""
    if env.get("NCCL_P2P_DISABLE") == "1":
        return DeclaredCause("pcie", "NCCL_P2P_DISABLE=1")
    level = env.get("NCCL_P2P_LEVEL")
    if level in _OFF:
        return DeclaredCause("pcie", f"NCCL_P2P_LEVEL={level}")
    if debug.connections("P2P refused"):
        return DeclaredCause("pcie", "P2P is disabled between GPUs")
    if debug.connections("SHM") and not debug.connections("P2P"):
        return DeclaredCause("pcie", "connections via SHM, none via P2P")
    return None


def _multicast(debug: DebugLines, env: Mapping[str, str]) -> DeclaredCause | None:
    """No reduction in the NVSwitch."""
    if env.get("NCCL_NVLS_ENABLE") == "0":
        return DeclaredCause("nvls-off", "NCCL_NVLS_ENABLE=0")
    if debug.multicast is False:
        return DeclaredCause("nvls-off", "NVLS multicast support is not available")
    return None


def _settings(env: Mapping[str, str]) -> Iterator[DeclaredCause]:
    """Variables that restrict algorithms, protocols or NICs."""
    algorithm = env.get("NCCL_ALGO", "")
    quoted = f"NCCL_ALGO={algorithm}"
    if algorithm.lower() == "ring":
        yield DeclaredCause("algorithm-ring", quoted)
    if algorithm.lower() == "tree":
        yield DeclaredCause("algorithm-tree", quoted)
    protocol = env.get("NCCL_PROTO", "")
    if protocol.upper() in ("LL", "LL128"):
        yield DeclaredCause("protocol-ll", f"NCCL_PROTO={protocol}")
    nics = env.get("NCCL_IB_HCA")
    if nics:
        yield DeclaredCause("rails", f"NCCL_IB_HCA={nics}")


def denied(debug: DebugLines) -> Iterator[CauseName]:
    """What lines of NCCL_DEBUG=INFO rule out."""
    if debug.network and not debug.on_sockets and not debug.connections("NET/Socket"):
        yield "sockets"
    if debug.gpudirect:
        yield "gpudirect"
    copies = debug.connections("SHM") or debug.connections("P2P refused")
    if debug.connections("P2P") and not copies:
        yield "pcie"
    if debug.multicast:
        yield "nvls-off"


def weighted_by_log(causes: tuple[Hypothesis, ...], debug: DebugLines) -> Iterator[Hypothesis]:
    """The causes, weighted by what the logs state, without those that the logs rule out."""
    declared: dict[CauseName, str] = {}
    for cause, quoted in declared_causes(debug):
        declared.setdefault(cause, quoted)
    out = set(denied(debug)) - declared.keys()
    for hypothesis in causes:
        if hypothesis.name in declared:
            yield _declared(hypothesis, declared[hypothesis.name])
        elif hypothesis.name not in out:
            yield hypothesis


def _declared(cause: Hypothesis, quoted: str) -> Hypothesis:
    weight = 0.0 if cause.name == "rails" else DECLARED  # naming NICs is usual, too few is not
    most = 1.0 if cause.name == "sockets" else cause.most
    handicap = cause.handicap + weight
    return cause._replace(quoted=quoted, handicap=handicap, most=most, must_fit_closely=False)
