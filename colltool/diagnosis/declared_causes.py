"""Causes that logs declare themselves, in lines of NCCL_DEBUG=INFO and settings: believed unless
the numbers refute them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, get_args

from colltool.diagnosis.hypotheses import CauseName, Hypothesis
from colltool.logs.debug_conclusions import over_tcp, stated_together
from colltool.logs.nccl_debug import DebugLines

# handicap of a cause that the log states: it leads unless another one fits far better
DECLARED = -0.5


class DeclaredCause(NamedTuple):
    """A cause, and the words of the log that state it."""

    cause: CauseName
    quoted: str


def declared_causes(debug: DebugLines) -> tuple[DeclaredCause, ...]:
    """The causes that the logs state: first failures, then what lines say together, then
    settings."""
    found: list[DeclaredCause] = []
    for stated in stated_together(debug):
        if stated.kind == "failed":
            found.append(DeclaredCause("failed", stated.quoted))
        elif stated.cause:
            found.append(DeclaredCause(_CAUSES[stated.cause], stated.quoted))
    return tuple(found)


# the tables of logs name causes as texts
_CAUSES: Mapping[str, CauseName] = {name: name for name in get_args(CauseName)}


def denied(debug: DebugLines) -> Iterator[CauseName]:
    """What lines of NCCL_DEBUG=INFO rule out."""
    if debug.network and not over_tcp(debug):
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
    # naming NICs is usual, too few of them are not
    usual = cause.name == "rails" and quoted.startswith("NCCL_IB_HCA")
    weight = 0.0 if usual else DECLARED
    most = 1.0 if cause.name == "sockets" else cause.most
    handicap = cause.handicap + weight
    return cause._replace(quoted=quoted, handicap=handicap, most=most, must_fit_closely=False)
