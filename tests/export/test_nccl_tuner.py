"""The tuner file read as NCCL's plugin reads it, and held against prices."""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from typing import Any, NamedTuple

import pytest

from colltool.engine.plan import Curve
from colltool.engine.price import price
from colltool.errors import ColltoolError
from colltool.export.nccl_choices import COLLECTIVES, WAYS, Choice, Cluster, choices, cluster_of, lower_envelope
from colltool.export.nccl_protocols import published_curves
from colltool.export.nccl_tuner import MAX_BYTES, tuner_config, tuner_env
from colltool.fabric.model import Fabric
from colltool.primitives import AG, AR, BC, RS, Primitive
from tests.small import clos, fabric, full_mesh, mesh, star, switch, torus

SHARP = {"alpha_switch": "0.5us", "reduce": True, "multicast": True}
SIZES = [0, 1, 8, 1000, 65_536, 10**6, 3_333_333, 10**7, 10**8, 10**9, 10**12, MAX_BYTES]

NODES = fabric(star(8, 1, 450, in_network=switch(0.2, eta_beta=0.5)), clos(8, alpha=2, in_network=SHARP))
NO_SHARP = fabric(star(8, 1, 450, in_network=switch(0.2, eta_beta=0.5)), clos(8, alpha=2))
PLAIN = fabric(star(8, 1, 450), clos(8, alpha=2))
SINGLE = fabric(clos(16, alpha=2))
FABRICS = {"nodes": NODES, "no sharp": NO_SHARP, "plain": PLAIN, "one rank a node": SINGLE}


class Answer(NamedTuple):
    algorithm: str
    protocol: str
    channels: int


def plugin(text: str, collective: str, size: int, nodes: int, ranks: int) -> Answer:
    """As the plugin's C code does: lines of at most 255 bytes, words compared exactly, the first row that matches."""
    kinds = ["broadcast", "reduce", "allgather", "reducescatter", "allreduce"]
    for line in text.split("\n"):
        assert len(line) < 255
        if line == "" or line[0] == "#":
            continue
        words = line.split(",")
        assert len(words) == 10
        assert words[0] in kinds  # another word would be read as allreduce
        low, high, channels, at_nodes, at_ranks = (int(words[index]) for index in (1, 2, 5, 6, 7))
        assert 0 <= low <= high < 2**64
        if (words[0], at_nodes, at_ranks) == (collective, nodes, ranks) and low <= size <= high:
            assert words[8:] == ["-1", "-1"]
            return Answer(words[3], words[4], channels)
    raise AssertionError(f"no row for {collective} of {size} bytes at {ranks} ranks on {nodes} nodes: one channel")


def priced_best(on: Fabric, primitive: Primitive, ranks: int, size: float) -> str:
    """NCCL's name of the cheapest way, by pricing each by name."""
    cluster = cluster_of(on, ranks)
    prices: dict[str, float] = {}
    for way in WAYS:
        if primitive not in way.primitives or not way.where(cluster):
            continue
        try:
            (row,) = price(on, primitive, size, ranks, only=[way.name]).results
        except ColltoolError:
            continue
        prices[way.algorithm] = min(float(row.total_s), prices.get(way.algorithm, 1e9))
    return min(prices, key=lambda name: prices[name])


@pytest.mark.parametrize("name", FABRICS)
def test_every_size_of_every_collective_has_the_algorithm_that_prices_cheapest(name: str) -> None:
    on = FABRICS[name]
    counts = [8, 16, 64] if on is not SINGLE else [8, 16]
    text = tuner_config(on, counts)
    for ranks in counts:
        nodes = ranks if on is SINGLE else ranks // 8
        for collective, primitive in COLLECTIVES.items():
            for size in SIZES:
                found = plugin(text, collective, size, nodes, ranks)
                expected = priced_best(on, primitive, ranks, min(max(float(size), 1.0), 1e18))
                assert found.algorithm == expected, (collective, ranks, size)


@pytest.mark.parametrize("name", FABRICS)
def test_rows_have_no_gap_and_no_overlap(name: str) -> None:
    rows = [line.split(",") for line in tuner_config(FABRICS[name], [8, 16]).splitlines() if not line.startswith("#")]
    groups: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for row in rows:
        groups.setdefault((row[0], row[6], row[7]), []).append((int(row[1]), int(row[2])))
    assert len(groups) == 2 * 5
    for ranges in groups.values():
        assert (ranges[0][0], ranges[-1][1]) == (0, 18446744073709551615)
        assert all(before[1] + 1 == after[0] for before, after in pairwise(ranges))


