"""What stands in the tuner file: every collective and size, from which numbers, in which words; and
what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.primitives import AG, AR
from colltool.estimate.price import price
from colltool.extras.interop.nccl_tuner import tuner_config, tuner_env
from colltool.extras.interop.nccl_tuner_curves import COLLECTIVES, cluster_of
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric
from colltool.libraries.nccl.hardware import constants
from colltool.libraries.nccl.model import switch_points
from tests.extras.interop.tuner.measured import FACTS, MEASURED, hurts, measured, protocols
from tests.extras.interop.tuner.plugin import ALGORITHMS, PROTOCOLS, follow, read
from tests.small import clos, fabric, full_mesh, mesh, star, switch, torus

pytestmark = pytest.mark.usefixtures("datasheet")

MAX = 2**64 - 1
SIZES = [0, 1, 8, 1000, 65_536, 10**6, 3_333_333, 10**7, 10**8, 10**9, 10**12, MAX]
NVSWITCH = star(8, 1, 450, in_network=switch(0.2, eta_beta=0.5))
SHARP = {"alpha_switch": "0.5us", "reduce": True, "multicast": True}

NODES = fabric(NVSWITCH, clos(8, alpha=2, in_network=SHARP), library=FACTS | {"collnet": True})
NO_SHARP = fabric(NVSWITCH, clos(8, alpha=2), library=FACTS)
PLAIN = fabric(star(8, 1, 450), clos(8, alpha=2), library=FACTS)
SINGLE = fabric(clos(16, alpha=2), library=FACTS)
FABRICS = {
    "nodes": NODES,
    "no sharp": NO_SHARP,
    "plain": PLAIN,
    "one rank a node": SINGLE,
    "measured": MEASURED,
}


def joined(text: str) -> str:
    """Comments without their line ends."""
    return text.replace("\n# ", " ").replace("   ", " ")


def taken(text: str, collective: str, size: int, ranks: int, nodes: int) -> tuple[str, str]:
    found = follow(read(text), collective, size, nodes, ranks, lambda *_: True)
    assert found is not None
    return found[:2]


UNKNOWN = "library.channels=null"


@swept("name", FABRICS)
def test_every_row_is_as_the_plugin_reads_it(name: str) -> None:
    """Words that it knows, whole bytes, all ten fields, and no protocol that an algorithm has
    not."""
    for line in tuner_config(FABRICS[name], [8, 16]).splitlines():
        assert len(line) < 255
        if line.startswith("#"):
            continue
        words = line.split(",")
        collective, low, high, algorithm, protocol, channels = words[:6]
        assert len(words) == 10
        assert words[8:] == ["-1", "-1"]
        assert algorithm in ALGORITHMS
        assert algorithm in constants().algorithms[COLLECTIVES[collective]]
        assert protocol in PROTOCOLS[0 if algorithm in ("ring", "tree") else 2 :]
        assert 0 <= int(low) <= int(high) <= MAX
        assert 1 <= int(channels) <= 64


@swept("name", FABRICS)
def test_every_size_has_a_row_even_of_rings_alone(name: str) -> None:
    lines = read(tuner_config(FABRICS[name], [16]))
    nodes = 16 if FABRICS[name] is SINGLE else 2
    for collective in COLLECTIVES:
        for size in SIZES:
            last = follow(
                lines,
                collective,
                size,
                nodes,
                16,
                lambda algorithm, protocol: (algorithm, protocol != "ll128") == ("ring", True),
            )
            assert last is not None, (collective, size)
            assert last.channels == cluster_of(FABRICS[name], 16).hardware.channels


def test_rows_of_one_depth_do_not_overlap() -> None:
    seen: dict[int, list[tuple[int, int]]] = {}
    for line in read(tuner_config(NO_SHARP, [64])):
        if line.collective == 4:
            previous = seen.setdefault(
                len(seen) - (1 if seen and line.low > max(seen[len(seen) - 1])[1] else 0), []
            )
            assert not previous or previous[-1][1] < line.low
            previous.append((line.low, line.high))
    assert seen[0][0][0] == 0
    assert [high + 1 for _, high in seen[0][:-1]] == [low for low, _ in seen[0][1:]]
    assert seen[0][-1][1] == MAX


def test_without_measurements_the_first_rows_are_nccls_own_flips() -> None:
    lines = [line for line in read(tuner_config(NO_SHARP, [64])) if line.collective == 4]
    expected = switch_points(cluster_of(NO_SHARP, 64).hardware, AR)
    assert [line[3:5] for line in lines[: len(expected)]] == [flip[1:] for flip in expected]
    for line, flip in zip(lines[1:], expected[1:], strict=False):
        assert line.low - 1 < flip.from_bytes <= line.low


def test_broadcast_and_reduce_are_rings() -> None:
    text = tuner_config(NODES, [64])
    assert {
        taken(text, kind, size, 64, 8)[0] for kind in ("broadcast", "reduce") for size in SIZES
    } == {"ring"}


def test_pat_is_for_ranks_alone_on_their_nodes() -> None:
    text = tuner_config(SINGLE, [8])
    found = [taken(text, "allgather", size, 8, 8)[0] for size in (1000, 10**6, 10**9)]
    assert found == ["ring", "pat", "ring"]
    assert "behind them, without PAT" in text


def test_channels_as_asked_for() -> None:
    lines = read(tuner_config(NODES, [8, 16], channels=32))
    assert {line.channels for line in lines if line.algorithm == "ring"} == {32}
    assert {line.channels for line in lines if line.algorithm.startswith("nvls")} == {16}
    assert {line.channels for line in read(tuner_config(NODES, [8], channels=4))} == {4}


@swept("channels", [0, -1, 65])
def test_channels_that_nccl_does_not_have_are_refused(channels: int) -> None:
    with pytest.raises(ColltoolError, match="NCCL takes 1 to 64"):
        tuner_config(NODES, [8], channels)


def test_a_rank_count_given_twice_is_one_group() -> None:
    assert tuner_config(NODES, [8, 16, 8]) == tuner_config(NODES, [8, 16])
    assert tuner_config(NODES) == tuner_config(NODES, [64])


@pytest.mark.ci
@swept(
    "names",
    [("LL", "LL128", "Simple"), ("ll", "ll128", "simple"), ("t1-LL", "t1-LL128", "t1-Simple")],
)
def test_measured_protocols_under_nccls_names_give_the_rows(names: tuple[str, ...]) -> None:
    """By the largest message only Simple is left; a name may have its tier's in front."""
    text = tuner_config(measured(*names), [8])
    for size in SIZES[1:-1]:
        row = price(measured(*names), AG, float(size), 8).best
        own = PROTOCOLS[names.index(row.protocol)]
        assert taken(text, "allgather", size, 8, 1) == ("ring", own) or hurts(
            measured(*names), AG, size, 8, ("ring", own)
        )
    assert f"measured from 512 B to 512 MiB under {', '.join(names)}" in joined(text)
    assert "rows for smaller and larger messages are extrapolated" in joined(text)


