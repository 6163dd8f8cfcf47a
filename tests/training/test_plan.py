"""The step of a job on a fabric: the documents' worked numbers, what must add up, and what must not
help or hurt."""

from __future__ import annotations

import pytest
from planning import adds_up, dense, part, star, thin, two_tiers
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, P2P, RS
from colltool.training.collective_cost import CollectiveCostCache, axis_by_axis
from colltool.training.parallel_config import RankGroup
from colltool.training.strategies import SCHEDULES, SHARDINGS

RTOL = 0.02  # the documents' own rounding


RING = star(8, "10us", "100GB/s", algorithms={"all_reduce": ["ring"]})


def test_a_thousand_tensors_one_by_one_and_in_buckets() -> None:
    """P2: 1000 calls of 1 MB 157.5 ms, 40 of 25 MB 23.1 ms: K pays the alpha part K times, bytes
    once."""
    each = [
        colltool.plan(
            {
                "layout": {"dp": 8},
                "calls": [{"primitive": "ar", "group": "dp", "size": size, "count": count}],
            },
            RING,
        )
        for size, count in (("1MB", 1000), ("25MB", 40))
    ]
    assert [one.step_s for one in each] == pytest.approx([157.5e-3, 23.1e-3])
    assert each[0].step_s / each[1].step_s == pytest.approx(6.8, rel=RTOL)
    assert [
        one.collectives[0].sent.cost.latency_s * one.collectives[0].sent.call.calls for one in each
    ] == pytest.approx([140e-3, 5.6e-3])
    assert each[0].wires[0].busy_s == pytest.approx(17.5e-3)
    for one in each:
        adds_up(one)
    fused = {"primitive": "ar", "group": "dp", "size": "1MB", "count": 1000}
    for bucket, buckets in (("25MB", 40), ("25MiB", 39)):
        found = colltool.plan({"layout": {"dp": 8}, "calls": [fused | {"bucket": bucket}]}, RING)
        assert sum(one.sent.call.calls for one in found.collectives) == buckets
        assert found.step_s == pytest.approx(buckets * 140e-6 + 17.5e-3)


def test_messages_fused() -> None:
    """P2: 100 messages of 4 KB 208 us, one of 400 KB 10 us."""
    pair = star(2, "2us", "50GB/s")
    steps = [
        colltool.plan(
            {
                "calls": [{"primitive": "p2p", "group": "all", "size": size, "count": count}],
                "layout": {"pp": 2},
            },
            pair,
            2,
        ).step_s
        for size, count in (("4KB", 100), ("400KB", 1))
    ]
    assert steps == pytest.approx([208e-6, 10e-6])


def test_dispatch_and_combine() -> None:
    """P2, P5: 7 messages in turn each way, 57.7 us a call."""
    eight = star(8, "3us", "50GB/s", algorithms={"all_to_all": ["pairwise"]})
    found = colltool.plan(
        {"layout": {"dp": 8}, "calls": [{"primitive": "a2a", "size": 2097152, "count": 2}]}, eight
    )
    assert found.step_s == pytest.approx(2 * 57.7e-6, rel=1e-3)


@pytest.mark.parametrize(
    ("compute", "latency", "o", "step", "exposed"),
    [(500, 100, 50, 600, 100), (100, 50, 30, 160, 60)],
)
def test_overheads_of_logp(
    compute: float, latency: float, o: float, step: float, exposed: float
) -> None:
    """P7: T = 2 o + max(T_c, L): 600 us of 500, 100 and 50; the self-check's second case by the
    same equation."""
    job = {
        "layout": {"pp": 2},
        "compute": {"forward": "0us", "backward": f"{compute}us"},
        "overlap": {"overhead": f"{o}us"},
        "calls": [{"primitive": "p2p", "group": "pp", "size": "1MB", "time": f"{latency}us"}],
    }
    found = colltool.plan(job, star(2, "2us", "50GB/s"), 2)
    assert found.step_s == pytest.approx(step * 1e-6)
    assert part(found, "pp").exposed_s == pytest.approx(exposed * 1e-6)
    # the overheads are beside the message
    assert part(found, "pp").hidden_s == pytest.approx(min(latency, compute) * 1e-6)
    adds_up(found)


