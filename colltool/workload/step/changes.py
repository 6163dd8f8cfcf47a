"""What to change: candidates of the fabric and of the job, each step priced again, the best gain first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from colltool.errors import ColltoolError
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import kind_of
from colltool.workload.job import PlainCall
from colltool.workload.memory import memory
from colltool.workload.misfits import misfits
from colltool.workload.setup import Setup
from colltool.workload.step.fare import Fares
from colltool.workload.step.whole import Step, step_of

FASTER = 2  # the next generation of a NIC: 200, 400, 800 Gb/s
WIDER = 4  # times a bucket
LEAST_GAIN = 1e-4  # of the step: below it a change is none


class Change(NamedTuple):
    """A change, where it is made (``fabric`` or ``job``) and with which values, the step then, and the share of it gained.

    ``fits`` is False where the job no longer fits the memory of its device.
    """

    change: str
    where: str
    set: tuple[tuple[str, str], ...]
    step_s: float
    gain: float
    fits: bool | None


Made = tuple[str, str, dict[str, str], Setup, Fabric]


def changes(setup: Setup, fares: Fares, plain: Sequence[PlainCall], now: Step) -> tuple[Change, ...]:
    """Every candidate that gains, the best first; one that the job or the fabric cannot have is left out."""
    found = []
    for what, where, values, other, fabric in (*_of_fabric(setup, fares.fabric, now), *_of_job(setup, fares.fabric, now)):
        if misfits(other):
            continue
        priced = fares if fabric is fares.fabric else Fares(fabric, fares.readings)
        try:
            step_s = step_of(other, priced, plain).step_s
        except ColltoolError:
            continue
        gain = 1 - step_s / now.step_s if now.step_s else 0.0
        if gain > LEAST_GAIN:
            fits = memory(other).fits if other.model is not None else None
            found.append(Change(what, where, tuple(values.items()), step_s, gain, fits))
    return tuple(sorted(found, key=lambda one: -one.gain))


def _of_fabric(setup: Setup, fabric: Fabric, now: Step) -> Iterator[Made]:
    """Twice the bandwidth of each tier that is crossed; no oversubscription."""
    crossed = {tier for stage in now.stages for one in stage.sent for tier in one.fare.tiers}
    for tier in reversed(fabric.tiers):
        if tier.name not in crossed:
            continue
        values = {f"{tier.name}.bandwidth": _rate(FASTER * tier.bandwidth)}
        for index, one in enumerate(tier.protocols or ()):
            if one.bandwidth:
                values[f"{tier.name}.protocols.{index}.bandwidth"] = _rate(FASTER * one.bandwidth)
        yield f"twice the bandwidth of {tier.name}", "fabric", values, setup, _with(fabric, tier.name, _faster)
    for tier in fabric.tiers:
        thin = [one.name for one in kind_of(tier).classes if one.oversubscription > 1]
        if thin:
            values = {f"{tier.name}.levels.{name}.oversubscription": "1" for name in thin}
            yield f"no oversubscription on {tier.name}", "fabric", values, setup, _with(fabric, tier.name, _flat)


def _rate(rate_Bps: float) -> str:
    """As ``--set`` takes it."""
    return f"{rate_Bps / 1e9:.12g}GB/s"


def _with(fabric: Fabric, name: str, change: Callable[[Tier], Tier]) -> Fabric:
    return fabric.model_copy(update={"tiers": tuple(change(tier) if tier.name == name else tier for tier in fabric.tiers)})


def _faster(tier: Tier) -> Tier:
    protocols = tier.protocols and tuple(
        one.model_copy(update={"bandwidth": FASTER * one.bandwidth}) if one.bandwidth else one for one in tier.protocols
    )
    return tier.model_copy(update={"bandwidth": FASTER * tier.bandwidth, "protocols": protocols})


def _flat(tier: Tier) -> Tier:
    levels = tuple(one.model_copy(update={"oversubscription": 1.0}) for one in kind_of(tier).levels)
    return tier.model_copy(update={"levels": levels})


def _of_job(setup: Setup, fabric: Fabric, now: Step) -> Iterator[Made]:
    """Less computed again, what may hide hidden, other buckets, another sharding, TP inside the node."""
    if setup.model is None:
        return
    for what, values, other in (*_passes(setup), *_hiding(setup), *_gradients(setup, now), *_placed(setup, fabric)):
        yield what, "job", {key: str(value) for key, value in values.items()}, other, fabric


Candidate = tuple[str, dict[str, Any], Setup]


def _passes(setup: Setup) -> Iterator[Candidate]:
    for instead in ("none", "selective"):
        if setup.recompute == "full" or (setup.recompute == "selective" and instead == "none"):
            yield f"recompute {instead}", {"recompute": instead}, setup._replace(recompute=instead)


def _hiding(setup: Setup) -> Iterator[Candidate]:
    layout, overlap = setup.layout, setup.overlap
    if layout.tp > 1 and not layout.sp:
        yield "sequence parallelism", {"layout.sp": "true"}, setup._replace(layout=layout._replace(sp=True))
    if layout.tp > 1 and layout.sp and not overlap.tp:
        yield "TP behind split GEMMs", {"overlap.tp": "true"}, setup._replace(overlap=overlap._replace(tp=True))
    if layout.dp * layout.cp > 1 and not overlap.dp:
        yield "gradients behind the backward pass", {"overlap.dp": "true"}, setup._replace(overlap=overlap._replace(dp=True))
    if layout.pp > 1 and not overlap.pp:
        yield "pipeline borders behind compute", {"overlap.pp": "true"}, setup._replace(overlap=overlap._replace(pp=True))


def _gradients(setup: Setup, now: Step) -> Iterator[Candidate]:
    shard = setup.shard
    sent = [one.call for one in now.last.sent if one.call.dimension == "dp" and one.call.per == "step"]
    largest = max((call.bytes for call in sent), default=0.0)
    if largest and not shard.layers:
        for word, bucket in (("larger", WIDER * largest), ("smaller", largest / WIDER)):
            yield (
                f"{word} buckets",
                {"shard.bucket": f"{bucket / 1e6:.6g}MB"},
                setup._replace(shard=shard._replace(bucket=bucket)),
            )
    if shard.mode == "ddp" and setup.layout.dp > 1:
        yield "optimizer states sharded", {"shard.mode": "zero1"}, setup._replace(shard=shard._replace(mode="zero1"))
    if shard.grad_bytes == 4:
        fewer = setup._replace(shard=shard._replace(grad_bytes=2), precision=setup.precision._replace(grads="bf16"))
        yield "gradients in 16 bits", {"shard.grad_bytes": 2, "precision.grads": "bf16"}, fewer


def _placed(setup: Setup, fabric: Fabric) -> Iterator[Candidate]:
    """TP no wider than the innermost domain: its ranks go to the replicas."""
    layout, inside = setup.layout, fabric.tiers[0].endpoints
    if layout.tp > inside and layout.tp % inside == 0 and layout.order[0] == "tp":
        dp = layout.dp * layout.tp // inside
        other = layout._replace(tp=inside, dp=dp, etp=min(layout.etp, inside))
        yield f"TP inside {fabric.tiers[0].name}", {"layout.tp": inside, "layout.dp": dp}, setup._replace(layout=other)
