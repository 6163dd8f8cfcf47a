"""The scoreboard of predictors on published rows, and the rows that ``colltool score`` ships.

    python tests/benchmarks/bench_score.py [PREDICTIONS.csv ...]
    python tests/benchmarks/bench_score.py --write

Printed: ``colltool score`` of colltool, NCCL's own estimates, data sheets, the bare alpha-beta model and each
file. ``--write``: ``colltool/calibration/published.csv`` and ``published_sources.csv``, from the
rows of ``tests/data/measured`` whose page has an address: what was measured, and colltool's price
and interval without the row's source (:func:`left_out.left_out`). Left out are forced algorithms,
single messages, processes that drive eight GPUs, and what was measured for colltool itself.

aiconfigurator's file, with ``pip install aiconfigurator`` in an environment of its own:

    colltool score --template > questions.csv
    python tests/benchmarks/aiconfigurator_times.py questions.csv > aiconfigurator.csv
    colltool score aiconfigurator.csv
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from math import exp, log
from pathlib import Path
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import bench_accuracy  # noqa: E402
from bench_spread import group_of, index_without, where_of  # noqa: E402
from left_out import left_out, seconds, together  # noqa: E402
from measured_rows import Row, Source, rows  # noqa: E402
from whole_spread import spread_of  # noqa: E402

import colltool  # noqa: E402
from colltool.base.primitives import parse_primitive  # noqa: E402
from colltool.estimate import spread  # noqa: E402
from colltool.estimate.assumptions import ModelOptions  # noqa: E402
from colltool.estimate.groups import place  # noqa: E402
from colltool.estimate.interval import before_dials, error_model  # noqa: E402

FOLDER = Path(colltool.__file__).parent / "calibration"
NO_ADDRESS = "https://github.com"
OWN = frozenset({"h100-loopback"})
"""Measured for colltool, and published nowhere."""
AMD = ("mi",)


class Priced(NamedTuple):
    """Seconds of colltool's price of a row, its interval, and whether the price has not seen the
    row's source."""

    price_s: float
    low_s: float
    high_s: float
    unseen: bool


def ships(row: Row) -> bool:
    """Whether a row is one that another predictor can be asked for and a reader can look up."""
    source = row.source
    return not (
        row.algorithm
        or row.collective == "p2p"
        or source.url.rstrip("/") == NO_ADDRESS
        or source.source_id in OWN
        or "-g 8" in source.hardware
    )


def is_unseen(row: Row) -> bool:
    if row.source.source_id in bench_accuracy.SEEN:
        return False
    return row.role == "check" or bench_accuracy.is_judged(row)


def priced(row: Row) -> Priced:
    fabric = colltool.load_fabric(row.source.fabric, row.source.overrides)
    unseen = is_unseen(row)
    found = left_out(row) if unseen else None
    price_s = found.seconds if found else seconds(fabric, row)
    model = error_model(
        fabric,
        parse_primitive(row.collective),
        place(fabric, group_of(row)),
        float(row.bytes),
        ModelOptions(),
    )
    if found is None or model.basis is not None:
        interval = model.interval(float(row.bytes), price_s)
        return Priced(price_s, interval.low_s, interval.high_s, unseen)
    before = before_dials(fabric)
    moved = 0.0 if before is None else abs(log(seconds(fabric, row) / seconds(before, row)))
    asked = where_of(row)._replace(moved=moved)
    table = spread.sigma_table()
    index = index_without(together(row.source.source_id)[0])
    posterior = None if asked.foreign else found.posterior
    half = table["kappa"] * spread_of(asked, table, index, posterior).sigma
    return Priced(price_s, price_s * exp(-half), price_s * exp(half), unseen)


def vendor(source: Source) -> str:
    if source.fabric == "mpi-cluster":
        return "CPU"
    device = colltool.load_fabric(source.fabric).device or ""
    return "AMD" if device.startswith(AMD) else "NVIDIA"


def machine(source: Source) -> str:
    """The shipped fabric with its changes, as ``--fabric`` takes it."""
    changes = source.set.replace(" ", ",")
    return f"{source.fabric}:{changes}" if changes else source.fabric


def _micro(values: list[float]) -> str:
    return " ".join(f"{value * 1e6:.5g}" for value in values)


def write() -> None:
    series: dict[tuple[Source, int, int, str], list[Row]] = defaultdict(list)
    for row in rows():
        if ships(row):
            series[row.source, row.nodes, row.ranks, row.collective].append(row)
    lines = []
    for (source, nodes, ranks, collective), several in series.items():
        mine = sorted(several, key=lambda row: row.bytes)
        prices = [priced(measured) for measured in mine]
        print(source.source_id, ranks, collective, flush=True, file=sys.stderr)
        lines.append(
            {
                "source": source.source_id,
                "nodes": nodes,
                "ranks": ranks,
                "collective": collective,
                "unseen": "yes" if prices[0].unseen else "no",
                "bytes": " ".join(str(measured.bytes) for measured in mine),
                "time_us": _micro([measured.time_s for measured in mine]),
                "price_us": _micro([one.price_s for one in prices]),
                "low_us": _micro([one.low_s for one in prices]),
                "high_us": _micro([one.high_s for one in prices]),
            }
        )
        split = {one.unseen for one in prices}
        if len(split) > 1:
            # a series is judged as a whole: with a size that has been seen, all of it has
            lines[-1]["unseen"] = "no"
    _write("published.csv", lines)
    named = dict.fromkeys(source for source, *_ in series)
    told = [
        {
            "source": source.source_id,
            "url": source.url,
            "hardware": source.hardware,
            "machine": machine(source),
            "vendor": vendor(source),
            "library": source.library,
        }
        for source in named
    ]
    _write("published_sources.csv", told)


def _write(name: str, lines: list[dict[str, object]]) -> None:
    with (FOLDER / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", help="predictions of other tools")
    parser.add_argument("--write", action="store_true", help="write the rows that ship")
    given = parser.parse_args()
    if given.write:
        write()
    from colltool.calibration.predictors import PREDICTORS

    print(colltool.score([*PREDICTORS, *given.files]).summary())
    return 0


if __name__ == "__main__":
    sys.exit(main())