@pytest.mark.parametrize("collective", [26.4, 25.0])
def test_layers_behind_each_other(collective: float) -> None:
    """P8: 32 layers of 15 ms with a collective of 26.4 ms each 859.8 ms, one after the other
    1324.8; exposed 11.4 a layer."""
    job = {
        "layout": {"dp": 8},
        "compute": {"forward": "0us", "backward": "480ms"},
        "calls": [
            {
                "primitive": "ar",
                "group": "dp",
                "size": "880MB",
                "count": 32,
                "time": f"{collective}ms",
            }
        ],
    }
    behind = colltool.plan(job, RING)
    after = colltool.plan(job | {"overlap": {"dp": False}}, RING)
    assert after.step_s == pytest.approx(480e-3 + 32 * collective * 1e-3)
    assert behind.step_s == pytest.approx((480 + collective + 31 * (collective - 15)) * 1e-3)
    if collective == 26.4:
        assert [behind.step_s, after.step_s] == pytest.approx([859.8e-3, 1324.8e-3])
        assert 1 - behind.step_s / after.step_s == pytest.approx(0.351, rel=RTOL)


def test_seventy_billion_on_one_node() -> None:
    """Share of communication: an all-reduce of 140 GB takes 0.5445 s beside 2.1 s of compute."""
    job = {
        "model": {"parameters": 70e9, "layers": 80},
        "sequence": 1,
        "batch": {"global": 8},
        "layout": {"dp": 8},
        "compute": {"forward": "0.7s", "backward": "1.4s"},
        "overlap": {"dp": False},
        "shard": {"mode": "ddp", "grad_bytes": 2, "bucket": "1TB"},
    }
    found = colltool.plan(job, star(8, "1.5us", "450GB/s", algorithms={"all_reduce": ["ring"]}))
    assert part(found, "dp").exposed_s == pytest.approx(0.5445, rel=1e-3)
    assert part(found, "dp").exposed_s / 2.1 == pytest.approx(0.259, rel=RTOL)
    assert found.control_step_s == pytest.approx(2.1, rel=1e-3)


def test_a_step_by_hand() -> None:
    """Two layers, TP 8 without SP, no pipeline: 8 all-reduces of a micro-batch, priced as the
    command price prices them."""
    job = colltool.load_job(
        {
            "model": {
                "layers": 2,
                "hidden": 4096,
                "heads": 32,
                "ffn": 16384,
                "vocab": 32000,
                "tied": True,
            },
            "sequence": 1024,
            "batch": {"global": 4},
            "layout": {"tp": 8, "dp": 1},
            "device": "h100",
            "stack": "megatron",
            "overlap": {"tp": False},
        }
    )
    fabric = colltool.load_fabric(star(8, "1us", "400GB/s"))
    found = colltool.plan(job, fabric)
    each = colltool.price(fabric, "ar", size=1024 * 4096 * 2).best.total_s
    assert part(found, "tp").exposed_s == pytest.approx(4 * 8 * each)
    assert part(found, "tp").hidden_s == 0
    adds_up(found)


@swept("schedule", [name for name, row in SCHEDULES.items() if not row.interleaved])
def test_every_schedule_adds_up(schedule: str) -> None:
    adds_up(colltool.plan(dense(schedule=schedule), two_tiers(), 64))


@swept("mode", SHARDINGS)
def test_every_sharding_adds_up(mode: str) -> None:
    shard = {"mode": mode} | ({"group": 8} if SHARDINGS[mode].grouped else {})
    found = colltool.plan(dense(layout={}, shard=shard), two_tiers(), 64)
    adds_up(found)
    assert part(found, "dp").hidden_s > 0


def test_a_mixture_of_experts_adds_up() -> None:
    job = {
        "model": "mixtral-8x7b",
        "sequence": 4096,
        "batch": {"global": 512},
        "layout": {"ep": 8, "pp": 2},
        "device": "h100",
        "stack": "megatron",
        "shard": {"mode": "zero1"},
    }
    plain = colltool.plan(job, two_tiers(), 64)
    adds_up(plain)
    hot = job | {
        "model": {
            "layers": 32,
            "hidden": 4096,
            "heads": 32,
            "kv_heads": 8,
            "ffn": 14336,
            "vocab": 32000,
            "moe": {"experts": 8, "top_k": 2, "ffn": 14336, "imbalance": 2},
        }
    }
    assert (
        part(colltool.plan(hot, two_tiers(), 64), "ep").exposed_s
        > 1.8 * part(plain, "ep").exposed_s
    )
    assert part(colltool.plan(job | {"overlap": {"ep": True}}, two_tiers(), 64), "ep").hidden_s > 0


