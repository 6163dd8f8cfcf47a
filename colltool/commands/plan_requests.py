"""What a plan is asked besides its step, as users write it: a target, failures, measured GEMMs."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import parse_rate, parse_time
from colltool.commands.reading import flag_of, wrong
from colltool.training.goodput import Failures
from colltool.training.job import Job
from colltool.training.measured_gemms import read_gemms
from colltool.training.plan import Asked
from colltool.training.targets import Target

LONG = {"min": 60.0, "h": 3600.0, "d": 86400.0}


def measured_by(job: Job, compute: str | os.PathLike[str] | None) -> Job:
    """The job with a user's own GEMM times in its stack."""
    if compute is None:
        return job
    if not isinstance(compute, str | os.PathLike):
        raise wrong(
            compute, "compute", "the path of a CSV", f"write {given('compute', 'gemms.csv')}"
        )
    if job.draft.stack is None:
        raise ColltoolError(
            "the job has no stack whose GEMMs it could replace",
            argument="compute",
            fix="stack: megatron in the job",
        )
    stack = job.draft.stack._replace(measured=read_gemms(compute))
    return replace(job, draft=job.draft._replace(stack=stack))


def asked_of(
    links: Any, target: Any, mtbf: Any, storage: Any, checkpoint: Any, restart: Any
) -> Asked:
    """What a plan answers besides the step; ColltoolError for what cannot be read, or goes with
    failures alone."""
    for name, value in (("storage", storage), ("checkpoint", checkpoint), ("restart", restart)):
        if value is not None and mtbf is None:
            raise ColltoolError(
                "goes with failures", argument=name, fix=f"add {given('mtbf', '50000h')}"
            )
    failures = None
    if mtbf is not None:
        if storage is None:
            what = "needs the rate at which checkpoints are written"
            raise ColltoolError(what, argument="mtbf", fix=f"add {given('storage', '200GB/s')}")
        every = None if checkpoint is None else duration_of(checkpoint, "checkpoint", "30min")
        again = 600.0 if restart is None else duration_of(restart, "restart", "10min")
        failures = Failures(duration_of(mtbf, "mtbf", "50000h"), rate_of(storage), every, again)
    return Asked(flag_of(links, "links"), None if target is None else target_of(target), failures)


def duration_of(value: Any, argument: str, example: str) -> float:
    """Seconds of ``30min``, ``50000h``, ``2d``, or what :func:`parse_time` reads."""
    text = str(value).strip() if isinstance(value, str) else ""
    fix = f"write {given(argument, example)}"
    for unit, seconds in LONG.items():
        number = text.removesuffix(unit)
        if number != text and number.strip().replace(".", "", 1).isdigit():
            found = float(number) * seconds
            break
    else:
        try:
            found = parse_time(text)
        except (ColltoolError, ValueError) as error:
            raise wrong(value, argument, "a time with its unit", fix) from error
    if not 0 < found < 1e13:
        raise wrong(value, argument, "a time above 0", fix)
    return found


def rate_of(value: Any) -> float:
    """Bytes/s of a text such as ``200GB/s``."""
    try:
        found = parse_rate(value) if isinstance(value, str) else 0.0
    except (ColltoolError, ValueError) as error:
        raise wrong(
            value, "storage", "a rate with its unit", f"write {given('storage', '200GB/s')}"
        ) from error
    if not found > 0:
        raise wrong(value, "storage", "a rate above 0", f"write {given('storage', '200GB/s')}")
    return found


def target_of(value: Any) -> Target:
    """``mfu=45%`` or ``step=5%``; shares may be written as 0.45."""
    name, _, share = str(value).partition("=")
    text = share.strip()
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = -1.0
    if name.strip() not in ("mfu", "step") or not 0 < number < (
        1 if name.strip() == "mfu" else 100
    ):
        raise wrong(value, "target", "mfu=45% or step=5%", f"write {given('target', 'step=5%')}")
    return Target(mfu=number) if name.strip() == "mfu" else Target(over=number)
