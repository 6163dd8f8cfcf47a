"""MSCCL++'s plans: published ones are read and proved; unknown operations, deadlocks and hostile
files refused by name."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from mscclpp_plans import WAYS, Plan, multi_node_transfer, reduce, reduce_pack, staged
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import AG, AR, Primitive
from colltool.custom.file import load_algorithm
from colltool.custom.mscclpp_machine import read_mscclpp
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


@swept(
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


@swept(
    ("old", "new", "what"),
    [
        ('"rres"', '"glre"', "ops.6: the operation 'glre' is none that MSCCL++'s executor runs"),
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


@swept(
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


def proved(data: dict[str, Any]) -> CustomSchedule:
    return read_mscclpp(json.dumps(data), "plan.json", "plan")


def sent(schedule: CustomSchedule) -> tuple[int, dict[tuple[int, int], float]]:
    """Rounds, and what each pair sends, in M."""
    shares = Counter[tuple[int, int]]()
    for batch in schedule.batches:
        for step in batch:
            shares.update(zip(step.src.tolist(), step.dst.tolist(), strict=True))
    of_m = {pair: round(count / schedule.chunks, 9) for pair, count in shares.items()}
    return len(schedule.batches), of_m


@cache
def plain(way: str, ranks: int) -> tuple[int, dict[tuple[int, int], float]]:
    return sent(proved(Plan(way, ranks).data()))


@pytest.mark.ci
@swept("way", WAYS)
@swept("ranks", [2, 3, 4])
@swept("group", [1, 2, 3, 5])
@swept(("chunks", "unit"), [(1, 0), (2, 0), (3, 0), (1, 2**17), (2, 1000)], most=2)
def test_groups_and_pipelines_move_the_same_data(
    way: str, ranks: int, group: int, chunks: int, unit: int
) -> None:
    """Each part once, however many threadblocks share an operation and pieces make it up."""
    rounds, shares = plain(way, ranks)
    twice = way in ("two-shot", "switch-sum", "packet-sum")
    assert rounds == 1 + twice
    assert set(shares.values()) == {round((1 + twice) / ranks, 9)}
    assert len(shares) == ranks * (ranks - 1)
    data = Plan(way, ranks, chunks=chunks, group=group, pipeline=unit).data()
    if way == "packet-sum" and unit:
        # Each turn of a pipeline adds all packets again.
        with pytest.raises(ColltoolError, match=r"reduced twice .* more than one piece"):
            proved(data)
        data["max_message_size"] = unit
    assert sent(proved(data)) == plain(way, ranks)


@swept("way", WAYS)
@swept("group", [2, 3])
def test_a_group_that_leaves_a_part_out_is_found(way: str, group: int) -> None:
    data = Plan(way, 3, group=group).data()
    last = data["gpus"][1]["threadblocks"][-1]
    last["ops"] = [op for op in last["ops"] if "tbg_info" not in op]
    with pytest.raises(ColltoolError) as error:
        proved(data)
    assert f"(part {group} of {group})" in str(error.value) or "waits forever" in str(error.value)


def test_semaphores_hand_pieces_to_the_next_threadblock() -> None:
    found = proved(staged(4))
    assert sent(found) == plain("switch-sum", 4)
    pieces, switch = found.notes
    assert "beyond 512 KiB a chunk each further piece adds its latency" in pieces
    assert "a switch" in switch
    with pytest.raises(ColltoolError, match=r"sem_acquire\): waits forever"):
        proved(staged(4, first=0))


def test_the_threadblocks_of_a_group_may_have_to_run_in_step() -> None:
    """One of them passes on what another one copied: right if these begin together, and said."""
    data = Plan("two-shot", 2, group=2).data()
    for gpu in data["gpus"]:
        gpu["scratch_chunks"] = 2
        for number, block in enumerate(gpu["threadblocks"]):
            signal, wait, *rest = block["ops"]
            copied = {
                "name": "copy",
                "src_buff": [{"type": "i", "index": 0, "size": 2}],
                "dst_buff": [{"type": "s", "index": 0, "size": 2}],
                "tbg_info": {"tb_id": 1 - number, "tbg_size": 2},
            }
            block["ops"] = [copied, signal, wait, *rest]
        for buffer in gpu["remote_buffers"]:
            buffer["type"] = "s"
    for gpu in data["gpus"]:
        # The sum is stored to the own input, and sent to the peer's.
        gpu["remote_buffers"].append({"rank": 1 - gpu["id"], "type": "i"})
        for block in gpu["threadblocks"]:
            block["remote_buffer_refs"][0]["remote_buffer_ids"] = [0, 1]
            own, theirs = block["ops"][3]["dst_buff"]
            block["ops"][3]["dst_buff"] = [own, theirs | {"buffer_id": 1}]
    found = proved(data)
    assert "in step" in found.notes[0]
    assert "holds nothing yet" in found.notes[0]
    del data["gpus"][0]["threadblocks"][0]["ops"][0]
    with pytest.raises(ColltoolError, match="holds nothing yet"):
        proved(data)


def first_op(data: dict[str, Any], name: str) -> dict[str, Any]:
    for op in data["gpus"][0]["threadblocks"][0]["ops"]:
        if op["name"] == name:
            found: dict[str, Any] = op
            return found
    raise AssertionError(name)


def of_group(data: dict[str, Any], **keys: Any) -> None:
    first_op(data, "rres")["tbg_info"] = {"tb_id": 0, "tbg_size": 2} | keys


def in_pipeline(data: dict[str, Any], **keys: Any) -> None:
    block = data["gpus"][0]["threadblocks"][0]
    context = {"unit_size": 1024, "num_chunks": 2} | keys
    block["ops"] = [{"name": "pipeline", "iter_context": context, "ops": block["ops"]}]


def nested(data: dict[str, Any]) -> None:
    in_pipeline(data)
    in_pipeline(data)


def other_unit(data: dict[str, Any]) -> None:
    """The first GPU signals once a KiB, the others once a message."""
    in_pipeline(data)


@swept(
    ("way", "change", "what"),
    [
        ("two-shot", lambda data: of_group(data, tb_id=2), "tb_id 2 of a group of 2"),
        ("two-shot", lambda data: of_group(data, tbg_size=0), "tb_id 0 of a group of 0"),
        ("two-shot", lambda data: of_group(data, tb_id="0"), "tb_id is a whole number"),
        ("two-shot", lambda data: in_pipeline(data, unit_size=0), "are 1 or more"),
        ("two-shot", lambda data: in_pipeline(data, num_chunks=1), "2 chunks in a pipeline over 1"),
        ("two-shot", nested, "a pipeline in a pipeline"),
        ("two-shot", other_unit, "waits forever.* more than one piece"),
        (
            "switch-sum",
            lambda data: data["gpus"][1]["channels"].pop(),
            "switch channel of ranks 0, 1 waits for rank 1, which has none like it",
        ),
        (
            "switch-sum",
            lambda data: data["gpus"][0]["channels"][1]["rank_groups"][0].update(ranks=[1]),
            "switch channel of ranks 1 is without itself",
        ),
        (
            "switch-sum",
            lambda data: first_op(data, "glres")["src_buff"][0].update(switch_channel_id=1),
            "there is no switch channel 1: it has 1",
        ),
        (
            "switch-sum",
            lambda data: first_op(data, "glres").update(name="re"),
            "a switch is for glres and gstore alone",
        ),
        (
            "fused",
            lambda data: first_op(data, "put")["dst_buff"].append(
                {"buffer_id": 0, "index": 0, "size": 2}
            ),
            "2 sources for 3 targets|names 1 sources",
        ),
        (
            "put",
            lambda data: data["gpus"][0]["threadblocks"][0]["ops"].append(
                {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}
            ),
            "is for 2 threadblocks, and 1 have it",
        ),
    ],
)
def test_groups_pipelines_and_switches_that_cannot_run_are_refused(
    way: str, change: Callable[[dict[str, Any]], object], what: str
) -> None:
    data = Plan(way, 3 if way == "fused" else 2, chunks=2).data()
    change(data)
    with pytest.raises(ColltoolError, match=what):
        proved(data)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every key and item of a document."""
    found = [path] if path else []
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key, inner in value.items():
            found += _paths(inner, (*path, key))
    return found


@swept("other", [[], {}, None, "x", -1, 3.5, True, [[]], [{}], 10**30])
@swept("way", ["fused", "switch-sum"], most=1)
def test_any_type_at_any_key_is_read_or_refused(way: str, other: object) -> None:
    """A value of another type is refused with its place, or is not looked at."""
    data = Plan(way, 2, group=2, pipeline=2048).data()
    data["gpus"][0]["semaphores"] = [{"init_value": 0}]
    paths = [path for path in _paths(data) if path[:2] != ("gpus", 1)]
    assert len(paths) > 60
    places = []
    for path in paths:
        changed = json.loads(json.dumps(data))
        holder = changed
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = other
        try:
            proved(changed)
        except ColltoolError as error:
            places.append(error.where)
    assert len(places) > len(paths) / 2
    assert {place[:9] for place in places} == {"plan.json"}
