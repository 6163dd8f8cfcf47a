"""``export chakra``: a plan's step as execution traces, read back and added up."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import colltool
from colltool.base.errors import ColltoolError
from colltool.extras.interop import chakra as export
from colltool.extras.interop.chakra import chakra, usage_notes
from colltool.logs.chakra_decode import decode_trace
from colltool.logs.chakra_format import COLLECTIVES, ChakraNode
from colltool.training.plan import Plan
from tests.chakra_proto import read_all
from tests.commands.conftest import run as command

MODEL = {"hidden": 1024, "layers": 8, "heads": 16, "ffn": 4096, "vocab": 32000, "tied": True}
JOB: dict[str, Any] = {
    "name": "small",
    "model": MODEL,
    "device": "h100",
    "stack": "megatron",
    "sequence": 2048,
}


@cache
def planned(tp: int, pp: int, ranks: int = 16) -> Plan:
    batch = {"global": 16, "micro": 1}
    return colltool.plan(
        {**JOB, "layout": {"tp": tp, "pp": pp, "dp": "auto"}, "batch": batch}, "dgx-h100", ranks
    )


@cache
def read(tp: int, pp: int) -> tuple[dict[str, list[int]], list[list[ChakraNode]]]:
    files = chakra(planned(tp, pp))
    groups = json.loads(files.pop("comm_groups.json"))
    return groups, [
        list(decode_trace(BytesIO(files[f"workload.{rank}.et"]), "x").nodes)
        for rank in range(len(files))
    ]


layouts = pytest.mark.parametrize(("tp", "pp"), [(1, 1), (4, 1), (2, 4)])


@layouts
def test_durations_are_those_of_the_plan(tp: int, pp: int) -> None:
    plan, (_, ranks) = planned(tp, pp), read(tp, pp)
    works = sum(
        part.exposed_s
        for part in plan.parts
        if part.name in ("compute", "optimizer", "overlap slows compute")
    )
    wanted: dict[str, float] = defaultdict(float)
    for one in plan.collectives:
        if one.paces:
            wanted[one.sent.call.dimension] += one.sent.total_s
    for rank in (0, len(ranks) - 1):
        took: dict[str, float] = defaultdict(float)
        for node in ranks[rank]:
            took["" if node.type == "COMP_NODE" else node.name.split()[0]] += (
                node.duration_us * 1e-6
            )
        assert took.pop("") == pytest.approx(works, abs=2e-6)
        for name in wanted.keys() - {"pp"}:
            assert took[name] == pytest.approx(wanted[name], abs=2e-6), name


@layouts
def test_ranks_of_a_group_call_the_same(tp: int, pp: int) -> None:
    """Each collective is called by every member of its group with the same kind and size, each
    message sent is received."""
    groups, ranks = read(tp, pp)
    seen: dict[str, Counter[tuple[Any, ...]]] = defaultdict(Counter)
    messages: Counter[tuple[Any, ...]] = Counter()
    for rank, nodes in enumerate(ranks):
        for node in nodes:
            of = node.attributes
            if node.type == "COMM_COLL_NODE":
                assert rank in groups[str(of["pg_name"])]
                seen[str(of["pg_name"])][COLLECTIVES[int(of["comm_type"])], of["comm_size"]] += 1
            elif node.type != "COMP_NODE":
                key = tuple(of[name] for name in ("comm_src", "comm_dst", "comm_tag", "comm_size"))
                messages[key] += 1 if node.type == "COMM_SEND_NODE" else -1
                assert of["comm_src" if node.type == "COMM_SEND_NODE" else "comm_dst"] == rank
    assert not +messages
    assert not -messages
    for number, calls in seen.items():
        assert all(count % len(groups[number]) == 0 for count in calls.values())
    assert bool(messages) == (pp > 1)


@layouts
def test_dependencies_are_earlier_nodes_and_end_in_one(tp: int, pp: int) -> None:
    for nodes in read(tp, pp)[1]:
        assert [node.id for node in nodes] == list(range(len(nodes)))
        assert all(other < node.id for node in nodes for other in node.data_deps)
        waited = {other for node in nodes for other in node.data_deps}
        last = {node.id for node in nodes} - waited
        assert len({nodes[one].data_deps for one in last}) == 1


def test_groups_and_sizes_are_the_jobs() -> None:
    groups, ranks = read(4, 1)
    tensor = [node for node in ranks[5] if node.name.startswith("tp all-reduce")]
    assert groups[str(tensor[0].attributes["pg_name"])] == [4, 5, 6, 7]
    assert len(tensor) == 8 * 4 * 4  # layers, calls of one, micro-batches
    assert tensor[0].attributes["comm_size"] == 2048 * 1024 * 2
    data = next(node for node in ranks[5] if node.name.startswith("dp"))
    assert groups[str(data.attributes["pg_name"])] == [1, 5, 9, 13]


def test_the_protobuf_library_reads_it() -> None:
    head, nodes = read_all(chakra(planned(4, 1))["workload.3.et"])
    assert (head.version, head.attr[0].int64_val) == ("0.0.4", 3)
    assert len(nodes) == len(read(4, 1)[1][3])


def test_what_is_left_out_is_said() -> None:
    text = "\n".join(usage_notes(planned(2, 4)))
    assert "left out, it is no work: bubble" in text


def test_too_many_nodes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "MOST_WRITTEN", 100)
    with pytest.raises(ColltoolError, match="are more than 100") as caught:
        chakra(planned(4, 1))
    assert "batch.global=2" in caught.value.spelled("shell")


def test_the_command_writes_a_file_a_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = (
        "export",
        "chakra",
        "llama3-8b",
        "-f",
        "dgx-h100",
        "-n",
        "8",
        "--job-set",
        "batch.global=8",
    )
    ran = command(*line, "-o", "step")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("8 traces and comm_groups.json: ")
    assert len(list(Path("step").iterdir())) == 9
    assert command(*line, "-o", "-").code == 2
