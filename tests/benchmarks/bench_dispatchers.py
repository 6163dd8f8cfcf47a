"""Dispatchers of experts beside measured pairs of runs: the same job on EFA by NCCL's all-to-all and
by another dispatcher, and whether plan proposes the other.

    python tests/benchmarks/bench_dispatchers.py

Then what a layer with experts took more than the plan says, by dispatcher: host, launches, routing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import mean, median
from typing import NamedTuple

from bench_plan import EFA, Row, fabric_of, job_of, rows, whole

import colltool
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.dispatchers import faster_dispatchers
from colltool.training.step_time import TrainingStep, step_time


class Run(NamedTuple):
    """A measured run with its plan; ``faster``: dispatchers that win by more than the price's
    error."""

    row: Row
    step: TrainingStep
    faster: tuple[str, ...]

    @property
    def measured_s(self) -> float:
        return float(self.row["t_step_s"])

    @property
    def layers(self) -> float:
        """Layers with experts times micro-batches that the step goes through, the bubble's too."""
        layout = self.step.config.layout
        passes = self.step.config.micro_batches + (layout.pp - 1) / layout.virtual
        return passes * self.step.slowest.stage.moe_layers

    @property
    def left_s(self) -> float:
        """Seconds of a layer and micro-batch that the plan lacks."""
        return (self.measured_s - self.step.step_s) / self.layers


class Pair(NamedTuple):
    """A run by another dispatcher beside the same job by NCCL's all-to-all."""

    job: str
    dispatcher: str
    measured: float  # gain, as a share of the step
    planned: float
    proposed: bool

    @property
    def right(self) -> bool:
        """Whether it is proposed where it was faster and only there, ties of 3% aside."""
        return abs(self.measured) < 0.03 or self.proposed is (self.measured > 0)


def run_of(row: Row) -> Run:
    fabric = fabric_of(row)
    config = colltool.load_job(job_of(row)).setup(whole(row, "devices"))
    step = step_time(config, CollectiveCostCache(fabric))
    sent = next(call for call in step.slowest.sent if call.call.dimension == "ep")
    now = sent.cost.scaled(1 / sent.call.skew)
    faster = faster_dispatchers(config, fabric, now, sent.call.bytes)
    return Run(row, step, tuple(known.name for known in faster))


def job_name(row: Row) -> str:
    """Without its dispatcher."""
    return row["run"].partition("-mbs")[0] + "-mbs" + row["mbs"]


def pairs(runs: Iterable[Run]) -> list[Pair]:
    by_job: dict[str, dict[str, Run]] = defaultdict(dict)
    for run in runs:
        by_job[job_name(run.row)][run.row["deepep"]] = run
    found = []
    for job, by_dispatcher in by_job.items():
        plain = by_dispatcher.pop("")
        for dispatcher, other in by_dispatcher.items():
            planned = 1 - other.step.step_s / plain.step.step_s
            pair = Pair(
                job,
                dispatcher,
                measured=1 - other.measured_s / plain.measured_s,
                planned=planned,
                proposed=dispatcher in plain.faster and planned > 0,
            )
            found.append(pair)
    return found


def main() -> None:
    runs = [run_of(row) for row in rows(EFA)]
    found = pairs(runs)
    print(f"{'job':30} {'dispatcher':15} measured  planned")
    for pair in found:
        said = "proposed" if pair.proposed else "not proposed"
        verdict = "" if pair.right else "  WRONG"
        print(
            f"{pair.job:30} {pair.dispatcher:15} {pair.measured:+8.1%} {pair.planned:+8.1%}  {said}"
            f"{verdict}"
        )
    right = sum(pair.right for pair in found)
    faster = sum(pair.measured > 0 for pair in found)
    print(f"{right} of {len(found)} right; faster in fact: {faster}")
    left: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        left[run.row["deepep"] or "alltoall", run.row["mbs"]].append(run.left_s)
    print("\nms of a layer and micro-batch beyond the plan, median and mean")
    for (dispatcher, micro), seconds in sorted(left.items()):
        print(
            f"{dispatcher:15} micro {micro}: {median(seconds) * 1e3:6.2f} {mean(seconds) * 1e3:6.2f}"
            f"  ({len(seconds)} runs)"
        )


if __name__ == "__main__":
    main()
