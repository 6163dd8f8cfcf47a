"""MSCCL++'s plans: published ones are read and proved; unknown operations, deadlocks and hostile
files refused by name."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from mscclpp_plans import multi_node_transfer, reduce, reduce_pack

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import AG, AR, Primitive
from colltool.custom.file import load_algorithm
from colltool.custom.schedule import CustomSchedule


def read(tmp_path: Path, text: str) -> CustomSchedule:
    path = tmp_path / "plan.json"
    path.write_text(text, encoding="utf-8")
    return load_algorithm(path)


def test_they_are_the_published_files() -> None:
    assert [len(text) for text in (reduce(), reduce_pack(), multi_node_transfer())] == [
        8631,
        6500,
        7827,
    ]


@pytest.mark.parametrize(
    ("text", "primitive", "rounds", "sent"),
    [
        # each reads two chunks and writes two; rank 0 one after the other
        (reduce(), AR, 3, {(1, 0): 4, (0, 1): 4}),
        (reduce_pack(), AR, 2, {(0, 1): 2, (1, 0): 2}),
        (multi_node_transfer(), AG, 1, {(0, 1): 2, (1, 0): 2}),
    ],
)
def test_published_plans_are_proved(
    tmp_path: Path, text: str, primitive: Primitive, rounds: int, sent: dict[tuple[int, int], int]
) -> None:
    found = read(tmp_path, text)
    assert (found.primitive, found.ranks, found.form) == (primitive, 2, "MSCCL++ plan")
    counts: dict[tuple[int, int], int] = {}
    for batch in found.batches:
        for one in batch:
            for pair in zip(one.src.tolist(), one.dst.tolist(), strict=True):
                counts[pair] = counts.get(pair, 0) + 1
    assert (len(found.batches), counts) == (rounds, sent)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('"rres"', '"glres"', "gpus.0.threadblocks.0.ops.6: the operation 'glres' is not followed"),
        ('"rres"', '"copy"', "gpus.0.threadblocks.0.ops.6 (copy): copies one place, and names 2"),
        ('"collective": "allreduce"', '"collective": "sendrecv"', "a schedule of p2p is not read"),
        ('"collective": "allreduce"', '"collective": "nonsense"', "'nonsense' promises nothing"),
        (
            '"name": "signal"',
            '"name": "nop"',
            "waits forever: what it needs is never signalled or sent",
        ),
        ('"index": 2', '"index": 99', "place 99 of buffer i is outside: it has 4 chunks"),
        ('"index": 2', '"index": -1', "index is a whole number from 0 to 65536, got -1"),
        ('"buffer_id": 0', '"buffer_id": 7', "there is no remote buffer 7: it has 2"),
        ('"type": "s"', '"type": "q"', "a buffer is i, o or s, got 'q'"),
        ('"id": 0', '"id": 5', "expected id 0"),
        (
            '"connected_to": [\n            1',
            '"connected_to": [\n            9',
            "a channel is connected to 9, which is no GPU",
        ),
        ('"name": "copy"', '"name": 3', "name is a text, got 3"),
    ],
)
def test_a_wrong_plan_is_refused_at_the_operation(
    tmp_path: Path, old: str, new: str, what: str
) -> None:
    text = reduce()
    assert old in text
    with pytest.raises(ColltoolError) as error:
        read(tmp_path, text.replace(old, new, 1))
    assert what in str(error.value)
    assert "plan.json" in str(error.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"gpus": ' + "[" * 100_000, "nested too deep"),
        ('{"gpus": [', "not valid JSON"),
        ('{"gpus": 3, "collective": "allreduce"}', "gpus is a list"),
        ('{"gpus": [3, 4], "collective": "allreduce"}', "expected a mapping, got 3"),
        ('{"gpus": [], "collective": "allreduce"}', "2 to 4096 ranks are followed"),
    ],
)
def test_a_hostile_plan_is_refused_at_once(tmp_path: Path, text: str, what: str) -> None:
    start = time.process_time()
    with pytest.raises(ColltoolError, match=what):
        read(tmp_path, text)
    assert time.process_time() - start < 1


def test_threadblocks_meet_at_a_barrier(tmp_path: Path) -> None:
    """One that the other never comes to is a deadlock."""
    data = json.loads(multi_node_transfer())
    ops = data["gpus"][1]["threadblocks"]
    barrier = {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}
    for one in ops:
        one["ops"].append(barrier)
    assert read(tmp_path, json.dumps(data)).ranks == 2
    ops[1]["ops"].append(barrier)
    with pytest.raises(ColltoolError, match="waits forever"):
        read(tmp_path, json.dumps(data))


def two_shot(ranks: int) -> str:
    """Each rank sums its own chunk from all others in one instruction, and puts the sum to all."""
    peers, gpus = list(range(ranks - 1)), []
    channels = {"channel_ids": peers, "channel_type": "memory"}
    for rank in range(ranks):
        others = [other for other in range(ranks) if other != rank]
        own, theirs = (
            {"type": "i", "index": rank, "size": 1},
            [{"buffer_id": at, "index": rank, "size": 1} for at in peers],
        )
        ops = [
            {"name": "signal", **channels},
            {"name": "wait", **channels},
            {
                "name": "rre",
                "src_buff": [own, *theirs],
                "dst_buff": [own],
                **channels,
                "reduce_op": "sum",
            },
            {"name": "put", "src_buff": [own], "dst_buff": theirs, **channels},
            {"name": "signal", **channels},
            {"name": "wait", **channels},
        ]
        block = {
            "id": 0,
            "ops": ops,
            "channels": [{"channel_type": "memory", "channel_ids": peers}],
            "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": peers}],
        }
        gpus.append(
            {
                "id": rank,
                "input_chunks": ranks,
                "output_chunks": ranks,
                "scratch_chunks": 0,
                "threadblocks": [block],
                "channels": [{"channel_type": "memory", "connected_to": others}],
                "remote_buffers": [
                    {"rank": other, "type": "i", "access_channel_types": ["memory"]}
                    for other in others
                ],
                "semaphores": [],
            }
        )
    return json.dumps(
        {
            "name": "rre",
            "collective": "allreduce",
            "protocol": "Simple",
            "inplace": True,
            "gpus": gpus,
        }
    )


def test_the_sources_of_one_instruction_are_read_at_once(tmp_path: Path) -> None:
    """One step of reads and one of writes, as two-shot, however the peers are listed."""
    path = tmp_path / "plan.json"
    path.write_text(two_shot(4), encoding="utf-8")
    rows = colltool.price(
        "star512",
        "ar",
        size="64MB",
        ranks=4,
        algorithms="two-shot",
        algorithm_files=path,
        ideal=True,
    ).results
    own, shipped = (
        next(row for row in rows if row.algorithm == name) for name in ("rre", "two-shot")
    )
    assert own.total_s == pytest.approx(shipped.total_s)
