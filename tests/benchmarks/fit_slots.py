"""NCCL's numbers for cards in PCIe slots, with P2P and without: lines of a step and a byte by
collective, rates by ranks.

Without P2P every byte goes through the host's memory, which all cards share: the rate falls with
the ranks, so that a share of the slot is told for each rank count that was measured. Fitted by
coordinate descent on ln(price / measured), the price being the faster of LL's and Simple's L +
o·steps + bytes / B, as :mod:`colltool.estimate` has a ring and a pairwise exchange.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from math import log
from statistics import fmean
from typing import Any, NamedTuple

import library_file
from measured_rows import Row, rows

Data = dict[str, Any]
_TAKEN_OVER = {
    "all_reduce": (),
    "all_gather": ("broadcast",),
    "reduce_scatter": ("reduce",),
    "all_to_all": ("p2p",),
}
_RUNS = {
    "all_reduce": ["ring"],
    "all_gather": ["ring"],
    "reduce_scatter": ["ring"],
    "all_to_all": ["pairwise"],
}


class Slots(NamedTuple):
    """Cards in slots of ``line_GBps`` that NCCL was measured on: ``beta`` and ``alpha_us`` as the
    fabric's file has them."""

    source: str
    media: tuple[str, ...]
    gpus: tuple[str, ...]
    p2p: bool
    line_GBps: float
    beta: float
    alpha_us: float
    told: str = ""


class Line(NamedTuple):
    """A protocol's launch and step (us), and busbw (GB/s) by ranks."""

    launch_us: float
    step_us: float
    rates: tuple[tuple[int, float], ...]

    def seconds(self, row: Row) -> float:
        steps, share = (
            steps_of(row),
            (row.ranks - 1) / row.ranks * (2 if row.collective == "all_reduce" else 1),
        )
        return (self.launch_us + self.step_us * steps) * 1e-6 + row.bytes * share / (
            dict(self.rates)[row.ranks] * 1e9
        )


_CARDS = ("blackwell", "hopper", "ada", "ampere")
MACHINES = (
    Slots("aic-l40s-2.27.3", ("pcie4", "pcie3"), _CARDS, False, 32.0, 0.75, 0.5),
    Slots(
        "aic-l40s-2.27.3",
        ("pcie5", "pcie6"),
        _CARDS,
        False,
        64.0,
        0.75,
        0.5,
        told="; through the hosts' memory as from PCIe 4.0",
    ),
    Slots("aic-rtx-pro-6000-2.29.2", ("pcie5", "pcie6"), _CARDS, True, 64.0, 0.75, 0.5),
)
_L40S_P2P = (
    "ai-dynamo/aiconfigurator-core 0.12, NCCL under SGLang 0.5.12 on 2, 4 and 8 L40S with P2P:"
    " small all-reduces in 7.7, 12 and 22 us, busbw 18.2, 21.5 and 20.8 GB/s at 1 GiB; between them"
    " the steps of RTX PRO 6000 (aic-rtx-pro-6000-2.29.2)"
)


def steps_of(row: Row) -> int:
    return (row.ranks - 1) * (2 if row.collective == "all_reduce" else 1)


def price(lines: tuple[Line, Line], row: Row) -> float:
    return min(line.seconds(row) for line in lines)


def start_of(several: Collection[Row]) -> tuple[Line, Line]:
    """A rough start: the floor of small messages, and what the largest of each rank count reach."""
    counts = sorted({row.ranks for row in several})
    large = {
        count: max((row for row in several if row.ranks == count), key=lambda row: row.bytes)
        for count in counts
    }
    share = {
        count: (count - 1) / count * (2 if large[count].collective == "all_reduce" else 1)
        for count in counts
    }
    rates = tuple(
        (count, large[count].bytes * share[count] / large[count].time_s / 1e9) for count in counts
    )
    return Line(4.0, 1.4, tuple((count, rate / 2) for count, rate in rates)), Line(15.0, 3.0, rates)


