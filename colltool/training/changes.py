"""Changes of the fabric and of the job, each step priced again, the best gain first."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.variants import non_blocking, scaled_bandwidth, with_tiers
from colltool.training.candidates import LEAST_GAIN, candidates
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.constraint_violations import constraint_violations
from colltool.training.files.schema import written
from colltool.training.invalid_overlap import invalid_overlaps
from colltool.training.job import Job, PlainCall
from colltool.training.memory import cures, memory
from colltool.training.parallel_config import ParallelConfig
from colltool.training.step_time import TrainingStep, step_of

FASTER = 2  # the next generation of a NIC: 200, 400, 800 Gb/s


class Change(NamedTuple):
    change: str
    where: str  # fabric or job
    set: tuple[tuple[str, str], ...]
    step_s: float
    gain: float  # share of the step
    fits: bool | None  # the memory of its device; None without one


Made = tuple[str, dict[str, str], Fabric, str]


def changes(
    job: Job, config: ParallelConfig, costs: CollectiveCostCache, plain: tuple[PlainCall, ...], now: TrainingStep
) -> tuple[Change, ...]:
    """Candidates that gain, the best first; before them what a job needs to fit its device.

    One that the job, its memory or the fabric cannot have is left out.
    """
    found = []
    for what, values, fabric, tier in _of_fabric(costs.fabric, now):
        if (step_s := _step_s(config, costs.changed(fabric, tier), plain)) is not None:
            found += _priced(what, "fabric", values, config, step_s, now)
    for what, values, other in candidates(config, costs.fabric, now):
        if (
            constraint_violations(other)
            or invalid_overlaps(other)
            or _outgrows(config, other)
            or (step_s := _step_s(other, costs, plain)) is None
        ):
            continue
        found += [one for one in _priced(what, "job", _kept(job, config, values), other, step_s, now) if job.takes(dict(one.set))]
    return (*islice(_to_fit(job, config, costs, plain, now), 1), *sorted(found, key=lambda one: -one.gain))


def _step_s(config: ParallelConfig, costs: CollectiveCostCache, plain: tuple[PlainCall, ...]) -> float | None:
    """None where a group does not sit on the fabric."""
    try:
        return step_of(config, costs, plain).step_s
    except ColltoolError:
        return None


def _outgrows(config: ParallelConfig, other: ParallelConfig) -> bool:
    then = memory(other) if other.model is not None else None
    return then is not None and then.fits is False and then.bytes > memory(config).bytes


def _to_fit(
    job: Job, config: ParallelConfig, costs: CollectiveCostCache, plain: tuple[PlainCall, ...], now: TrainingStep
) -> Iterator[Change]:
    """Changes with which a job fits its device, the smallest first, whatever they cost."""
    for cure in cures(config) if config.model is not None else ():
        values = {key: written(value) for key, value in cure.values.items()}
        kept = _kept(job, config, values)
        if job.takes(kept) and (step_s := _step_s(cure.setup, costs, plain)) is not None:
            yield Change("to fit the memory", "job", tuple(kept.items()), step_s, 1 - step_s / now.step_s, fits=True)


def _priced(
    what: str, where: str, values: dict[str, str], other: ParallelConfig, step_s: float, now: TrainingStep
) -> list[Change]:
    """Empty without a gain; extra steps to the same accuracy count against it."""
    gain = 1 - step_s / now.step_s if now.step_s else 0.0
    longer = (1 + other.compression.extra_steps) if other.compression is not None and "compression.scheme" in values else 1.0
    if gain <= LEAST_GAIN or longer * step_s >= now.step_s:
        return []
    return [Change(what, where, tuple(values.items()), step_s, gain, memory(other).fits if other.model is not None else None)]


def _kept(job: Job, config: ParallelConfig, values: dict[str, str]) -> dict[str, str]:
    """The speed found from a measured step replaces that step, which holds for one layout only."""
    if config.slower == 1 or job.file.slower is not None:
        return values
    return values | {"measured.step": "null", "slower": repr(config.slower)}


def _of_fabric(fabric: Fabric, now: TrainingStep) -> Iterator[Made]:
    exposed: dict[str, float] = {}
    for sent in now.paced:
        for name in sent.cost.tiers:
            exposed[name] = exposed.get(name, 0.0) + sent.exposed_s
    for at, tier in reversed(list(enumerate(fabric.tiers))):
        if exposed.get(tier.name, 0.0) <= LEAST_GAIN * now.step_s:
            continue
        values = {f"{tier.name}.bandwidth": _rate(FASTER * tier.bandwidth)}
        for index, one in enumerate(tier.protocols or ()):
            if one.bandwidth:
                values[f"{tier.name}.protocols.{index}.bandwidth"] = _rate(FASTER * one.bandwidth)
        faster = with_tiers(fabric, partial(scaled_bandwidth, share=FASTER), [at])
        yield f"twice the bandwidth of {tier.name}", values, faster, tier.name
    for at, tier in enumerate(fabric.tiers):
        thin = [one.name for one in capabilities_of(tier).classes if one.oversubscription > 1]
        if thin and exposed.get(tier.name, 0.0) > LEAST_GAIN * now.step_s:
            values = {f"{tier.name}.levels.{name}.oversubscription": "1" for name in thin}
            yield f"no oversubscription on {tier.name}", values, with_tiers(fabric, non_blocking, [at]), tier.name


def _rate(rate_Bps: float) -> str:
    return f"{rate_Bps / 1e9:.12g}GB/s"