def test_the_row_changes_at_the_byte_at_which_the_price_does() -> None:
    cluster = cluster_of(PLAIN, 16)
    text = tuner_config(PLAIN, [16])
    algorithms = [choice.algorithm for choice in choices(cluster, AR).choices]
    assert algorithms[0] == "tree"
    assert algorithms[-1] == "ring"
    (border,) = {one.from_bytes for one, before in _pairs(choices(cluster, AR).choices) if one.algorithm != before.algorithm}
    assert plugin(text, "allreduce", ceil(border) - 1, 2, 16).algorithm == "tree"
    assert plugin(text, "allreduce", ceil(border), 2, 16).algorithm == "ring"
    at = [priced_best(PLAIN, AR, 16, size) for size in (border * 0.999, border * 1.001)]
    assert at == ["tree", "ring"]


def _pairs(found: tuple[Choice, ...]) -> list[tuple[Choice, Choice]]:
    return [(after, before) for before, after in pairwise(found)]


def test_what_runs_under_simple_only_is_never_given_another_protocol() -> None:
    for on in FABRICS.values():
        for line in tuner_config(on, [8, 16]).splitlines():
            if not line.startswith("#"):
                _, _, _, algorithm, protocol, *_ = line.split(",")
                assert protocol in ("ll", "ll128", "simple")
                assert protocol == "simple" or algorithm in ("ring", "tree")


def test_broadcast_and_reduce_are_rings() -> None:
    text = tuner_config(NODES, [64])
    assert {plugin(text, kind, size, 8, 64).algorithm for kind in ("broadcast", "reduce") for size in SIZES} == {"ring"}


@pytest.mark.parametrize(
    ("on", "ranks", "primitive", "expected"),
    [
        (NODES, 8, AR, {"ring", "tree", "nvls"}),
        (NODES, 8, AG, {"ring", "nvls"}),
        (NODES, 64, AR, {"ring", "tree", "nvls", "nvls_tree", "collnet_direct", "collnet_chain"}),
        (NO_SHARP, 64, AR, {"ring", "tree", "nvls_tree"}),
        (NODES, 64, RS, {"ring"}),
        (SINGLE, 16, AG, {"ring", "pat"}),
        (fabric(clos(16, alpha=2, in_network=SHARP)), 16, AR, {"ring", "tree", "collnet_chain"}),
        (fabric(star(8), clos(8, alpha=2, in_network=SHARP)), 64, AR, {"ring", "tree", "collnet_direct", "collnet_chain"}),
    ],
)
def test_what_nccl_can_run_where(on: Fabric, ranks: int, primitive: Primitive, expected: set[str]) -> None:
    """As in NCCL: NVLS on NVSwitch, across nodes only with CollNet; NVLSTree across nodes; PAT with one rank a node."""
    cluster = cluster_of(on, ranks)
    found = set()
    for way in WAYS:
        if primitive in way.primitives and way.where(cluster):
            try:
                price(on, primitive, 1e6, ranks, only=[way.name])
            except ColltoolError:
                continue
            found.add(way.algorithm)
    assert found == expected


def test_each_way_runs_somewhere() -> None:
    """A name that the registry does not know would be passed over in silence."""
    sharp_clos = fabric(clos(16, alpha=2, in_network=SHARP))
    for way in WAYS:
        for primitive in way.primitives:
            assert any(_runs(on, ranks, way.name, primitive) for on, ranks in ((NODES, 8), (NODES, 64), (sharp_clos, 16))), way


def _runs(on: Fabric, ranks: int, name: str, primitive: Primitive) -> bool:
    try:
        return bool(price(on, primitive, 1e6, ranks, only=[name]).results)
    except ColltoolError:
        return False


def test_nodes_are_innermost_domains_and_single_ranks_below_a_clos() -> None:
    assert [cluster_of(PLAIN, ranks).nodes for ranks in (4, 8, 16, 64)] == [1, 1, 2, 8]
    assert cluster_of(SINGLE, 16).nodes == 16


def test_channels_are_explicit() -> None:
    text = tuner_config(NODES, [8, 16])
    assert plugin(text, "broadcast", 1, 1, 8).channels == 24
    assert plugin(text, "broadcast", 1, 2, 16).channels == 16
    assert plugin(text, "allreduce", 10**6, 1, 8) == Answer("nvls", "simple", 16)
    text = tuner_config(NODES, [8, 16], channels=32)
    assert plugin(text, "broadcast", 1, 2, 16).channels == 32
    assert plugin(text, "allreduce", 10**6, 1, 8).channels == 16
    assert plugin(tuner_config(NODES, [8], channels=4), "allreduce", 10**6, 1, 8).channels == 4


