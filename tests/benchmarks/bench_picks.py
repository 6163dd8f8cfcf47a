"""Whether the kernel that colltool names is the one that an engine's rules name, at every limit.

    python tests/benchmarks/bench_picks.py [FILE.csv.gz]

The rules are written here once more, as the engines' sources have them and not as colltool's files do:
vllm-project/vllm all_reduce_utils.py, symm_mem.py and allreduce_rms_fusion.py, sgl-project/sglang
custom_all_reduce.py and custom_all_reduce_v2.py, NVIDIA/TensorRT-LLM ops.py and
customAllReduceUtils.h, flashinfer trtllm_mnnvl_ar.py. Asked are all versions, GPUs and numbers of ranks at
each limit of the rules, 16 B below and above it, and at a size that is no multiple of 16 B.

Rows (by default tests/data/inference/engines.csv) say it in another way: where another kernel's time is a
quarter away from the picked one's, the nearer one is taken for what ran.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice
from math import log
from pathlib import Path
from typing import NamedTuple

from bench_engines import OVERRIDES, read_file
from fit_engines import FABRICS, EngineRow, engine_rows

from colltool.base.errors import ColltoolError
from colltool.engines.files import NCCL as NCCL_NAME
from colltool.engines.lookup import find_library
from colltool.engines.price import nccl_estimate, price_kernels
from colltool.fabric.load import load_fabric

KIB, MIB = 1024, 2**20
SM90 = ("h100", "h200")
SM100 = ("b200", "gb200")
SM103 = ("b300", "gb300")
NVLINK = ("a100-80gb", *SM90, *SM100, *SM103)
PCIE = ("l40s", "rtx-pro-6000")
TRAYS = ("gb200", "gb300")
NCCL = frozenset({NCCL_NAME})


class Call(NamedTuple):
    """A call of an engine."""

    engine: str
    version: str
    gpu: str
    ranks: int
    bytes: int

    @property
    def hosts(self) -> int:
        on_each = 4 if self.gpu in TRAYS else 8
        return -(-self.ranks // on_each)


def by_gpu(gpu: str, sm90: int, sm100: int, sm103: int) -> int:
    """The limit of a GPU's generation; 0 of others."""
    if gpu in SM90:
        return sm90
    if gpu in SM100:
        return sm100
    return sm103 if gpu in SM103 else 0


def version_1(call: Call, last: int, *, included: bool) -> str | None:
    """The custom all-reduce of vLLM, which SGLang took over: one-shot or two-shot, or not at all."""
    whole = call.bytes % 16 == 0 and call.ranks in (2, 4, 6, 8) and call.hosts == 1
    if call.gpu in PCIE and call.ranks > 2:
        return None
    if not whole or call.bytes > last or (call.bytes == last and not included):
        return None
    if call.ranks == 2:
        return "custom one-shot"
    return (
        "custom one-shot"
        if call.bytes < (512 if call.ranks <= 4 else 256) * KIB
        else "custom two-shot"
    )


VLLM_CUSTOM = {  # MiB for 2, 4, 6 and 8 ranks
    2: (64, 2, 4),
    4: (32, 2, 4),
    6: (0.5, 1, 4),
    8: (0.25, 1, 4),
}
VLLM_SYMM_MEM = {2: (64, 8, 4), 4: (32, 32, 32), 6: (64, 128, 64), 8: (64, 128, 64)}
VLLM_FLASHINFER = {2: (64, 64, 64), 4: (2, 32, 64), 8: (0.5, 1, 4), 16: (0, 64, 64)}


