"""Logs of nccl-tests of machines that have a known ailment: prices of the machine as it ails,
printed as the benchmark prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import colltool
from colltool.base.primitives import busbw_factor, parse_primitive

H100 = "NVIDIA H100 80GB HBM3"
NAMES = (
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time"
    "   algbw   busbw  #wrong"
)
PROGRAMS = {
    "ar": "all_reduce",
    "ag": "all_gather",
    "rs": "reduce_scatter",
    "a2a": "alltoall",
    "p2p": "sendrecv",
}
RUNS = {"ar": (), "ag": (), "rs": (), "a2a": ("direct", "pairwise"), "p2p": ()}
SMALL = [2.0**k for k in range(10, 17, 2)]
LARGE = [2.0**k for k in range(26, 32)]
Time = Callable[[str, float], float]


def time_on(
    fabric: str = "dgx-h100",
    ranks: int = 8,
    set_: Sequence[str] = (),
    only: Mapping[str, str] | None = None,
) -> Time:
    """Seconds of a call on a fabric with other values, or of the one algorithm that is left
    there."""
    held = colltool.load_fabric(fabric, list(set_))

    def seconds(primitive: str, size: float) -> float:
        names = (only or {}).get(primitive, ()) or RUNS[primitive]
        return min(
            row.total_s
            for row in colltool.price(
                held, primitive, ranks=ranks, size=size, algorithms=names
            ).leading
        )

    return seconds


def log(
    path: Path,
    time: Time,
    primitives: Sequence[str] = ("ar",),
    sizes: Sequence[float] = (*SMALL, *LARGE),
    *,
    ranks: int = 8,
    device: str = H100,
) -> Path:
    """Write a log of these collectives, eight ranks a host, and say where."""
    lines: list[str] = []
    for primitive in primitives:
        lines += [
            f"# Collective test starting: {PROGRAMS[primitive]}_perf",
            "# nThread 1 nGpus 1 minBytes 8 maxBytes 64",
        ]
        lines += [
            f"#  Rank {rank:2d} Group  0 Pid {70 + rank} on node{rank // 8} device  {rank % 8}"
            f" [0000:1b:00] {device}"
            for rank in range(ranks)
        ]
        lines += [
            NAMES,
            *(_row(primitive, size, time(primitive, size) * 1e6, ranks) for size in sizes),
        ]
        lines += [
            "# Out of bounds values : 0 OK",
            f"# Collective test concluded: {PROGRAMS[primitive]}_perf",
            "",
        ]
    path.write_text("\n".join(lines))
    return path


def _row(primitive: str, size: float, us: float, ranks: int) -> str:
    factor = busbw_factor(parse_primitive(primitive), ranks)
    half = f"  {us:.4f}  {size / us / 1e3:.4f}  {size / us / 1e3 * factor:.4f}  0"
    return f"{size:.0f}  {size / 4:.0f}  float  sum  -1{half}{half}"