@pytest.mark.parametrize("channels", [0, -1, 65])
def test_channels_that_nccl_does_not_have_are_refused(channels: int) -> None:
    with pytest.raises(ColltoolError, match="NCCL takes 1 to 64"):
        tuner_config(NODES, [8], channels)


def test_a_rank_count_given_twice_is_one_group() -> None:
    assert tuner_config(NODES, [8, 16, 8]) == tuner_config(NODES, [8, 16])
    assert tuner_config(NODES) == tuner_config(NODES, [64])


def test_published_protocols_cut_at_nccls_own_numbers() -> None:
    """8 ranks, ring all-gather at 7/8 / (100 GB/s): LL 6.6 + 7 * 0.6 us at half of it, LL128 14 + 7 * 1.9 us at 0.92."""
    on = fabric(star(8, 1, 100))
    slope = 7 / 8 / 100e9
    first = (14e-6 + 7 * 1.9e-6 - 6.6e-6 - 7 * 0.6e-6) / (slope * (1 / 0.5 - 1 / 0.92))
    second = (8.4e-6 + 7 * 3.4e-6 - 14e-6 - 7 * 1.9e-6) / (slope * (1 / 0.92 - 1))
    text = tuner_config(on, [8])
    found = [plugin(text, "allgather", size, 1, 8).protocol for size in (0, int(first) - 9, int(first) + 9, int(second) + 9)]
    assert found == ["ll", "ll", "ll128", "simple"]
    assert plugin(text, "allgather", int(second) - 9, 1, 8).protocol == "ll128"
    assert "published" in text


def _protocols(*names: str) -> list[dict[str, Any]]:
    """Each with more latency and more bandwidth than the one before."""
    scaled = ((name, 2**index) for index, name in enumerate(names))
    return [
        {"name": name, "launch_overhead": f"{5 * by}us", "alpha": f"{by}us", "bandwidth": f"{100 * by}GB/s"}
        for name, by in scaled
    ]


@pytest.mark.parametrize(
    ("names", "note"),
    [
        (("LL", "ll128", "Simple"), " protocol: measured. "),
        (
            ("low-latency", "mid", "high-bandwidth"),
            " protocol: measured, their names by order and not known: low-latency taken for ll, "
            "mid taken for ll128, high-bandwidth taken for simple. ",
        ),
    ],
)
def test_measured_protocols_are_passed_on(names: tuple[str, ...], note: str) -> None:
    on = fabric(star(8, 1, 100, protocols=_protocols(*names)))
    text = tuner_config(on, [8])
    assert note in text.replace("\n# ", " ")
    for size in SIZES[1:-1]:
        row = price(on, AG, float(size), 8, only=["ring"]).results[0]
        expected = dict(zip(names, ("ll", "ll128", "simple"), strict=True))[row.protocol]
        assert plugin(text, "allgather", size, 1, 8) == Answer("ring", expected, 24)
    assert {plugin(text, "allgather", size, 1, 8).protocol for size in SIZES} == {"ll", "ll128", "simple"}


def test_nvls_does_not_win_under_a_measured_protocol_that_it_has_not() -> None:
    """In-network is cheapest under every protocol here, but NCCL has it under Simple only: below, the ring's LL wins."""
    on = fabric(
        star(
            8,
            1,
            100,
            in_network=switch(0.2, eta_beta=0.9),
            protocols=[
                {"name": "ll", "launch_overhead": "1us", "bandwidth": "50GB/s"},
                {"name": "simple", "launch_overhead": "40us", "bandwidth": "100GB/s"},
            ],
        )
    )
    text = tuner_config(on, [8])
    assert plugin(text, "allreduce", 1000, 1, 8).protocol == "ll"
    assert plugin(text, "allreduce", 1000, 1, 8).algorithm in ("ring", "tree")
    assert plugin(text, "allreduce", 10**9, 1, 8)[:2] == ("nvls", "simple")


def test_a_protocol_that_is_none_of_nccls_is_refused() -> None:
    with pytest.raises(ColltoolError, match="protocol 'eager' is none of NCCL's"):
        tuner_config(fabric(star(8, protocols=_protocols("eager"))), [8])


def test_tiers_that_share_no_protocol_are_refused() -> None:
    on = fabric(star(8, protocols=_protocols("ll")), clos(8, alpha=2, protocols=_protocols("simple")))
    assert plugin(tuner_config(on, [8]), "allreduce", 1, 1, 8).protocol == "ll"
    with pytest.raises(ColltoolError, match="share no protocol"):
        tuner_config(on, [16])


