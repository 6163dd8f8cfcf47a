"""Rows of one's own: a machine file written from logs, read again, and what it does to the prices
of a fabric."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from math import exp, log, sqrt
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

import fit_machines
import measured_rows as published
import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import parse_primitive
from colltool.calibration.machine_rows import machine_rows
from colltool.calibration.next_row import next_row
from colltool.estimate.interval import Interval
from colltool.fabric.custom_machine import on_machine
from colltool.fabric.model import Fabric
from colltool.logs.series import Measurements, Point, Series
from colltool.machines.machine_file import machine_of, machine_text, read_machine_file

THREE = (4096, 8 * 2**20, 2**30)
CSV = "collective,ranks,nodes,bytes,time_us\n"
KEY = (
    "schema: colltool.machine/1\nname: mine\ndevice: h100\nmedia: {inside: nvlink4, outside:"
    " ib}\nrows:\n"
)
ROW = "  - {primitive: all_reduce, scope: ib, ranks: 64, bytes: 8MiB, time: 412us, r: 0.13}\n"


def log_file(path: Path, *rows: tuple[str, int, int, int, float]) -> Path:
    path.write_text(CSV + "".join(f"{','.join(map(str, row))}\n" for row in rows))
    return path


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A DGX H100 pair that takes a quarter longer than one usually does."""
    times = ((4096, 50.0), (8 * 2**20, 210.0), (2**30, 7000.0))
    return log_file(
        tmp_path / "three.csv", *(("all_reduce", 16, 2, size, us) for size, us in times)
    )


def test_what_is_written_is_read_back(three: Path) -> None:
    found = colltool.calibrate("dgx-h100", three, machine_only=True)
    assert found.machine_rows is not None
    assert found.machine is not None
    file = read_machine_file(found.machine_text, "mine")
    assert file.media == found.machine_rows.file.media
    assert (file.device, file.fabric, len(file.rows)) == ("h100", "dgx-h100", 3)
    for row, measured in zip(file.rows, (50e-6, 210e-6, 7e-3), strict=True):
        assert row.time == pytest.approx(measured)
        priced = colltool.price("dgx-h100", "ar", ranks=16, size=row.bytes, numbers="library").best
        assert exp(row.r) == pytest.approx(measured / float(priced.total_s), rel=1e-5)
    assert machine_text(file) == found.machine_text
    assert machine_of(file).d("all_reduce", "ib", 16, 1e6) == pytest.approx(
        float(machine_of(found.machine_rows.file).d("all_reduce", "ib", 16, 1e6)), abs=1e-5
    )


def test_the_fit_has_the_rows_as_well(three: Path) -> None:
    found = colltool.calibrate("dgx-h100", three)
    assert found.series
    assert found.machine_rows is not None
    assert found.machine_rows.total == 3


def test_one_row_moves_the_price_towards_it(tmp_path: Path) -> None:
    one = log_file(tmp_path / "one.csv", ("all_reduce", 16, 2, 2**23, 400.0))
    found = colltool.calibrate("dgx-h100", one)
    assert not found.series
    before = float(colltool.price("dgx-h100", "ar", ranks=16, size=2**23).best.total_s)
    after = float(
        colltool.price("dgx-h100", "ar", ranks=16, size=2**23, machine=found.machine).best.total_s
    )
    assert before < after < 400e-6
    assert abs(log(after / 400e-6)) < 0.5 * abs(log(before / 400e-6))


# Machines that others published, each known by three of its rows.
# ------------------------------------------------------------


class Judged(NamedTuple):
    off: float
    width: float
    inside: bool


class Pair(NamedTuple):
    """A row of a machine priced without and with three others."""

    source: str
    before: Judged
    after: Judged


def judged(fabric: Fabric, row: published.Row) -> Judged:
    best = colltool.price(fabric, row.collective, ranks=row.ranks, size=row.bytes).best
    interval = best.interval
    assert isinstance(interval, Interval)
    off = abs(log(row.time_s / float(best.total_s)))
    return Judged(
        off,
        sqrt(interval.high_s / interval.low_s) - 1,
        interval.low_s <= row.time_s <= interval.high_s,
    )


