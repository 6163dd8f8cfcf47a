"""The tuner file read as NCCL's plugin reads it, and held against prices."""

from __future__ import annotations

from math import ceil
from typing import Any, NamedTuple

import pytest

from colltool.errors import ColltoolError
from colltool.export.nccl.choices import COLLECTIVES, Cluster, choices, cluster_of
from colltool.export.nccl.protocols import Call, published
from colltool.export.nccl.tuner import MAX_BYTES, tuner_config, tuner_env
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric
from colltool.library.ways import WAYS
from colltool.pricing.costed import Curve
from colltool.pricing.crossover import lower_envelope
from colltool.pricing.price import price
from colltool.pricing.readings import Readings
from colltool.primitives import AG, AR, BC, RS, Primitive
from tests.small import clos, fabric, full_mesh, mesh, star, switch, torus

SHARP = {"alpha_switch": "0.5us", "reduce": True, "multicast": True}
SIZES = [0, 1, 8, 1000, 65_536, 10**6, 3_333_333, 10**7, 10**8, 10**9, 10**12, MAX_BYTES]

NVSWITCH = star(8, 1, 450, in_network=switch(0.2, eta_beta=0.5))
TIERS = {
    "nodes": [NVSWITCH, clos(8, alpha=2, in_network=SHARP)],
    "no sharp": [NVSWITCH, clos(8, alpha=2)],
    "plain": [star(8, 1, 450), clos(8, alpha=2)],
    "one rank a node": [clos(16, alpha=2)],
}
FABRICS = {name: fabric(*tiers) for name, tiers in TIERS.items()}
NODES, NO_SHARP, PLAIN, SINGLE = FABRICS.values()
UNDER_SIMPLE = {name: fabric(*({**tier, "protocols": [{"name": "simple"}]} for tier in tiers)) for name, tiers in TIERS.items()}
"""The same fabrics, all tiers listing Simple: their own numbers then hold, not NCCL's published ones."""


class Answer(NamedTuple):
    algorithm: str
    protocol: str
    channels: int


def plugin(text: str, collective: str, size: int, nodes: int, ranks: int, disabled: tuple[str, ...] = ()) -> Answer:
    """As the plugin's C code does: lines of at most 255 bytes, words compared exactly, the first row that matches and whose
    algorithm is not disabled."""
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
        matches = (words[0], at_nodes, at_ranks) == (collective, nodes, ranks) and low <= size <= high
        if matches and words[3] not in disabled:
            assert words[8:] == ["-1", "-1"]
            return Answer(words[3], words[4], channels)
    raise AssertionError(f"no row for {collective} of {size} bytes at {ranks} ranks on {nodes} nodes: one channel")


def ways_of(on: Fabric, primitive: Primitive, ranks: int) -> dict[str, str]:
    """Our name of what NCCL runs for each of its algorithms: of several the one that is cheapest for the largest messages."""
    cluster = cluster_of(on, ranks)
    found: dict[str, tuple[float, str]] = {}
    for way in WAYS:
        if primitive in way.primitives and way.where(cluster) and _runs(on, ranks, way.name, primitive):
            (row,) = price(on, primitive, 1e18, ranks, only=[way.name]).results
            found[way.algorithm] = min((float(row.total_s), way.name), found.get(way.algorithm, (1e99, "")))
    return {algorithm: name for algorithm, (_, name) in found.items()}


def priced_best(on: Fabric, primitive: Primitive, ranks: int, size: float) -> str:
    """NCCL's name of the cheapest way, by pricing each by name."""
    names = ways_of(on, primitive, ranks)
    prices = {algorithm: price(on, primitive, size, ranks, only=[name]).results[0] for algorithm, name in names.items()}
    return min(prices, key=lambda algorithm: float(prices[algorithm].total_s))


@pytest.mark.parametrize("name", FABRICS)
def test_every_size_of_every_collective_has_the_algorithm_that_prices_cheapest(name: str) -> None:
    on = UNDER_SIMPLE[name]
    single = FABRICS[name] is SINGLE
    counts = [8, 16, 64] if not single else [8, 16]
    text = tuner_config(on, counts)
    for ranks in counts:
        nodes = ranks if single else ranks // 8
        for collective, primitive in COLLECTIVES.items():
            for size in SIZES:
                found = plugin(text, collective, size, nodes, ranks)
                expected = priced_best(on, primitive, ranks, min(max(float(size), 1.0), 1e18))
                assert found.algorithm == expected, (collective, ranks, size)


