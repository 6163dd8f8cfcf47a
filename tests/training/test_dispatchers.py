"""Dispatchers of tokens: what each sends, where it runs, and when a plan proposes another."""

from __future__ import annotations

from itertools import product
from math import comb
from typing import Any

import pytest
from planning import two_tiers
from swept import swept

import colltool
from colltool.base.primitives import A2A, AG, RS
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.dispatchers import (
    DISPATCHERS,
    copies,
    exchange_cost,
    node_copies,
    rank_copies,
)
from colltool.training.job import load_job
from colltool.training.model import Moe
from colltool.training.parallel_config import ParallelConfig
from colltool.training.step_time import step_time

MODEL = {
    "layers": 4,
    "hidden": 2048,
    "heads": 16,
    "ffn": 8192,
    "vocab": 32000,
    "moe": {"experts": 64, "top_k": 4, "ffn": 1024, "imbalance": 1},
}
JOB = {
    "model": MODEL,
    "sequence": 4096,
    "batch": {"global": 1024},
    "stack": "megatron",
    "shard": {"mode": "zero1"},
}
EFA = {"name": "efa", "like": "aws-p6-b200", "device": "b300", "set": {"efa.bandwidth": "100GB/s"}}
FORWARDING = [name for name, row in DISPATCHERS.items() if row.forwards]


def setup(ranks: int, **layout: Any) -> ParallelConfig:
    return load_job(JOB | {"layout": layout, "device": "h100"}).setup(ranks)


def planned(job: Any, fabric: Any, ranks: int = 64) -> Any:
    """On the fabric's device, or H100."""
    known = colltool.load_fabric(fabric).device or "h100"
    return colltool.plan(job | {"device": known}, fabric, ranks)


def cost(fabric: Any, **layout: Any) -> Any:
    """Of one dispatch in bf16."""
    config = setup(64, **layout)
    moe = config.moe
    assert moe is not None
    size = config.tokens * 2048 * 2 * copies(config.layout, moe)
    return exchange_cost(config, CollectiveCostCache(colltool.load_fabric(fabric)), size)


@swept("targets", [2, 3, 4])
@swept("top_k", [1, 2, 3])
def test_copies_are_the_mean_over_all_choices_of_experts(targets: int, top_k: int) -> None:
    """Counted one by one: every choice of experts' ranks is as likely as any other."""
    moe = Moe(64, top_k, 1)
    choices = list(product(range(targets), repeat=top_k))
    counted = sum(len(set(choice)) for choice in choices) / len(choices)
    assert rank_copies(targets, moe) == pytest.approx(counted)
    assert node_copies(targets, moe) == pytest.approx(counted)


def test_limited_routing_reaches_the_nodes_that_have_a_chosen_group() -> None:
    """DeepSeek-V3 on 4 nodes: 4 of 8 groups, two a node; counted over all C(8, 4) choices."""
    moe = Moe(256, 200, 1, groups=8, top_groups=4)
    missed = comb(6, 4) / comb(8, 4)
    # with many draws every reached node has some
    assert node_copies(4, moe) == pytest.approx(4 * (1 - missed), rel=1e-6)
    assert node_copies(16, moe) == pytest.approx(8, rel=1e-6)