def test_what_the_library_runs_restricts_the_choice() -> None:
    nvls = switch(0.2, eta_beta=0.9)
    text = tuner_config(fabric(star(8, in_network=nvls, algorithms={"ar": ["ring"]})), [8])
    assert {plugin(text, "allreduce", size, 1, 8).algorithm for size in SIZES} == {"ring"}
    text = tuner_config(fabric(star(8, in_network=nvls, algorithms={"ar": ["two-shot"]})), [8])
    assert "# the fabric's algorithms for it have no name in NCCL here (two-shot)" in text
    assert plugin(text, "allreduce", 10**6, 1, 8).algorithm == "nvls"


def test_the_header_says_how_to_load_it_and_what_it_needs() -> None:
    text = tuner_config(NODES, [16])
    for part in ("NCCL_TUNER_PLUGIN=", "NCCL_TUNER_CONFIG_FILE=", "2.27.5", "All-to-all", "#   16 ranks on 2 nodes", "advice"):
        assert part in text
    assert "NCCL_COLLNET_ENABLE=1" in text
    assert "COLLNET" not in tuner_config(NO_SHARP, [16])


def test_a_name_as_long_as_they_come_keeps_lines_short() -> None:
    long = ["tree", "recursive-doubling", "rabenseifner", "one-shot", "two-shot", "outer-ring", "inner-ring", "leader"]
    long += ["dim-ring", "dim-ring-bidirectional", "multi-ring", "dim-rabenseifner"] + [
        f"leader:{'tree/' * n}tree" for n in (9, 20)
    ]
    on = fabric(star(8, algorithms={"ar": long}), name="n" * 64)
    assert max(map(len, tuner_config(on, [8]).splitlines())) < 255


def test_env_lists_who_wins_somewhere_by_nccls_other_names() -> None:
    lines = tuner_env(NO_SHARP, [8, 64]).splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        'NCCL_ALGO="broadcast:ring;reduce:ring;allgather:nvls;reducescatter:nvls;allreduce:nvls,ring"',
        'NCCL_ALGO="broadcast:ring;reduce:ring;allgather:ring;reducescatter:ring;allreduce:nvlstree,ring"',
    ]
    assert "# 64 ranks on 8 nodes" in lines


@pytest.mark.parametrize("tier", [torus(4, 4), mesh(4, 4), full_mesh(8)])
def test_where_nccl_does_not_run_is_refused(tier: dict[str, Any]) -> None:
    kind = tier["topology"].replace("_", " ")
    with pytest.raises(ColltoolError, match=f"'t1' is a {kind}"):
        tuner_config(fabric(tier, clos(4, alpha=2)), [16])


def test_a_group_that_leaves_a_domain_half_full_is_refused() -> None:
    with pytest.raises(ColltoolError, match="12 ranks leave a domain half full"):
        tuner_config(NODES, [8, 12])


def test_the_lower_envelope() -> None:
    curves = {"small": Curve(1.0, 3.0), "middle": Curve(3.0, 2.0), "large": Curve(10.0, 1.0), "never": Curve(11.0, 3.0)}
    assert lower_envelope(curves, 1.0) == [(1.0, "small"), (2.0, "middle"), (7.0, "large")]
    assert lower_envelope(curves, 5.0) == [(5.0, "middle"), (7.0, "large")]
    assert lower_envelope({"a": Curve(1, 1), "b": Curve(1, 1)}, 1.0) == [(1.0, "a")]


def test_three_tiers_leave_rings_and_trees() -> None:
    on = fabric(star(4, in_network=switch()), star(2, 2, 50), clos(4, alpha=2, in_network=SHARP))
    cluster = cluster_of(on, 32)
    assert isinstance(cluster, Cluster)
    assert cluster.nodes == 8
    assert {choice.algorithm for choice in choices(cluster, AR).choices} <= {"ring", "tree"}
    assert choices(cluster, BC).choices[0].title == "chain"


def test_published_latencies_count_hops_as_nccl_does() -> None:
    """16 ranks on 2 nodes, in us: a ring all-reduce has 28 hops in nodes and 2 between; a tree 14 in its chains and 2."""
    ring = published_curves("ring", AR, 16, 2, 1e-9)
    tree = published_curves("tree", AR, 16, 2, 1e-9)
    assert ring["ll"].a == pytest.approx((6.6 + 28 * 0.6 + 2 * 2.7) * 1e-6)
    assert tree["simple"].a == pytest.approx((8.4 + 14 * 4 + 2 * 14) * 1e-6)
    assert published_curves("ring", BC, 16, 2, 1e-9)["ll128"].a == pytest.approx((14 + 14 * 1.9 + 4) * 1e-6)
    assert (ring["ll"].b, ring["simple"].b) == pytest.approx((2e-9, 1e-9))
    assert published_curves("nvls", AR, 16, 2, 1e-9) == {}
