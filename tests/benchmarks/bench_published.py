"""How near prices are to what others published: every row of ``tests/data/published.csv``, and how many are within 12% and 35%.

    python tests/benchmarks/bench_published.py [--role check|source|all] [--set FABRIC:KEY=VALUE ...] [--rows]

A row is priced as what the fabric's library picks, where that is known, else as the fastest that it runs; or as the algorithm
that the row says was forced. Rows of role ``source`` are what a shipped fabric's own coefficient was read from; they check the
arithmetic, not the model.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import colltool

ROWS = Path(__file__).parent.parent / "data" / "published.csv"

PRIMITIVE = {"alltoall": "all_to_all"}
WITHIN = (0.12, 0.35)


class Judged(NamedTuple):
    """One published row and its price; ``ratio`` is priced over published bandwidth, or published over priced time."""

    row: dict[str, str]
    algorithm: str
    priced: float
    published: float
    ratio: float

    @property
    def off(self) -> float:
        """Relative error of the priced bandwidth."""
        return abs(self.ratio - 1)


def rows(role: str) -> list[dict[str, str]]:
    """The published rows of a role, or ``all``."""
    with ROWS.open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if role in ("all", row["role"])]


def judge(row: dict[str, str], extra: dict[str, list[str]]) -> Judged:
    """Price one row."""
    fabric = colltool.load_fabric(row["fabric"], overrides=[*row["set"].split(), *extra.get(row["fabric"], ())])
    primitive, size, ranks = PRIMITIVE.get(row["collective"], row["collective"]), float(row["bytes"]), int(row["ranks"])
    names = (row["algorithm"],) if row["algorithm"] else ()
    found = colltool.price(fabric, primitive, size=size, ranks=ranks, algorithms=names)
    best = found.best
    if not names and found.library is not None and found.library.runs is not None:
        best = found.library.runs
    if row["time_us"]:
        priced, published = float(best.total_s) * 1e6, float(row["time_us"])
        return Judged(row, best.title, priced, published, published / priced)
    priced, published = float(best.busbw_Bps) / 1e9, float(row["busbw_GBps"])
    return Judged(row, best.title, priced, published, priced / published)


def share(judged: list[Judged]) -> str:
    """How many are within each bound."""
    counts = (f"{sum(one.off <= bound for one in judged)} within {bound:.0%}" for bound in WITHIN)
    return f"{len(judged)} rows: {', '.join(counts)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--role", choices=("check", "source", "all"), default="all")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="FABRIC:KEY=VALUE")
    parser.add_argument("--rows", action="store_true", help="print every row")
    given = parser.parse_args()
    extra: dict[str, list[str]] = defaultdict(list)
    for one in given.overrides:
        fabric, _, override = one.partition(":")
        extra[fabric].append(override)
    judged = [judge(row, extra) for row in rows(given.role)]
    if given.rows:
        for one in judged:
            unit = "us" if one.row["time_us"] else "GB/s"
            what = f"{one.row['source_id']:24} {one.row['hardware']:34} {one.row['collective']:14} {int(one.row['bytes']):>12}"
            print(f"{what} {one.published:9.4g} {one.priced:9.4g} {unit:4} {one.ratio:5.2f} {one.row['role']:6} {one.algorithm}")
    groups: dict[str, list[Judged]] = defaultdict(list)
    for one in judged:
        where = "1 node" if one.row["nodes"] == "1" else "several nodes"
        size = "below 128 MiB" if int(one.row["bytes"]) < 128 * 2**20 else "large"
        groups[f"{one.row['fabric']}, {where}, {size}"].append(one)
    for name, several in groups.items():
        print(f"{name}: {share(several)}")
    for role in ("check", "source"):
        print(f"role {role}: {share([one for one in judged if one.row['role'] == role])}")
    print(f"all: {share(judged)}")


if __name__ == "__main__":
    main()