def test_one_protocol_in_two_parts_is_the_faster_of_both() -> None:
    on = measured("short-LL", "LL", "Simple")
    lines = [line for line in read(tuner_config(on, [8])) if line.collective == 2]
    assert [line[3:5] for line in lines] == [("ring", "ll"), ("ring", "simple")]
    both = [
        price(on, AG, float(size), 8).best.protocol for size in (1, lines[0].high - 1, lines[1].low)
    ]
    assert both == ["short-LL", "LL", "Simple"]


def test_a_collective_that_was_not_measured_has_nccls_own_choice() -> None:
    """The protocols of all-reduce stand in for broadcast, and nobody saw that."""
    text = tuner_config(MEASURED, [8])
    plain = tuner_config(fabric(NVSWITCH, library=FACTS), [8])
    rows = [
        [line for line in one.splitlines() if line.startswith("broadcast,")]
        for one in (text, plain)
    ]
    assert rows[0] == rows[1]
    broadcast, allreduce = (
        text.split(f"# {name}, 8 ranks")[1] for name in ("broadcast", "allreduce")
    )
    assert (
        broadcast.splitlines()[1]
        == "#   not measured on this group: what NCCL 2.30 picks by its own model"
    )
    assert "not measured" not in allreduce
    assert "Where a collective was not measured, rows are what NCCL 2.30 picks" in joined(text)


def test_a_group_beyond_the_measured_tier_has_nccls_own_choice() -> None:
    text = tuner_config(MEASURED, [16])
    assert text.count("not measured on this group") == 5
    bare = fabric(NVSWITCH, clos(4, alpha=5), library=FACTS)
    assert read(text) == read(tuner_config(bare, [16]))


