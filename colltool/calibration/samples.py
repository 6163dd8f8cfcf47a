"""Measured series and the costs of the algorithms there, as the arrays that a fit takes.

A :class:`Member` is one series of a fit; :func:`sample_of` joins the members' points under a number
of components: one per protocol, and one for the switch where it competes with other algorithms.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from colltool.calibration.algorithm_costs import AlgorithmCosts
from colltool.calibration.envelope import Labels, Sample
from colltool.calibration.least_squares import Array, Prior
from colltool.calibration.series_prices import sizes_of
from colltool.libraries.nccl.hardware import Hardware
from colltool.libraries.nccl.names import PROTOCOL_NAMES, UNKNOWN_SEGMENT, protocol_of
from colltool.logs.series import Series

# Protocols of one fit: as many as NCCL has.
MOST_PROTOCOLS = 3
# Points that one protocol needs at least.
_POINTS_PER_PROTOCOL = 3
# The component of in-switch reduction.
SWITCH = "switch"

_T = TypeVar("_T")


class Member(NamedTuple):
    """One series of a fit: its used points and the costs of the algorithms.

    Args:
        used: a mask of the series' points.
        inner: the costs under each protocol of the inner tiers, by name.
        hardware: what NCCL ran on; None for other libraries or where facts are missing.
        unlikely: (algorithms, points), what the library would not have run there; None if unknown.
    """

    series: Series
    used: NDArray[np.bool_]
    costs: tuple[AlgorithmCosts, ...]
    inner: Mapping[str, tuple[AlgorithmCosts, ...]]
    hardware: Hardware | None
    unlikely: NDArray[np.bool_] | None = None

    @property
    def sizes(self) -> Array:
        """The sizes of all points of the series, bytes."""
        return np.array(sizes_of(self.series))

    @property
    def seconds(self) -> Array:
        """The measured times of all points."""
        return np.array([point.seconds for point in self.series.points])

    @property
    def switched(self) -> NDArray[np.bool_]:
        """Which algorithms run in the switch."""
        return np.array([cost.switched for cost in self.costs])

    @property
    def competing(self) -> bool:
        """Whether in-switch reduction competes with other algorithms."""
        return bool(self.switched.any() and not self.switched.all())

    def of_algorithms(self, places: Labels) -> "Member":
        """The member with the algorithms at these places; one may be repeated."""
        return self._replace(
            costs=at_places(self.costs, places),
            inner={name: at_places(costs, places) for name, costs in self.inner.items()},
            unlikely=None if self.unlikely is None else self.unlikely[places],
        )


def at_places(values: Sequence[_T], places: Labels) -> tuple[_T, ...]:
    """The values at these indices."""
    return tuple(values[place] for place in places)


def placeholder_names(count: int) -> tuple[str, ...]:
    """Names of a fit's protocols before they are identified, small sizes first."""
    return tuple(f"{UNKNOWN_SEGMENT}{number}" for number in range(1, count + 1))


def most_protocols(points: int) -> int:
    """The most protocols that this number of points can separate."""
    return max(1, min(MOST_PROTOCOLS, points // _POINTS_PER_PROTOCOL))


def component_names(members: Sequence[Member], names: Sequence[str]) -> list[str]:
    """One component per protocol, plus one for in-switch reduction where it competes with other
    algorithms."""
    if any(member.competing for member in members):
        return [*names, SWITCH]
    return list(names)


def sample_of(members: Sequence[Member], names: Sequence[str], prior: Prior) -> Sample:
    """The used points of all members under protocols of these names. Members have the same
    algorithms, or as many of them in a joint fit."""
    components = component_names(members, names)
    # protocols run what is not in the switch, or all if all is; the switch has a component of its own
    allowed = np.tile(~members[0].switched | members[0].switched.all(), (len(components), 1))
    if SWITCH in components:
        allowed[-1] = members[0].switched
    # costs are the same under all components where no inner tier lists several protocols
    has_inner_choice = any(len(member.inner) > 1 for member in members)
    # member by member, with the shapes of Sample
    seconds = []
    sizes = []
    x = []
    offsets = []
    unlikely = []
    for member in members:
        size = member.sizes[member.used]
        seconds.append(member.seconds[member.used])
        sizes.append(size)
        ones = np.ones_like(size)
        # coefficients of launch overhead, α, M/BW and M/copy: a ring of 8 at 1 MB has 1, 14, 1.75e6
        # and 0.125e6
        terms = np.array(
            [(1.0, cost.n_alpha, cost.n_beta, cost.own_share) for cost in member.costs]
        )
        x.append(terms[:, None] * np.stack([ones, ones, size, size], axis=1))
        costs_by_component = [member.costs]
        if has_inner_choice:
            costs_by_component = _costs_by_component(member, components)
        offset_by_component = []
        # seconds of the other tiers, (algorithms, points) for each component
        for costs in costs_by_component:
            base = np.array([(cost.base_s, cost.base_s_per_byte) for cost in costs])
            offset_by_component.append(base[:, :1] + base[:, 1:] * size)
        offsets.append(np.stack(offset_by_component))
        if member.unlikely is not None:
            unlikely.append(member.unlikely[:, member.used])
    return Sample(
        seconds=np.concatenate(seconds),
        sizes=np.concatenate(sizes),
        x=np.concatenate(x, axis=1),
        offset=np.concatenate(offsets, axis=2),
        allowed=allowed,
        prior=prior,
        unlikely=np.concatenate(unlikely, axis=1) if len(unlikely) == len(members) else None,
    )


def _costs_by_component(
    member: Member, components: Sequence[str]
) -> list[tuple[AlgorithmCosts, ...]]:
    """The costs under each component.

    A call uses one protocol on all tiers, so inner tiers run under the protocol of the same name;
    segments without a name map to the inner tiers' protocols in order.
    """
    if len(member.inner) < 2:
        return [member.costs] * len(components)
    names = list(member.inner)
    # without the switch, which runs under the last one
    count = len(components) - (SWITCH in components)
    return [
        member.inner[name_inside(name, min(place, count - 1), count, names)]
        for place, name in enumerate(components)
    ]


def name_inside(name: str, place: int, count: int, inner: Sequence[str]) -> str:
    """The inner tiers' protocol in use under the ``place``-th of ``count`` protocols of the tier
    under test."""
    if name in inner and not name.startswith(UNKNOWN_SEGMENT):
        return name
    # a part of a protocol runs under the whole one inside
    whole_protocol = PROTOCOL_NAMES.get(protocol_of(name))
    if whole_protocol is not None and whole_protocol in inner:
        return whole_protocol
    # in order: over two inner protocols, three of this tier run under 0, 0 and 1
    last = len(inner) - 1
    return inner[last * place // (count - 1) if count > 1 else last]
