"""Published times of weight syncs against colltool's: as shipped, with numbers fitted to one half of
the rows asked of the other, and with a whole source left out.

    python tests/benchmarks/bench_syncs.py [--fit]

Rows: tests/data/weight_syncs.csv. ``--fit`` prints each way's numbers as fitted to all its rows, which
colltool/serving/data/ways.toml has: few rows of one source show a number badly, so that each is
pulled towards what ways take in common, the less the more ways differ in it. Two rows of verl's
PR 6974 (58.1 and 63.7 s, before the change that the PR makes) are not in the table.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from math import exp, hypot, log
from pathlib import Path
from statistics import median
from typing import NamedTuple

import colltool
from colltool.fabric.model import Fabric
from colltool.serving.reshard import ReshardWay, reshard
from colltool.serving.syncs import SyncedWeights, SyncLaw, sync_laws

ROWS = Path(__file__).parent.parent / "data" / "weight_syncs.csv"
WIDTHS = {"bf16": 2.0, "fp8": 1 + 4 / 128**2}
"""Bytes of a weight; fp8 with a scale for each block of 128 x 128."""
# what ways take in common, and the sigma of the logarithm of that between ways
USUAL = {
    "start_s": (0.5, 1.0),
    "expert_us": (100.0, 1.6),
    "layer_us": (3000.0, 1.0),
    "load_GBps": (100.0, 1.4),
    "quantized_us": (400.0, 1.0),
}
# what one sigma counts, in rows that are off by a factor of e; by sources left out
PULL = 0.25
# errors below this share are alike
SMALL = 0.1
# Ways whose weights the same code of the same engine takes, which pauses it and loads them alike.
SAME_RECEIVER = (
    ("checkpoint-engine", "checkpoint-engine-p2p"),
    ("verl-sglang", "delta"),
    ("mooncake", "one root"),
    ("pairs", "m2n"),
)
OF_RECEIVER = ("start_s", "load_GBps")
FITTED = ("start_s", "expert_us", "quantized_us", "rank_us", "layer_us", "load_GBps")


class Row(NamedTuple):
    """A published sync; ``half`` is ``fit`` or ``kept``."""

    source: str
    way: str
    model: str
    weights: SyncedWeights
    fabric: str
    senders: int
    receivers: int
    replica: int
    seconds: float
    half: str


@cache
def rows() -> tuple[Row, ...]:
    found = []
    with ROWS.open(encoding="utf-8", newline="") as file:
        for one in csv.DictReader(file):
            plain = int(one["dense_layers"])
            experts = (int(one["layers"]) - plain) * int(one["experts"])
            size = float(one["gigaparameters"]) * 1e9 * WIDTHS[one["dtype"]]
            row = Row(
                source=one["source"],
                way=one["way"],
                model=one["model"],
                weights=SyncedWeights(size, experts, plain, one["dtype"] != "bf16"),
                fabric=one["fabric"],
                senders=int(one["senders"]),
                receivers=int(one["receivers"]),
                replica=int(one["replica"]),
                seconds=float(one["seconds"]),
                half=one["half"],
            )
            found.append(row)
    return tuple(found)


@cache
def fabric_of(name: str) -> Fabric:
    return colltool.load_fabric(name)


@cache
def shipped(row: Row) -> ReshardWay:
    """The row as colltool prices it."""
    meshes = (row.senders, row.receivers, row.replica)
    return reshard(row.model, row.weights, fabric_of(row.fabric), *meshes, way=row.way).best


def predicted(law: SyncLaw, row: Row) -> float:
    """Seconds by a law of other numbers: the wire is the schedule's."""
    ranks = row.senders + row.receivers if law.schedule != "broadcast" else row.receivers
    return shipped(row).wire_s + sum(law.times(row.weights, ranks))


def fitted(law: SyncLaw, several: list[Row]) -> SyncLaw:
    """The law with the numbers that it has, moved until no move is better."""
    for name in FITTED:
        if getattr(law, name) and name in USUAL:
            law = law._replace(**{name: USUAL[name][0]})

    def off(one: SyncLaw) -> float:
        wrong = sum(hypot(log(predicted(one, row) / row.seconds), SMALL) for row in several)
        for name, (usual, sigma) in USUAL.items():
            if getattr(one, name):
                wrong += PULL * (log(getattr(one, name) / usual) / sigma) ** 2
        return wrong

    named = [name for name in FITTED if getattr(law, name)]
    least = off(law)
    for step in (4.0, 2.0, 1.3, 1.1, 1.03):
        better = True
        while better:
            better = False
            # all at once: one number may have to fall where another rises
            for factors in product((1 / step, 1.0, step), repeat=len(named)):
                moved = {
                    name: getattr(law, name) * factor
                    for name, factor in zip(named, factors, strict=True)
                }
                other = law._replace(**moved)
                if off(other) < least - 1e-9:
                    law, least, better = other, off(other), True
    return law


