"""How far prices are off on rows that no fit has seen: each source of ``tests/data/measured`` left
out in turn.

    python tests/benchmarks/bench_accuracy.py [--sources] [--write]

A source's rows are priced on its machine made without them (:func:`left_out.left_out`), as what
NCCL picks; rows of role ``check``, and of machines whose numbers are another's, on the fabric that
ships. A table inside a node is judged where another one of its machine is left. Rows on wires that
no shipped fabric has (EFA of B200, A100 on Slingshot, four NICs a node), and of processes that
drive eight GPUs, are printed apart. The control is the same machine's datasheet. ``--write``: the
table that ships, ``colltool/estimate/accuracy.csv``.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import fit_fabrics  # noqa: E402
from left_out import left_out, seconds  # noqa: E402
from measured_rows import Row, rows  # noqa: E402

import colltool  # noqa: E402
from colltool.base.errors import ColltoolError  # noqa: E402
from colltool.estimate import accuracy  # noqa: E402
from colltool.estimate.accuracy import CLASSES, size_class  # noqa: E402
from colltool.fabric.load import shipped_fabrics  # noqa: E402

GUIDE = Path(colltool.__file__).parent / "guides" / "accuracy.md"
TABLE = Path(colltool.__file__).parent / "estimate" / "accuracy.csv"
BARS = (0.15, 0.15, 0.12, 0.07)
"""Asked of the medians, smallest sizes first."""
OTHER_WIRES = frozenset(
    {"dstack-3961", "alcf-polaris-nccl", "nccl-1801", "nccl-1801-2", "nccl-tests-119", "nccl-1368"}
)
# fitted by hand, and nothing else of their wires is left
SEEN = frozenset({"a3mega-2-nodes", "dstack-a3mega", "aws-p5-efa"})
ONE_PROCESS = frozenset({"superbench-a100", "rocm-doc-mi300x"})
SHORT = {
    "all": "all",
    "all_reduce": "ar",
    "all_gather": "ag",
    "reduce_scatter": "rs",
    "all_to_all": "a2a",
    "broadcast": "bcast",
}
SMALL, FEWEST = 64 * 2**10, 8  # a table has small messages on several counts of ranks


class Judged(NamedTuple):
    """A row's errors, priced / measured - 1: by the fabric that has not seen its source, and by the
    datasheet."""

    row: Row
    error: float
    control: float

    @property
    def wire(self) -> str:
        return "across" if self.row.ranks > node_of(self.row) else "inside"


def node_of(row: Row) -> int:
    return colltool.load_fabric(row.source.fabric, row.source.overrides).tiers[0].endpoints


def is_judged(row: Row) -> bool:
    """Whether there is something to judge by: another table of the machine inside a node, any other
    row across nodes."""
    if row.algorithm or row.source.fabric not in shipped_fabrics() or row.collective == "p2p":
        return False
    # no row of its own was used, where the numbers are another machine's
    if row.source.fabric not in fit_fabrics.INSIDE:
        return colltool.load_fabric(row.source.fabric).measured_on is not None
    left = fit_fabrics.inside_rows(row.source.fabric, {row.source.source_id})
    if not left:
        return False
    if row.role == "check" or row.ranks > node_of(row) or row.ranks > 8:
        return True
    return sum(one.collective == row.collective and one.bytes <= SMALL for one in left) >= FEWEST


def judged() -> list[Judged]:
    found = []
    for row in rows():
        if row.source.source_id in OTHER_WIRES | ONE_PROCESS | SEEN or not is_judged(row):
            continue
        found.append(judge(row))
    return found


def judge(row: Row) -> Judged:
    fabric = colltool.load_fabric(row.source.fabric, row.source.overrides)
    times = left_out(row).seconds, seconds(fabric, row, "datasheet")
    return Judged(row, *(took / row.time_s - 1 for took in times))


def medians(several: Iterable[Judged], *, control: bool = False) -> list[float | None]:
    """Of |error|, by size class."""
    by_class: dict[int, list[float]] = defaultdict(list)
    for one in several:
        by_class[size_class(one.row.bytes)].append(abs(one.control if control else one.error))
    return [median(by_class[at]) if by_class[at] else None for at in range(len(CLASSES))]


def table(found: list[Judged]) -> list[dict[str, Any]]:
    """The rows that ship: by device, wire, collective and size class; ``all`` stands for the
    headline's."""
    cells: dict[tuple[str, str, str, int], list[Judged]] = defaultdict(list)
    for one in found:
        device = colltool.load_fabric(one.row.source.fabric).device or ""
        at = size_class(one.row.bytes)
        for key in (
            (device, one.wire, one.row.collective),
            ("all", one.wire, "all"),
            ("all", "all", "all"),
        ):
            cells[*key, at].append(one)
    return [
        {"device": key[0], "wire": key[1], "collective": key[2], "size": key[3]}
        | {"rows": len(several), "sources": len({one.row.source.source_id for one in several})}
        | {"median": f"{median(errors):.4f}", "p90": f"{_p90(errors):.4f}"}
        for key, several in sorted(cells.items())
        for errors in [[abs(one.error) for one in several]]
    ]