def series_across() -> list[list[published.Row]]:
    """The series of each source across nodes, on its middle rank count, that is long enough to be
    asked beside three rows."""
    mine = [
        row
        for machine in fit_machines.MACHINES
        for row in fit_machines.own_rows(machine.name, inside=False)
    ]
    by_ranks: dict[tuple[str, str], dict[int, list[published.Row]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in mine:
        by_ranks[row.source.source_id, row.collective][row.ranks].append(row)
    middle = [counts[sorted(counts)[len(counts) // 2]] for counts in by_ranks.values()]
    return [rows for rows in middle if len(rows) >= 10 and max(row.bytes for row in rows) > 2**29]


@cache
def pairs() -> tuple[Pair, ...]:
    """The others of each series, by a shipped machine that has not seen their source, and with
    three rows of it."""
    found = []
    for rows in series_across():
        source = rows[0].source
        only = {(rows[0].collective, fit_machines.scope_of(rows[0]))}
        ships = fit_machines.made(
            fit_machines.OF_FABRIC[source.fabric].name,
            {source.source_id},
            keep_order=False,
            only=only,
        )
        fabric = colltool.load_fabric(source.fabric, source.overrides).with_machine(ships)
        known = {min(rows, key=lambda row: abs(log(row.bytes / size))) for size in THREE}
        points = tuple(
            Point(float(row.bytes), row.time_s, row.time_s, row.time_s, 1, "")
            for row in sorted(known, key=by_bytes)
        )
        measured = Series(parse_primitive(rows[0].collective), rows[0].ranks, None, points)
        own = on_machine(
            fabric, machine_rows(fabric, Measurements((measured,), ()), "mine").machine
        )
        found += [
            Pair(source.source_id, judged(fabric, row), judged(own, row))
            for row in rows
            if row not in known
        ]
    return tuple(found)


def by_bytes(row: published.Row) -> int:
    return row.bytes


def by_machine(what: str, when: str, middle: Callable[[list[float]], float] = mean) -> list[float]:
    """A middle over the rows of each machine: one published at 150 points speaks no louder than one
    at 6."""
    found: dict[str, list[float]] = defaultdict(list)
    for pair in pairs():
        found[pair.source].append(getattr(getattr(pair, when), what))
    return [middle(values) for values in found.values()]


@pytest.mark.ci
def test_three_rows_take_a_third_and_more_off_the_error_of_the_others() -> None:
    before, after = by_machine("off", "before", median), by_machine("off", "after", median)
    assert len(after) >= 10
    assert median(after) <= 0.65 * median(before)
    assert mean(after) <= 0.85 * mean(before)


@pytest.mark.ci
def test_three_rows_narrow_the_interval_and_nine_of_ten_stay_inside() -> None:
    assert mean(by_machine("width", "after")) <= 0.85 * mean(by_machine("width", "before"))
    assert mean(by_machine("inside", "after")) >= 0.9


# What a machine file leaves alone.
# -------------------------------------------------------------------------------------------


def test_picks_and_ranks_stay_as_they_are(three: Path) -> None:
    own = colltool.calibrate("dgx-h100", three, machine_only=True).machine
    for size in ("4KB", "1MB", "64MB", "1GB"):
        before = colltool.price("dgx-h100", "ar", ranks=16, size=size)
        after = colltool.price("dgx-h100", "ar", ranks=16, size=size, machine=own)
        assert [row.title for row in after.results] == [row.title for row in before.results]
        assert after.best.total_s != before.best.total_s


@pytest.mark.parametrize(
    "reading", [{"numbers": "library"}, {"numbers": "datasheet"}, {"ideal": True}]
)
def test_readings_of_fewer_layers_leave_it_out(three: Path, reading: dict[str, str | bool]) -> None:
    own = colltool.calibrate("dgx-h100", three, machine_only=True).machine
    before = colltool.price("dgx-h100", "ar", ranks=16, size="16MB", **reading)  # type: ignore[arg-type]
    after = colltool.price("dgx-h100", "ar", ranks=16, size="16MB", machine=own, **reading)  # type: ignore[arg-type]
    assert after.best.total_s == before.best.total_s
    assert after.overrides.machine is None  # type: ignore[attr-defined]


def test_a_dial_acts_by_ratio_under_it(three: Path) -> None:
    own = colltool.calibrate("dgx-h100", three, machine_only=True).machine
    slow = colltool.load_fabric("dgx-h100", ["ib.bandwidth=25GB/s"])

    def ratio(**more: object) -> float:
        changed = colltool.price(slow, "ar", ranks=16, size="1GB", algorithms="ring", **more).best  # type: ignore[arg-type]
        usual = colltool.price(
            "dgx-h100", "ar", ranks=16, size="1GB", algorithms="ring", **more
        ).best  # type: ignore[arg-type]
        return float(changed.total_s) / float(usual.total_s)

    assert ratio(machine=own) == pytest.approx(ratio(numbers="library"))


# Refusals.
# -------------------------------------------------------------------------------------------------------------------


def test_a_machine_of_another_device_is_refused_with_both_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.machine.yaml"
    path.write_text(KEY.replace("h100", "b200") + ROW)
    with pytest.raises(ColltoolError, match="measured on b200, and dgx-h100 has h100"):
        colltool.load_fabric("dgx-h100", machine=path)


def test_a_machine_of_another_medium_is_refused_with_both_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.machine.yaml"
    path.write_text(KEY + ROW.replace("scope: ib", "scope: roce"))
    with pytest.raises(ColltoolError, match="across roce, and dgx-h100 has inside, ib"):
        colltool.load_fabric("dgx-h100", machine=path)
    path.write_text(KEY.replace("nvlink4", "nvlink5") + ROW)
    with pytest.raises(ColltoolError, match="inside nvlink5, and dgx-h100 has nvlink4"):
        colltool.load_fabric("dgx-h100", machine=path)


def test_scopes_that_do_not_apply_are_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.machine.yaml"
    path.write_text(KEY + ROW + ROW.replace("scope: ib", "scope: efa"))
    used = colltool.load_fabric("dgx-h100", machine=path).overrides.machine
    assert used is not None
    assert (used.rows, used.idle) == (1, ("efa",))
    assert "without those of efa" in used.label


@swept(
    ("old", "new", "said"),
    [
        ("time: 412us", "time: -412us", "time"),
        ("bytes: 8MiB", "bytes: 0", "bytes"),
        ("primitive: all_reduce", "primitive: all_redcue", "all_reduce"),
        ("ranks: 64", "ranks: 0", "ranks"),
        ("r: 0.13", "r: big", "r"),
    ],
)
def test_bad_rows_are_refused_at_their_place(old: str, new: str, said: str) -> None:
    with pytest.raises(ColltoolError) as error:
        read_machine_file(KEY + ROW.replace(old, new), "mine.machine.yaml")
    problem = getattr(error.value, "problems", [error.value])[0]
    assert problem.where.startswith("mine.machine.yaml:6:")
    assert said in f"{problem.where} {problem.what} {problem.fix}"


def test_a_fabric_of_unknown_wires_says_what_to_state(tmp_path: Path) -> None:
    blank = {
        "name": "eight",
        "tiers": [
            {"name": "port", "topology": "star", "size": 8, "alpha": "1us", "bandwidth": "450GB/s"}
        ],
    }
    rows = log_file(
        tmp_path / "a.csv", ("all_reduce", 8, 1, 2**20, 30.0), ("all_reduce", 8, 1, 2**24, 120.0)
    )
    with pytest.raises(ColltoolError, match="wires of port"):
        colltool.calibrate(blank, rows, machine_only=True)
    assert colltool.calibrate(blank, rows).no_machine


# What to measure next.
# -------------------------------------------------------------------------------------------------------


def test_the_next_row_narrows_more_than_the_others(three: Path) -> None:
    found = colltool.calibrate("dgx-h100", three, machine_only=True)
    row = found.next
    assert found.machine_rows is not None
    assert row is not None
    assert row.sigma_after < row.sigma
    assert row.command.startswith("mpirun -np 16 ./build/")
    assert " -g 1" in row.command
    added = found.machine_rows.file.rows[0].model_copy(
        update={"primitive": row.primitive, "bytes": row.bytes, "r": 0.0}
    )
    then = next_row(
        found.machine_rows.file.model_copy(update={"rows": (*found.machine_rows.file.rows, added)})
    )
    assert then is None or then.sigma == pytest.approx(row.sigma_after)


def test_a_collective_that_was_not_measured_comes_before_one_that_was(three: Path) -> None:
    row = colltool.calibrate("dgx-h100", three, machine_only=True).next
    assert row is not None
    assert str(row.primitive) != "all_reduce"


# Order, and travel.
# ----------------------------------------------------------------------------------------------------------


def test_no_price_falls_as_the_message_grows(tmp_path: Path) -> None:
    """Small messages of a host that launches late: between them and the next row the factor falls
    faster than prices rise."""

    def priced(size: float) -> float:
        return float(
            colltool.price("dgx-h100", "ar", ranks=64, size=size, numbers="library").best.total_s
        )

    rows = [
        ("all_reduce", 64, 8, size, priced(size) * times * 1e6)
        for size, times in ((4096, 3.5), (2**23, 1.0), (2**30, 0.8))
    ]
    own = colltool.calibrate(
        "dgx-h100", log_file(tmp_path / "late.csv", *rows), machine_only=True
    ).machine
    sizes = [2.0**doublings for doublings in range(8, 33)]
    for ranks in (16, 64):
        found = colltool.price("dgx-h100", "ar", ranks=ranks, size=sizes, machine=own)
        for row in found.results:
            times = [float(value) for value in row.total_s]  # type: ignore[union-attr]
            assert all(later >= sooner for sooner, later in pairwise(times)), row.title


def test_prices_and_fabrics_travel_between_processes(three: Path) -> None:
    own = colltool.calibrate("dgx-h100", three, machine_only=True).machine
    fabric = colltool.load_fabric("dgx-h100", ["ib.bandwidth=25GB/s"], own)
    before = colltool.price(fabric, "ar", ranks=16, size="64MB")
    again = pickle.loads(pickle.dumps(before))
    assert again.overrides == before.overrides
    assert again.overrides.machine == before.overrides.machine
    assert again.best.total_s == before.best.total_s