def fitted(several: Collection[Row]) -> tuple[Line, Line]:
    """LL's and Simple's lines that price all rows best."""
    best = start_of(several)
    least = _loss(best, several)
    for step in (0.3, 0.15, 0.07, 0.03, 0.01):
        moved = True
        while moved:
            moved = False
            for tried in _moves(best, step):
                if (loss := _loss(tried, several)) < least:
                    best, least, moved = tried, loss, True
    return best


def _loss(lines: tuple[Line, Line], several: Collection[Row]) -> float:
    return fmean(abs(log(price(lines, row) / row.time_s)) for row in several)


def _moves(lines: tuple[Line, Line], step: float) -> list[tuple[Line, Line]]:
    found = []
    for at, line in enumerate(lines):
        for factor in (1 + step, 1 / (1 + step)):
            changed = [
                line._replace(launch_us=line.launch_us * factor),
                line._replace(step_us=line.step_us * factor),
            ]
            for number, (count, rate) in enumerate(line.rates):
                changed.append(
                    line._replace(
                        rates=(
                            *line.rates[:number],
                            (count, rate * factor),
                            *line.rates[number + 1 :],
                        )
                    )
                )
            found += [(other, lines[1]) if at == 0 else (lines[0], other) for other in changed]
    return found


@cache
def lines_of(source: str) -> dict[str, tuple[Line, Line]]:
    several = [row for row in rows() if row.source.source_id == source]
    return {name: fitted([row for row in several if row.collective == name]) for name in _RUNS}


def tables() -> list[str]:
    """NCCL's entries for cards in slots."""
    return [*(_table(machine) for machine in MACHINES), _l40s_with_p2p()]


def _l40s_with_p2p() -> str:
    """Two lines through what was published of L40S with P2P: floors, and the rate of large
    messages."""
    rates = ((2, 18.2), (4, 21.5), (8, 20.8))
    slot = Slots("", ("pcie4", "pcie3"), _CARDS, True, 32.0, 0.75, 0.5)
    lines = (
        Line(5.3, 1.2, tuple((count, 0.4 * rate) for count, rate in rates)),
        Line(11.0, 4.0, rates),
    )
    protocols = [
        _protocol(slot, name, line) for name, line in zip(("LL", "Simple"), lines, strict=True)
    ]
    entry = {
        "media": slot.media,
        "gpus": slot.gpus,
        "p2p": True,
        "source": _L40S_P2P,
        "protocols": protocols,
    }
    return library_file.table("tier", entry | {"runs": _RUNS})


def _protocol(slot: Slots, name: str, line: Line, collective: str = "") -> Data:
    row: Data = {"name": name}
    if collective:
        row["primitives"] = [collective, *_TAKEN_OVER[collective]]
    full_GBps = slot.line_GBps * slot.beta
    row |= {
        "launch_us": float(f"{line.launch_us:.4g}"),
        "step_us": float(f"{line.step_us - slot.alpha_us:.4g}"),
    }
    # a rank's port in a star carries what its ring sends
    return row | {
        "share": [
            {"ranks": count, "share": float(f"{rate / full_GBps:.4g}")}
            for count, rate in line.rates
        ]
    }


def _table(machine: Slots) -> str:
    protocols = [
        _protocol(machine, name, line, collective)
        for collective, lines in lines_of(machine.source).items()
        for name, line in zip(("LL", "Simple"), lines, strict=True)
    ]
    count = sum(row.source.source_id == machine.source for row in rows())
    said = (
        f"{count} rows of {machine.source} (tests/data/measured), by"
        f" tests/benchmarks/fit_slots.py{machine.told}"
    )
    entry = {
        "media": machine.media,
        "gpus": machine.gpus,
        "p2p": machine.p2p,
        "source": said,
        "protocols": protocols,
    }
    return library_file.table("tier", entry | {"runs": _RUNS})


def main() -> None:
    for machine in MACHINES:
        for name, lines in lines_of(machine.source).items():
            several = [
                row
                for row in rows()
                if row.source.source_id == machine.source and row.collective == name
            ]
            errors = sorted(abs(price(lines, row) / row.time_s - 1) for row in several)
            print(
                machine.source,
                name,
                f"{errors[len(errors) // 2]:.1%} {errors[int(len(errors) * 0.9)]:.1%}",
                *lines,
            )


if __name__ == "__main__":
    main()
