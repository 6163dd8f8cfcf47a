"""A report's reference point: the ranks and the bytes at which its page compares fabrics.

Here are its words, and the line and the verdict of a comparison that belong to it. The sentences
about collectives (``report_collectives``), steps (``report_steps``) and money (``report_costs``)
build on them.
"""

from __future__ import annotations

from colltool.analysis.compare import Comparison
from colltool.analysis.outcomes import CompareLine
from colltool.analysis.report import Report
from colltool.analysis.winners import QuestionVerdict
from colltool.base.formatting import title_size
from colltool.base.primitives import Primitive


def reference_point(report: Report) -> str:
    """``Reference point: 64 MB on 1152 GPUs``."""
    return f"Reference point: {title_size(report.bytes)} on {reference_ranks(report)}"


def reference_ranks(report: Report) -> str:
    """``1152 GPUs``."""
    return f"{report.ranks} {rank_noun(report)}"


def rank_noun(report: Report) -> str:
    """``GPUs`` where every fabric names its device and none is a TPU, else ``ranks``."""
    devices = [fabric.device or "" for fabric in report.fabrics]
    if all(devices) and not any(device.startswith("tpu") for device in devices):
        return "GPUs"
    return "ranks"


def reference_collective(report: Report, primitive: Primitive) -> str:
    """``all-reduce of 64 MB on 1152 GPUs``."""
    size = title_size(report.bytes)
    return f"{primitive.label} of {size} on {reference_ranks(report)}"


def reference_line(
    report: Report, comparison: Comparison, primitive: Primitive
) -> CompareLine | None:
    """A primitive's line of the comparison; None where the reference point was not compared."""
    reference = (primitive, report.ranks, report.bytes)
    for line in comparison.lines:
        if (line.primitive, line.ranks, line.bytes) == reference:
            return line
    return None


def reference_verdict(
    report: Report, comparison: Comparison, primitive: Primitive
) -> QuestionVerdict | None:
    """Who wins a primitive on the reference ranks, over all sizes; None where they were not
    compared."""
    for verdict in comparison.verdicts:
        if verdict.primitive is primitive and report.ranks in verdict.ranks:
            return verdict
    return None