def vllm(call: Call) -> frozenset[str]:
    minor = int(call.version.split(".")[1])
    if minor >= 29 and call.ranks in VLLM_FLASHINFER:
        most = by_gpu(call.gpu, *(int(limit * MIB) for limit in VLLM_FLASHINFER[call.ranks]))
        if call.bytes <= most:
            return frozenset({f"flashinfer {mnnvl(call)}"})
    last = 8 * MIB
    if minor >= 18 and call.ranks in VLLM_CUSTOM and call.gpu not in ("a100-80gb", *PCIE):
        last = min(last, by_gpu(call.gpu, *(int(limit * MIB) for limit in VLLM_CUSTOM[call.ranks])))
    custom = version_1(call, last, included=False)
    if custom:
        return frozenset({custom})
    if minor >= 18 and call.ranks in VLLM_SYMM_MEM and call.bytes % 4 == 0:
        most = by_gpu(call.gpu, *(limit * MIB for limit in VLLM_SYMM_MEM[call.ranks]))
        if call.bytes < most or (call.bytes == most and most and minor >= 20):
            multimem = call.ranks >= (4 if call.gpu in SM90 else 6)
            return frozenset({f"symm_mem {'multimem' if multimem else 'two-shot'}"})
    return NCCL


def sglang(call: Call) -> frozenset[str]:
    if call.version != "0.5.14" or call.gpu in ("a100-80gb", *PCIE):
        custom = version_1(call, 8 * MIB, included=True)
        return frozenset({custom}) if custom else NCCL
    if call.hosts > 1 or call.bytes % 16:
        return NCCL
    pushes = {2: (2 * MIB, 4 * MIB), 4: (384 * KIB, 2 * MIB), 8: (160 * KIB, 720 * KIB)}
    hopper, blackwell = pushes[2 if call.ranks == 2 else 4 if call.ranks <= 4 else 8]
    if call.bytes <= by_gpu(call.gpu, hopper, blackwell, blackwell):
        return frozenset({"push one-shot"})
    if call.bytes <= 16 * MIB:
        return frozenset({"pull one-shot" if call.ranks == 2 else "pull two-shot"})
    return NCCL


def mnnvl(call: Call) -> str:
    return "one-shot" if call.ranks * call.bytes <= MIB else "two-shot"


def trtllm(call: Call) -> frozenset[str]:
    if call.gpu in PCIE:
        return NCCL
    if call.hosts > 1:
        built = call.ranks in (2, 4, 8, 16, 32, 64)
        return frozenset({f"mnnvl {mnnvl(call)}"}) if built else NCCL
    if call.gpu == "a100-80gb":
        # by the rows of 1.0.0: as long as NCCL's from here on
        first_by_nccl = 2 * MIB if call.ranks == 2 else MIB
        return frozenset({"one-shot"}) if call.bytes < first_by_nccl else NCCL
    if call.bytes <= (16_000_000 if call.ranks == 2 else 8_000_000):
        four_hopper = call.gpu in SM90 and call.ranks == 4
        if call.version == "1.2.0rc5" and four_hopper:
            return frozenset({"two-shot" if call.bytes >= 64 * KIB else "one-shot"})
        if call.version.startswith("1.3") and four_hopper and call.bytes <= MIB:
            return frozenset({"one-shot"})
        return frozenset({"one-shot", "two-shot"})
    last = 32 * MIB if call.ranks > 4 else 16 * MIB
    if call.version.startswith("1.3") and call.gpu in (*SM100, *SM103) and call.bytes <= last:
        return frozenset({"nccl symmetric"})
    return NCCL


def flashinfer(call: Call) -> frozenset[str]:
    built = call.ranks in (2, 4, 8, 16, 32, 64)
    return frozenset({f"mnnvl {mnnvl(call)}"}) if built else NCCL


RULES = {"vllm": vllm, "sglang": sglang, "trtllm": trtllm, "flashinfer": flashinfer}
VERSIONS = {
    "vllm": ("0.14.0", "0.18.0", "0.19.0", "0.24.0", "0.27.0", "0.29"),
    "sglang": ("0.5.9", "0.5.10", "0.5.14"),
    "trtllm": ("1.0.0", "1.2.0rc5", "1.3.0rc10", "1.3.0rc20"),
    "flashinfer": ("2026.8",),
}
LIMITS = (
    *(KIB * size for size in (16, 32, 64, 128, 160, 256, 384, 512, 720)),
    *(MIB * size for size in (1, 2, 4, 8, 16, 32, 64, 128)),
    8_000_000,
    16_000_000,
)


