"""What NCCL's trees take to fill between nodes: time beside bytes and steps that rises with the
chunks, up to full ones.

A chunk grows with the call until it is as large as NCCL's buffers allow; the first must have passed
the whole tree before bytes flow at full rate. So what is missing rises with the size and then
stays, on every network that was measured.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate
from math import log
from statistics import median
from typing import Any, NamedTuple

import fit_across
from fit_across import Hop
from measured_rows import Row, rows
from scipy.optimize import least_squares

import colltool
from colltool.fabric.yaml_writer import OneLine

Data = dict[str, Any]

NVLS_TREE = "hierarchical:in-network/double-binary-tree"
FILLED = {"dgx-h100": ("nccl-tests-309a", "nccl-tests-309b"), "dgx-b200": ("lambda-b200-2n",)}
"""Tables that show what NVLSTree takes to fill, by fabric."""
_NVLS_TREE_SHARE = ((2, 0.88), (4, 1.0))
_FILL_SIZES = tuple(2**power for power in range(20, 29))
_FILLED_SAID = (
    "What NVLSTree takes beside its bytes while chunks fill the tree: the median of %s"
    " (tests/data/measured), never falling; two nodes of Hopper keep 0.88 of the NICs"
    " (NVIDIA/nccl-tests issue 309)"
)
Fill = Sequence[tuple[int, float]]
"""Bytes and seconds."""


def filling(
    bases: dict[str, Data],
    sources: Collection[str],
    without: Collection[str] = (),
    hop: Hop | None = None,
) -> Fill:
    """What NVLSTree takes beside its bytes, by size: it rises with the chunks, up to full ones."""
    missing: dict[int, list[float]] = {size: [] for size in _FILL_SIZES}
    for name, data in bases.items():
        nvls = [_nvls_tree(name)]
        fabric = fit_across.loaded(
            fit_across.with_hop(
                data | {"library": data["library"] | {"reached": nvls}}, hop or Hop()
            ),
            [],
        )[""]
        for row in fit_across.fit_rows([name], without):
            if row.source.source_id in sources and row.bytes in missing:
                priced = colltool.price(
                    fabric, "all_reduce", size=row.bytes, ranks=row.ranks, algorithms=NVLS_TREE
                ).best
                missing[row.bytes].append(row.time_s - float(priced.total_s))
    # what is left below 4 MiB is another protocol's
    found = [
        (size, max(median(times), 0.0) if size >= 4 * 2**20 else 0.0)
        for size, times in missing.items()
        if times
    ]
    return list(
        zip(
            (size for size, _ in found),
            accumulate((seconds for _, seconds in found), max),
            strict=True,
        )
    )


def _nvls_tree(name: str) -> Data:
    share = fit_across.by_nodes(*_NVLS_TREE_SHARE) if name != "dgx-b200" else 1.0
    return {"algorithm": NVLS_TREE, "primitives": ["all_reduce"], "share": share}


def filled(name: str, fill: Fill) -> Data:
    """What NVLSTree reaches, as a fabric file has it."""
    took = [
        OneLine(ranks=16, size=f"{size}B", time=f"{seconds * 1e6:.4g}us") for size, seconds in fill
    ]
    return _nvls_tree(name) | {"software": took, "source": {"software": "see the library's file"}}


_TREE = "hierarchical:ring/double-binary-tree"
_TREE_FILL_SAID = (
    "What a tree takes beside its bytes while chunks fill it, the median of alps-gh200 and"
    " cscs-gh200 (tests/data/measured): of each rank count no more than at any larger size, so that"
    " a hump of one machine does not stand"
)
_TREE_SIZES = tuple(2**power for power in range(18, 28))
TreeFill = Sequence[tuple[int, int, float]]
"""Ranks, bytes and seconds."""


def tree_filling(data: Data, hop: Hop, without: Collection[str] = ()) -> TreeFill:
    """What a tree takes beside its bytes by ranks and size, where a tree is what NCCL runs."""
    fabric = fit_across.loaded(fit_across.with_hop(data, hop), [])[""]
    missing: dict[int, dict[int, list[float]]] = {}
    for row in fit_across.fit_rows(["gh200"], without):
        if row.bytes in _TREE_SIZES and row.ranks > data["tiers"][0]["size"]:
            priced = fit_across.picked(fabric, row)
            if priced.spec == _TREE:
                missing.setdefault(row.ranks, {}).setdefault(row.bytes, []).append(
                    row.time_s - float(priced.total_s)
                )
    found = []
    for ranks, by_size in sorted(missing.items()):
        # a ring from there on: nothing larger tells a hump from the tree
        if max(by_size) < 4 * 2**20:
            continue
        times = [(size, max(median(several), 0.0)) for size, several in sorted(by_size.items())]
        least = list(accumulate((seconds for _, seconds in reversed(times)), min))[::-1]
        found += [(ranks, _TREE_SIZES[0] // 2, 0.0)]
        found += [(ranks, size, seconds) for (size, _), seconds in zip(times, least, strict=True)]
    return found


def tree_filled(fill: TreeFill) -> Data:
    took = [
        OneLine(ranks=ranks, size=f"{size}B", time=f"{seconds * 1e6:.4g}us")
        for ranks, size, seconds in fill
    ]
    return {
        "algorithm": _TREE,
        "primitives": ["all_reduce"],
        "software": took,
        "source": {"software": _TREE_FILL_SAID},
    }


def _tree_table(fill: TreeFill) -> Data:
    took = [
        {"ranks": ranks, "size": size, "time": float(f"{seconds:.4g}")}
        for ranks, size, seconds in fill
    ]
    entry = {
        "media": ("slingshot",),
        "gpus": ("hopper", "ampere"),
        "algorithm": [_TREE],
        "primitives": ["all_reduce"],
    }
    return entry | {"software": took, "source": _TREE_FILL_SAID}


_RACK_SHARES = ((2, 0.88), (20, 0.45))
RACK_SOURCES = ("oke-gb200-2racks", "coreweave-2racks", "oci-gb200-2")
_RACK_FILL_SAID = (
    "What NVLSTree takes beside its bytes over racks of NVL72, the median of oke-gb200-2racks,"
    " coreweave-2racks and oci-gb200-2 (tests/data/measured), never falling; 20 racks"
    " (coreweave/nccl-tests pull request 48) take 4.67 ms + M / 213 GB/s, of which smaller sizes"
    " are given the same part as on two racks"
)
_RACK_SIZES = (2**10, 2**16, 2**20, 2**23, 2**25, 2**27, 2**29)
_RACKS_START_S = 4.5e-3
"""Of 1440 ranks at the largest sizes, beside what a step takes."""


def racks_filling(data: Data, without: Collection[str] = ()) -> TreeFill:
    """What NVLSTree takes beside its bytes over racks, by ranks and size."""
    way = {
        "algorithm": NVLS_TREE,
        "primitives": ["all_reduce"],
        "share": fit_across.by_nodes(*_RACK_SHARES),
    }
    reached = data | {"library": data["library"] | {"reached": [way]}}
    missing: dict[int, list[float]] = {}
    for row in fit_across.fit_rows(["nvl72"], without):
        if (
            row.source.source_id in RACK_SOURCES
            and row.collective == "all_reduce"
            and row.ranks == 128
        ):
            fabric = fit_across.loaded(fit_across.with_hop(reached, Hop()), [row])[row.source.set]
            priced = colltool.price(
                fabric, "all_reduce", size=row.bytes, ranks=row.ranks, algorithms=NVLS_TREE
            ).best
            missing.setdefault(row.bytes, []).append(row.time_s - float(priced.total_s))
    sizes = [size for size in _RACK_SIZES if size in missing]
    least = accumulate((max(median(missing[size]), 0.0) for size in sizes), max)
    two = list(zip(sizes, least, strict=True))
    if not two:  # the sources were left out
        return []
    return [
        *((128, size, seconds) for size, seconds in two),
        *((1440, size, seconds / two[-1][1] * _RACKS_START_S) for size, seconds in two),
    ]


def racks_filled(fill: TreeFill) -> Data:
    return tree_filled(fill) | {"algorithm": NVLS_TREE, "share": fit_across.by_nodes(*_RACK_SHARES)}


def _racks_table(fill: TreeFill) -> Data:
    shares = [{"nodes": nodes, "share": share} for nodes, share in _RACK_SHARES]
    entry = {
        "media": ("ib", "roce"),
        "gpus": fit_across.RACKS,
        "algorithm": [NVLS_TREE],
        "primitives": ["all_reduce"],
        "share": shares,
    }
    took = [
        {"ranks": ranks, "size": size, "time": float(f"{seconds:.4g}")}
        for ranks, size, seconds in fill
    ]
    return entry | {"software": took, "source": _RACK_FILL_SAID}


NVLS = "in-network"
_SWITCHED = {"nvl72": 72, "gb300-nvl72": 72, "dgx-b200": 8}
"""Fabrics whose all-reduces in NVSwitch fill alike, and the GPUs that one joins: eight B200 of a box
take what eight GB300 of two trays do, within 3% from 32 to 512 MiB."""
_SWITCH_LEAST = 32 * 2**20
"""Below it the start shows, of which layer 3 knows that of four ranks alone."""
_SWITCH_RANKS = (8, 16, 32, 72)
_SWITCH_BYTES = tuple(4**power for power in range(8, 15))  # of a rank
_SWITCH_SAID = (
    "What NVLS takes beside its bytes inside a rack: %s us a rank, half of it at %s MB a rank, fitted"
    " to %s (tests/data/measured). NCCL splits a call into a chunk for each rank and channel and"
    " doubles the chunk, from 16 to 128 KiB, at so many bytes a rank (src/enqueue.cc), so that 64"
    " ranks need eight times the message of eight"
)


class SwitchFill(NamedTuple):
    """What NVLS takes beside its bytes: seconds a rank at the largest messages, the bytes a rank
    that take half of it, and the sources that say so."""

    most_s: float
    half_bytes: float
    sources: tuple[str, ...] = ()

    def seconds(self, ranks: int, size: float) -> float:
        share = size / ranks
        return ranks * self.most_s * share / (share + self.half_bytes)

    def table(self) -> list[tuple[int, int, float]]:
        """Ranks, bytes and seconds; the four ranks of a tray, from which layer 3 is, take none."""
        found = [(4, _SWITCH_BYTES[0] * 4, 0.0)]
        for ranks in _SWITCH_RANKS:
            sizes = [share * ranks for share in _SWITCH_BYTES]
            found += [(ranks, size, self.seconds(ranks, size)) for size in sizes]
        return found


def switch_filling(data: Data, without: Collection[str] = ()) -> SwitchFill | None:
    """What NVLS takes to fill inside a rack; ``data``: of nvl72, without it. None where no row is
    left."""
    fabric = fit_across.loaded(data, [])[""]
    found: list[tuple[Row, float]] = []
    for row in rows():
        if _fills_switches(row) and row.source.source_id not in without:
            priced = colltool.price(
                fabric, "all_reduce", size=row.bytes, ranks=row.ranks, algorithms=NVLS
            ).best
            found.append((row, float(priced.total_s)))
    if not found:
        return None

    def errors(law: Sequence[float]) -> list[float]:
        fill = SwitchFill(law[0] * 1e-6, law[1] * 1e6)
        return [
            log((priced_s + fill.seconds(row.ranks, row.bytes)) / row.time_s)
            for row, priced_s in found
        ]

    law = least_squares(errors, (10.0, 4.0), bounds=((0.0, 0.1), (50.0, 100.0))).x
    sources = tuple(dict.fromkeys(row.source.source_id for row, _ in found))
    return SwitchFill(float(f"{law[0]:.3g}") * 1e-6, float(f"{law[1]:.3g}") * 1e6, sources)


def _fills_switches(row: Row) -> bool:
    """Whether a row is an all-reduce in the switches that shows the fill."""
    return (
        8 <= row.ranks <= _SWITCHED.get(row.source.fabric, 0)
        and row.role == "fit"
        and row.collective == "all_reduce"
        and not row.algorithm
        and row.bytes >= _SWITCH_LEAST
    )


def switch_filled(fill: SwitchFill) -> Data:
    """The fill as a fabric file has it."""
    return tree_filled(fill.table()) | {"algorithm": NVLS}


def _switch_table(fill: SwitchFill) -> Data:
    took = [
        {"ranks": ranks, "size": size, "time": float(f"{seconds:.4g}")}
        for ranks, size, seconds in fill.table()
    ]
    said = f"{fill.most_s * 1e6:.3g}", f"{fill.half_bytes / 1e6:.3g}", ", ".join(fill.sources)
    return {
        "media": ("nvlink5", "ib", "roce"),
        "gpus": ("gb200", "gb300"),
        "algorithm": [NVLS],
        "primitives": ["all_reduce"],
        "software": took,
        "source": _SWITCH_SAID % said,
    }


class Fills(NamedTuple):
    """What schedules take to fill: NVLSTree on InfiniBand and RoCE, on EFA and over racks; a tree
    on Slingshot; NVLS inside a rack."""

    network: Fill
    efa: Fill
    slingshot: TreeFill
    racks: TreeFill
    switch: SwitchFill | None

    def entries(self) -> list[Data]:
        """As the library's file has them; the first that fits counts."""
        known = ", ".join(source for several in FILLED.values() for source in several)
        return [
            *_filled_tables(("efa",), self.efa, "aws-p5-efa"),
            *_filled_tables(("ib", "roce"), self.network, known),
            _tree_table(self.slingshot),
            _racks_table(self.racks),
            *([_switch_table(self.switch)] if self.switch else []),
        ]


def _filled_tables(media: tuple[str, ...], fill: Fill, sources: str) -> list[Data]:
    took = [{"ranks": 16, "size": size, "time": float(f"{seconds:.4g}")} for size, seconds in fill]
    shares = [{"nodes": nodes, "share": share} for nodes, share in _NVLS_TREE_SHARE]
    entry = {
        "algorithm": [NVLS_TREE],
        "primitives": ["all_reduce"],
        "software": took,
        "source": _FILLED_SAID % sources,
    }
    return [
        {"media": media, "gpus": ("hopper",), **entry, "share": shares},
        {"media": media, "gpus": ("b200", "b300"), **entry},
    ]