class Miss(NamedTuple):
    """How far off a row is, and whether its interval holds it."""

    row: Row
    off: float
    inside: bool

    @classmethod
    def of(cls, law: SyncLaw, row: Row) -> Miss:
        off = log(predicted(law, row) / row.seconds)
        return cls(row, off, abs(off) <= log(law.within))


def summary(misses: Sequence[Miss]) -> str:
    """The median error, and how many are within a factor of 1.5 and within their intervals."""
    factor = exp(median(abs(miss.off) for miss in misses))
    near = sum(abs(miss.off) < log(1.5) for miss in misses) / len(misses)
    inside = sum(miss.inside for miss in misses) / len(misses)
    return (
        f"{len(misses):3} rows, median x{factor:.2f}, within 1.5: {near:4.0%}, inside {inside:4.0%}"
    )


def held_out(apart: Callable[[Row], str], only: str = "") -> list[Miss]:
    """Rows by laws fitted to those that are not in the same part; ``only``: of this part."""
    misses = []
    for part in sorted({apart(row) for row in rows()}):
        for law in sync_laws():
            own = [row for row in rows() if row.way == law.way]
            known = [row for row in own if apart(row) != part]
            unseen = [row for row in own if apart(row) == part]
            if known and unseen and only in ("", part):
                other = fitted(law, known)
                misses += [Miss.of(other, row) for row in unseen]
    return misses


def ways_left_out() -> list[Miss]:
    """Rows of ways that one source alone has: what the receiving engine takes by another way into it,
    the rest by the numbers that ways have in common."""
    laws = {law.way: law for law in sync_laws()}
    misses = []
    for law in laws.values():
        own = [row for row in rows() if row.way == law.way]
        if len({row.source for row in own}) != 1:
            continue
        unseen = fitted(law._replace(rank_us=0.0), [])
        for pair in SAME_RECEIVER:
            if law.way in pair:
                other = laws[pair[1 - pair.index(law.way)]]
                for name in OF_RECEIVER:
                    if getattr(law, name) and getattr(other, name):
                        unseen = unseen._replace(**{name: getattr(other, name)})
        misses += [Miss.of(unseen, row) for row in own]
    return misses


def as_shipped() -> list[Miss]:
    laws = {law.way: law for law in sync_laws()}
    return [Miss.of(laws[row.way], row) for row in rows()]


def main() -> None:
    if "--fit" in sys.argv:
        for law in sync_laws():
            own = [row for row in rows() if row.way == law.way]
            best = fitted(law, own) if own else law
            numbers = [
                f"{name} {getattr(best, name):.4g}" for name in FITTED if getattr(best, name)
            ]
            print(f"{law.way:22} {', '.join(numbers)}")
        return
    misses = as_shipped()
    print("as shipped")
    for law in sync_laws():
        own = [miss for miss in misses if miss.row.way == law.way]
        if own:
            print(f"  {law.way:22} {summary(own)}")
    print(f"  {'all':22} {summary(misses)}")
    for half in ("fit", "kept"):
        print(f"  {half:22} {summary([miss for miss in misses if miss.row.half == half])}")
    print("fitted anew")
    print(f"  {'one half of the other':22} {summary(held_out(lambda row: row.half, 'kept'))}")
    print(f"  {'a source left out':22} {summary(held_out(lambda row: row.source))}")
    print(f"  {'a model left out':22} {summary(held_out(lambda row: row.model))}")
    alone = ways_left_out()
    print(f"  {'a way left out':22} {summary(alone)}")
    offs = sorted(abs(miss.off) for miss in alone)
    print(f"  nine in ten of ways left out are within x{exp(offs[int(0.9 * len(offs))]):.1f}")
    print("as shipped, off by more than 1.5")
    for row, off, _ in misses:
        if abs(off) > log(1.5):
            name = f"{row.source:18} {row.way:16} {row.model:18}"
            print(f"  {name} {row.seconds:7.3g} s  x{exp(off):.2f}")


if __name__ == "__main__":
    main()
