"""Reads what a plan answers besides the step, as users write it: a target, failures, measured
GEMMs; and grows fabrics to the ranks of a plan."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import parse_rate, parse_time
from colltool.commands.options import FabricChoice
from colltool.commands.reading import flag_of, path_of, wrong
from colltool.fabric.bundled_for import fabric_of_device
from colltool.fabric.expression import nodes_for, resized, with_setting
from colltool.fabric.load import load_fabric, shipped_fabrics
from colltool.training.goodput import Failures
from colltool.training.job import Job
from colltool.training.measured_gemms import read_gemms
from colltool.training.plan import PlanExtras
from colltool.training.targets import Target

# seconds of units that parse_time does not read
LONG_UNITS_S = {"min": 60.0, "h": 3600.0, "d": 86400.0}
# from a failure to the first step: the 10 min that the help of --restart names
USUAL_RESTART_S = 600.0
# bound of every duration: 300,000 years, far more than anyone means
LONGEST_S = 1e13


def grow_fabrics(fabric: FabricChoice, ranks: int | None) -> tuple[FabricChoice, list[str]]:
    """The fabrics with as many nodes as the ranks need, and a note on each that grew (none without
    ``ranks``).

    Only a shipped fabric grows, and only where its size was not given: a file of one's own is the
    machine that there is.
    """
    if ranks is None:
        return fabric, []
    names = []
    notes = []
    for fabric_name in fabric.several:
        nodes = _nodes_to_grow(fabric_name, fabric.overrides, ranks)
        if nodes is not None:
            larger = with_setting(fabric_name, f"nodes={nodes}")
            notes.append(
                f"{fabric_name} has {load_fabric(fabric_name).ranks} ranks and grows to {nodes} nodes for this:"
                f" -f {larger}"
            )
            fabric_name = larger
        names.append(fabric_name)
    return fabric._replace(names=tuple(names)), notes


def _nodes_to_grow(name: str, overrides: Sequence[str], ranks: int) -> int | None:
    """How many nodes hold the ranks; None where a fabric has enough, or does not grow.

    Args:
        name: a file, or a shipped fabric by its name or its device's.
        overrides: ``KEY=VALUE`` of the fabric.
    """
    if name not in shipped_fabrics() and not fabric_of_device(name):
        return None
    loaded = load_fabric(name)
    outermost_size = f"{loaded.tiers[-1].name}.size="
    if loaded.ranks >= ranks or any(text.startswith(outermost_size) for text in overrides):
        return None
    nodes = nodes_for(loaded, ranks)
    if nodes is None:
        return None
    try:
        resized(loaded, nodes)
    except ColltoolError:
        # its switches have too few ports for so many
        return None
    return nodes


def with_measured_gemms(job: Job, compute: str | os.PathLike[str] | None) -> Job:
    """The job with a user's own GEMM times in its stack.

    Raises:
        ColltoolError: a job without a stack, or a file of GEMMs that cannot be read.
    """
    if compute is None:
        return job
    path = path_of(compute, "compute", "the path of a CSV", "gemms.csv")
    if job.draft.stack is None:
        raise ColltoolError(
            "the job has no stack whose GEMMs it could replace",
            argument="compute",
            fix="stack: megatron in the job",
        )
    stack = job.draft.stack._replace(measured=read_gemms(path))
    return replace(job, draft=job.draft._replace(stack=stack))


def plan_extras(
    links: Any, target: Any, mtbf: Any, storage: Any, checkpoint: Any, restart: Any
) -> PlanExtras:
    """What a plan answers besides the step, from arguments of :func:`colltool.plan` as given.

    Raises:
        ColltoolError: a value that cannot be read, checkpoints without failures, or failures without
            the rate at which checkpoints are written.
    """
    failures = _failures_of(mtbf, storage, checkpoint, restart)
    goal = None if target is None else target_of(target)
    return PlanExtras(flag_of(links, "links"), goal, failures)


def _failures_of(mtbf: Any, storage: Any, checkpoint: Any, restart: Any) -> Failures | None:
    """How failures are counted in the time of a run; None without ``--mtbf``, which the other
    options need."""
    if mtbf is None:
        needs_mtbf = {"storage": storage, "checkpoint": checkpoint, "restart": restart}
        for name, value in needs_mtbf.items():
            if value is not None:
                raise ColltoolError(
                    f"acts only with {argument_text('mtbf', '50000h')}",
                    argument=name,
                    fix=f"add {argument_text('mtbf', '50000h')}",
                )
        return None
    # without checkpoints every failure would lose the whole run
    if storage is None:
        raise ColltoolError(
            "needs the rate at which checkpoints are written",
            argument="mtbf",
            fix=f"add {argument_text('storage', '200GB/s')}",
        )
    return Failures(
        mtbf_s=duration_of(mtbf, "mtbf", "50000h"),
        storage_Bps=rate_of(storage),
        # None: the best interval is found
        interval_s=None if checkpoint is None else duration_of(checkpoint, "checkpoint", "30min"),
        restart_s=USUAL_RESTART_S if restart is None else duration_of(restart, "restart", "10min"),
    )


def duration_of(value: Any, argument: str, example: str) -> float:
    """Seconds of ``30min``, ``50000h``, ``2d``, or what :func:`parse_time` reads.

    Raises:
        ColltoolError: no text of a time above 0; it names the argument and shows the example.
    """
    fix = f"write {argument_text(argument, example)}"
    try:
        # what is no text is refused as an empty one
        seconds = _seconds(value.strip() if isinstance(value, str) else "")
    except (ColltoolError, ValueError) as error:
        raise wrong(value, argument, "a time with its unit", fix) from error
    if not 0 < seconds < LONGEST_S:
        raise wrong(value, argument, "a time above 0", fix)
    return seconds


def _seconds(text: str) -> float:
    """The seconds of a duration; ColltoolError or ValueError for anything else."""
    for unit, seconds in LONG_UNITS_S.items():
        number = text.removesuffix(unit)
        if number != text and number.strip().replace(".", "", 1).isdigit():
            return float(number) * seconds
    return parse_time(text)


def rate_of(value: Any) -> float:
    """Bytes/s of a text such as ``200GB/s``; ColltoolError, which names ``storage``, for anything
    else."""
    fix = f"write {argument_text('storage', '200GB/s')}"
    try:
        rate = parse_rate(value) if isinstance(value, str) else 0.0
    except (ColltoolError, ValueError) as error:
        raise wrong(value, "storage", "a rate with its unit", fix) from error
    if not rate > 0:
        raise wrong(value, "storage", "a rate above 0", fix)
    return rate


def target_of(value: Any) -> Target:
    """The goal of ``mfu=45%`` or ``step=5%``; shares may be written as 0.45.

    Raises:
        ColltoolError: neither, or a share that cannot be.
    """
    name, _, text = str(value).partition("=")
    share = _share(text.strip())
    match name.strip():
        case "mfu" if 0 < share < 1:
            return Target(mfu=share)
        # a step may take several times as long as with a free network
        case "step" if 0 < share < 100:
            return Target(over=share)
    raise wrong(
        value, "target", "mfu=45% or step=5%", f"write {argument_text('target', 'step=5%')}"
    )


def _share(text: str) -> float:
    """The share of ``45%`` or ``0.45``; -1, which no target allows, for anything else."""
    try:
        share = float(text.removesuffix("%"))
    except ValueError:
        return -1.0
    return share / 100 if text.endswith("%") else share
