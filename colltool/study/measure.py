"""The measurement that tells one number of a fabric: the command line of nccl-tests or of the OSU micro-benchmarks."""

from __future__ import annotations

from colltool.fabric.model import Fabric
from colltool.fabric.topology import kind_of
from colltool.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive

_TESTS = {AR: "all_reduce_perf", AG: "all_gather_perf", RS: "reduce_scatter_perf", A2A: "alltoall_perf", BC: "broadcast_perf",
          REDUCE: "reduce_perf", P2P: "sendrecv_perf"}  # fmt: skip
_OSU = {AR: "osu_allreduce", AG: "osu_allgather", RS: "osu_reduce_scatter", A2A: "osu_alltoall", BC: "osu_bcast",
        REDUCE: "osu_reduce", P2P: "osu_latency"}  # fmt: skip
_LATENCIES = frozenset({"alpha", "alpha_switch", "launch_overhead"})


def experiment(fabric: Fabric, primitive: Primitive, key: str, ranks: int) -> str:
    """What to run to know a number: small messages for what is paid a message, large ones for rates.

    Inside the innermost tier all of its ranks on one host; for a tier between hosts as many of them as a group of ``ranks`` has,
    one rank each, so that nothing else is in the way. Empty where no such tool runs: on links without a library of messages.
    """
    parts = key.split(".")
    tier = next((index for index, one in enumerate(fabric.tiers) if one.name == parts[0]), len(fabric.tiers) - 1)
    if kind_of(fabric.tiers[tier]).axes:
        return ""
    small = parts[-1] in _LATENCIES and parts[-2:] != ["eta", "beta"]
    sizes = ["-b", "8", "-e", "64K"] if small else ["-b", "256M", "-e", "4G"]
    sizes += ["-f", "2", "-g"]
    inside = fabric.tiers[0].endpoints
    hosts = max(2, -(-ranks // inside))
    library = fabric.library_facts.name if fabric.library_facts else "all"
    if library == "mpi":
        span = "8:65536" if small else "268435456:4294967296"
        count = min(ranks, inside) if tier == 0 else hosts
        spread = [] if tier == 0 else ["-N", "1"]
        return " ".join(["mpirun", "-np", str(count), *spread, _OSU[primitive], "-m", span])
    test = f"./build/{_TESTS[primitive]}"
    if tier == 0:
        return " ".join([test, *sizes, str(min(ranks, inside))])
    return " ".join(["mpirun", "-np", str(hosts), "-N", "1", test, *sizes, "1"])
