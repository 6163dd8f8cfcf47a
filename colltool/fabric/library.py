"""The key ``library`` of a fabric: what runs on it, and what that library's own cost model needs of the hardware."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from colltool.fabric.accepted import Accepted
from colltool.fabric.values import Bandwidth, Count, Flag, Part

LibraryName = Literal["nccl", "rccl", "mpi", "xla", "mscclpp", "all"]

_CHANNELS = Accepted("a mapping such as {ring: {channels: 12, inside: 30GB/s}}")
_GRAPH = Accepted("a mapping such as {channels: 8, inside: 48GB/s, across: 48GB/s}")

ChannelCount = Annotated[int, Field(ge=1, le=64, strict=True), Accepted("a whole number from 1 to 64")]
Version = Annotated[
    str, Field(pattern=r"^\d{1,4}\.\d{1,4}$"), Accepted('a version of the library in quotes, such as "2.30"', "text")
]


class LibraryGraph(Part):
    """The channels of one pattern, as NCCL prints them: how many, and the rate of one inside a node and between nodes."""

    channels: ChannelCount
    inside: Bandwidth
    across: Bandwidth | None = None


class LibraryChannels(Part):
    """Graphs in place of those that colltool derives; ``total`` is the number of channels of a communicator."""

    ring: Annotated[LibraryGraph | None, _GRAPH] = None
    tree: Annotated[LibraryGraph | None, _GRAPH] = None
    nvls: Annotated[LibraryGraph | None, _GRAPH] = None
    collnet: Annotated[LibraryGraph | None, _GRAPH] = None
    total: ChannelCount | None = None


class Library(Part):
    """A library by name, with the facts that its cost model needs.

    ``nics`` of a node, where it is not one for each GPU; ``collnet``: NCCL_COLLNET_ENABLE with a plugin, off by default;
    ``nvls``: NCCL_NVLS_ENABLE, on by default; ``link``: what joins the GPUs of a node, NVLink by default.
    """

    name: LibraryName
    version: Version | None = None
    gpu: Literal["volta", "ampere", "hopper", "blackwell"] | None = None
    cpu: Literal["intel", "amd", "arm"] | None = None
    link: Literal["nvlink", "pci"] | None = None
    nics: Count | None = None
    collnet: Flag | None = None
    nvls: Flag | None = None
    channels: Annotated[LibraryChannels | None, _CHANNELS] = None


FabricLibrary = Annotated[
    LibraryName | Library | None,
    Accepted('nccl, rccl, mpi, xla, mscclpp or all, or a mapping such as {name: nccl, version: "2.30", gpu: hopper, cpu: intel}'),
]
