"""Algorithm files of colltool's own form: every shipped schedule goes through one and back, wrong
ones name their step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from swept import swept

import colltool.algorithms
import colltool.custom.file
from colltool.algorithms.executor import run
from colltool.algorithms.program import Program, program_maker
from colltool.algorithms.registry import algorithms
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, REDUCE, RS, Primitive
from colltool.custom.file import algorithm_text, custom_schedule, runs
from colltool.custom.postcondition import PRIMITIVES, postcondition_of
from colltool.custom.schedule import CustomSchedule, custom_from_program
from colltool.network.group import Axis, Group

GROUPS = (
    *(Group(n, "star") for n in (2, 5, 8)),
    *(Group(n, "full_mesh") for n in (4, 5)),
    Group(8, "torus", axes=(Axis(4, wrap=True), Axis(2, wrap=True))),
    Group(12, "mesh", axes=(Axis(4, wrap=False), Axis(3, wrap=False))),
)


def shipped() -> Iterator[tuple[str, Program]]:
    for primitive in PRIMITIVES:
        for row in algorithms(primitive):
            make = program_maker(primitive, row.name)
            for group in GROUPS:
                if make is not None and row.why_not(group) is None:
                    yield row.name, make(group, 3)


def refused(text: str) -> str:
    with pytest.raises(ColltoolError) as error:
        custom_schedule(text, "own.yaml")
    return str(error.value)


def file(*steps: str, primitive: str = "all_reduce", ranks: int = 2, more: str = "") -> str:
    lines = [
        f"schema: colltool.algorithm/1\nname: x\nprimitive: {primitive}\nranks: {ranks}",
        more,
        "steps:",
    ]
    return "\n".join([*filter(None, lines), *(f"  - {step}" for step in steps)])


def test_both_ways_to_write_a_send() -> None:
    text = file("0>1:1+ 1>0:0+", "[{src: 0, dst: 1, chunk: 0}, {src: 1, dst: 0, chunks: [1]}]")
    found = custom_schedule(text)
    assert (found.primitive, found.ranks, found.chunks, found.messages) == (AR, 2, 2, 4)
    assert algorithm_text(found).endswith("steps:\n  - 0>1:1+ 1>0:0+\n  - 0>1:0 1>0:1\n")
    assert run(found.program()).holds


def test_every_shipped_schedule_among_ranks_reads_back_as_the_same() -> None:
    seen = set()
    for name, program in shipped():
        if program.nodes > program.ranks or np.ptp(program.chunk_bytes) > 1e-12:
            with pytest.raises(ColltoolError, match=r"switches, servers or padding|equal chunks"):
                custom_from_program(name, program)
            continue
        own = custom_from_program(name, program)
        back = custom_schedule(algorithm_text(own))
        assert [messages(one) for one in (own, back)] == [messages(own)] * 2, name
        assert run(back.program()).holds, name
        seen.add((own.primitive, name))
    assert len(seen) > 40
    assert {primitive for primitive, _ in seen} == {AR, AG, RS, A2A, BC, REDUCE}


def messages(schedule: CustomSchedule) -> list[list[tuple[int, int, int, bool]]]:
    return [
        sorted(
            (*one, step.add)
            for step in batch
            for one in zip(*(part.tolist() for part in step[:3]), strict=True)
        )
        for batch in schedule.batches
    ]


@swept(
    ("text", "what"),
    [
        (
            file("0>1:0+", "1>0:0"),
            (
                "own.yaml: after the last of 2 steps rank 0 ends with chunk 1 without the part of"
                " rank 1"
            ),
        ),
        (
            file("0>1:0-1+ 1>0:0-1+", "0>1:0+"),
            "step 2: chunk 0 is reduced twice at rank 1: ranks 0, 1 would be in it two times",
        ),
        (
            file("1>0:0", primitive="all_gather"),
            "step 1: rank 1 sends chunk 0 to rank 0 before it has it",
        ),
        (
            file("0>1:1", primitive="bc", ranks=3, more="root: 2"),
            "step 1: rank 0 sends chunk 1 to rank 1 before it has it",
        ),
        (file("0>1:0", primitive="all_gather"), "rank 0 ends without chunk 1"),
        (
            file("0>2:0 1>2:0+", ranks=3),
            "step 1: two messages write chunk 0 of rank 2 at once, and one of them replaces it",
        ),
        (
            file("0>1:1", primitive="a2a"),
            "after the last of 1 step rank 0 ends without chunk 2, from rank 1 to 0",
        ),
        (file("0>1:5"), "own.yaml:6:5: steps.0: chunk 5 is not there: chunks are 0 .. 1"),
        (file("0>7:0"), "rank 7 is not there: ranks are 0 .. 1"),
        (file("0>0:0"), "rank 0 sends to itself"),
        (file("0>1:1-0"), "a range of chunks runs backwards"),
        (file("0-1:0"), "'0-1:0' is no send"),
        (file("0>1:-,"), "is no send"),
        (file("[]"), "a step without a send"),
        (file("[{src: 0, dst: 1}]"), "a send has either 'chunk' or 'chunks'"),
        (
            file("[{src: 0, dst: 1, chunk: 0, chunks: [1]}]"),
            "a send has either 'chunk' or 'chunks'",
        ),
        (file("[{src: 0, dst: 1, chunk: 0, add: true}]"), "add"),
        (
            file("0>1:0", more="chunks: 3", primitive="rs"),
            "3 chunks do not divide among 2 ranks of reduce-scatter",
        ),
        (file("0>1:0", more="root: 5", primitive="bc"), "the root is one of the ranks, got 5"),
        (file("0>1:0", primitive="p2p"), "a schedule of p2p is not read"),
        (file("0>1:0", ranks=1), "ranks"),
    ],
)
def test_what_is_wrong_is_named(text: str, what: str) -> None:
    said = refused(text)
    assert what in said
    assert ("a step without a send" in said) == (what == "a step without a send")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            file("0>1:0", more="chunks: 65536", ranks=4096),
            "4096 ranks of 65536 chunks are more than",
        ),
        (file("0>1:0", more="chunks: 99999999"), "a whole number from 1 to 65536"),
        (
            file(*["0>1:0-65535"] * 16, more="chunks: 65536", primitive="bc"),
            "more than 1000000 chunks are sent in all",
        ),
        (file("0>1:0-999999999"), "chunk 999999999 is not there"),
        (file("&a 0>1:0", "*a"), "anchors"),
        (file("[" * 5000), "nested deeper"),
        (file("0>1:" + "0," * 300_000), "is no send"),
    ],
)
def test_a_hostile_file_is_refused_at_once(text: str, what: str) -> None:
    start = time.process_time()
    assert what in refused(text)
    assert time.process_time() - start < 4


def test_json_is_read_too() -> None:
    assert (
        custom_schedule(
            '{"name": "x", "primitive": "bc", "ranks": 2, "chunks": 1, "steps": ["0>1:0"]}'
        ).primitive
        is BC
    )


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "swap.yaml"
    path.write_text(file("0>1:0+", "1>0:0", more="chunks: 1"), encoding="utf-8")
    assert colltool.custom.file.load_algorithm(path).file == str(path)


def test_runs_of_chunks() -> None:
    assert runs([5, 1, 0, 2, 7]) == [(0, 3), (5, 1), (7, 1)]


def test_limits_are_spoken() -> None:
    with pytest.raises(ColltoolError, match="2 to 4096 ranks are followed, got 1"):
        postcondition_of(Primitive.ALL_REDUCE, 1, 4)
