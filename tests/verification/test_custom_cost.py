"""Algorithms of one's own, priced on links: as shipped ones where they send the same, never below
the cut bound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msccl_texts import all_gather_all_pairs, all_reduce_one_step, all_reduce_ring
from swept import swept

import colltool
from colltool.algorithms.program import program_maker
from colltool.algorithms.registry import algorithms
from colltool.base.errors import ColltoolError
from colltool.base.primitives import AR, P2P, Trees
from colltool.commands.requests import under_library
from colltool.custom.postcondition import PRIMITIVES
from colltool.custom.schedule import CustomSchedule, custom_from_program
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import flat_group, place
from colltool.verification.custom_cost import custom_costs, with_unique_names

MB = 1e6


def write(tmp_path: Path, text: str, name: str = "my.xml") -> str:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


@swept(
    ("fabric", "n"),
    [("star512", 8), ("dgx-h100", 8), ("mi300x", 8), ("torus512", 8), ("nvl72", 16)],
)
@swept("ideal", [True, False])
def test_what_sends_as_a_shipped_schedule_costs_the_same(fabric: str, n: int, ideal: bool) -> None:
    """Every schedule of one stream on one tier: the price of its formula, with the same α,
    bandwidth and η."""
    loaded, readings = under_library(colltool.load_fabric(fabric), "all"), ModelOptions(ideal=ideal)
    group = flat_group(place(loaded, n), readings)[0]
    seen = 0
    for primitive in PRIMITIVES:
        for row in algorithms(primitive):
            make = program_maker(primitive, row.name)
            if (
                make is None
                or row.why_not(group)
                or (program := make(group, 4)).nodes > n
                or program.primitive is P2P
            ):
                continue
            if any(
                terms.fill is not None or isinstance(terms.route, Trees)
                for terms in row.schedule(group)
            ):
                continue  # a stream of segments, whose steps overlap
            priced = colltool.price(
                loaded, primitive, ranks=n, size=MB, algorithms=row.name, readings=readings
            ).best
            costs = custom_costs([custom_from_program("x", program)], loaded, n, readings)
            own = next(one for one in costs if one.protocol == priced.protocol).at(MB)
            assert (float(own.alpha_s), float(own.bandwidth_s)) == (
                pytest.approx(float(priced.alpha_s)),
                pytest.approx(float(priced.bandwidth_s)),
            ), row.name
            seen += 1
    assert seen > 8


@swept(
    ("fabric", "n"),
    [("dgx-h100", 64), ("clos-4to1", 32), ("torus512", 64), ("nvl72", 144), ("mi300x", 8)],
)
def test_no_price_is_below_the_cut_bound(fabric: str, n: int) -> None:
    loaded, readings = colltool.load_fabric(fabric), ModelOptions(ideal=True)
    group = flat_group(place(loaded, n), readings)[0]
    for row in algorithms(AR):
        make = program_maker(AR, row.name)
        if (
            make is None
            or row.name not in ("ring", "recursive-doubling", "rabenseifner", "two-shot")
            or row.why_not(group)
        ):
            continue
        for cost in custom_costs(
            [custom_from_program("x", make(group._replace(axes=()), 1))], loaded, n, readings
        ):
            row = cost.at(1e9)
            assert row.lower_bound_s is not None
            assert float(row.bandwidth_s) >= float(row.lower_bound_s) * (1 - 1e-9)


def test_a_ring_over_nodes_waits_as_its_chunks_travel(tmp_path: Path) -> None:
    """The chain with most hops between nodes: 16 of the 126, where the mean is 15.75."""
    file = write(tmp_path, all_reduce_ring(64, 1))
    price = colltool.price(
        "dgx-h100",
        "ar",
        size="64MB",
        algorithms="ring",
        algorithm_files=file,
        library="all",
        ideal=True,
    )
    rows = {row.title: row for row in price.results}
    own, shipped = rows["allreduce_ring"], rows["ring"]
    assert float(own.bandwidth_s) == pytest.approx(float(shipped.bandwidth_s))
    hops = {phase.tier: phase.n_alpha for phase in own.phases}
    assert hops == {"nvlink": 110, "ib": 16}
    assert 1 < float(own.alpha_s / shipped.alpha_s) < 1.01


def test_a_row_of_its_own_is_ranked_and_says_that_it_is_unmeasured(tmp_path: Path) -> None:
    file = write(tmp_path, all_reduce_one_step(8))
    price = colltool.price("dgx-h100", "ar", size="1KB", algorithm_files=[file], library="all")
    assert price.ranks == 8  # the file's
    own = next(row for row in price.results if row.status == "own")
    assert own.selectable
    assert any("unmeasured" in note and "nothing is in it" in note for note in own.notes)
    fitted = colltool.price("dgx-h100", "ar", size="1KB", algorithm_files=[file]).results
    (under,) = (row for row in fitted if row.status == "own")
    assert any(f"with protocol {under.protocol} as" in note for note in under.notes)
    totals = [float(row.total_s) for row in price.leading]
    assert totals == sorted(totals)
    nccl = colltool.price("dgx-h100", "ar", size="1KB", algorithm_files=file)
    assert nccl.shows_pick
    assert nccl.slower_pick == pytest.approx(
        colltool.price("dgx-h100", "ar", size="1KB", ranks=8).slower_pick
    )
    alone = colltool.price("star512", "ar", size="1KB", algorithm_files=file, ranks=8)
    first = alone.best if alone.best.status == "own" else None
    assert first is None or (alone.accuracy is not None and alone.accuracy.rows == 0)


def test_an_array_of_sizes_is_one_call(tmp_path: Path) -> None:
    file, sizes = write(tmp_path, all_reduce_ring()), np.array([1e3, 1e6, 1e9])
    price = colltool.price("star512", "ar", size=sizes, algorithm_files=file)
    own = next(row for row in price.results if row.status == "own")
    each = [
        next(
            row
            for row in colltool.price(
                "star512", "ar", size=float(one), algorithm_files=file
            ).results
            if row.status == "own"
        )
        for one in sizes
    ]
    assert own.total_s == pytest.approx([float(row.total_s) for row in each])


def test_a_mapping_is_a_file() -> None:
    swap = {"name": "swap", "primitive": "ar", "ranks": 2, "chunks": 1, "steps": ["0>1:0+ 1>0:0+"]}
    price = colltool.price(
        "star512", "ar", size="1MB", algorithm_files=swap, algorithms="recursive-doubling"
    )
    first, second = price.results
    assert {first.status, second.status} == {"shipped", "own"}
    assert float(first.total_s) == pytest.approx(float(second.total_s))


def test_names_are_told_apart() -> None:
    def named(name: str, file: str) -> CustomSchedule:
        return CustomSchedule(name, PRIMITIVES[0], 2, 1, (), file=file)

    several = [
        named("ring", "a/x.xml"),
        named("mine", "b.xml"),
        named("mine", "c.xml"),
        named("ring", "b/x.xml"),
        named("ring", ""),
    ]
    names = [one.name for one in with_unique_names(several, {"ring"})]
    assert names == ["ring@x.xml", "mine", "mine@c.xml", "ring@x.xml-2", "ring@own"]


def test_what_does_not_fit_the_question_is_refused(tmp_path: Path) -> None:
    file, other = (
        write(tmp_path, all_reduce_one_step(8)),
        write(tmp_path, all_reduce_ring(4), "four.xml"),
    )
    gather = write(tmp_path, all_gather_all_pairs(), "gather.xml")
    for arguments, what in (
        ({"algorithm_files": file, "ranks": 16}, "is for 8 ranks, and the group has 16"),
        ({"algorithm_files": [file, other]}, "the files are for 4 and 8 ranks"),
        ({"algorithm_files": gather}, "allgather_allpairs is an all-gather, not all-reduce"),
        ({"algorithm_files": file, "placement": "scattered"}, "is executed packed, not scattered"),
        ({"algorithm_files": file, "ports": "one"}, "is executed all, not one"),
        ({"algorithm_files": 3}, "expected paths of algorithm files"),
        ({"algorithm_files": file, "library": "vllm"}, "not with the kernels of an engine"),
    ):
        with pytest.raises(ColltoolError, match=what):
            colltool.price(
                "dgx-h100" if "library" not in arguments else "hgx-h200",
                "ar",
                size="1MB",
                **arguments,
            )  # type: ignore[arg-type]


def test_verify_runs_a_file_alone_or_beside_what_is_named(tmp_path: Path) -> None:
    file = write(tmp_path, all_reduce_ring(8, 2))
    (alone,) = colltool.verify("dgx-h100", algorithm_files=file).results
    assert (alone.verdict, alone.n_alpha, alone.n_beta) == (
        "proved",
        (None, 14),
        (None, pytest.approx(1.75)),
    )
    ring, own = colltool.verify("dgx-h100", algorithm_files=file, algorithms="ring").results
    assert (ring.n_alpha[1], ring.n_beta[1]) == (own.n_alpha[1], pytest.approx(own.n_beta[1]))
    assert own.time_s == pytest.approx(ring.time_s)


def test_steps_of_a_file_are_printed_where_no_scratch_is_used(tmp_path: Path) -> None:
    files = [
        write(tmp_path, all_reduce_ring(4)),
        write(tmp_path, all_reduce_one_step(4), "scratch.xml"),
    ]
    ring, pairs = colltool.verify("star512", algorithm_files=files, trace=True).results
    assert ring.trace is not None
    assert len(ring.trace.steps) == 6
    assert pairs.trace is None
    assert "its steps are not printed" in pairs.note