@swept("ranks", [2, 4, 8, 32, 64])
@swept("top_k", [1, 2, 8])
def test_copies_lie_between_one_and_k_and_all(ranks: int, top_k: int) -> None:
    moe = Moe(256, top_k, 1)
    assert 1 <= rank_copies(ranks, moe) <= min(ranks, top_k) + 1e-12
    assert rank_copies(ranks, moe) <= rank_copies(2 * ranks, moe)
    assert node_copies(max(1, ranks // 8), moe) <= rank_copies(ranks, moe)


def test_what_each_dispatcher_puts_in_a_send_buffer() -> None:
    moe = Moe(64, 4, 1)
    sent = {
        name: copies(setup(64, ep=16, dispatcher=name).layout, moe)
        for name in ("alltoall", "allgather", "deepep")
    }
    assert sent == {"alltoall": 4, "allgather": 16, "deepep": rank_copies(16, moe)}
    assert copies(setup(64, ep=16).layout, moe) == 4
    assert copies(setup(64, ep=16, deduplicate=True).layout, moe) == rank_copies(16, moe)


def test_an_all_gather_brings_all_tokens_and_their_sums_back() -> None:
    config = setup(64, ep=16, dispatcher="allgather")
    calls = [
        call.call
        for call in step_time(
            config, CollectiveCostCache(colltool.load_fabric(two_tiers()))
        ).slowest.sent
        if call.call.dimension == "ep"
    ]
    size = config.tokens * 2048 * 2 * 16
    assert {call.primitive for call in calls} == {AG, RS}
    assert {call.bytes for call in calls} == {size}
    assert {call.skew for call in calls} == {1.0}


@swept("name", ["deepep", "hybridep"])
@swept("ranks", [16, 32, 64])
def test_forwarding_is_bound_by_the_bytes_that_must_cross(name: str, ranks: int) -> None:
    """Not faster than the remote copies at the NIC's rate, not slower than one exchange of a copy a
    node after one of a copy a rank inside, but for its start and a token's own node."""
    fabric = two_tiers(8)
    config = setup(64, ep=ranks, dispatcher=name)
    moe, nodes = config.moe, ranks // 8
    assert moe is not None
    found = cost(fabric, ep=ranks, dispatcher=name)
    token_bytes = config.tokens * 2048 * 2
    remote = token_bytes * node_copies(nodes, moe) * (nodes - 1) / nodes
    assert found.bandwidth_s >= remote / 50e9
    costs = CollectiveCostCache(colltool.load_fabric(fabric))
    group = config.layout.group("ep", experts=True)
    assert group.stride == 1
    across = costs.of(A2A, type(group)(((nodes, 8),)), token_bytes * node_copies(nodes, moe))
    inside = costs.of(A2A, type(group)(((8, 1),)), token_bytes * rank_copies(ranks, moe))
    own = max(1.0, nodes / (nodes - 1))
    copied_s = token_bytes * rank_copies(ranks, moe) * 7 / 8 / 470e9
    most_s = own * across.bandwidth_s + max(inside.bandwidth_s, copied_s)
    assert found.bandwidth_s <= most_s
    assert found.startup_s == 100e-6
    assert dict(found.busy).keys() == {"nvlink", "ib"}


@pytest.mark.parametrize("fabric", [two_tiers(8), EFA], ids=["ib", "efa"])
def test_more_nodes_and_tokens_never_take_less(fabric: Any) -> None:
    runs = {"alltoall", "uccl-ep", "deepep-nvshmem" if fabric is EFA else "deepep"}
    for name in runs:
        seconds = [cost(fabric, ep=ranks, dispatcher=name).each_s for ranks in (8, 16, 32, 64)]
        assert seconds == sorted(seconds), name


def test_small_messages_are_bound_by_what_a_proxy_posts() -> None:
    """On EFA a rank's tokens go out one by one: half the width of a token saves nothing there."""
    wide = cost(EFA, ep=32, dispatcher="uccl-ep")
    config = setup(64, ep=32, dispatcher="uccl-ep")
    assert config.moe is not None
    messages = config.tokens * node_copies(4, config.moe) * 3 / 4
    assert wide.bandwidth_s == pytest.approx(messages / 2.5e6)
    assert wide.latency_s > wide.startup_s == pytest.approx(1e-3)
    # inside a node no proxy takes part
    assert cost(EFA, ep=8, dispatcher="uccl-ep") == cost(EFA, ep=8, dispatcher="deepep")._replace(
        algorithm="UCCL-EP"
    )


def test_nccl_on_efa_is_held_to_what_jobs_reach_between_several_nodes() -> None:
    config = setup(64, ep=32)
    size = config.tokens * 2048 * 2 * 4
    many = cost(EFA, ep=32)
    assert many.bandwidth_s == pytest.approx(size * 3 / 4 / 34e9)
    two = cost(EFA, ep=16)
    assert two.bandwidth_s < size / 2 / 34e9


REFUSED = {
    "DeepEP on EFA": (
        {"dispatcher": "deepep", "ep": 16},
        EFA,
        "DeepEP does not run over efa",
        "uccl-ep, deepep-nvshmem",
    ),
    "HybridEP on EFA": (
        {"dispatcher": "hybridep", "ep": 16},
        EFA,
        "HybridEP does not run over efa",
        "alltoall, allgather",
    ),
    "HybridEP without NVLink": (
        {"dispatcher": "hybridep", "ep": 8},
        "mi300x-cluster",
        "HybridEP does not run over xgmi",
        "alltoall, allgather, uccl-ep",
    ),
    "a domain of 72": (
        {"dispatcher": "deepep", "ep": 16},
        "nvl72",
        "DeepEP takes 8 ranks of a node, and 16",
        "hybridep",
    ),
    "half a node": (
        {"dispatcher": "deepep", "ep": 32, "order": ["tp", "cp", "dp", "ep", "pp"]},
        "dgx-h100",
        "DeepEP takes 8 ranks of a node, and 4 of",
        "hybridep",
    ),
    "one rank a node": (
        {"dispatcher": "uccl-ep", "ep": 8, "order": ["tp", "cp", "dp", "ep", "pp"]},
        "dgx-h100",
        "each rank here is on a node of its own",
        "alltoall, allgather",
    ),
    "libfabric on InfiniBand": (
        {"dispatcher": "deepep-nvshmem", "ep": 16},
        "dgx-h100",
        "does not run over ib",
        "deepep, hybridep, uccl-ep",
    ),
}


@swept("case", REFUSED)
def test_what_cannot_run_is_refused_with_what_does(case: str) -> None:
    layout, fabric, what, fix = REFUSED[case]
    job = JOB | {"layout": layout}
    with pytest.raises(colltool.ColltoolError) as caught:
        planned(job, fabric)
    assert what in str(caught.value)
    assert fix in str(caught.value)


def test_counts_without_a_configuration_are_refused() -> None:
    job = JOB | {"model": MODEL | {"moe": {"experts": 40, "top_k": 4, "ffn": 1024}}}
    job |= {"batch": {"global": 800}, "layout": {"ep": 40, "dispatcher": "deepep"}}
    with pytest.raises(colltool.ColltoolError, match="no configuration for 40 ranks"):
        planned(job, two_tiers(16), 80)


def test_a_dispatcher_that_contradicts_deduplicate_is_refused() -> None:
    with pytest.raises(colltool.ColltoolError, match="does not send a token once to a rank"):
        setup(64, ep=16, dispatcher="alltoall", deduplicate=True)
    with pytest.raises(colltool.ColltoolError, match="deepep"):
        setup(64, ep=16, dispatcher="depep")


def test_deduplicate_is_still_a_copy_a_rank_and_a_node() -> None:
    """On InfiniBand its price is what it was; on EFA it is that of the library that runs there,
    which a plan says."""
    two = two_tiers(8)
    config = setup(64, ep=16)
    costs = CollectiveCostCache(colltool.load_fabric(two))
    group = config.layout.group("ep", experts=True)
    moe = config.moe
    assert moe is not None
    token_bytes = config.tokens * 2048 * 2
    plain = costs.of(A2A, group, token_bytes * rank_copies(16, moe))
    once = cost(two, ep=16, deduplicate=True)
    share = rank_copies(2, moe) / rank_copies(16, moe)
    assert once.bandwidth_s == pytest.approx(share * plain.bandwidth_s)
    assert cost(EFA, ep=16, deduplicate=True) == cost(EFA, ep=16, dispatcher="uccl-ep")
    found = planned(JOB | {"layout": {"ep": 16, "deduplicate": True}}, EFA)
    assert any("UCCL-EP" in line for line in found.grounds)


@pytest.mark.ci
@pytest.mark.alike(5)
@pytest.mark.parametrize("ranks", [16, 64])
@pytest.mark.parametrize("fabric", ["dgx-h100", "aws-p6-b200", EFA], ids=["ib", "efa", "efa800"])
@pytest.mark.parametrize("sequence", [512, 8192])
def test_another_dispatcher_is_proposed_where_it_wins_by_its_price(
    fabric: Any, ranks: int, sequence: int
) -> None:
    """Each that is proposed makes the step shorter; none that is left out would by more than the
    error of its exchange."""
    job = JOB | {"sequence": sequence, "layout": {"ep": ranks}}
    base = planned(job, fabric)
    proposed = {
        dict(change.set)["layout.dispatcher"]: change.step_s
        for change in base.changes
        if "layout.dispatcher" in dict(change.set)
    }
    now = cost_of(base)
    for name in DISPATCHERS:
        changed = job | {"layout": {"ep": ranks, "dispatcher": name}}
        try:
            other = planned(changed, fabric)
        except colltool.ColltoolError:
            assert name not in proposed
            continue
        if name in proposed:
            assert other.step_s == pytest.approx(proposed[name])
            assert other.step_s < base.step_s
        elif name != "allgather":
            assert cost_of(other) > now / 1.4


def cost_of(found: Any) -> float:
    return next(
        float(one.sent.each_s) for one in found.collectives if one.sent.call.dimension == "ep"
    )


def test_the_start_of_a_dispatcher_is_not_hidden() -> None:
    """The host waits for it, so another batch cannot cover it."""
    layout = {"ep": 32, "dispatcher": "uccl-ep"}
    found = planned(JOB | {"layout": layout, "overlap": {"ep": True}}, EFA)
    calls = [one for one in found.collectives if one.sent.call.dimension == "ep"]
    started_s = sum(one.sent.cost.startup_s * one.sent.call.calls for one in calls)
    exposed_s = sum(one.sent.exposed_s for one in calls)
    assert exposed_s >= started_s * (1 - 1e-9) > 0