def test_experts_and_gradients_on_one_wire_add_up() -> None:
    """What hides under the backward pass finds less of it free where experts' tokens hide there on
    the same wires."""
    job = {
        "model": "mixtral-8x7b",
        "sequence": 2048,
        "batch": {"global": 256},
        "layout": {"ep": 8, "order": ["tp", "cp", "dp", "ep", "pp"]},
        "device": "h100",
        "stack": "megatron",
        "shard": {"mode": "ddp"},
    }
    fabric = two_tiers(64, bandwidth="10GB/s")
    alone = colltool.plan(job, fabric, 128)
    both = colltool.plan(job | {"overlap": {"ep": True}}, fabric, 128)
    exposed = [
        sum(one.exposed_s for one in found.parts if one.name in ("dp", "expert dp"))
        for found in (alone, both)
    ]
    assert exposed[1] > 1.3 * exposed[0]


def test_interleaved_stages_hide_gradients_under_as_many_micro_batches_as_there_are_stages() -> (
    None
):
    """A chunk's gradients go out while p micro-batches pass the chunks before it; a stage of one
    chunk has one micro-batch."""
    job = dense(layout={"pp": 4}, overlap={"sm_share": 0})
    plain, chunked = (
        colltool.plan(
            job | {"layout": {"pp": 4, "virtual": virtual}}, two_tiers(8, bandwidth="5GB/s"), 64
        )
        for virtual in (1, 4)
    )
    assert part(chunked, "dp").exposed_s < part(plain, "dp").exposed_s
    assert part(chunked, "dp").hidden_s > 1.5 * part(plain, "dp").hidden_s


def test_what_runs_beside_compute_slows_it_as_the_stack_says() -> None:
    found = colltool.plan(dense(), two_tiers(), 64)
    hidden = sum(one.sent.hidden_s for one in found.collectives if one.sent.call.per != "border")
    assert 0 < part(found, "overlap slows compute").exposed_s <= 0.189 * hidden * (1 + 1e-9)
    free = colltool.plan(dense(overlap={"sm_share": 0}), two_tiers(), 64)
    assert [one.name for one in free.parts if one.name == "overlap slows compute"] == []


def test_tokens_cross_once_a_node_where_they_are_deduplicated() -> None:
    """Top 4 of 16 experts on 16 ranks, 8 a node: 16 (1 - (15/16)^4) = 3.64 ranks a token, 2 (1 -
    (1/2)^4) = 1.875 nodes."""
    model = {
        "layers": 4,
        "hidden": 1024,
        "heads": 8,
        "ffn": 4096,
        "vocab": 1024,
        "moe": {"experts": 16, "top_k": 4, "ffn": 512},
    }
    job = {
        "model": model,
        "sequence": 4096,
        "batch": {"global": 64},
        "device": "h100",
        "stack": "megatron",
    }
    plain, once = (
        colltool.plan(job | {"layout": {"ep": 16, "deduplicate": dedup}}, two_tiers(), 64)
        for dedup in (False, True)
    )
    costs = [
        next(one.sent.cost for one in found.collectives if one.sent.call.dimension == "ep")
        for found in (plain, once)
    ]
    assert costs[1].bandwidth_s / costs[0].bandwidth_s == pytest.approx(1.875 / 4, rel=1e-6)


def test_the_worst_neighbours_set_the_price_of_a_border() -> None:
    """Four stages of 4 ranks in nodes of 8: two borders stay inside a node, the one between the
    nodes is what counts."""
    costs = CollectiveCostCache(colltool.load_fabric(two_tiers()))
    border = costs.of(P2P, RankGroup(((4, 4),)), 1e7)
    assert border.tiers == ("ib",)
    assert border.each_s == pytest.approx(
        colltool.price(two_tiers(), "p2p", size=1e7, ranks=2, stride=8).best.total_s
    )
    assert costs.of(P2P, RankGroup(((2, 4),)), 1e7).tiers == ("nvlink",)


def test_strides_that_do_not_tile_the_fabric() -> None:
    """Five stages of 3 nodes on 16: what is beyond the fifteenth changes nothing; on 15 they
    tile."""
    for size in (1e3, 1e8):
        uneven, even = (
            CollectiveCostCache(colltool.load_fabric(two_tiers(nodes))).of(
                P2P, RankGroup(((5, 24),)), size
            )
            for nodes in (16, 15)
        )
        assert uneven.each_s == pytest.approx(even.each_s)


def test_strides_that_do_not_tile_the_leaves() -> None:
    """Leaves of 4 nodes, stages of 3: a pair that stands for all crosses the spine."""
    found = CollectiveCostCache(colltool.load_fabric(thin(4))).of(P2P, RankGroup(((5, 24),)), 1e8)
    assert found.each_s == pytest.approx(4 * 1e8 / 50e9, rel=1e-2)