@pytest.mark.parametrize("on", FABRICS.values(), ids=FABRICS)
@pytest.mark.parametrize("primitive", [AR, AG])
def test_without_protocols_each_size_has_the_least_of_all_that_nccl_has(on: Fabric, primitive: Primitive) -> None:
    cluster = cluster_of(on, 16)
    text = tuner_config(on, [16])
    collective = {kind: name for name, kind in COLLECTIVES.items()}[primitive]
    for size in SIZES[1:-1]:
        times = {}
        for algorithm, way in ways_of(on, primitive, 16).items():
            row = price(on, primitive, float(size), 16, Readings(phases="pipelined"), [way]).results[0]
            for protocol, one in published(algorithm, Call(primitive, 16, cluster.nodes)).items():
                sent = max(float(row.bandwidth_s) / one.share, size / one.most_Bps)
                times[algorithm, protocol] = max(float(row.alpha_s), one.latency_s) + sent
        found = plugin(text, collective, size, cluster.nodes, 16)
        assert times[found.algorithm, found.protocol] == pytest.approx(min(times.values())), size


@pytest.mark.parametrize("name", FABRICS)
def test_rows_have_no_gap_and_no_overlap_and_rings_behind_the_others(name: str) -> None:
    groups: dict[tuple[str, ...], list[list[tuple[str, int]]]] = {}
    for words in _row_words(tuner_config(FABRICS[name], [8, 16])):
        low, high = int(words[1]), int(words[2])
        parts = groups.setdefault((words[0], words[6], words[7]), [])
        if low == 0:
            parts.append([])
        elif parts[-1]:
            assert parts[-1][-1][1] + 1 == low
        parts[-1].append((words[3], high))
    assert len(groups) == 2 * 5
    for parts in groups.values():
        assert [part[-1][1] for part in parts] == [18446744073709551615] * len(parts)
        winners, *behind = ({algorithm for algorithm, _ in part} for part in parts)
        assert behind == ([] if winners == {"ring"} else [{"ring"}])


def _row_words(text: str) -> list[list[str]]:
    return [line.split(",") for line in text.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("name", FABRICS)
def test_without_anything_but_rings_every_size_has_a_row_all_the_same(name: str) -> None:
    text = tuner_config(FABRICS[name], [16])
    disabled = tuple({way.algorithm for way in WAYS} - {"ring"})
    for collective in COLLECTIVES:
        found = [plugin(text, collective, size, 16 if name == "one rank a node" else 2, 16, disabled) for size in SIZES]
        assert [(one.algorithm, one.channels) for one in found] == [("ring", 16)] * len(SIZES)
        assert found[-1].protocol == "simple"
        assert collective != "allreduce" or found[0].protocol == "ll"


def test_the_row_changes_at_the_byte_at_which_the_price_does() -> None:
    on = UNDER_SIMPLE["plain"]
    text = tuner_config(on, [16])
    (tree, ring) = choices(cluster_of(on, 16), AR).choices
    assert (tree.algorithm, ring.algorithm) == ("tree", "ring")
    border = ring.from_bytes
    assert plugin(text, "allreduce", ceil(border) - 1, 2, 16).algorithm == "tree"
    assert plugin(text, "allreduce", ceil(border), 2, 16).algorithm == "ring"
    assert [priced_best(on, AR, 16, size) for size in (border * 0.999, border * 1.001)] == ["tree", "ring"]


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
    assert plugin(text, "allreduce", 10**7, 1, 8) == Answer("nvls", "simple", 16)
    text = tuner_config(NODES, [8, 16], channels=32)
    assert plugin(text, "broadcast", 1, 2, 16).channels == 32
    assert plugin(text, "allreduce", 10**7, 1, 8).channels == 16
    assert plugin(tuner_config(NODES, [8], channels=4), "allreduce", 10**7, 1, 8).channels == 4


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
        (("LL", "ll128", "Simple"), " protocols: those the fabric lists: LL, ll128, Simple. "),
        (
            ("low-latency", "mid", "high-bandwidth"),
            " protocols: those the fabric lists: low-latency (by position taken for ll), mid (by position taken for ll128), "
            "high-bandwidth (by position taken for simple). ",
        ),
    ],
)
def test_listed_protocols_are_passed_on(names: tuple[str, ...], note: str) -> None:
    on = fabric(star(8, 1, 100, protocols=_protocols(*names)))
    text = tuner_config(on, [8])
    assert note in text.replace("\n# ", " ")
    assert "Not calibrated" not in text
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
    with pytest.raises(ColltoolError, match="protocol 'eager', listed by 't1' for broadcast, is none of NCCL's"):
        tuner_config(fabric(star(8, protocols=_protocols("eager"))), [8])


def test_tiers_that_share_no_protocol_are_refused() -> None:
    with pytest.raises(ColltoolError, match="share no protocol"):
        tuner_config(fabric(star(8, protocols=_protocols("ll")), clos(8, alpha=2, protocols=_protocols("simple"))), [16])


def test_a_tier_that_lists_no_protocols_is_named() -> None:
    on = fabric(star(8, protocols=_protocols("ll", "simple")), clos(8, alpha=2))
    assert "; t2: none listed, so the same numbers under all." in tuner_config(on, [16]).replace("\n# ", " ")
    assert "none listed" not in tuner_config(on, [8])


