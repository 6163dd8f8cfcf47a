"""Findings that logs state themselves, whatever their times are: failures and wrong values, and
without times also what holds a run back.

A :class:`~colltool.logs.stated.StatedLine` has a ``kind`` (failed, wrong, cause, setting, warning,
fact), the cause of slowness that it states (or none, ""), and what to ``do`` about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.statements import NOTHING
from colltool.diagnosis.evidence import Evidence
from colltool.diagnosis.results import Cause, DiagnosisFinding
from colltool.diagnosis.sentences import statement
from colltool.fabric.model import Fabric
from colltool.fabric.tier_media import media_of
from colltool.logs.records import WRONG_NOTES
from colltool.logs.stated import Kind, StatedLine, wrong_rows

# kinds of lines that no good time outweighs
_ENDS: frozenset[Kind] = frozenset({"failed", "wrong"})
# kinds that are an answer by themselves where the machine is unknown
_RESTRICTS: frozenset[Kind] = frozenset({"cause", "setting"})
# causes of findings by the kind of what states them
_NAMES: dict[Kind, str] = {"failed": "failed", "wrong": "wrong-values"}


def wrong_results(seen: Evidence) -> Iterator[StatedLine]:
    """Wrong values that only the readers of tables see, as in nccl-tests' JSON and OSU's
    validation."""
    if any(line.kind == "wrong" for line in seen.stated):
        return
    for skipped in seen.logs.skipped:
        if skipped.reason.code in WRONG_NOTES:
            yield wrong_rows(str(skipped.reason), skipped.rows, skipped.where)
    for error in seen.wrong:
        yield wrong_rows(error.what, error.rows, error.where)


# what a log states of TCP is how a network of sockets works
_OF_RDMA = ("sockets", "gpudirect")


def without_expected_causes(fabric: Fabric, stated: Sequence[StatedLine]) -> tuple[StatedLine, ...]:
    """What logs state, with causes that the fabric says itself as mere facts: over sockets there is
    no RDMA to miss."""
    medium = media_of(fabric)[-1]
    if medium is None or medium.name != "socket":
        return tuple(stated)
    as_expected = []
    for line in stated:
        if line.kind == "cause" and line.cause in _OF_RDMA:
            line = line._replace(kind="fact", cause="", do="")
        as_expected.append(line)
    return tuple(as_expected)


def answers_alone(stated: Sequence[StatedLine], error: ColltoolError) -> bool:
    """Whether what is stated answers although an error keeps the times from being judged: a failed
    run is one on any machine, a setting on an unknown one."""
    kinds = {line.kind for line in stated}
    # the error asks for the machine
    is_unknown_machine = error.argument in ("fabric", "logs")
    return bool(kinds & _ENDS) or (is_unknown_machine and bool(kinds & _RESTRICTS))


class StatedFindings(NamedTuple):
    """What the logs' own lines say is off, as one finding. It comes ``before`` what times tell, or
    ``after`` it where a failure names no reason of its own."""

    before: tuple[DiagnosisFinding, ...] = ()
    after: tuple[DiagnosisFinding, ...] = ()


def stated_findings(stated: Sequence[StatedLine], *, judged: bool) -> StatedFindings:
    """Find what is off by the logs' own lines; with ``judged`` times say the rest, so that only
    failures and wrong values are taken."""
    causes = []
    for line in stated:
        if line.kind in _ENDS or (not judged and line.kind != "fact"):
            causes.append(_cause(line))
    if not causes:
        return StatedFindings()
    finding = finding_of(causes)
    # what follows another error is no reason
    reasons = [line for line in stated if line.kind in _ENDS and not line.follows]
    if judged and not reasons:
        return StatedFindings(after=(finding,))
    return StatedFindings(before=(finding,))


def finding_of(causes: Sequence[Cause]) -> DiagnosisFinding:
    """What lines of the log say is off, without times."""
    return DiagnosisFinding(
        series=("the log",),
        size="",
        low=None,
        high=None,
        error=None,
        causes=tuple(causes),
        experiments=(),
        hints=(),
    )


def _cause(line: StatedLine) -> Cause:
    """What a line states, as a cause without a price, and so without an error."""
    on_host = NOTHING
    if line.host:
        on_host = statement("on-host", host=line.host)
    text = statement("log-says", means=line.means, quoted=line.quoted, on=on_host, where=line.where)
    name = _NAMES.get(line.kind) or line.cause or line.kind
    return Cause(name, text, line.do, error=None, error_all=None)
