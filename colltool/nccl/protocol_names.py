"""What NCCL's protocols are called in fabrics: ``LL``, ``LL128``, ``Simple``, each perhaps in several segments (``short-LL``)."""

from __future__ import annotations

SPOKEN = {"ll": "LL", "ll128": "LL128", "simple": "Simple"}
"""NCCL's names as NCCL_PROTO and fabrics have them, by those of its tuner file; from least latency to most bandwidth."""

SHORT = ("short-", "shorter-", "shortest-")
"""Before a name that a segment of larger messages has: one protocol in several segments, of fewer channels below."""

SEGMENT = "segment-"
"""Begins the name of a calibrated segment whose protocol is not known."""


def protocol_of(name: str) -> str:
    """Which of NCCL's protocols a fabric's is, as its tuner file writes it; empty where its name does not say.

    Args:
        name: as a fabric lists it, capitals or not.
    """
    bare = name.lower()
    for before in SHORT:
        bare = bare.removeprefix(before)
    return bare if bare in SPOKEN else ""
