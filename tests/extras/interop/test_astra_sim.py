"""What ASTRA-sim would make of the exported numbers, by its own rules, beside colltool's price."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, RS, Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.price import price
from colltool.extras.interop.astra_sim import astra_sim, usage_notes
from colltool.fabric.model import Fabric
from tests.small import clos, fabric, full_mesh, mesh, star, switch, torus

HOPS = {"Ring": 1, "Switch": 2, "FullyConnected": 1}
SIZE = 64e6


def network(on: Fabric, **options: Any) -> dict[str, Any]:
    return dict(yaml.safe_load(astra_sim(on, **options)["network.yml"]))


def system(on: Fabric, **options: Any) -> dict[str, Any]:
    return dict(json.loads(astra_sim(on, **options)["system.json"]))


def simulated(on: Fabric, size: float, ranks: int | None = None) -> float:
    """Seconds of an all-reduce of ``size`` bytes on every NPU, by ASTRA-sim's analytical rules:
    dimension by dimension in and out again, a message takes its links' latencies and its bytes at
    bandwidth times 2^30."""
    net, how = network(on, group=ranks), system(on, group=ranks)["all-reduce-implementation"]
    assert (
        len(
            {
                len(net["topology"]),
                len(how),
                len(net["npus_count"]),
                len(net["bandwidth"]),
                len(net["latency"]),
            }
        )
        == 1
    )
    total, held = 0.0, size
    for topology, npus, bandwidth, latency, algorithm in zip(
        *(net[key] for key in net), how, strict=True
    ):
        if algorithm == "ring":
            messages = [held / npus] * (npus - 1)
        elif algorithm == "direct":
            messages = [held / npus]  # to all others at once, each on a link of its own
        else:
            assert algorithm == "halvingDoubling"
            assert npus & (npus - 1) == 0
            messages = [held / 2**step for step in range(1, npus.bit_length())]
        total += 2 * sum(
            HOPS[topology] * latency * 1e-9 + message / (bandwidth * 2**30) for message in messages
        )
        held /= npus
    return total


@swept(
    ("on", "ranks", "name"),
    [
        (fabric(star(6, 1, 450)), 6, "ring"),
        (fabric(star(8, 1, 450)), 8, "rabenseifner"),
        (fabric(star(8, 1, 450, ports=2)), 4, "rabenseifner"),
        (fabric(star(8, 1, 450, eta={"alpha": 1.5, "beta": 0.8})), 8, "rabenseifner"),
        (fabric(star(8, 1, 450), clos(6, alpha=2)), 48, None),
        (fabric(star(3, 1, 450), star(3, 2, 100), clos(6, (3, 2), (6, 8))), 27, None),
        (fabric(full_mesh(8, 1, 64)), 8, "two-shot"),
        (fabric(torus(4, 3, 5)), 60, "dim-ring"),
    ],
)
def test_an_all_reduce_takes_what_colltool_says(on: Fabric, ranks: int, name: str | None) -> None:
    how = {"ring": "ring", "halvingDoubling": "recursive-halving"}
    if name is None:
        *inner, outer = system(on, group=ranks)["all-reduce-implementation"]
        outer = "rabenseifner" if outer == "halvingDoubling" else outer
        name = f"hierarchical:{'/'.join([*(how[one] for one in inner), outer])}"
    for size in (8.0, 1e6, SIZE):
        (row,) = price(on, AR, size, ranks, only=[name]).results
        assert simulated(on, size, ranks) == pytest.approx(float(row.total_s), rel=1e-9)


def all_to_all(on: Fabric, size: float) -> float:
    """Seconds of an all-to-all by the rules of its congestion-unaware binary: every message has the
    link for itself, so what is sent at once takes the time of one; ``direct1`` waits for each,
    ``ring`` relays: n(n-1)/2 messages of M/n, one by one."""
    net, how = network(on), system(on)["all-to-all-implementation"]
    total = 0.0
    for topology, npus, bandwidth, latency, algorithm in zip(
        *(net[key] for key in net), how, strict=True
    ):
        messages = {"direct": 1, "direct1": npus - 1, "ring": npus * (npus - 1) // 2}[algorithm]
        total += messages * (HOPS[topology] * latency * 1e-9 + size / npus / (bandwidth * 2**30))
    return total


@swept(
    ("on", "name"),
    [
        (fabric(star(8, 1, 450)), "pairwise"),
        (fabric(star(6, 1, 450), clos(5, alpha=2)), "two-level:pairwise/pairwise"),
        (fabric(full_mesh(8, 1, 64)), "direct"),
    ],
)
def test_an_all_to_all_takes_what_colltool_says(on: Fabric, name: str) -> None:
    for size in (8.0, 1e6, SIZE):
        (row,) = price(on, A2A, size, only=[name]).results
        assert all_to_all(on, size) == pytest.approx(float(row.total_s), rel=1e-9)


@swept("shape", [(8, 8, 8), (4, 4), (3, 5), (2, 4), (7,)])
def test_a_torus_is_said_to_relay_an_all_to_all_and_how_much_too_slow_that_is(
    shape: tuple[int, ...],
) -> None:
    on = fabric(torus(*shape))
    (row,) = price(on, A2A, 1e15, only=["dim-by-dim"]).results
    ratio = all_to_all(on, 1e15) / float(row.total_s)
    (said,) = [note for note in usage_notes(on) if "do not trust an all-to-all on a Ring" in note]
    assert f"move {ratio:.2g}x the bytes of dim-by-dim" in said
    assert f"and {sum(n * (n - 1) // 2 for n in shape)} messages" in said
    assert ratio > 2


def test_rings_of_two_relay_nothing() -> None:
    assert not [note for note in usage_notes(fabric(torus(2, 2))) if "all-to-all on a Ring" in note]


@swept(
    ("on", "why"),
    [
        (fabric(star(8), clos(8, alpha=2)), "ends with an error on more than one dimension"),
        (fabric(torus(2)), "ends with an error on a Ring of 2"),
        (
            fabric(star(8)),
            "is 1.9 to 3.1 times off for all-reduce, all-gather and reduce-scatter on a Switch",
        ),
        (fabric(full_mesh(8)), "these numbers are for it"),
    ],
)
def test_the_congestion_unaware_binary_is_the_one_to_run(on: Fabric, why: str) -> None:
    (run,) = [note for note in usage_notes(on) if note.startswith("run ")]
    assert run.startswith("run AstraSim_Analytical_Congestion_Unaware: ")
    assert run.endswith(why)
    assert run in astra_sim(on)["network.yml"].replace("\n# ", " ")


def test_copies_in_memory_cost_nothing() -> None:
    """At a bandwidth of memory of 1e9 GB/s even 64 MB take less than a nanosecond."""
    assert SIZE / (system(fabric(star(8)))["local-mem-bw"] * 1e9) < 1e-9


def test_the_size_below_which_one_protocol_misleads() -> None:
    listed = [
        {"name": "LL", "launch_overhead": "5us", "alpha": "1us", "bandwidth": "20GB/s"},
        {"name": "Simple", "launch_overhead": "20us", "alpha": "2us", "bandwidth": "100GB/s"},
    ]
    on = fabric(star(6, protocols=listed))
    slow, fast = (
        price(on, AR, 1.0, only=["ring"]).results[0],
        price(on, AR, 1e9, only=["ring"]).results[0],
    )
    assert (slow.protocol, fast.protocol) == ("LL", "Simple")
    (said,) = [note for note in usage_notes(on) if "mislead" in note]
    assert said.startswith(
        "below 375 KB they mislead: an all-reduce is faster there under LL"
    )  # 25 us / (10/6 (1/20 - 1/100) ns)
    assert said.endswith("for the smallest messages 2.7x as fast")  # 40 us and 15 us
    assert [price(on, AR, size, only=["ring"]).results[0].protocol for size in (374e3, 376e3)] == [
        "LL",
        "Simple",
    ]
    assert not [
        note for note in usage_notes(fabric(star(6, protocols=listed[1:]))) if "mislead" in note
    ]


def test_bandwidth_is_in_gibibytes_and_a_switch_is_two_links() -> None:
    net = network(fabric(star(8, 1, 900), clos(8, alpha=4, bw=50)))
    assert net["topology"] == ["Switch", "Switch"]
    assert net["npus_count"] == [8, 8]
    assert net["bandwidth"] == pytest.approx([838.1903, 46.5661], rel=1e-5)
    assert net["latency"] == [500, 2000]


def test_full_meshes_and_tori_keep_the_latency_of_their_links() -> None:
    net = network(fabric(full_mesh(4, 1, 64), torus(4, 1, 3)))
    assert net["topology"] == ["FullyConnected", "Ring", "Ring"]
    assert net["npus_count"] == [4, 4, 3]
    assert net["latency"] == [1000, 1000, 1000]


def test_eta_is_applied_unless_ideal() -> None:
    on = fabric(star(8, 1, 2**30 / 1e9, eta={"alpha": 1.5, "beta": 0.5}))
    real, ideal = network(on), network(on, ideal=True)
    assert (real["bandwidth"], real["latency"]) == ([0.5], [750])
    assert (ideal["bandwidth"], ideal["latency"]) == ([1], [500])
    (row,) = price(on, AR, SIZE, None, ModelOptions(ideal=True), ["rabenseifner"]).results
    assert float(row.bandwidth_s) == pytest.approx(2 * 7 / 8 * SIZE / 2**30)


def test_system_names_an_algorithm_for_every_dimension_of_every_collective() -> None:
    files = system(
        fabric(
            torus(4, 4),
            full_mesh(3),
            star(6),
        )
    )
    assert files["all-reduce-implementation"] == ["ring", "ring", "direct", "ring"]
    assert files["all-to-all-implementation"] == ["ring", "ring", "direct", "direct1"]
    keys = [f"{one.label}-implementation" for one in (AR, AG, RS, A2A)]
    assert all(len(files[key]) == 4 for key in keys)
    assert files["endpoint-delay"] >= 1
    assert (files["active-chunks-per-dimension"], files["preferred-dataset-splits"]) == (1, 1)
    assert files["collective-optimization"] == "localBWAware"


def test_the_comment_gives_each_npus_input() -> None:
    text = astra_sim(fabric(star(8)), size=1e6)["network.yml"]
    assert "all-to-all in ASTRA-sim: M, what each NPU puts in: 1000000 bytes" in text
    assert "all-gather in ASTRA-sim: the shard of an NPU, M/N: 125000 bytes" in text
    assert "1000000" not in astra_sim(fabric(star(8)))["network.yml"]


def test_what_astra_sim_has_no_word_for_is_said() -> None:
    on = fabric(star(8, in_network=switch()), launch_overhead="5us")
    text = astra_sim(on)["network.yml"]
    assert "# left out: in-network operations of t1" in text
    assert "# left out: the launch overhead of 5 us" in text
    assert "left out" not in astra_sim(fabric(star(8)))["network.yml"]


def test_of_several_protocols_the_one_with_most_bandwidth() -> None:
    protocols = [
        {"name": "fast", "alpha": "1us", "bandwidth": "50GB/s"},
        {"name": "wide", "alpha": "6us", "bandwidth": "100GB/s", "local_copy": "1000GB/s"},
    ]
    on = fabric(star(8, protocols=protocols))
    assert network(on)["latency"] == [3000]
    assert network(on)["bandwidth"] == pytest.approx([93.1323], rel=1e-5)
    text = astra_sim(on)["network.yml"]
    assert "protocol wide" in text
    assert "left out: the copy of a rank's own share" in text


def test_across_tiers_the_product_of_bandwidths_decides() -> None:
    """The outer tier, the slowest, lists none: the least bandwidth of the two is the same under
    both."""
    protocols = [{"name": "fast", "bandwidth": "50GB/s"}, {"name": "wide", "bandwidth": "100GB/s"}]
    text = astra_sim(fabric(star(8, protocols=protocols), clos(8, alpha=2, bw=25.0)))["network.yml"]
    assert "protocol wide, the one" in text
    assert yaml.safe_load(text)["bandwidth"] == pytest.approx([93.1323, 23.2831], rel=1e-5)


def test_of_equal_protocols_the_last_one() -> None:
    on = fabric(star(8, protocols=[{"name": "first"}, {"name": "last"}]))
    assert "protocol last" in astra_sim(on)["network.yml"]


def test_numbers_are_said_to_be_all_reduces_where_lists_differ() -> None:
    own = [
        {"name": "wide", "primitives": ["all_reduce"]},
        {"name": "wide", "alpha": "9us", "primitives": ["all_gather"]},
    ]
    text = astra_sim(fabric(star(8, protocols=own)))["network.yml"]
    assert "protocol wide as listed for all-reduce" in text
    assert (
        "as listed" not in astra_sim(fabric(star(8, protocols=[{"name": "wide"}])))["network.yml"]
    )


def test_a_shard_that_is_no_whole_number_is_rounded_up_and_said_to_be() -> None:
    text = astra_sim(fabric(star(8)), size=5)["network.yml"]
    assert "M, what each NPU puts in: 5 bytes\n" in text
    assert "the shard of an NPU, M/N: 1 byte, rounded up\n" in text
    assert "rounded" not in astra_sim(fabric(star(8)), size=16)["network.yml"]


@swept(
    ("on", "ranks", "message"),
    [
        (fabric(star(8), clos(8, (4, 2), (8, 2, 2))), 64, "'t2' is oversubscribed 2:1"),
        (
            fabric(star(8), clos(8, (4, 2), (8, 8))),
            64,
            r"levels of 't2' with different alpha \(l1, l2\)",
        ),
        (fabric(mesh(4, 4)), 16, "'t1' is an open 4x4 here"),
        (fabric(torus(4, 4)), 3, "'t1' is an open 3 here"),
        (fabric(torus(2, 2, 2, 2, 2)), 32, "has 5 dimensions"),
        (fabric(star(8), star(4)), 12, "12 ranks leave a domain half full"),
    ],
)
def test_what_cannot_be_expressed_is_refused(on: Fabric, ranks: int, message: str) -> None:
    with pytest.raises(ColltoolError, match=message):
        astra_sim(on, ranks)


@pytest.mark.parametrize("ranks", [32, 16])
def test_a_group_below_the_uneven_level_is_fine(ranks: int) -> None:
    on = fabric(star(8), clos(8, (4, 2), (8, 8, 4)))
    assert network(on, group=ranks)["npus_count"] == [8, ranks // 8]


@swept("primitive", [AR, AG, RS, A2A])
def test_no_algorithm_needs_a_power_of_two_that_is_not_there(primitive: Primitive) -> None:
    assert (
        "halvingDoubling"
        not in system(fabric(star(6), clos(12, alpha=2)))[f"{primitive.label}-implementation"]
    )