def test_protocols_that_nobody_measured_but_the_fabric_lists_are_taken_at_their_word() -> None:
    on = fabric(
        star(8, 1, 100, protocols=protocols("LL", "LL128", "Simple")),
        clos(4, alpha=2),
        library=FACTS,
    )
    text = tuner_config(on, [8, 16])
    assert (
        text.count("by the fabric's protocols LL, LL128, Simple: as it lists them, not measured")
        == 10
    )
    assert text.count("'t2' lists no protocols: the same numbers under all") == 5
    assert "picks by its own model" not in text


@swept(
    "names", [("low-latency", "mid", "high-bandwidth"), ("p1", "p2", "p3"), ("LL", "mid", "Simple")]
)
def test_protocols_that_nobody_can_name_are_refused(names: tuple[str, ...]) -> None:
    first = names[1] if names[0] == "LL" else names[0]
    with pytest.raises(
        ColltoolError,
        match=f"which of NCCL's protocols '{first}' is, listed by 't1' for all-gather",
    ) as caught:
        tuner_config(measured(*names), [8])
    assert "call it LL, LL128 or Simple in the fabric's file" in str(caught.value.fix)
    assert "take these protocols out for all-gather" in str(caught.value.fix)
    # nothing was measured there
    assert tuner_config(measured(*names), [16]) == tuner_config(MEASURED, [16])


def test_tiers_that_share_no_protocol_are_refused() -> None:
    with pytest.raises(ColltoolError, match="share no protocol"):
        tuner_config(
            fabric(
                star(8, protocols=protocols("LL")),
                clos(8, alpha=2, protocols=protocols("LL", "Simple")[1:]),
                library=FACTS,
            ),
            [16],
        )


def test_nvls_does_not_win_under_a_measured_protocol_that_it_has_not() -> None:
    """In-network is cheapest under every protocol here, but NCCL has it under Simple only: below,
    the ring's LL wins."""
    listed = [
        {"name": "ll", "launch_overhead": "1us", "bandwidth": "50GB/s"},
        {"name": "simple", "launch_overhead": "40us", "bandwidth": "100GB/s"},
    ]
    on = fabric(
        star(8, 1, 100, in_network=switch(0.2, eta_beta=0.9), protocols=listed), library=FACTS
    )
    text = tuner_config(on, [8])
    assert taken(text, "allreduce", 1000, 8, 1) == ("ring", "ll")
    assert taken(text, "allreduce", 10**9, 8, 1) == ("nvls", "simple")
    off = fabric(
        star(8, 1, 100, in_network=switch(0.2, eta_beta=0.9), protocols=listed),
        library=FACTS | {"nvls": False},
    )
    assert taken(tuner_config(off, [8]), "allreduce", 10**9, 8, 1) == ("ring", "simple")


def test_what_the_library_runs_restricts_the_choice() -> None:
    listed = protocols("LL", "LL128", "Simple")
    on = fabric(
        star(8, in_network=switch(), algorithms={"ar": ["ring"]}, protocols=listed), library=FACTS
    )
    assert {taken(tuner_config(on, [8]), "allreduce", size, 8, 1)[0] for size in SIZES} == {"ring"}
    assert (
        "only what the fabric's algorithms list (ring): what ran was fitted, not seen in a log"
        in joined(tuner_config(on, [8]))
    )
    on = fabric(
        star(8, in_network=switch(), algorithms={"ar": ["two-shot"]}, protocols=listed),
        library=FACTS,
    )
    text = joined(tuner_config(on, [8]))
    assert "NCCL runs none of the fabric's algorithms for it here (two-shot)" in text
    assert "fitted" not in text
    assert "nvls," in text


def test_a_measured_switch_alone_has_nccls_own_rings_behind_it() -> None:
    listed = [
        {
            "name": "Simple",
            "launch_overhead": "20us",
            "measured": {"smallest": "1MiB", "largest": "1GiB"},
        }
    ]
    on = fabric(
        star(8, in_network=switch(), algorithms={"ar": ["in-network"]}, protocols=listed),
        library=FACTS,
    )
    rows = [line[3:5] for line in read(tuner_config(on, [8])) if line.collective == 4]
    assert rows == [("nvls", "simple"), ("ring", "ll"), ("ring", "simple")]
    assert "those behind are NCCL 2.30's own, by its model" in joined(tuner_config(on, [8]))
    assert "those behind" not in tuner_config(MEASURED, [8])


