"""Measured series and the costs of the algorithms there, as the arrays that a fit takes."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.calibration.algorithm_costs import AlgorithmCosts
from colltool.calibration.envelope import Prior, Sample
from colltool.libraries.nccl.hardware import Hardware
from colltool.libraries.nccl.rules import SEGMENT, SPOKEN, protocol_of
from colltool.logs.series import Series

MOST_PROTOCOLS = 3
SWITCH = "switch"


class Member(NamedTuple):
    """One series of a fit: its used points and the costs of the algorithms.

    ``inner``: the costs under each protocol of the inner tiers, by name. ``on``: the hardware NCCL
    ran on; None for other libraries or where facts are missing. ``unlikely``: (algorithms, points),
    what the library would not have run there; None if unknown.
    """

    series: Series
    used: NDArray[np.bool_]
    costs: tuple[AlgorithmCosts, ...]
    inner: Mapping[str, tuple[AlgorithmCosts, ...]]
    on: Hardware | None
    unlikely: NDArray[np.bool_] | None = None

    @property
    def switched(self) -> NDArray[np.bool_]:
        return np.array([cost.switched for cost in self.costs])


def placeholder_names(count: int) -> tuple[str, ...]:
    """Names of a fit's protocols before they are identified, small sizes first."""
    return tuple(f"{SEGMENT}{number}" for number in range(1, count + 1))


def components(members: Sequence[Member], names: Sequence[str]) -> list[str]:
    """One component per protocol, plus one for in-switch reduction where it competes with other
    algorithms."""
    for member in members:
        switched = member.switched
        if switched.any() and not switched.all():
            return [*names, SWITCH]
    return list(names)


def sample_of(
    members: Sequence[Member], names: Sequence[str], prior: Prior, *, everything: bool = False
) -> Sample:
    """The used points of all members, or every point, under protocols of these names."""
    parts = components(members, names)
    switched = members[0].switched
    wired = ~switched | switched.all()
    allowed = [switched if name == SWITCH else wired for name in parts]
    samples = []
    for member in members:
        taken = member.used | everything
        points = member.series.points
        size = np.array([point.bytes for point in points])[taken]
        alike = np.ones_like(size)
        terms = np.array([cost.terms for cost in member.costs])
        offset = []
        for costs in _costs_by_component(member, parts):
            base = np.array([cost.base for cost in costs])
            offset.append(base[:, :1] + base[:, 1:] * size)
        samples.append(
            Sample(
                seconds=np.array([point.seconds for point in points])[taken],
                sizes=size,
                x=terms[:, None] * np.stack([alike, alike, size, size], axis=1),
                offset=np.stack(offset),
                allowed=np.stack(allowed),
                prior=prior,
                unlikely=None if member.unlikely is None else member.unlikely[:, taken],
            )
        )
    return _joined(samples)


def _joined(samples: Sequence[Sample]) -> Sample:
    """All points of several samples; whose members' offsets differ by component, all are widened to
    as many components."""
    components = max(len(sample.offset) for sample in samples)
    offsets = []
    unlikely = []
    for sample in samples:
        offsets.append(np.broadcast_to(sample.offset, (components, *sample.offset.shape[1:])))
        if sample.unlikely is not None:
            unlikely.append(sample.unlikely)
    return samples[0]._replace(
        seconds=np.concatenate([sample.seconds for sample in samples]),
        sizes=np.concatenate([sample.sizes for sample in samples]),
        x=np.concatenate([sample.x for sample in samples], axis=1),
        offset=np.concatenate(offsets, axis=2),
        unlikely=np.concatenate(unlikely, axis=1) if len(unlikely) == len(samples) else None,
    )


def _costs_by_component(member: Member, parts: Sequence[str]) -> list[tuple[AlgorithmCosts, ...]]:
    """The costs by component: a call uses one protocol on all tiers, so inner tiers run under the
    protocol of the same name; unnamed segments map to the inner tiers' protocols in order."""
    if len(member.inner) < 2:
        return [member.costs]
    names = list(member.inner)
    count = len(parts) - (SWITCH in parts)
    found = []
    for place, name in enumerate(parts):
        found.append(member.inner[name_inside(name, min(place, count - 1), count, names)])
    return found


def name_inside(name: str, place: int, count: int, inner: Sequence[str]) -> str:
    """The inner tiers' protocol in use under the ``place``-th of ``count`` protocols of the tier
    under test."""
    if name in inner and not name.startswith(SEGMENT):
        return name
    # a part of a protocol runs under the whole one inside
    whole = SPOKEN.get(protocol_of(name))
    if whole is not None and whole in inner:
        return whole
    last = len(inner) - 1
    return inner[last * place // (count - 1) if count > 1 else last]


def most_protocols(points: int) -> int:
    """The most protocols that so many points can tell apart."""
    return max(1, min(MOST_PROTOCOLS, points // 3))
