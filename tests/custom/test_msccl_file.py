"""MSCCL's XML: published files are read and proved, wrong ones refused at the step, hostile ones at
once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from msccl_texts import (
    algo,
    all_gather_all_pairs,
    all_reduce_one_step,
    all_reduce_ring,
    all_to_all_all_pairs,
    step,
    tb,
)
from swept import swept

from colltool.algorithms.executor import Network, run
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, Primitive
from colltool.custom.file import load_algorithm
from colltool.custom.msccl_file import MOST_STEPS
from colltool.custom.schedule import CustomSchedule
from colltool.network.links import TierRanks
from colltool.network.tier_links import links_of


def read(tmp_path: Path, text: str) -> CustomSchedule:
    path = tmp_path / "own.xml"
    path.write_text(text, encoding="utf-8")
    return load_algorithm(path)


def refused(tmp_path: Path, text: str) -> str:
    with pytest.raises(ColltoolError) as error:
        read(tmp_path, text)
    return str(error.value)


def test_two_of_them_are_published_files() -> None:
    assert (len(all_gather_all_pairs()), len(all_to_all_all_pairs())) == (32129, 20856)


def loads(schedule: CustomSchedule) -> tuple[int, float]:
    """Rounds, and bytes through the busiest port in units of M, each round waiting for its
    busiest."""
    network = Network(links_of("switches", TierRanks(schedule.ranks)))
    program = schedule.program()
    for batch in schedule.batches:
        network.carry(batch, program.chunk_bytes)
    return len(schedule.batches), network.peak


@swept(
    ("text", "primitive", "rounds", "bytes_"),
    [
        (all_gather_all_pairs(), AG, 1, 7 / 8),
        (all_to_all_all_pairs(), A2A, 1, 7 / 8),
        (all_reduce_one_step(), AR, 1, 3),
        (all_reduce_ring(), AR, 6, 2 * 3 / 4),
        (all_reduce_ring(8, 3), AR, 14, 2 * 7 / 8),
    ],
)
def test_files_of_the_generator_are_proved(
    tmp_path: Path, text: str, primitive: Primitive, rounds: int, bytes_: float
) -> None:
    """And cost what their formulas say: direct, one-shot and ring."""
    found = read(tmp_path, text)
    assert found.primitive is primitive
    assert loads(found) == (rounds, pytest.approx(bytes_))
    # without scratch it also runs as shipped schedules do, on random numbers
    if 's_chunks="0"' in text:
        assert run(found.program()).holds


def test_a_missing_dependency_is_found_in_the_other_order(tmp_path: Path) -> None:
    nop = 'type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0"'
    text = all_reduce_one_step().replace(f'{nop} depid="3"', f'{nop} depid="-1"')
    found = refused(tmp_path, text)
    assert "own.xml:" in found
    assert "re)" in found or "dependency" in found


WRONG = [
    ('type="rrcs"', 'type="rrs"', "gpu 0 ends with chunk"),
    (
        'type="rrcs" srcbuf="i" srcoff="1"',
        'type="rcs" srcbuf="i" srcoff="1"',
        "without the part of rank",
    ),
    ('type="s" srcbuf="i" srcoff="0"', 'type="s" srcbuf="i" srcoff="1"', "adds chunk"),
    (
        'type="s" srcbuf="i" srcoff="0"',
        'type="s" srcbuf="i" srcoff="99"',
        "place 99 of buffer i is outside: it has 8 chunks",
    ),
    (
        'type="s" srcbuf="i" srcoff="0"',
        'type="s" srcbuf="s" srcoff="0"',
        "outside: it has 0 chunks",
    ),
    ('type="rrcs"', 'type="put"', "the type 'put' is not known"),
    ('cnt="1"', 'cnt="x"', "cnt is a whole number, got 'x'"),
    ('<tb id="0" send="1"', '<tb id="0" send="9"', "tb 0 of gpu 0 sends to gpu 9"),
    (
        '<tb id="1" send="1" recv="3" chan="1"',
        '<tb id="1" send="1" recv="3" chan="0"',
        "have channel 0 to gpu 1",
    ),
    ('nchunksperloop="8"', "", "'algo' has no nchunksperloop"),
    ('coll="allreduce"', 'coll="custom"', "'custom' promises nothing that can be checked"),
    ('ngpus="4"', 'ngpus="5"', "ngpus is 5, and 4 gpus are there"),
    ('<gpu id="3"', '<gpu id="2"', "gpu 2 is there twice"),
    ('s="1" type="rrs"', 's="7" type="rrs"', "step 7 stands in the place of step 1"),
    ("<step", "<copy", "the element 'copy' is not known"),
    ('depid="-1" deps="-1"', 'depid="7" deps="0"', "waits for step 0 of tb 7, which is not there"),
]


@swept(("old", "new", "what"), WRONG)
def test_a_wrong_file_is_refused_at_the_step(tmp_path: Path, old: str, new: str, what: str) -> None:
    text = all_reduce_ring()
    assert old in text
    found = refused(tmp_path, text.replace(old, new, 1))
    assert what in found.replace("rank 0 ends", "gpu 0 ends")
    assert "own.xml" in found


def test_the_step_is_named_with_its_line(tmp_path: Path) -> None:
    text = all_reduce_ring().replace('type="rrcs"', 'type="rcs"', 1)
    line = 1 + text[: text.index('type="rcs"')].count("\n")
    assert line > 3
    text = text.replace(
        'type="rcs" srcbuf="i" srcoff="1" dstbuf="o" dstoff="1"',
        'type="re" srcbuf="s" srcoff="1" dstbuf="o" dstoff="1"',
    )
    assert f"own.xml:{line}: gpu 0, tb 0, step 3 (re): place 1 of buffer s is outside" in refused(
        tmp_path, text
    )


def two(*steps: str, other: str = "", chunks: tuple[int, int, int] = (2, 2, 2)) -> str:
    """Two GPUs; the first with these threadblocks."""
    return algo(
        'name="x" nchunksperloop="2" coll="allreduce" inplace="1"',
        [(chunks, steps), (chunks, [other] if other else [])],
    )


def test_a_deadlock_is_refused(tmp_path: Path) -> None:
    waits = "waits for a message from gpu 1 on channel 0 for ever"
    assert waits in refused(tmp_path, two(tb(0, -1, 1, 0, [step(0, "r", ("i", 0), ("i", 0))])))
    cycle = [tb(n, -1, -1, 0, [step(0, "nop", dep=(1 - n, 0))]) for n in (0, 1)]
    assert "waits for step 0 of tb 1 for ever: 2 threadblocks are in a deadlock" in refused(
        tmp_path, two(*cycle)
    )


def test_messages_that_nobody_takes_and_counts_that_differ(tmp_path: Path) -> None:
    send = step(0, "s", ("i", 0), ("i", 0), 2)
    assert "no tb of gpu 1 receives from gpu 0 on channel 0" in refused(
        tmp_path, two(tb(0, 1, -1, 0, [send]))
    )
    assert "sends what gpu 1 never receives" in refused(
        tmp_path, two(tb(0, 1, -1, 0, [send]), other=tb(0, -1, 0, 0, []))
    )
    short = tb(0, -1, 0, 0, [step(0, "rrc", ("i", 0), ("i", 0), 1)])
    assert "receives 1 chunks, and gpu 0, tb 0, step 0 (s) sent 2" in refused(
        tmp_path, two(tb(0, 1, -1, 0, [send]), other=short)
    )


def test_what_is_reduced_twice_is_named(tmp_path: Path) -> None:
    twice = [step(0, "s", ("i", 0), ("i", 0)), step(1, "s", ("i", 0), ("i", 0))]
    adds = [step(n, "rrc", ("i", 0), ("i", 0)) for n in (0, 1)]
    found = refused(tmp_path, two(tb(0, 1, -1, 0, twice), other=tb(0, -1, 0, 0, adds)))
    assert (
        "gpu 1, tb 0, step 1 (rrc): chunk 0 is reduced twice at rank 1: rank 0 would be in it two"
        " times" in found
    )


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><algo'
    ' name="&b;" nchunksperloop="2"/>'
)
HOSTILE = {
    "entities": (BOMB, "a DOCTYPE is not read"),
    "huge numbers": (
        two().replace('nchunksperloop="2"', f'nchunksperloop="{"9" * 99}"'),
        "nchunksperloop is too large a number",
    ),
    "many chunks": (
        two().replace('nchunksperloop="2"', 'nchunksperloop="999999999"'),
        "65536 chunks are followed",
    ),
    "huge counts": (
        two(tb(0, -1, -1, 0, [step(0, "cpy", ("i", 0), ("o", 0), 999_999_999)])),
        "chunks moved, are not followed",
    ),
    "deep": ("<algo>" * 100_000, "'algo' stands in 'algo'"),
    "not closed": ("<algo", "not valid XML"),
    "negative": (two(tb(0, -1, -1, 0, [step(0, "cpy", ("i", -5), ("o", 0))])), "outside"),
}


@swept("name", HOSTILE)
def test_a_hostile_file_is_refused_at_once(tmp_path: Path, name: str) -> None:
    text, what = HOSTILE[name]
    start = time.process_time()
    assert what in refused(tmp_path, text)
    assert time.process_time() - start < 1


def test_steps_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_STEPS == 200_000
    monkeypatch.setattr("colltool.custom.msccl_file.MOST_STEPS", 20)
    assert "more than 20 steps" in refused(tmp_path, all_reduce_ring())
