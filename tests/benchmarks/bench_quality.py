"""How well a calibration predicts what it has not seen, on a CSV of measurements: four medians over
series.

    python tests/benchmarks/bench_quality.py MEASURED.CSV [--fabric PART=FABRIC]... [--each]

Columns: source_id, hardware, nodes, ranks, collective, bytes, time_us. Each source is fitted on its
    own, on the fabric whose
PART its hardware contains: a generic one of a few machines unless given, never a calibrated one.

- one node, unseen sizes: a series fitted to every other size, judged on the rest, both ways round;
- across nodes, unseen sizes: the same, on the sizes before the first cliff (a message that is 15%
  faster than a smaller one, or 35% slower than in proportion);
- more ranks: a collective fitted on 2 and 4 ranks of one node, judged on 8;
- more nodes: fitted on 2 nodes, judged on 8, at the sizes before the cliffs of both.
"""

from __future__ import annotations

import argparse
import csv
import io
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import colltool
from colltool.base.errors import ColltoolError
from colltool.logs.read import read_logs
from colltool.logs.series import Measurements, Point, Series

FEWEST = 6
"""Sizes that a series needs to be split in two."""

WORST_DROP, WORST_RISE = 0.85, 1.35


def _pod(
    name: str, link: str, alpha: str, nic: str, launch: str, library: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Nodes of four accelerators, each with a share of a NIC, behind one network: datasheet numbers
    alone."""
    inside = {"name": "nvlink", "topology": "star", "size": 4, "alpha": alpha, "bandwidth": link}
    outside = {"name": "net", "topology": "clos", "size": 512, "bandwidth": nic}
    levels = [{"name": "leaf", "group": 512, "alpha": "5us"}]
    tiers = [inside, outside | {"levels": levels}]
    return {
        "schema": "colltool.fabric/1",
        "name": name,
        "tiers": tiers,
        "launch_overhead": launch,
    } | ({"library": dict(library)} if library else {})


FABRICS: dict[str, Any] = {
    "Cray MPICH": _pod("polaris-hosts", "5GB/s", "0.5us", "12.5GB/s", "0us", None),
    "A100-40G 4/node": _pod(
        "polaris",
        "300GB/s",
        "1.03us",
        "12.5GB/s",
        "7.9us",
        {"name": "nccl", "gpu": "ampere", "cpu": "amd"},
    ),
    "GH200 4/node": _pod(
        "alps",
        "450GB/s",
        "0.8us",
        "25GB/s",
        "4.6us",
        {"name": "nccl", "gpu": "hopper", "cpu": "arm"},
    ),
    "A100": "dgx-a100",
    "H100": "dgx-h100",
    "B200": "dgx-b200",
    "MI300X": "mi300x",
}
"""By a part of the hardware's name; the first that is contained holds."""


class Source(NamedTuple):
    """One source's series, and the fabric to fit."""

    name: str
    fabric: Any
    series: tuple[Series, ...]


class Judged(NamedTuple):
    """A mean absolute relative error of predictions, and what was predicted."""

    title: str
    error: float


def sources(path: Path, fabrics: Mapping[str, Any]) -> Iterator[Source]:
    """The sources of a CSV, each read as a log of its own, as the command line does."""
    rows: dict[tuple[str, str], list[dict[str, str]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            rows.setdefault((row["source_id"], row["hardware"]), []).append(row)
    with tempfile.TemporaryDirectory() as folder:
        for (name, hardware), own in rows.items():
            fabric = next((fabric for part, fabric in fabrics.items() if part in hardware), None)
            if fabric is None:
                print(f"{name}: no fabric for '{hardware}', give one with --fabric")
                continue
            log = Path(folder) / f"{name}.csv"
            log.write_text(_text(own, "MPI" if "MPI" in hardware else ""), encoding="utf-8")
            yield Source(name, fabric, read_logs([log]).series)


def _text(rows: Sequence[Mapping[str, str]], library: str) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, [*rows[0], "library"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "library": library} for row in rows)
    return out.getvalue()


def before_cliff(series: Series) -> Series:
    """The sizes up to the first step that no rising curve of falling time per byte takes."""
    for index, (a, b) in enumerate(pairwise(series.points), start=1):
        if (
            b.seconds < WORST_DROP * a.seconds
            or b.seconds > WORST_RISE * a.seconds * b.bytes / a.bytes
        ):
            return series._replace(points=series.points[:index])
    return series


def error(fabric: Any, seen: Sequence[Series], unseen: Series) -> list[float]:
    """The relative errors of one series by a fit to others."""
    found = colltool.calibrate(fabric, Measurements(tuple(seen), ())).fabric
    return [
        abs(point.relative_error)
        for point in colltool.validate(found, Measurements((unseen,), ())).series[0].points
    ]


def unseen_sizes(source: Source, series: Sequence[Series]) -> Iterator[Judged]:
    """Each series by fits to every other size of it."""
    for one in series:
        if len(one.points) >= FEWEST:
            halves = [_part(one, one.points[start::2]) for start in (0, 1)]
            errors = [
                e for fit, rest in (halves, halves[::-1]) for e in error(source.fabric, [fit], rest)
            ]
            yield Judged(f"{source.name} {one.title}", fmean(errors))


def _part(series: Series, points: tuple[Point, ...]) -> Series:
    return series._replace(points=points)


def from_fewer(source: Source, few: Sequence[Series], many: Iterable[Series]) -> Iterator[Judged]:
    """Each series on many ranks by a fit to those of the same collective on fewer."""
    for one in many:
        seen = [
            other for other in few if other.primitive is one.primitive and len(other.points) >= 2
        ]
        if seen:
            most = max(other.points[-1].bytes for other in seen)
            one = _part(one, tuple(point for point in one.points if point.bytes <= most))
        if seen and one.points:
            yield Judged(f"{source.name} {one.title}", fmean(error(source.fabric, seen, one)))


def judgements(path: Path, fabrics: Mapping[str, Any]) -> dict[str, list[Judged]]:
    """All predictions, by what they are of."""
    found: dict[str, list[Judged]] = {
        name: []
        for name in (
            "one node, unseen sizes",
            "across nodes, unseen sizes",
            "2 and 4 to 8 ranks of a node",
            "2 to 8 nodes",
        )
    }
    for source in sources(path, fabrics):
        inside = [one for one in source.series if one.nodes == 1]
        across = [before_cliff(one) for one in source.series if one.nodes != 1]
        few, many = (
            [one for one in inside if one.ranks in (2, 4)],
            [one for one in inside if one.ranks == 8],
        )
        both = {one.primitive for one in few if one.ranks == 2} & {
            one.primitive for one in few if one.ranks == 4
        }
        two, eight = ([one for one in across if one.nodes == nodes] for nodes in (2, 8))
        parts = (
            unseen_sizes(source, inside),
            unseen_sizes(source, across),
            from_fewer(source, few, [one for one in many if one.primitive in both]),
            from_fewer(source, two, eight),
        )
        for listed, part in zip(found.values(), parts, strict=True):
            listed.extend(part)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("measured", type=Path)
    parser.add_argument("--fabric", action="append", default=[], metavar="PART=FABRIC")
    parser.add_argument(
        "--each", action="store_true", help="every prediction, not only the medians"
    )
    asked = parser.parse_args()
    own = dict(one.split("=", 1) for one in asked.fabric)
    try:
        found = judgements(asked.measured, own | FABRICS)
    except ColltoolError as problem:
        raise SystemExit(str(problem)) from problem
    for name, listed in found.items():
        for one in sorted(listed, key=lambda one: one.error) if asked.each else ():
            print(f"  {one.error:7.1%}  {one.title}")
        said = (
            f"median {median(one.error for one in listed):.2%} of {len(listed)} series"
            if listed
            else "no such series"
        )
        print(f"{name}: {said}")


if __name__ == "__main__":
    main()
