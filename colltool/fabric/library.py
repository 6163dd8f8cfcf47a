"""The keys ``library``, ``device`` and ``prices`` of a fabric: what runs on it and what its cost
model needs of the hardware, what is at its ends, and what its parts cost and draw.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import product
from math import log2
from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema, field_validator, model_validator

from colltool.algorithms.libraries import LibraryName
from colltool.algorithms.registry import parse_choice
from colltool.base.errors import ColltoolError, nearest_and_all
from colltool.definitions import field_types as ft
from colltool.definitions.field_types import (
    FieldError,
    FieldErrors,
    FieldHint,
    Part,
    listed_name,
    raise_errors,
)
from colltool.fabric.media import DEVICES
from colltool.fabric.tier_parts import MeasuredRange, check_algorithm
from colltool.libraries.nccl.topology.kinds import KINDS

_REACHED = FieldHint("a mapping such as {algorithm: ring, primitives: [all_reduce], share: 0.9}")
_REACHED_ON = FieldHint("a mapping such as {nodes: 64, share: 0.8}")
_TOOK = FieldHint("a mapping such as {ranks: 64, size: 16MiB, time: 0.3ms}")
_MEASURED = FieldHint("a mapping such as {smallest: 512MiB, largest: 16GiB, ranks: [1440]}")
_CHANNELS = FieldHint(
    "a mapping such as {ring: {channels: 12, inside: 30GB/s}}, or a list of them with gpus and nodes"
)
_GROUP = FieldHint("a mapping such as {gpus: 8, nodes: 1, ring: {channels: 12, inside: 30GB/s}}")
_TYPES = FieldHint("two types of paths as NCCL prints them, such as NVL/PXN")
_PATTERN = FieldHint("a number from 1 to 6, as NCCL prints it")
_GRAPH = FieldHint("a mapping such as {channels: 8, inside: 48GB/s, across: 48GB/s}")
_EACH = FieldHint(
    "a price such as 600, or with its power such as {price: 600, draws: 12W}", short_for="price"
)
_PROTOCOLS = FieldHint("a list of names of protocols, such as [Simple]")
_NAMES = Field(min_length=1, max_length=ft.MAX_LISTED)

ChannelCount = Annotated[
    int, Field(ge=1, le=64, strict=True), FieldHint("a whole number from 1 to 64")
]
# 2.30, 2.31.2, 2.31.0a7, 2.30.7-1
VERSION = r"^\d{1,4}\.\d{1,4}(\.\d{1,4})?([-+a-z][-+.a-z0-9]{0,20})?$"
Version = Annotated[
    str,
    Field(pattern=VERSION),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": VERSION}, {"type": "number"}]}),
    FieldHint("a version of the library, such as 2.30 or 2.31.2", "text"),
]


_PATH_TYPES = rf"^({'|'.join(KINDS)})/({'|'.join(KINDS)})$"


class LibraryGraph(Part):
    """The channels of one pattern, as NCCL prints them: their number and the rate of one inside and
    between nodes.

    ``type``: of the paths between GPUs and to NICs; ``pattern``: 3 of a tree with all traffic of a NIC
    through one GPU; ``same``: all channels visit the GPUs in one order; ``latency``: of the NICs, as their
    plugin tells it. What is left out is as usual for the GPUs.
    """

    channels: ChannelCount
    inside: ft.Bandwidth
    across: ft.Bandwidth | None = None
    type: Annotated[str, Field(pattern=_PATH_TYPES), _TYPES] | None = None
    pattern: Annotated[int, Field(ge=1, le=6, strict=True), _PATTERN] | None = None
    same: ft.Flag | None = None
    latency: ft.Overhead | None = None

    @property
    def types(self) -> tuple[str, str] | None:
        """The types of the paths between GPUs and to NICs, ``("NVL", "PXN")`` of ``NVL/PXN``; None if not
        stated."""
        if self.type is None:
            return None
        inside, _, across = self.type.partition("/")
        return inside, across


class LibraryChannels(Part):
    """Graphs that replace those colltool derives; ``total``: channels of a communicator."""

    ring: Annotated[LibraryGraph | None, _GRAPH] = None
    tree: Annotated[LibraryGraph | None, _GRAPH] = None
    nvls: Annotated[LibraryGraph | None, _GRAPH] = None
    collnet: Annotated[LibraryGraph | None, _GRAPH] = None
    total: ChannelCount | None = None


class GroupChannels(LibraryChannels):
    """The graphs of groups with ``gpus`` on each of their nodes: on one node, or, with ``nodes: 2``, on
    two or more."""

    gpus: ft.Count
    nodes: Annotated[int, Field(ge=1, le=2, strict=True), FieldHint("1, or 2 for two or more")]


class EfficiencyAt(Part):
    """The share reached on this many nodes."""

    nodes: ft.Count
    share: ft.Fraction


class MeasuredTime(Part):
    """Measured time of a call beyond its bytes, latencies and launch, at a size on a number of
    ranks."""

    ranks: ft.Count
    size: ft.Size
    time: ft.Overhead


class Efficiency(Part):
    """What a library's schedule reaches of its modelled bandwidth, as published or measured;
    nothing under the ideal reading.

    ``algorithm`` as ``--algorithm`` takes it, or several; that of one tier also counts inside a
    composition, on the innermost.
    ``share`` is a number, or one by nodes: between two of them by the logarithm, beyond them the
    nearest. Beside its bytes a call of M takes ``startup``, ``startup_per_rank`` for each rank, and
    for each ``rise_per_rank`` times sqrt(M / 1 GB): the slow rise of a bandwidth with size; inside
    the sizes and ranks of ``measured``, held beyond them. ``software`` lists measured times
    instead: straight between two sizes, by the logarithm between two rank counts, the nearest
        beyond them. ``protocols``: under
    which it was measured; default: all. Of several figures that fit, the first with a share and the
    first with times count.
    """

    algorithm: Annotated[
        ft.AlgorithmName | Annotated[tuple[ft.AlgorithmName, ...], _NAMES],
        FieldHint("an algorithm, such as ring, or a list such as [ring, multi-rail-ring]"),
    ]
    primitives: ft.PrimitiveNames
    protocols: Annotated[tuple[ft.Name, ...] | None, _NAMES, _PROTOCOLS] = None
    share: Annotated[
        ft.Fraction
        | Annotated[
            tuple[Annotated[EfficiencyAt, _REACHED_ON], ...],
            Field(min_length=1, max_length=ft.MAX_LISTED),
        ],
        FieldHint(
            "a number from 0.000001 to 1, or a list such as [{nodes: 4, share: 1}, {nodes: 64,"
            " share: 0.8}]"
        ),
    ] = 1.0
    startup: ft.Overhead | None = None
    startup_per_rank: ft.Overhead | None = None
    rise_per_rank: ft.Overhead | None = None
    measured: Annotated[MeasuredRange | None, _MEASURED] = None
    software: Annotated[
        tuple[Annotated[MeasuredTime, _TOOK], ...],
        Field(max_length=ft.MAX_LISTED),
        FieldHint("a list such as [{ranks: 64, size: 16MiB, time: 0.3ms}]"),
    ] = ()

    @property
    def algorithms(self) -> tuple[str, ...]:
        """``algorithm`` as a tuple, even where the file gives one name."""
        return (self.algorithm,) if isinstance(self.algorithm, str) else self.algorithm

    @property
    def takes_time(self) -> bool:
        """Whether a call takes time beside its bytes."""
        return bool(self.startup or self.startup_per_rank or self.rise_per_rank or self.software)

    @field_validator("algorithm")
    @classmethod
    def _algorithm_parses(cls, names: str | tuple[str, ...]) -> str | tuple[str, ...]:
        """Refuse what is no choice of an algorithm."""
        for name in (names,) if isinstance(names, str) else names:
            parse_choice(name)
        return names

    @model_validator(mode="after")
    def _algorithm_exists(self) -> Efficiency:
        """Refuse an algorithm that one of the primitives does not have."""
        for primitive, algorithm in product(self.primitives, self.algorithms):
            try:
                check_algorithm(primitive, algorithm)
            except ColltoolError as error:
                raise FieldErrors(FieldError(error.what, error.fix, ("algorithm",))) from error
        return self

    @field_validator("software")
    @classmethod
    def _times_differ(cls, software: tuple[MeasuredTime, ...]) -> tuple[MeasuredTime, ...]:
        """Refuse two times of the same ranks and size."""
        if len({(row.ranks, row.size) for row in software}) < len(software):
            raise ValueError("the same ranks and size stand twice")
        return software

    def measured_times(self) -> dict[int, tuple[tuple[float, float], ...]]:
        """Return the measured (bytes, seconds) by rank count; ranks and sizes ascend."""
        times: dict[int, tuple[tuple[float, float], ...]] = {}
        for row in sorted(self.software, key=lambda row: (row.ranks, row.size)):
            times[row.ranks] = (*times.get(row.ranks, ()), (row.size, row.time))
        return times

    def share_on(self, nodes: int) -> float:
        """Return the share reached on this many nodes: between two stated numbers of nodes it is a straight
        line over their logarithm, beyond them the nearest."""
        if isinstance(self.share, float):
            return self.share
        # (nodes, share)
        points = sorted((point.nodes, point.share) for point in self.share)
        after = bisect_right(points, nodes, key=lambda point: point[0])
        # how many points have no more nodes: none, or all
        if after in (0, len(points)):
            return points[max(after - 1, 0)][1]
        low, low_share = points[after - 1]
        high, high_share = points[after]
        # of the way from the lower to the higher point, 0 to 1
        part = log2(nodes / low) / log2(high / low)
        return low_share + (high_share - low_share) * part


class LibraryFacts(Part):
    """A library by name, with the facts that its cost model needs.

    ``version``: its numbers and rules, default 2.30 for NCCL. ``nics`` of a node, default: one per
    GPU; ``collnet``:
    NCCL_COLLNET_ENABLE with a plugin, default: off; ``nvls``: NCCL_NVLS_ENABLE, default: on;
    ``link`` between the GPUs of a node,
    default: NVLink. ``gpudirect``: NICs read and write the GPUs' memory, default: they do but over
        TCP sockets; ``p2p``: cards in
    PCIe slots read each other's memory. ``reached``: published or measured shares of the modelled
    bandwidth.
    """

    name: LibraryName
    version: Version | None = None
    gpu: Literal["volta", "ampere", "hopper", "blackwell"] | None = None
    cpu: Literal["intel", "amd", "arm"] | None = None
    link: Literal["nvlink", "pci"] | None = None
    nics: ft.Count | None = None
    collnet: ft.Flag | None = None
    nvls: ft.Flag | None = None
    gpudirect: ft.Flag | None = None
    p2p: ft.Flag | None = None
    channels: Annotated[
        LibraryChannels
        | Annotated[
            tuple[Annotated[GroupChannels, _GROUP], ...],
            Field(min_length=1, max_length=ft.MAX_LISTED),
        ]
        | None,
        _CHANNELS,
    ] = None
    reached: Annotated[
        tuple[Annotated[Efficiency, _REACHED], ...],
        Field(max_length=ft.MAX_LISTED),
        FieldHint("a list such as [{algorithm: ring, primitives: [all_reduce], share: 0.9}]"),
    ] = ()


FabricLibrary = Annotated[
    LibraryName | LibraryFacts | None,
    FieldHint(
        'nccl, rccl, mpi, xla, mscclpp or all, or a mapping such as {name: nccl, version: "2.30",'
        " gpu: hopper, cpu: intel}"
    ),
]

DeviceName = Annotated[
    str,
    listed_name("device", DEVICES, "; or leave device out, and the job says it"),
    WithJsonSchema({"enum": list(DEVICES)}),
    FieldHint("the name of a device, such as h100", "text"),
]

PARTS = ("switch", "cable", "optic", "nic")


class PartPrice(Part):
    """What one part costs and the power it draws; not given is unknown, not zero."""

    price: ft.Money | None = None
    draws: ft.Watts | None = None


class Prices(Part):
    """What the parts of a network cost; no prices ship with colltool.

    ``switch``, ``cable``, ``optic`` and ``nic`` are each. A cable has an optic at both ends, but
    for those that enter the levels (or tiers) of ``copper``. ``tiers`` are those that are bought by
    the piece; without it all but the innermost, which is inside a node or rack. ``power`` is what
    energy costs, ``years`` how long it runs.
    """

    currency: ft.Currency
    switch: Annotated[ft.Money | PartPrice | None, _EACH] = None
    cable: Annotated[ft.Money | PartPrice | None, _EACH] = None
    optic: Annotated[ft.Money | PartPrice | None, _EACH] = None
    nic: Annotated[ft.Money | PartPrice | None, _EACH] = None
    power: ft.EnergyPrice | None = None
    years: (
        Annotated[
            float, Field(gt=0, le=100, strict=True), FieldHint("a number of years, such as 4")
        ]
        | None
    ) = None
    copper: (
        Annotated[
            tuple[ft.Name, ...], _NAMES, FieldHint("a list of levels or tiers, such as [leaf]")
        ]
        | None
    ) = None
    tiers: (
        Annotated[tuple[ft.Name, ...], _NAMES, FieldHint("a list of tiers, such as [ib]")] | None
    ) = None

    def of(self, part: str) -> PartPrice | None:
        """Return the price of one of :data:`PARTS`; None if none is stated."""
        stated: float | PartPrice | None = getattr(self, part)
        return PartPrice(price=stated) if isinstance(stated, float) else stated

    def check_names(self, tiers: Sequence[str], levels: Sequence[str]) -> None:
        """Raise errors for names in ``tiers`` and ``copper`` that the fabric does not have."""
        places = [*tiers, *levels]
        raise_errors(
            [*_unknown("tiers", self.tiers, tiers), *_unknown("copper", self.copper, places)]
        )


def _unknown(key: str, stated: Sequence[str] | None, names: Sequence[str]) -> Iterator[FieldError]:
    """An error for each name under a key of ``prices`` that is none of the fabric's."""
    for index, name in enumerate(stated or ()):
        if name not in names:
            fix = nearest_and_all(name, names)
            yield FieldError(f"there is no '{name}'", fix, ("prices", key, index))
