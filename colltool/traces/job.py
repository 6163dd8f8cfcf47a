"""The calls of a step as a job file: what they would cost on another fabric, by ``colltool plan``."""

from __future__ import annotations

from collections.abc import Sequence

from colltool.base.formatting import counted
from colltool.base.primitives import SHORT
from colltool.base.quoting import printable
from colltool.definitions.field_types import MAX_LISTED
from colltool.traces.results import Call, Total


def job_text(totals: Sequence[Total], calls: Sequence[Call], world: int | None) -> str:
    """A job with plain ``calls``, one for each kind of group, primitive and size; what it cannot say stands in comments."""
    last = max((call.places[-1] for call in calls if call.places), default=1)
    ranks = max(world or 0, last + 1)
    lines = [
        "# the collectives of a step, from traces, for colltool plan",
        "schema: colltool.job/1",
        "name: traced",
        f"layout: {{dp: {ranks}}}",
        "calls:",
    ]
    can = [total for total in totals if not _why_not(total)]
    for total in can[:MAX_LISTED]:
        count = max(1, round(total.a_step))
        ((size, stride),) = total.axes
        near = "" if count == total.a_step else f"  # {total.a_step:.4g} in a step"
        group = f"{{ranks: {size}, stride: {stride}}}"
        lines.append(f"  - {{primitive: {SHORT[total.primitive]}, group: {group}, size: {total.bytes}B, count: {count}}}{near}")
    if not can:
        lines[-1] = "calls: []"
    for total in [one for one in totals if one not in can] + can[MAX_LISTED:]:
        why = printable(_why_not(total)) or f"a job lists at most {MAX_LISTED}"
        lines.append(f"# left out: {counted(total.calls, 'call')}, {total.primitive.spoken} of {total.bytes} B: {why}")
    return "\n".join([*lines, ""])


def _why_not(total: Total) -> str:
    """Why a job file cannot say these calls; empty where it can."""
    if total.reason:
        return total.reason
    if len(total.axes) > 1:
        return "its group has several strides"
    return "" if total.a_step > 0 else "outside the steps"
