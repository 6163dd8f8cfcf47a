"""The factor of a measured machine: how it is read, where it ends, and that prices stay in order
under it."""

from __future__ import annotations

import json
import subprocess
import sys
from math import exp, log, log2

import fit_machines
import numpy as np
import pytest
from fit_machines import KNOWN, PRIMITIVES, rising_times, text_of
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.machines.factor import (
    INSIDE,
    SIZES,
    Borrowed,
    MachineFactor,
    MeasuredMachine,
    RankLine,
)
from colltool.machines.machine_file import (
    machine_of,
    machine_text,
    read_machine_file,
)
from colltool.machines.shape import room_of, shaped
from colltool.machines.shipped import FOLDER, from_data, index, machine, machine_for
from colltool.machines.smoother import Observation, Smooth, Smoother, posterior

NAMES = [shipped.name for shipped in fit_machines.MACHINES]
MOST_FALL = 0.1


def slope(ranks: int) -> RankLine:
    return RankLine(
        ranks, tuple(0.01 * at * log2(ranks) for at in range(len(SIZES))), (0.1,) * len(SIZES)
    )


PLANE = MeasuredMachine(
    name="plane",
    devices=("h100",),
    generation="hopper",
    inside="nvlink4",
    outside=("ib",),
    factors={("all_reduce", "ib"): MachineFactor("all_reduce", "ib", (slope(16), slope(64)))},
    borrowed={"reduce": Borrowed("all_reduce", 0.5)},
    prior={"ib": 0.2},
)


def test_d_is_linear_in_both_logarithms() -> None:
    assert PLANE.d("all_reduce", "ib", 16, 8.0) == 0
    assert PLANE.d("all_reduce", "ib", 16, 16.0) == pytest.approx(0.04)
    assert PLANE.d("all_reduce", "ib", 32, 8 * 2**2.5) == pytest.approx(0.01 * 2.5 * 5)


def test_beyond_the_grid_its_edge_holds() -> None:
    assert PLANE.d("all_reduce", "ib", 4, 1.0) == 0
    assert PLANE.d("all_reduce", "ib", 10**6, 2.0**60) == pytest.approx(
        PLANE.d("all_reduce", "ib", 64, float(SIZES[-1]))
    )


def test_what_was_not_measured_borrows_a_share_or_is_unknown() -> None:
    known = PLANE.d("all_reduce", "ib", 32, 1e6)
    assert PLANE.d("reduce", "ib", 32, 1e6) == pytest.approx(known / 2)
    assert PLANE.sigma("reduce", "ib", 32, 1e6) == pytest.approx(
        (0.75 * 0.2**2 + 0.25 * 0.1**2) ** 0.5
    )
    assert PLANE.d("all_to_all", "ib", 32, 1e6) == 0
    assert PLANE.sigma("all_to_all", "ib", 32, 1e6) is None
    assert PLANE.sigma("all_reduce", "efa", 32, 1e6) is None


@swept("name", NAMES)
def test_an_array_of_sizes_reads_what_each_size_does(name: str) -> None:
    found = machine(name)
    sizes = np.geomspace(1, 1e12, 57)
    for primitive, scope in [*found.factors, ("broadcast", INSIDE), ("p2p", INSIDE)]:
        for ranks in (3, 16, 100, 5000):
            one_by_one = [found.d(primitive, scope, ranks, float(size)) for size in sizes]
            assert np.allclose(found.d(primitive, scope, ranks, sizes), one_by_one, atol=1e-12)
            if (primitive, scope) in found.factors:
                sigmas = [found.sigma(primitive, scope, ranks, float(size)) for size in sizes]
                assert np.allclose(
                    found.sigma(primitive, scope, ranks, sizes),
                    np.array(sigmas, dtype=float),
                    atol=1e-12,
                )


