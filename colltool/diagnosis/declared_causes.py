"""Causes that logs declare themselves, in lines of NCCL_DEBUG=INFO and settings: believed unless
the numbers refute them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, get_args

from colltool.diagnosis.hypotheses import CauseName, Hypothesis
from colltool.logs.debug_conclusions import over_tcp, stated_together
from colltool.logs.debug_record import DebugLines

# Handicap of a cause that the log states: a negative one lowers the error by which causes are
# ranked, so that it leads unless another one fits far better.
DECLARED = -0.5

# the tables of logs name causes as texts
_CAUSES: Mapping[str, CauseName] = {name: name for name in get_args(CauseName)}


class DeclaredCause(NamedTuple):
    """A cause, and the words of the log that state it."""

    cause: CauseName
    quoted: str


def weighted_by_log(causes: tuple[Hypothesis, ...], debug: DebugLines) -> Iterator[Hypothesis]:
    """The causes in their order, without those that the logs rule out; those that the logs state
    have a lower handicap, with which they lead."""
    declared: dict[CauseName, str] = {}
    for cause, quoted in declared_causes(debug):
        # the first declaration is quoted: they come with the worst first
        declared.setdefault(cause, quoted)
    ruled_out = set(ruled_out_causes(debug)) - declared.keys()
    for hypothesis in causes:
        if hypothesis.name in declared:
            yield _declared(hypothesis, declared[hypothesis.name])
        elif hypothesis.name not in ruled_out:
            yield hypothesis


def declared_causes(debug: DebugLines) -> Iterator[DeclaredCause]:
    """The causes that the logs state: first failures, then what lines say together, then
    settings."""
    for stated in stated_together(debug):
        if stated.kind == "failed":
            yield DeclaredCause("failed", stated.quoted)
        elif stated.cause:
            yield DeclaredCause(_CAUSES[stated.cause], stated.quoted)


def ruled_out_causes(debug: DebugLines) -> Iterator[CauseName]:
    """The causes that lines of NCCL_DEBUG=INFO rule out."""
    if debug.network and not over_tcp(debug):
        yield "sockets"
    if debug.gpudirect:
        yield "gpudirect"
    # NCCL connects GPUs that cannot reach each other's memory through that of the host (SHM): with
    # P2P alone no pair goes over PCIe in place of its links
    through_host = debug.connections("SHM") or debug.connections("P2P refused")
    if debug.connections("P2P") and not through_host:
        yield "pcie"
    if debug.multicast:
        yield "nvls-off"


def _declared(cause: Hypothesis, quoted: str) -> Hypothesis:
    """A cause as the log states it."""
    # naming NICs is usual, too few of them are not
    is_usual = cause.name == "rails" and quoted.startswith("NCCL_IB_HCA")
    weight = 0.0 if is_usual else DECLARED
    return cause._replace(
        quoted=quoted,
        handicap=cause.handicap + weight,
        # where the log says TCP, the fabric's own network may be as slow as TCP, or slower
        most=1.0 if cause.name == "sockets" else cause.most,
        # a setting that was seen is there, whatever else slows the run
        must_fit_closely=False,
    )
