"""Plans beside training runs that others measured: ``tests/data/training_runs.csv``, and how near ``plan`` comes to them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, median

import pytest

BENCHMARKS = Path(__file__).parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from bench_plan import RUNS, SOURCES, Judged, growth, judged, rows, stack_of  # noqa: E402

from colltool.training.step_time import DENSE, MEMORY, MOE, PublishedError  # noqa: E402


@pytest.fixture(scope="module")
def found() -> list[Judged]:
    all_of_them, refused = judged(rows())
    assert refused == []
    return all_of_them


def off(found: Iterable[Judged], stack: str, kind: str) -> list[float]:
    return [abs(one.error) for one in found if stack_of(one.row) == stack and one.kind == kind]


def test_every_run_names_a_source_and_stands_once() -> None:
    listed = rows()
    assert len(listed) >= 100
    assert RUNS.stat().st_size < 40_000
    assert {row["source"] for row in listed} == set(SOURCES)
    assert all("https://" in source for source in SOURCES.values())
    keys = [(row["source"], row["run"], row["device"]) for row in listed]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("stack", sorted(DENSE))
def test_dense_runs_are_as_far_off_as_the_output_says(found: list[Judged], stack: str) -> None:
    errors = off(found, stack, "dense")
    assert DENSE[stack] == PublishedError(len(errors), pytest.approx(median(errors), abs=6e-4))


def test_runs_with_experts_are_as_far_off_as_the_output_says(found: list[Judged]) -> None:
    errors = off(found, "megatron", "moe")
    assert PublishedError(len(errors), pytest.approx(median(errors), abs=6e-4)) == MOE["megatron"]
    assert median(errors) <= 0.20


def test_dense_runs_of_megatron_are_near(found: list[Judged]) -> None:
    errors = off(found, "megatron", "dense")
    assert median(errors) <= 0.08
    assert mean(errors) <= 0.12
    assert max(errors) <= 0.27
    free = [abs(one.control) for one in found if stack_of(one.row) == "megatron" and one.kind == "dense"]
    assert median(free) > 1.5 * median(errors), "the network is priced, not left out"


def test_steps_grow_with_the_replicas_as_they_did(found: list[Judged]) -> None:
    grown = growth(found)
    assert len(grown) >= 14
    assert {name: more for name, more in grown.items() if abs(more) > 0.015} == {}


def test_memory_is_near_and_what_ran_fits(found: list[Judged]) -> None:
    errors = [abs(one.memory) for one in found if one.memory is not None]
    assert PublishedError(len(errors), pytest.approx(median(errors), abs=6e-4)) == MEMORY
    assert median(errors) <= 0.15
    assert sum(one.fits for one in found) >= 0.87 * len(found), "recompute is not stated for most of the others"