def test_a_machine_is_found_by_device_and_media() -> None:
    def name(device: str | None, inside: str, outside: str | None) -> str | None:
        found = machine_for(device, inside, outside)
        return found.name if found else None

    assert name("h200", "nvlink4", "roce") == "dgx-h100"
    assert name("h100", "nvlink4", "efa") == "aws-p5"
    assert name("h100", "nvlink4", None) == "dgx-h100"
    assert name("h100", "nvlink4", "socket") == "dgx-h100"
    assert name("b200", "nvlink5", "ib") == "dgx-b200"
    assert name("gb200", "nvlink5", "ib") == "nvl72"
    assert name("h100", "pcie5", "ib") is None
    assert name("tpu-v5p", "ici", None) is None
    assert name(None, "nvlink4", "ib") is None


def test_a_cloud_s_instance_has_the_vendor_s_board() -> None:
    instance, board = machine_for("h100", "nvlink4", "efa"), machine("dgx-h100")
    assert instance is not None
    assert (
        instance.d("all_reduce", INSIDE, 8, 2.0**25)
        == board.d("all_reduce", INSIDE, 8, 2.0**25)
        != 0
    )
    assert instance.d("all_reduce", "efa", 64, 2.0**25) != 0
    assert instance.d("all_reduce", "ib", 16, 2.0**25) == 0


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ColltoolError, match="did you mean 'dgx-h100'"):
        machine("dgx-h10")


def test_files_are_small_and_read_back() -> None:
    assert {entry.name for entry in index()} == set(NAMES)
    assert {file.stem for file in FOLDER.glob("*.json")} == {*NAMES, "index"}
    for name in NAMES:
        text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
        assert len(text) < 100_000
        assert fit_machines.is_same(text_of(from_data(json.loads(text))), text)