def _p90(errors: list[float]) -> float:
    return errors[0] if len(errors) == 1 else quantiles(errors, n=10, method="inclusive")[-1]


def _line(title: str, several: list[Judged]) -> str:
    shown = ["-" if one is None else f"{one:.1%}" for one in medians(several)]
    plain = ["-" if one is None else f"{one:.0%}" for one in medians(several, control=True)]
    return f"{title:44} {len(several):5} rows  " + "  ".join(
        f"{a:>6} ({b:>4})" for a, b in zip(shown, plain, strict=True)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sources", action="store_true", help="a line for each source")
    parser.add_argument("--write", action="store_true", help="write the table that ships")
    given = parser.parse_args()
    found = judged()
    print(
        f"{'median |error|, the datasheet in brackets':44} {'':10}  "
        + "  ".join(f"{name:>13}" for name in CLASSES)
    )
    print(_line("all", found))
    for wire in ("inside", "across"):
        print(_line(wire, [one for one in found if one.wire == wire]))
    for name in dict.fromkeys(one.row.source.fabric for one in found):
        print(_line(name, [one for one in found if one.row.source.fabric == name]))
    if given.sources:
        for source in dict.fromkeys(one.row.source.source_id for one in found):
            print(
                _line(f"  {source}", [one for one in found if one.row.source.source_id == source])
            )
    apart = [
        judge(row)
        for row in rows()
        if row.source.source_id in OTHER_WIRES | ONE_PROCESS and not row.algorithm and _runs(row)
    ]
    print(_line("other wires, one process for eight GPUs", apart))
    if given.write:
        made = table(found)
        with TABLE.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(made[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(made)
        accuracy.table.cache_clear()
        write_guide()
    over = [
        name
        for name, bar, one in zip(CLASSES, BARS, medians(found), strict=True)
        if one is not None and one > bar
    ]
    print(f"over the bar: {', '.join(over) or 'none'}")
    return int(bool(over))


def guide_table() -> str:
    """The shipped table as the guide shows it: a line a device, wire and collective."""
    lines: dict[tuple[str, str, str], list[str]] = {}
    for cell in accuracy.table():
        line = lines.setdefault(
            (cell.device, cell.wire, SHORT[cell.collective]), ["-"] * len(CLASSES)
        )
        line[cell.size] = f"{cell.median:.1%} ({cell.rows})"
    headline = sorted(lines.items(), key=lambda one: one[0][0] != accuracy.ALL)
    return "".join(f"| {' | '.join((*key, *line))} |\n" for key, line in headline)


def write_guide() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    head = text[: text.index("|---|") + text[text.index("|---|") :].index("\n") + 1]
    GUIDE.write_text(head + guide_table(), encoding="utf-8")


def _runs(row: Row) -> bool:
    try:
        judge(row)
    except ColltoolError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