def test_groups_of_several_strides_go_axis_by_axis() -> None:
    group = RankGroup(((2, 1), (4, 8)))
    assert axis_by_axis(RS, group, 8.0) == [(RS, (2, 1), 8.0), (RS, (4, 8), 4.0)]
    assert axis_by_axis(A2A, group, 8.0) == [(A2A, (2, 1), 8.0), (A2A, (4, 8), 8.0)]
    assert [kind for kind, _, _ in axis_by_axis(AR, group, 8.0)] == [RS, RS, AG, AG]
    costs = CollectiveCostCache(colltool.load_fabric(two_tiers()))
    apart = costs.of(AG, group, 1e8)
    parts = [
        costs.of(AG, RankGroup((axis,)), size) for _, axis, size in axis_by_axis(AG, group, 1e8)
    ]
    assert apart.each_s == pytest.approx(sum(one.each_s for one in parts))


def test_a_thinner_spine_costs_and_says_what_to_change() -> None:
    job = dense(layout={"tp": 8, "sp": True}, shard={"mode": "ddp"}, batch={"global": 16})
    full, quarter = colltool.plan(job, thin(1), 128), colltool.plan(job, thin(4), 128)
    assert quarter.step_s > full.step_s
    assert quarter.control_step_s == pytest.approx(full.control_step_s)
    flat = next(one for one in quarter.changes if one.change == "no oversubscription on ib")
    assert flat.step_s == pytest.approx(full.step_s)
    assert flat.gain == pytest.approx(1 - full.step_s / quarter.step_s)
    gains = [one.gain for one in quarter.changes]
    assert gains == sorted(gains, reverse=True)
    assert min(gains) > 0


def test_a_change_is_what_setting_it_gives() -> None:
    fabric = colltool.load_fabric(two_tiers())
    found = colltool.plan(dense(recompute="full"), fabric, 64)
    faster = next(one for one in found.changes if one.change == "double the NVLink bandwidth")
    again = colltool.plan(
        dense(recompute="full"),
        colltool.load_fabric(two_tiers(), [f"{k}={v}" for k, v in faster.set]),
        64,
    )
    assert again.step_s == pytest.approx(faster.step_s)
    for one in found.changes:
        if one.where == "job":
            job = colltool.load_job(
                dense(recompute="full"), [f"{key}={value}" for key, value in one.set]
            )
            assert colltool.plan(job, fabric, 64).step_s == pytest.approx(one.step_s, rel=1e-6), (
                one.change
            )


@pytest.mark.usefixtures("datasheet")
def test_a_faster_tier_makes_its_protocols_faster() -> None:
    job = dense(layout={"tp": 8, "sp": True}, batch={"global": 16})
    found = colltool.plan(job, "dgx-h100-measured", 16)
    faster = next(one for one in found.changes if one.change == "double the NVLink bandwidth")
    assert faster.set == (("nvlink.bandwidth", "900GB/s"),)  # which its protocols follow
    again = colltool.plan(
        job,
        colltool.load_fabric("dgx-h100-measured", [f"{key}={value}" for key, value in faster.set]),
        16,
    )
    assert again.step_s == pytest.approx(faster.step_s)


def test_tensor_parallel_over_two_nodes_is_told_to_stay_inside() -> None:
    found = colltool.plan(dense(layout={"tp": 16, "sp": True}), two_tiers(), 64)
    assert next(one for one in found.changes if one.change == "keep TP inside nvlink").gain > 0.2


def test_compression_divides_the_bandwidth_alone() -> None:
    """fp16 halves gradients of 4 bytes; its overhead comes on top."""
    job = dense(layout={"tp": 8, "sp": True}, shard={"mode": "ddp"}, overlap={"dp": False})
    plain = colltool.plan(job, two_tiers(), 64)
    small = colltool.plan(
        job | {"compression": {"on": "dp", "scheme": "fp16", "overhead": "1ms"}}, two_tiers(), 64
    )
    before, after = (
        next(one.sent for one in found.collectives if one.sent.call.dimension == "dp")
        for found in (plain, small)
    )
    assert after.each_s == pytest.approx(before.cost.latency_s + before.cost.bandwidth_s / 2 + 1e-3)


def test_the_library_picks() -> None:
    found = colltool.plan("llama3-70b", "dgx-h100", 256, library="nccl")
    picked = [
        one.sent.cost.picked_by for one in found.collectives if one.sent.call.primitive is not P2P
    ]
    assert "nccl" in picked
    adds_up(found)