def test_reading_a_scalar_loads_no_numpy() -> None:
    code = (
        "import sys; from colltool.machines.shipped import machine_for; m = machine_for('h100',"
        " 'nvlink4', 'ib');m.d('all_reduce', 'ib', 64, 1e6); m.sigma('all_reduce', 'ib', 64, 1e6);"
        " assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@swept("name", NAMES)
def test_far_from_its_rows_nothing_is_known(name: str) -> None:
    found = machine(name)
    for (_, scope), factor in found.factors.items():
        assert min(factor.lines[-1].sigma) >= 0.9 * found.prior[scope]
        assert all(
            sigma <= found.prior[scope] + 1e-3 for line in factor.lines for sigma in line.sigma
        )


@pytest.mark.ci
@pytest.mark.parametrize("name", ["nvl72", "gh200"])
def test_far_from_its_rows_d_goes_to_nothing(name: str) -> None:
    """But where it must not fall, because the prices of layers 1 to 3 do not rise with ranks
    there."""
    scope, *_ = KNOWN[name].scopes
    found = fit_machines.made(name, keep_order=False, only={("all_reduce", scope)})
    lines = found.factors["all_reduce", scope].lines
    most = max(abs(d) for line in lines for d in line.d)
    assert max(map(abs, lines[-1].d)) < 0.4 * most


def test_the_process_forgets() -> None:
    smoother = Smoother(parts=(Smooth(0.5, 4.0, 2.0),), source=Smooth(0.1, 4.0, 2.0), noise=0.05)
    row = Observation("all_reduce", "ib", 64, 2.0**20, 0.4, "someone")
    found = posterior(smoother, [row], row, [64, 64 * 2**8], [2.0**20, 2.0**36])
    assert found.d[0, 0] == pytest.approx(0.4 * 0.25 / (0.25 + 0.01 + 0.0025))
    assert abs(found.d[0, 1]) < 2e-4
    assert abs(found.d[1, 0]) < 2e-4
    assert found.sigma[0, 0] < 0.25
    assert found.sigma[1, 1] == pytest.approx(smoother.prior, abs=1e-5)


def test_a_hump_is_levelled_with_the_larger_message() -> None:
    assert rising_times([1.0, 2.0, 3.0]) == pytest.approx([1.0, 2.0, 3.0])
    low, *level = rising_times([1.0, 4.0, 2.0])
    assert low == 1.0
    assert level == pytest.approx([(1 / 4 + 1 / 2) / (1 / 16 + 1 / 4)] * 2)


def test_d_is_moved_only_where_prices_would_fall() -> None:
    best = np.log(np.array([[1.0, 1.1, 2.0], [1.2, 1.3, 2.4]]))
    gentle = np.array([[0.05, 0.0, 0.0], [0.0, 0.0, 0.0]])
    sigma = np.full((2, 3), 0.1)
    room = room_of(best, [])
    assert (shaped(gentle, sigma, room) == gentle).all()
    steep = np.array([[0.8, 0.0, 0.0], [0.0, 0.0, 0.0]])
    times = best + shaped(steep, sigma, room)
    assert (np.diff(times, axis=1) >= 0).all()
    assert (np.diff(times, axis=0) >= 0).all()
    leap = np.array([[0.0, 0.0, 0.9], [0.0, 0.0, 0.9]])
    assert (np.diff(best + shaped(leap, sigma, room), axis=1) <= log(2) - log(1 - MOST_FALL)).all()


# Prices under the factor, on grids of sizes and ranks.
# ---------------------------------------------------------------------


def asked(name: str, scope: str) -> list[int]:
    """Ten rank counts, grid points and others."""
    domain = KNOWN[name].domains[0]
    if scope == INSIDE:
        return [count for count in (2, 4, 8, 16, 18, 24, 32, 36, 64, 72) if count <= domain]
    return [domain * nodes for nodes in (2, 3, 4, 6, 8, 16, 20, 32, 64, 128)]


OFF_GRID = 0.06
"""Between the grid's rank counts prices rise by steps, and d along a line."""
MEASURED = 2**34


def check_line(name: str, primitive: str, scope: str, ranks: int, *, strict: bool = False) -> float:
    """The smallest step of the bus bandwidth; a fall where the library's own pick changes is not
    the factor's.

    ``strict``: up to the largest measured size not even there.
    """
    found = machine(name)
    priced = fit_machines.priced_grid(name, primitive, scope, (ranks,))
    best, runs = priced.best[0], priced.runs[0]
    d = np.array([found.d(primitive, scope, ranks, float(size)) for size in SIZES])
    excused = {
        (one["primitive"], one["scope"], one["bytes"])
        for one in found.exceptions
        if 0.5 <= one["ranks"] / ranks <= 2
    }
    on_grid = ranks in [line.ranks for line in found.factors[primitive, scope].lines]
    dust = 5e-3 if on_grid else OFF_GRID
    smallest = np.inf
    for at, size in enumerate(SIZES[:-1]):
        rise, moved = best[at + 1] - best[at], d[at + 1] - d[at]
        changes = runs[at] != runs[at + 1] and not (strict and size < MEASURED)
        step = 2 / exp(rise + moved)
        assert rise + moved >= min(rise, 0.0) - dust or changes, (ranks, size)
        if (primitive, scope, size) not in excused and not changes:
            smallest = min(smallest, step)
            assert step >= 1 - MOST_FALL - dust, (ranks, size, step)
    return smallest


@swept("ranks", [144, 288, 576, 1152, 2304])
def test_bus_bandwidth_of_racks_holds_as_the_message_grows(ranks: int) -> None:
    """Where racks were measured closely, two and three of them, not even NCCL's change from LL's rings
    to NVLS shows."""
    print(
        ranks,
        f"smallest step x{check_line('nvl72', 'all_reduce', 'ib', ranks, strict=ranks < 500):.2f}",
    )


@pytest.mark.ci
@pytest.mark.alike(3)
@pytest.mark.parametrize("primitive", PRIMITIVES)
@pytest.mark.parametrize("name", NAMES)
def test_prices_rise_and_bus_bandwidth_holds(name: str, primitive: str) -> None:
    scopes = {scope for kind, scope in machine(name).factors if kind == primitive}
    for scope in scopes:
        for ranks in asked(name, scope):
            check_line(name, primitive, scope, ranks)


@pytest.mark.ci
@pytest.mark.alike(1)
@pytest.mark.parametrize("name", NAMES)
def test_a_larger_group_takes_longer(name: str) -> None:
    """At the grid's rank counts, wherever the same way runs on both and layers 1 to 3 do not fall
    themselves."""
    found = machine(name)
    for scope in found.outside:
        counts = tuple(line.ranks for line in found.factors["all_reduce", scope].lines)
        priced = fit_machines.priced_grid(name, "all_reduce", scope, counts)
        d = np.array(
            [
                [found.d("all_reduce", scope, count, float(size)) for size in SIZES]
                for count in counts
            ]
        )
        rises = np.diff(priced.best, axis=0)
        times = rises + np.diff(d, axis=0)
        names = np.array(priced.runs)
        same = (names[1:] == names[:-1]) & ~np.isnan(rises)
        assert (times[same] >= np.minimum(rises[same], 0) - 5e-3).all()


# A machine of one's own.
# ----------------------------------------------------------------------------------------------------

OWN = """\
schema: colltool.machine/1
name: my-cluster
device: h100
media: {inside: nvlink4, outside: roce}
rows:
  - {primitive: all_reduce, scope: roce, ranks: 64, bytes: 4096, time: 61us, r: 0.2}
  - {primitive: all_reduce, scope: roce, ranks: 64, bytes: 8MiB, time: 412us, r: 0.3}
  - {primitive: all_reduce, scope: roce, ranks: 64, bytes: 1GiB, time: 6.2ms, r: 0.05}
"""


def test_a_machine_file_becomes_a_machine_and_is_written_back() -> None:
    file = read_machine_file(OWN, "mine.machine.yaml")
    mine = machine_of(file)
    assert mine.rows == 3
    assert mine.d("all_reduce", "roce", 64, 2.0**23) == pytest.approx(0.25, abs=0.06)
    assert 0 < mine.d("all_gather", "roce", 64, 2.0**23) < mine.d("all_reduce", "roce", 64, 2.0**23)
    assert mine.d("all_reduce", INSIDE, 8, 2.0**23) == 0
    assert abs(mine.d("all_reduce", "roce", 64 * 2**8, 2.0**23)) < 0.02
    near, far = (mine.sigma("all_reduce", "roce", ranks, 2.0**23) for ranks in (64, 4096))
    assert near is not None
    assert far is not None
    assert near < 0.12 < far
    assert read_machine_file(machine_text(file), "again") == file


def test_three_rows_are_the_law_of_intervals() -> None:
    """The posterior by hand: variance 0.85 sigma^2 over 6 doublings, noise 0.15 sigma^2."""
    sizes = np.array([12.0, 23.0, 30.0])
    kernel = 0.85 * np.exp(-(((sizes[:, None] - sizes) / 6) ** 2) / 2)
    cross = 0.85 * np.exp(-(((18.0 - sizes) / 6) ** 2) / 2)
    by_hand = cross @ np.linalg.solve(kernel + 0.15 * np.eye(3), [0.2, 0.3, 0.05])
    assert machine_of(read_machine_file(OWN)).d("all_reduce", "roce", 64, 2.0**18) == pytest.approx(
        by_hand, abs=1e-9
    )


def test_mistakes_of_a_machine_file_are_named_at_their_place() -> None:
    with pytest.raises(ColltoolError) as caught:
        read_machine_file(
            OWN.replace("ranks: 64, bytes: 4096", "ranks: none, bytes: 4096").replace("61us", "61"),
            "mine",
        )
    assert "mine:6" in str(caught.value)
    assert "rows.0.ranks" in str(caught.value)
