"""The job file of one step's calls that ``trace`` writes for ``plan``: :func:`job_text`.

A job file has plain calls of evenly spaced ranks and a whole number of each. Whatever of a trace is
none of these stands in the file as a comment with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from colltool.base.errors import printable
from colltool.base.primitives import SHORT
from colltool.base.statements import NOTHING, Statement
from colltool.definitions.field_types import MAX_LISTED
from colltool.diagnosis.sentences import statement
from colltool.diagnosis.trace_results import CallTotal, TracedCall


def job_text(totals: Sequence[CallTotal], calls: Sequence[TracedCall], world: int | None) -> str:
    """A job file of one step's calls; what a job file cannot express becomes a comment.

    Args:
        totals: the calls by kind, which are its lines.
        calls: the same one by one, for the ranks that they name.
        world: ranks of the job, None if unknown.
    """
    last_rank = max((call.places[-1] for call in calls if call.places), default=1)
    ranks = max(world or 0, last_rank + 1)
    listed: list[str] = []
    too_many: list[str] = []
    inexpressible: list[str] = []
    for total in totals:
        reason = _why_not(total)
        if reason:
            inexpressible.append(_left_out(total, reason))
        elif len(listed) == MAX_LISTED:
            too_many.append(_left_out(total, statement("too-many-calls", most=MAX_LISTED)))
        else:
            listed.append(_call_line(total))
    lines = [
        "# the collectives of a step, from traces, for colltool plan",
        "schema: colltool.job/1",
        "name: traced",
        f"layout: {{dp: {ranks}}}",
        "calls:" if listed else "calls: []",
        *listed,
        *inexpressible,
        *too_many,
    ]
    return "\n".join([*lines, ""])


def _call_line(total: CallTotal) -> str:
    """The line of a call in the job file; ``total`` is one that :func:`_why_not` lets pass."""
    count = max(1, round(total.a_step))
    # one axis: _why_not has refused several, and calls whose ranks are not known have a reason
    ((size, stride),) = total.axes
    line = (
        f"  - {{primitive: {SHORT[total.primitive]}, group: {{ranks: {size}, stride: {stride}}},"
        f" size: {total.bytes}B, count: {count}}}"
    )
    return line if count == total.a_step else f"{line}  # {total.a_step:.4g} in a step"


def _left_out(total: CallTotal, reason: Statement) -> str:
    """The comment that says why calls are not in the job file."""
    return str(
        statement(
            "left-out-of-job",
            calls=total.calls,
            collective=total.primitive.label,
            bytes=total.bytes,
            reason=printable(str(reason)),
        )
    )


def _why_not(total: CallTotal) -> Statement:
    """Why a job file cannot express these calls; NOTHING where it can."""
    if total.reason:
        return total.reason
    if len(total.axes) > 1:
        return statement("several-strides")
    return NOTHING if total.a_step > 0 else statement("outside-steps")