def test_the_header_says_how_to_load_it_and_what_it_counts_on() -> None:
    text = joined(tuner_config(NO_SHARP, [8, 16]))
    for part in (
        "NCCL_TUNER_PLUGIN=",
        "NCCL_TUNER_CONFIG_FILE=",
        "plugins/tuner/example of NCCL 2.30.3 or later",
        "NCCL 2.27.5 and later load",
        "All-to-all",
        "16 ranks on 2 nodes",
        "advice",
        "For hopper GPUs on one node, with NVLS.",
        (
            "with NVLS and without SHARP (NCCL_COLLNET_ENABLE=1 and a CollNet plugin); with it:"
            " --set library.collnet=true"
        ),
        "Nothing was measured: rows are what NCCL 2.30 picks by its own model",
        "24 on 1 node, 16 on 2 nodes, at most 16 for NVLS",
    ):
        assert part in text
    assert "and with SHARP (NCCL_COLLNET_ENABLE=1" in joined(tuner_config(NODES, [16]))
    assert "without NVLS" in joined(tuner_config(PLAIN, [8]))
    assert "oversubscribed" not in text


def test_a_thinned_network_is_said_to_be_none_of_the_models_business() -> None:
    text = joined(tuner_config(load_fabric("clos-4to1"), [8, 1024]))
    assert (
        text.count("oversubscribed 4:1 among 1024 ranks on 128 nodes, which NCCL's model ignores")
        == 1
    )


def test_a_name_as_long_as_they_come_keeps_lines_short() -> None:
    long = [
        "tree",
        "recursive-doubling",
        "rabenseifner",
        "one-shot",
        "two-shot",
        "outer-ring",
        "inner-ring",
        "leader",
    ]
    long += [f"leader:{'tree/' * n}tree" for n in (9, 20)]
    listed = protocols("LL", "LL128", "Simple")
    on = fabric(star(8, algorithms={"ar": long}, protocols=listed), library=FACTS, name="n" * 64)
    assert max(map(len, tuner_config(on, [8]).splitlines())) <= 126


def test_env_lists_all_that_rows_have_by_nccls_other_names() -> None:
    lines = tuner_env(NO_SHARP, [8, 64]).splitlines()
    assert [line for line in lines if line.startswith("NCCL_ALGO")] == [
        'NCCL_ALGO="broadcast:ring;reduce:ring;allgather:ring;reducescatter:ring;allreduce:ring,nvls"',
        'NCCL_ALGO="broadcast:ring;reduce:ring;allgather:ring;reducescatter:ring;allreduce:tree,nvlstree,ring"',
    ]
    assert "# 64 ranks on 8 nodes" in lines
    protocols = [line for line in lines if line.startswith("NCCL_PROTO")]
    assert len(protocols) == 2
    assert all(
        f"{one}:" in line
        for line in protocols
        for one in ("broadcast", "reduce", "allgather", "reducescatter", "allreduce")
    )


@swept("tier", [torus(4, 4), mesh(4, 4), full_mesh(8)])
def test_where_nccl_does_not_run_is_refused(tier: dict[str, Any]) -> None:
    kind = tier["topology"].replace("_", " ")
    with pytest.raises(ColltoolError, match=f"'t1' is a {kind}") as caught:
        tuner_config(fabric(tier, clos(4, alpha=2)), [16])
    assert "RCCL's plugin is not NCCL's" in str(caught.value.fix)


@swept(
    ("on", "message", "fix"),
    [
        (
            fabric(NVSWITCH),
            "NCCL's model needs the GPU generation",
            "write library: {name: nccl, gpu: hopper}",
        ),
        (
            fabric(NVSWITCH, library="rccl"),
            "small runs rccl by its key library",
            "write library: {name: nccl",
        ),
        (
            load_fabric("l40s-pcie"),
            "needs the channels of GPUs of ampere joined by PCIe",
            "channels: {ring: {channels:",
        ),
    ],
)
def test_facts_that_are_missing_are_named(on: Fabric, message: str, fix: str) -> None:
    with pytest.raises(ColltoolError, match=message) as caught:
        tuner_config(on)
    assert fix in str(caught.value.fix)


def test_a_group_that_leaves_a_domain_half_full_is_refused() -> None:
    with pytest.raises(ColltoolError, match="12 ranks leave a domain half full"):
        tuner_config(NODES, [8, 12])


def test_nodes_are_innermost_domains_and_single_ranks_below_a_clos() -> None:
    assert [cluster_of(PLAIN, ranks).nodes for ranks in (4, 8, 16, 64)] == [1, 1, 2, 8]
    assert cluster_of(SINGLE, 16).nodes == 16
