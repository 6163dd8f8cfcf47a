"""Bytes of calls of experts: which formats tokens are sent in, and how many copies of each leave."""

from __future__ import annotations

from math import comb
from typing import Literal, NamedTuple, assert_never

from colltool.base.errors import ColltoolError
from colltool.base.primitives import distinct

# to each of what a token goes once: its experts, or the ranks or nodes that they are on
Copies = Literal["experts", "ranks", "nodes"]

# Bytes of a value on the wire: fp8 and int8 have a scale of 4 bytes for 128 values, nvfp4 one of a
# byte for 16
WIDTHS = {
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1 + 4 / 128,
    "int8": 1 + 4 / 128,
    "nvfp4": 0.5 + 1 / 16,
    "fp32": 4.0,
}


def width(dtype: str) -> float:
    """Return the bytes of a value on the wire.

    Raises:
        ColltoolError: the format is not known.
    """
    if dtype not in WIDTHS:
        raise ColltoolError(
            f"'{dtype}' is not known", argument="dtype", fix=f"one of {', '.join(WIDTHS)}"
        )
    return WIDTHS[dtype]


class Tokens(NamedTuple):
    """A call of dispatch or combine.

    Args:
        tokens: tokens of each rank.
        top_k: experts that a token goes to.
        hidden: values of a token.
        experts: experts in all.
        dtype: format of the values that are sent.
        groups: nodes that routing limits a token to; 0 for any.
        skew: bytes of the busiest rank over the mean.
        sms: streaming multiprocessors of the kernels that take some; 0 for the library's own.
    """

    tokens: int
    top_k: int
    hidden: int
    experts: int
    dtype: str
    groups: int = 0
    skew: float = 1.0
    sms: int = 0

    @property
    def token_bytes(self) -> float:
        """Bytes of a rank's tokens, each counted once."""
        return self.tokens * self.hidden * width(self.dtype)

    @property
    def copied_bytes(self) -> float:
        """Bytes of all copies of a rank's tokens, one for each expert."""
        return self.tokens * self.top_k * self.hidden * width(self.dtype)


def bytes_sent(copies: Copies, call: Tokens, ranks: int, nodes: int) -> float:
    """Return the bytes that leave the busiest rank of a group on so many nodes."""
    copies_each = copies_sent(copies, call.top_k, ranks, nodes, call.groups, call.experts)
    return call.token_bytes * copies_each * call.skew


def copies_sent(
    copies: Copies, top_k: int, ranks: int, nodes: int, groups: int = 0, experts: int = 0
) -> float:
    """Return how many copies of a token leave its rank, on average over experts drawn evenly.

    One for each expert: k, of which the share on other ranks (across nodes: on other nodes) leaves.
    One for each rank or node: the expected number of distinct ones among k different experts of
    ``experts``, or without these among k draws, G (1 - (1 - 1/G)^k), of which the others count.
    Routing that is limited to ``groups`` nodes draws from those.

    >>> copies_sent("experts", 8, 64, 8)
    7.0
    >>> round(copies_sent("nodes", 8, 64, 8), 2), round(copies_sent("nodes", 8, 64, 8, 4), 2)
    (4.59, 3.15)
    >>> round(copies_sent("ranks", 8, 8, 1), 2), round(copies_sent("ranks", 8, 8, 1, experts=256), 2)
    (4.59, 4.63)
    """
    # Within a node copies for other ranks leave the rank, across nodes those for other nodes.
    peers = nodes if nodes > 1 else ranks
    remote_share = (peers - 1) / peers
    allowed_nodes = groups if nodes > 1 else 0
    match copies:
        case "experts":
            return top_k * remote_share
        case "ranks":
            targets = ranks
            reachable = allowed_nodes * (ranks // nodes)
        case "nodes":
            targets = peers
            reachable = allowed_nodes
        case _:
            assert_never(copies)
    if reachable:
        share = min(1.0, reachable / targets)
        targets = min(targets, reachable)
        experts = int(experts * share)
    return _distinct(targets, top_k, experts) * remote_share


def _distinct(targets: int, top_k: int, experts: int) -> float:
    """Distinct ranks or nodes, on average, that ``top_k`` different experts are on."""
    experts_each = experts // int(targets)
    if not experts_each or top_k > experts:
        return distinct(targets, top_k)
    # the share of tokens that miss a target; comb() is 0 where the others have fewer than top_k
    missed = comb(experts - experts_each, top_k) / comb(experts, top_k)
    return targets * (1 - missed)
