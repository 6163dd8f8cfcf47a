"""Command lines of nccl-tests and the OSU micro-benchmarks that measure one number of a fabric:
:func:`experiment` for a number by its key, :func:`command_line` for a collective and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from colltool.base.primitives import (
    A2A,
    AG,
    AR,
    BC,
    NCCL_TESTS,
    P2P,
    REDUCE,
    RS,
    Primitive,
    ceil_div,
)
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of

# The OSU micro-benchmark of each collective.
_OSU = {
    AR: "osu_allreduce",
    AG: "osu_allgather",
    RS: "osu_reduce_scatter",
    A2A: "osu_alltoall",
    BC: "osu_bcast",
    REDUCE: "osu_reduce",
    P2P: "osu_latency",
}


class BenchmarkSizes(NamedTuple):
    """A range of sizes as options of nccl-tests and of OSU."""

    nccl: str
    osu: str


# Sizes that latency alone decides, and those that bandwidth alone does.
SMALL_SIZES = BenchmarkSizes("-b 8 -e 64K -f 2", "8:65536")
LARGE_SIZES = BenchmarkSizes("-b 256M -e 4G -f 2", "268435456:4294967296")
# Fields of a fabric file that are latencies.
_LATENCIES = frozenset({"alpha", "alpha_switch", "post", "launch_overhead"})


def experiment(fabric: Fabric, primitive: Primitive, key: str, ranks: int) -> str:
    """The benchmark that measures a number: small messages for latencies, large ones for
    bandwidths.

    The innermost tier is measured on one host, other tiers with one rank per host so that nothing
    else is in the way; a domain of the innermost tier counts as a host, be it a rack. Empty for
    lattices, where no such tool runs.
    """
    parts = key.split(".")
    names = [tier.name for tier in fabric.tiers]
    # a number of the whole fabric, such as its launch overhead, counts as one of the outermost tier
    position = names.index(parts[0]) if parts[0] in names else len(names) - 1
    if capabilities_of(fabric.tiers[position]).axes:
        return ""
    is_latency = parts[-1] in _LATENCIES
    sizes = SMALL_SIZES if is_latency else LARGE_SIZES
    mpi = fabric.library_name == "mpi"
    inside = fabric.tiers[0].endpoints
    if position == 0:
        return command_line(primitive, sizes, min(ranks, inside), mpi=mpi)
    hosts = max(2, ceil_div(ranks, inside))
    return command_line(primitive, sizes, hosts, hosts, mpi=mpi)


def command_line(
    primitive: Primitive,
    sizes: BenchmarkSizes,
    ranks: int,
    hosts: int = 1,
    *,
    mpi: bool = False,
    settings: Mapping[str, str] | None = None,
) -> str:
    """A run of nccl-tests, or of OSU with ``mpi``, on ``ranks`` in all, as many on each host.

    On one host a single process of nccl-tests drives all GPUs, on several there is one a GPU.
    ``settings``: the environment, of nccl-tests only: OSU runs without.

    Raises:
        KeyError: no such test for the primitive.
    """
    launcher = ["mpirun", "-np", str(ranks)]
    if hosts > 1:
        launcher += ["-N", str(ranks // hosts)]
    if mpi:
        return " ".join([*launcher, _OSU[primitive], "-m", sizes.osu])
    test = f"./build/{NCCL_TESTS[primitive]}"
    variables = [f"{name}={value}" for name, value in (settings or {}).items()]
    if hosts == 1:
        return " ".join([*variables, test, sizes.nccl, "-g", str(ranks)])
    for variable in variables:
        launcher += ["-x", variable]
    return " ".join([*launcher, test, sizes.nccl, "-g", "1"])
