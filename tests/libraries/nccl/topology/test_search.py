"""Searches on small nodes: requests, trials, what is doubled, and what is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_nodes import (
    AMD,
    TO_SWITCH,
    cpu,
    gpu,
    h100,
    linked,
    nic,
    read,
    switch,
    written,
)
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.libraries.nccl.topology.binding import binding_of
from colltool.libraries.nccl.topology.changes import changes_of
from colltool.libraries.nccl.topology.channels import ChannelBuilder
from colltool.libraries.nccl.topology.connect import communicator_of, nvls_channels
from colltool.libraries.nccl.topology.domains import totals_of
from colltool.libraries.nccl.topology.graphs import NodeGraphs, graphs_of
from colltool.libraries.nccl.topology.kinds import BALANCED_TREE, KINDS, NVLS, RING, TREE
from colltool.libraries.nccl.topology.paths import paths_of
from colltool.libraries.nccl.topology.requests import (
    Channel,
    FoundChannels,
    GraphRequest,
    first_request,
)
from colltool.libraries.nccl.topology.results import ChannelsFound, channels_found
from colltool.libraries.nccl.topology.search import double_channels
from colltool.libraries.nccl.topology.system import System
from colltool.libraries.nccl.topology.versions import version_of


def figures(node: NodeGraphs, pattern: str = "ring") -> tuple[int, float, float]:
    found = node.first.graphs[pattern]
    return found.best.channel_count, found.inside_MBps / 1000, found.across_MBps / 1000


def request_for(
    system: System, pattern: int = RING, least: int = 1, most: int = 32
) -> GraphRequest:
    paths = paths_of(system)
    totals = totals_of(paths, False)
    return first_request(paths, totals, pattern, least, most, across=False)[0]


def test_a_search_starts_at_what_a_gpu_carries(tmp_path: Path) -> None:
    system = read(tmp_path, *h100())
    assert request_for(system).inside_MBps == 60_000
    # 12 trees use eight sevenths of a GPU's links: the chain's end has but one
    assert request_for(system, BALANCED_TREE, 12, 12).inside_MBps == 30_000
    assert request_for(system, NVLS, 8, 8).same is False


def test_two_bridged_pairs_have_two_rings_at_least(tmp_path: Path) -> None:
    pairs = [gpu(0, linked(1)), gpu(1, linked(0)), gpu(2, linked(3)), gpu(3, linked(2))]
    assert request_for(read(tmp_path, cpu(0, *pairs))).least == 2
    assert request_for(read(tmp_path, cpu(0, *pairs[:2]))).least == 1


def test_one_gpu_has_a_plain_tree(tmp_path: Path) -> None:
    assert request_for(read(tmp_path, cpu(0, gpu(0))), BALANCED_TREE).pattern == TREE


@swept(
    ("sm", "channels", "MBps", "after"),
    [
        (90, 6, 60_000, (12, 30_000)),
        (90, 8, 48_000, (8, 48_000)),
        (90, 4, 48_000, (8, 24_000)),
        (80, 6, 40_000, (12, 20_000)),
        (80, 8, 24_000, (8, 24_000)),
        (100, 20, 90_000, (32, 45_000)),
    ],
)
def test_fast_channels_are_doubled(
    sm: int, channels: int, MBps: int, after: tuple[int, int]
) -> None:
    request = GraphRequest(RING, 0, True, 1, 4, MBps, MBps, 1, 32)
    found = double_channels(FoundChannels(request, (Channel((0, 1)),) * channels), sm)
    assert (found.channel_count, found.request.inside_MBps) == after
    trees = FoundChannels(request._replace(pattern=NVLS), (Channel((0,)),) * channels)
    assert double_channels(trees, sm) is trees


def test_a_node_of_h100(tmp_path: Path) -> None:
    file = written(tmp_path, *h100())
    inside = graphs_of(file)
    assert [figures(inside, name) for name in ("ring", "tree", "nvls")] == [
        (12, 30, 30),
        (12, 30, 30),
        (8, 40, 60),
    ]
    across = graphs_of(file, 2)
    assert figures(across) == (8, 48, 48)
    ring = across.first.graphs["ring"].best
    assert ring.request.cross_nic == 2
    # as in the worked example: the 34th trial, in by one NIC and out by its neighbour
    assert ring.trial == 34
    assert ring.channels[0] == ((0, 7, 6, 5, 4, 3, 2, 1), (0, 1))
    assert ring.channels[1].nets == (1, 0)
    assert across.first.graphs["tree"].best.request.pattern == TREE
    assert communicator_of(across).channels == 16


def test_searches_are_the_same_every_time(tmp_path: Path) -> None:
    file = written(tmp_path, *h100(4, 2))
    one, other = (graphs_of(file, 2).first.graphs["ring"] for _ in range(2))
    assert one.best == other.best
    assert one.trials == other.trials


def test_trials_stay_within_their_steps(tmp_path: Path) -> None:
    paths = paths_of(read(tmp_path, *h100()))
    builder = ChannelBuilder(paths, across=False)
    request = request_for(paths.system)
    _, left = builder.attempt(request, FoundChannels(request), 100, 1)
    assert left == 0
    assert builder.visits == 100
    # nothing stays taken: with steps enough the same request finds all that it can
    found, _ = builder.attempt(request, FoundChannels(request), 256, 2)
    assert found.channel_count == 6


def test_where_nothing_fits_there_is_one_slow_channel(tmp_path: Path) -> None:
    halves = [cpu(0, gpu(0, sm=120), kind=AMD), cpu(1, gpu(1, sm=120), gpu(2, sm=120), kind=AMD)]
    found = graphs_of(written(tmp_path, *halves)).first.graphs["ring"]
    assert found.is_emergency
    assert (found.inside_MBps, KINDS[found.inside]) == (100, "SYS")
    older = [half.replace('sm="120"', 'sm="89"') for half in halves]
    assert figures(graphs_of(written(tmp_path, *older)))[1] == 15


@swept(
    ("sm", "nodes", "ranks", "MBps", "channels"),
    [
        (90, 1, 8, 0, 16),
        (100, 1, 8, 0, 24),
        (100, 2, 8, 48_000, 32),
        (100, 3, 8, 48_000, 24),
        (100, 2, 8, 96_000, 32),
        (100, 2, 8, 100_000, 24),
        (100, 4, 8, 24_000, 32),
    ],
)
def test_channels_of_nvls(sm: int, nodes: int, ranks: int, MBps: int, channels: int) -> None:
    assert nvls_channels(sm, nodes, ranks, MBps) == channels


def test_versions_by_release() -> None:
    assert version_of("2.30.7").rails
    assert not version_of("2.30.3").nearest_kind_first
    assert version_of("2.19.3") == version_of("2.26.2")
    assert version_of("2.31").read_in == "2.30.7"


# --- what binds, and what would change it


def found_on(folder: Path, *cpus: str, nodes: int = 1) -> ChannelsFound:
    return channels_found(written(folder, *cpus), nodes)


def change(result: ChannelsFound, kind: str) -> tuple[int, float, float]:
    [found] = [one for one in result.changes if one.kind == kind]
    return figures(found.after)


def test_what_binds(tmp_path: Path) -> None:
    inside = found_on(tmp_path, *h100())
    binding = inside.graphs[0].binding
    assert binding is not None
    assert (binding.part, binding.used_MBps, binding.of_MBps) == ("nvlink", 360_000, 370_800)
    across = graphs_of(written(tmp_path, *h100()), 2).first
    slots = binding_of(across, across.graphs["ring"])
    assert slots is not None
    assert (slots.part, slots.names[0], len(slots.names)) == ("nic-slot", "mlx5_0", 8)


def test_a_gpu_that_lacks_links_gets_them(tmp_path: Path) -> None:
    parts = [part.replace(TO_SWITCH, TO_SWITCH.replace("18", "9"), 1) for part in h100()[:1]]
    result = found_on(tmp_path, *parts, h100()[1])
    assert figures(result.node) != (12, 30, 30)
    assert change(result, "nvlinks") == (12, 30, 30)
    assert not found_on(tmp_path, *h100()).changes


@pytest.mark.ci
def test_a_narrow_slot_is_widened(tmp_path: Path) -> None:
    narrow = 'link_speed="32.0 GT/s PCIe" link_width="8"'
    result = found_on(tmp_path, *h100(slot=narrow), nodes=2)
    assert figures(result.node) == (8, 24, 24)
    assert change(result, "slots") == (8, 48, 48)


def test_a_speed_that_nccl_cannot_read_is_told(tmp_path: Path) -> None:
    result = found_on(tmp_path, *[part.replace(" PCIe", "") for part in h100()], nodes=2)
    assert figures(result.node) == (8, 12, 12)
    assert change(result, "unknown-slots") == (8, 48, 48)


def test_gpudirect_is_switched_on(tmp_path: Path) -> None:
    result = found_on(
        tmp_path, *[part.replace('gdr="1"', 'gdr="0"') for part in h100(2, 2)], nodes=2
    )
    assert figures(result.node)[1] < change(result, "gdr")[1] == 24


@pytest.mark.ci
def test_nics_of_no_gpu_move_to_the_gpus(tmp_path: Path) -> None:
    parts = [gpu(rank, TO_SWITCH) for rank in range(4)]
    nics = [nic(dev) for dev in range(4)]
    result = found_on(tmp_path, cpu(0, *parts, *nics), nodes=2)
    assert change(result, "nics")[1] > figures(result.node)[1]


def test_gpus_without_a_nic_get_one(tmp_path: Path) -> None:
    result = found_on(tmp_path, *h100(4, 3), nodes=2)
    (found,) = [one for one in result.changes if one.kind == "new-nics"]
    assert found.names == ("3",)
    assert figures(found.after) == figures(graphs_of(written(tmp_path, *h100(4, 4)), 2))
    assert not any(one.kind == "new-nics" for one in found_on(tmp_path, *h100(4, 3)).changes)


def test_a_long_search_is_not_run_again(tmp_path: Path) -> None:
    file = written(tmp_path, *[part.replace(" PCIe", "") for part in h100()])
    node = graphs_of(file, 2)
    long = node._replace(domains=(node.first._replace(visits=10**7),))
    assert list(changes_of(lambda: pytest.fail("read again"), "node.xml", long)) == []


# --- files that are none


@swept(
    ("text", "says"),
    [
        ("<topology><object/></topology>", "its root is <topology>"),
        ("<system><cpu numaid='0'>", "cut off"),
        ("<!DOCTYPE system [<!ENTITY a 'b'>]><system>&a;</system>", "document type"),
        ("<system/>", "no <cpu> elements"),
        (f"<system>{cpu(0)}</system>", "no <gpu> with a rank"),
        (f"<system>{cpu(0, *[gpu(rank) for rank in range(1000)])}</system>", "has 1000 GPUs"),
        (f"<system>{cpu(0, gpu(0), *[nic(dev) for dev in range(1000)])}</system>", "1000 NICs"),
        (f"<system>{cpu(0, gpu(0), *[switch(9)] * 1000)}</system>", "1000 PCI switches"),
        (f"<system>{cpu(0, *[gpu(rank) for rank in range(40)])}</system>", "no NVSwitch"),
        (f"<system>{cpu(0, gpu(0), gpu(0))}</system>", "two <gpu> elements of one rank"),
        ("<system>" + "<pci>" * 100 + "</pci>" * 100 + "</system>", "nested deeper"),
    ],
)
def test_other_files_are_refused(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "node.xml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ColltoolError, match=says):
        graphs_of(file)


def test_odd_numbers_are_no_crash(tmp_path: Path) -> None:
    """Links to oneself and in circles, negative counts, no classes, no speeds."""
    circle = '<pcilink target="0000:02:00.0"/>' + '<pcilink target="0000:01:00.0"/>'
    odd = [
        gpu(0, linked(0) + linked(1, -3) + '<c2c bw="-1" count="2"/>', sm=-1),
        gpu(1, linked(7, 10**30)),
        switch(1, circle, gpu(2)),
        switch(2, circle, nic(0, speed=-5)),
    ]
    text = cpu(0, *odd).replace("class=", "klass=").replace("link_speed", "speed")
    for nodes in (1, 2):
        assert graphs_of(written(tmp_path, text), nodes).first.graphs["ring"].best.channels


def test_nodes_without_nics_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ColltoolError, match="no NIC"):
        graphs_of(written(tmp_path, *h100(4, 0)), 2)