def test_overheads_cost_every_call() -> None:
    plain, slow = (
        colltool.plan(dense(overlap={"overhead": o}), two_tiers(), 64).step_s
        for o in ("0us", "5us")
    )
    assert slow > plain


def test_measured_steps_stand_beside() -> None:
    plain = colltool.plan(dense(), two_tiers(), 64)
    found = colltool.plan(dense(measured={"step": "2s"}), two_tiers(), 64)
    assert found.measured_error == pytest.approx(plain.step_s / 2 - 1)


def test_too_many_ranks() -> None:
    with pytest.raises(ColltoolError, match="has 128 ranks, and nodes has 64") as caught:
        colltool.plan(dense(), two_tiers(), 128)
    assert "nodes:nodes=16" in str(caught.value.fix)


def test_a_group_that_does_not_sit_names_its_dimension() -> None:
    with pytest.raises(ColltoolError, match="tp 16"):
        colltool.plan(
            dense(layout={"tp": 16, "sp": True}, batch={"global": 240}),
            star(24, "1us", "10GB/s")
            | {
                "tiers": [
                    {
                        "name": "in",
                        "topology": "star",
                        "size": 6,
                        "alpha": "1us",
                        "bandwidth": "10GB/s",
                    },
                    {
                        "name": "out",
                        "topology": "star",
                        "size": 8,
                        "alpha": "1us",
                        "bandwidth": "10GB/s",
                    },
                ]
            },
            48,
        )


@pytest.mark.parametrize("bandwidth", ["1GB/s", "100GB/s"])
def test_layers_gathered_behind_their_neighbours_by_hand(bandwidth: str) -> None:
    """4 layers of 10 and 20 ms: L max(0, t - 10) and the first gather forward, L max(0, 2 t - 20)
    and the last scatter back."""
    job = {
        "model": {"parameters": 4e8, "layers": 4},
        "sequence": 1,
        "batch": {"global": 16},
        "layout": {"dp": 8},
        "compute": {"forward_per_layer": "10ms", "backward_per_layer": "20ms"},
        "shard": {"mode": "fsdp", "grad_bytes": 2},
    }
    fabric = colltool.load_fabric(star(8, "1us", bandwidth))
    gather, scatter = (
        colltool.price(fabric, primitive, size=2e8).best.total_s for primitive in ("ag", "rs")
    )
    forward = 4 * max(0.0, gather - 10e-3) + min(gather, 10e-3)
    backward = 4 * max(0.0, gather + scatter - 20e-3) + min(scatter, 20e-3)
    found = colltool.plan(job, fabric)
    assert part(found, "dp").exposed_s == pytest.approx(2 * (forward + backward))
    assert part(found, "compute").exposed_s == pytest.approx(2 * 4 * 30e-3)
    adds_up(found)


def test_racks_of_72_are_used_as_64() -> None:
    """Of a shipped job, and the plan says so."""
    job = colltool.load_job("llama3-70b", ["layout.tp=4"])
    found = colltool.plan(job, "nvl72", 64)
    adds_up(found)
    assert found.grounds[0].startswith("the job uses 64 of the 72 ranks of each nvlink domain")
    assert (
        found.step_s
        == colltool.plan(job, colltool.load_fabric("nvl72", ["nvlink.size=64"]), 64).step_s
    )


def test_replicas_of_hsdp_hide_as_fsdp_does() -> None:
    """A call a layer behind the last backward pass, beside one call of all: what is exposed is the
    last and what exceeds it."""
    job = dense(layout={}, batch={"global": 64, "micro": 1}, recompute="full")
    hsdp = colltool.plan(
        job | {"shard": {"mode": "hsdp", "group": 8, "grad_bytes": 2}}, two_tiers(), 64
    )
    summed = [
        one.sent
        for one in hsdp.collectives
        if one.sent.call.primitive is AR and one.sent.call.dimension == "dp"
    ]
    total, backward = sum(one.total_s for one in summed), sum(one.exposed_s for one in summed)
    assert sum(one.call.calls for one in summed) == 33
    assert 0 < backward < total / 4, "32 layers and the ends; it was all of them"
    slow = colltool.load_fabric(two_tiers(), ["ib.bandwidth=5GB/s"])
    groups, whole = (
        colltool.plan(job | {"shard": {"grad_bytes": 2} | mode}, slow, 64)
        for mode in ({"mode": "hsdp", "group": 8}, {"mode": "fsdp"})
    )
    assert groups.step_s < 0.9 * whole.step_s, "fewer bytes cross the nodes, and both hide"
    assert "HSDP: shard inside nvlink, replicate across" in [one.change for one in whole.changes]
