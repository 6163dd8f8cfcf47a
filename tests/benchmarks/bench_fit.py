"""How well a calibration predicts sizes that it has not seen: the table of the README, on logs of
your own.

    python tests/benchmarks/bench_fit.py FABRIC LOG... [--set KEY=VALUE]

Each series is fitted to every other size and judged on the rest, both ways round; then on the sizes
before its first cliff alone (a message that is 15% faster than a smaller one, or 35% slower than in
proportion). Prints mean absolute relative errors.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from statistics import mean, median

import colltool
from colltool.logs.read import read_logs
from colltool.logs.series import Measurements, Point, Series

Half = tuple[Point, ...]


def before_cliff(points: Half) -> Half:
    """The sizes up to the first step that no rising curve of falling time per byte takes."""
    for index, (a, b) in enumerate(pairwise(points), start=1):
        if b.seconds < 0.85 * a.seconds or b.seconds > 1.35 * a.seconds * b.bytes / a.bytes:
            return points[:index]
    return points


def unseen(fabric: str, overrides: list[str], series: Series, points: Half) -> float:
    """The error on every size by a fit to the sizes between."""
    errors = []
    for half in (0, 1):
        fit, rest = (series._replace(points=points[start::2]) for start in (half, 1 - half))
        measured = colltool.calibrate(fabric, Measurements((fit,), ()), overrides=overrides).fabric
        errors += [
            abs(p.relative_error)
            for p in colltool.validate(measured, Measurements((rest,), ())).series[0].points
        ]
    return mean(errors)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("fabric")
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    asked = parser.parse_args()
    everywhere, smooth = [], []
    for series in read_logs(asked.logs).series:
        near = before_cliff(series.points)
        everywhere.append(unseen(asked.fabric, asked.overrides, series, series.points))
        smooth.append(
            unseen(asked.fabric, asked.overrides, series, near) if len(near) >= 6 else None
        )
        said = "-" if smooth[-1] is None else f"{smooth[-1]:.1%}"
        print(
            f"{series.title}: {everywhere[-1]:.1%} over {len(series.points)} sizes, {said} over"
            f" {len(near)} before a cliff"
        )
    kept = [error for error in smooth if error is not None]
    print(
        f"median {median(everywhere):.1%}"
        + (f", before a cliff {median(kept):.1%}" if kept else "")
    )


if __name__ == "__main__":
    main()
