"""The seven primitives: names, what M means, the busbw factor of nccl-tests, and lower bounds of any schedule."""

from __future__ import annotations

from enum import StrEnum

from colltool.base.errors import ColltoolError, nearest
from colltool.base.quoting import clipped


class Primitive(StrEnum):
    """A collective or a point-to-point send, by its name in machine output."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    P2P = "p2p"

    @property
    def spoken(self) -> str:
        """``all-reduce``."""
        return self.value.replace("_", "-")


AR, AG, RS = Primitive.ALL_REDUCE, Primitive.ALL_GATHER, Primitive.REDUCE_SCATTER
A2A, BC, REDUCE, P2P = Primitive.ALL_TO_ALL, Primitive.BROADCAST, Primitive.REDUCE, Primitive.P2P

SHORT = {AR: "ar", AG: "ag", RS: "rs", A2A: "a2a", BC: "bc", REDUCE: "reduce", P2P: "p2p"}

SIZE_MEANS = {
    AR: "the vector each rank holds",
    AG: "the whole result each rank ends with",
    RS: "the vector each rank starts with",
    A2A: "the whole send buffer of a rank (N chunks of M/N)",
    BC: "the payload",
    REDUCE: "the payload",
    P2P: "the payload",
}
"""M, the message size in bytes per rank, by nccl-tests' convention."""

_OTHER_NAMES = {"allreduce": AR, "allgather": AG, "reducescatter": RS, "alltoall": A2A, "bcast": BC, "sendrecv": P2P}
_BY_NAME: dict[str, Primitive] = {p.value: p for p in Primitive} | {short: p for p, short in SHORT.items()} | _OTHER_NAMES


def parse_primitive(text: str) -> Primitive:
    """A primitive by short, long or nccl-tests' name: ``ar``, ``all-reduce``, ``all_reduce_perf``."""
    word = text.lower().replace("-", "_").removesuffix("_perf")
    if word in _BY_NAME:
        return _BY_NAME[word]
    known = ", ".join(f"{short} ({primitive.spoken})" for primitive, short in SHORT.items())
    hint = nearest(word, list(_BY_NAME))
    raise ColltoolError(f"unknown primitive '{clipped(text)}'", fix=f"{hint} known: {known}".strip())


def busbw_factor(primitive: Primitive, ranks: int) -> float:
    """busbw / algbw of nccl-tests: 2(N-1)/N for AR, (N-1)/N for AG, RS, A2A, 1 for the rest."""
    share = (ranks - 1) / ranks
    return {AR: 2 * share, AG: share, RS: share, A2A: share}.get(primitive, 1.0)


def least_n_beta(primitive: Primitive, ranks: int) -> float:
    """Lower bound on n_β, in units of M, of an endpoint-driven schedule on one full-duplex port per rank.

    Only reduction inside a switch goes below AR's 2(N-1)/N, to 1. A port of p parallel links divides each by p.
    """
    return busbw_factor(primitive, ranks)


def own_share(primitive: Primitive, ranks: int) -> float:
    """What a rank keeps, in units of M: the 1/N of AR, AG, RS and A2A that crosses no wire."""
    return 1 / ranks if primitive in (AR, AG, RS, A2A) else 0.0


def log2_ceil(ranks: int) -> int:
    """ceil(log2 N), exactly: the rounds in which one rank can reach N."""
    return (ranks - 1).bit_length()