def test_what_the_library_runs_restricts_the_choice() -> None:
    nvls = switch(0.2, eta_beta=0.9)
    text = tuner_config(fabric(star(8, in_network=nvls, algorithms={"ar": ["ring"]})), [8])
    assert {plugin(text, "allreduce", size, 1, 8).algorithm for size in SIZES} == {"ring"}
    assert "what ran was fitted, not seen in the log (ring)" in text.replace("\n# ", " ")
    text = tuner_config(fabric(star(8, in_network=nvls, algorithms={"ar": ["two-shot"]})), [8])
    assert "fitted" not in text
    assert "# NCCL runs none of the fabric's algorithms for it here (two-shot)" in text
    assert plugin(text, "allreduce", 10**7, 1, 8).algorithm == "nvls"


def test_listed_algorithms_that_run_under_no_listed_protocol_leave_the_others() -> None:
    """NVLS alone, and LL alone: NCCL has no such pair."""
    on = fabric(star(8, in_network=switch(), algorithms={"ar": ["in-network"]}, protocols=[{"name": "ll"}]))
    text = tuner_config(on, [8])
    assert "NCCL runs none of the fabric's algorithms for it here (in-network)" in text
    assert {plugin(text, "allreduce", size, 1, 8).protocol for size in SIZES} == {"ll"}


def test_the_header_says_how_to_load_it_and_what_it_needs() -> None:
    text = tuner_config(NODES, [16])
    for part in (
        "NCCL_TUNER_PLUGIN=",
        "NCCL_TUNER_CONFIG_FILE=",
        "2.27.5",
        "All-to-all",
        "#   16 ranks on 2 nodes",
        "advice",
        "Not calibrated",
    ):
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
        'NCCL_ALGO="broadcast:ring;reduce:ring;allgather:ring,nvls;reducescatter:ring,nvls;allreduce:ring,nvls"',
        'NCCL_ALGO="broadcast:ring;reduce:ring;allgather:ring;reducescatter:ring;allreduce:tree,nvlstree,ring"',
    ]
    assert "# 64 ranks on 8 nodes" in lines


@pytest.mark.parametrize("tier", [torus(4, 4), mesh(4, 4), full_mesh(8)])
def test_where_nccl_does_not_run_is_refused(tier: dict[str, Any]) -> None:
    kind = tier["topology"].replace("_", " ")
    with pytest.raises(ColltoolError, match=f"'t1' is a {kind}") as caught:
        tuner_config(fabric(tier, clos(4, alpha=2)), [16])
    assert "RCCL's plugin is not NCCL's" in str(caught.value.fix)


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


def test_slow_links_are_felt() -> None:
    """Hops of a millisecond: NCCL's latencies are nothing beside it, and no protocol has less than another."""
    slow = fabric(star(8, 1000, 450))
    (choice,) = choices(cluster_of(slow, 8), AG).choices
    assert choice.protocol == "simple"


@pytest.mark.parametrize(
    ("nodes", "kinds", "borders"),
    [
        (1, [("ring", "ll"), ("nvls", "simple")], [1.10 * 2**20]),
        (
            8,
            [("tree", "ll"), ("tree", "ll128"), ("nvls_tree", "simple"), ("ring", "simple")],
            [171 * 2**10, 11.1 * 2**20, 2.23 * 2**30],
        ),
        (64, [("tree", "ll"), ("tree", "ll128"), ("nvls_tree", "simple")], [256 * 2**10, 23.6 * 2**20]),
    ],
)
def test_an_h100_flips_about_where_nccls_own_model_does(nodes: int, kinds: list[tuple[str, str]], borders: list[float]) -> None:
    """NCCL 2.30's own choices for 8 x 400G a node, without SHARP; within a factor of 4, for the links are the fabric's."""
    on = load_fabric("dgx-h100", ["ib.in_network.reduce=false", "ib.size=128"])
    found = choices(cluster_of(on, nodes * 8), AR).choices[: len(kinds)]
    assert [(choice.algorithm, choice.protocol) for choice in found] == kinds
    for choice, border in zip(found[1:], borders, strict=True):
        assert border / 4 < choice.from_bytes < border * 4


@pytest.mark.parametrize(
    "on", [*FABRICS.values(), load_fabric("dgx-h100"), load_fabric("nvl72"), load_fabric("dgx-h100-measured")]
)
def test_larger_messages_never_take_a_narrower_protocol_of_the_same_algorithm(on: Fabric) -> None:
    order = {"ll": 0, "ll128": 1, "simple": 2}
    for primitive in COLLECTIVES.values():
        answer = choices(cluster_of(on, None), primitive)
        for found in (answer.choices, answer.fallback):
            for algorithm in {choice.algorithm for choice in found}:
                widths = [order[choice.protocol] for choice in found if choice.algorithm == algorithm]
                assert widths == sorted(widths)