def calls(engine: str, version: str) -> Iterator[Call]:
    """Every limit on every GPU and number of ranks, and the sizes around it."""
    gpus = TRAYS if engine == "flashinfer" else (*NVLINK, *PCIE)
    for gpu in gpus:
        for ranks in (2, 4, 6, 8, *((12, 16, 32, 64, 72) if gpu in TRAYS else ())):
            for limit in LIMITS:
                for size in (limit - 16, limit, limit + 16, limit + 2):
                    yield Call(engine, version, gpu, ranks, size)


def picked(call: Call) -> str:
    """colltool's pick; ``refused`` where it has no number for it."""
    fabric = load_fabric(FABRICS[call.gpu], OVERRIDES.get(call.gpu, ()))
    try:
        library = find_library(f"{call.engine}@{call.version}")
        found = price_kernels(library, fabric, "all_reduce", call.bytes, call.ranks)
    except ColltoolError:
        return "refused"
    assert found.library is not None
    return found.library.kernel


class Checked(NamedTuple):
    call: Call
    rule: frozenset[str]
    pick: str

    @property
    def right(self) -> bool:
        return self.pick in self.rule


def checked(every: int = 1) -> list[Checked]:
    """Calls, or one of ``every`` so many, by their engine's rule and by colltool; those left out that
    colltool refuses."""
    found = []
    for engine, versions in VERSIONS.items():
        for version in versions:
            for call in islice(calls(engine, version), 0, None, every):
                pick = picked(call)
                if pick != "refused":
                    found.append(Checked(call, RULES[engine](call), pick))
    return found


def ran_as_picked(row: EngineRow) -> bool | None:
    """Whether a row's time is nearer to the picked kernel's than to any other's, NCCL's among them;
    None where no other is a quarter away from it."""
    fabric = load_fabric(FABRICS[row.gpu], OVERRIDES.get(row.gpu, ()))
    library = find_library(f"{row.engine}@{row.version}")
    found = price_kernels(library, fabric, "all_reduce", row.bytes, row.ranks)
    assert found.library is not None
    times = {one.kernel: one.total_s for one in found.results}
    times.setdefault(NCCL_NAME, nccl_estimate(fabric, row.ranks, row.bytes).total_s)
    picked_s = times[found.library.kernel]
    others = [time for time in times.values() if abs(log(time / picked_s)) > log(1.25)]
    if not others:
        return None
    off = abs(log(picked_s * 1e6 / row.us))
    return off <= min(abs(log(time * 1e6 / row.us)) for time in others)


def main() -> None:
    rows = engine_rows() if len(sys.argv) < 2 else read_file(Path(sys.argv[1]))
    every = checked()
    by: dict[str, list[bool]] = defaultdict(list)
    wrong: Counter[tuple[str, ...]] = Counter()
    for one in every:
        by[f"{one.call.engine} {one.call.version}"].append(one.right)
        if not one.right:
            key = (one.call.engine, one.call.version, one.call.gpu, f"{one.call.ranks} ranks")
            wrong[*key, f"{one.pick} for {' or '.join(sorted(one.rule))}"] += 1
    print("picks by the engines' rules, at every limit:")
    for name, right in by.items():
        print(f"  {name:22} {sum(right) / len(right):7.2%} of {len(right)}")
    right = [one.right for one in every]
    print(f"  {'all':22} {sum(right) / len(right):7.2%} of {len(right)}")
    for key, count in wrong.most_common(60):
        print(f"  wrong, {count:3}: {', '.join(key)}")
    print("picks by the measured time, where another kernel is a quarter away:")
    measured: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        if row.mode == "graph" and row.gpu in FABRICS and not row.ill:
            right_one = ran_as_picked(row)
            if right_one is not None:
                measured[f"{row.engine} {row.version}"].append(right_one)
    for name, nearer in sorted(measured.items()):
        print(f"  {name:22} {sum(nearer) / len(nearer):7.2%} of {len(nearer)}")
    total = [one for several in measured.values() for one in several]
    print(f"  {'all':22} {sum(total) / len(total):7.2%} of {len(total)}")


if __name__ == "__main__":
    main()
