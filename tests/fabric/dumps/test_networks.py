"""ibnetdiscover as a Clos: levels, rails, oversubscription and switches as they were cabled;
anything else is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dumps import NVSWITCHES, Subnet, nccl_topo, rails
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.dumps.clos import ClosNetwork
from colltool.fabric.dumps.ibnetdiscover import read_ibnetdiscover
from colltool.fabric.dumps.read import import_dumps
from colltool.fabric.lint import check_fabric
from colltool.fabric.model import Fabric
from colltool.fabric.properties import fabric_facts
from colltool.fabric.topology import capabilities_of

pytestmark = pytest.mark.usefixtures("datasheet", "whole_nodes_alone")


def written(folder: Path, text: str) -> Path:
    (folder / "net.txt").write_text(text, encoding="utf-8")
    return folder / "net.txt"


def found(folder: Path, net: Subnet) -> ClosNetwork:
    return read_ibnetdiscover(written(folder, net.text()))


def made(folder: Path, *dumps: str, **options: Any) -> Fabric:
    (folder / "made.yaml").write_text(import_dumps(dumps, name="made", **options), encoding="utf-8")
    return check_fabric(str(folder / "made.yaml")).fabric


def shape(net: ClosNetwork) -> list[tuple[int, int, float]]:
    return [(level.group, level.switches, level.oversubscription) for level in net.levels]


def test_a_rail_optimised_pod(tmp_path: Path) -> None:
    """DGX SuperPOD's plan with 8 nodes of 4 NICs for a leaf: 16 leaves, four cables from each to
    four spines."""
    net = found(tmp_path, rails(nodes=32, per_leaf=8, ports=4, spines=4, up=2))
    assert (net.hosts, net.ports, net.port_Bps, net.rails, net.radix, net.reduces) == (
        32,
        4,
        50e9,
        4,
        64,
        True,
    )
    assert shape(net) == [(8, 16, 1.0), (32, 4, 1.0)]
    assert not net.notes


@swept(("spines", "ratio"), [(8, 1.0), (4, 2.0), (3, 2.6667), (16, 1.0)])
def test_oversubscription_is_down_over_up(spines: int, ratio: float, tmp_path: Path) -> None:
    net = found(tmp_path, rails(nodes=24, per_leaf=8, ports=1, spines=spines, rate="4xHDR"))
    assert shape(net) == [(8, 3, 1.0), (24, spines, ratio)]
    assert net.port_Bps == 25e9


@swept("lost", [0, 1, 2, 3])
def test_a_pinched_leaf_is_said_and_does_not_stand_for_all(lost: int, tmp_path: Path) -> None:
    """Four leaves of eight hosts with eight cables up; one of them lost some."""
    net = Subnet(aggregation=False)
    for leaf in range(4):
        for host in range(8):
            net.add(f"n{leaf}-{host} HCA-1", f"sw-leaf{leaf}")
        for cable in range(8 - (2 * lost if leaf == 2 else 0)):
            net.add(f"sw-leaf{leaf}", f"sw-spine{cable % 2}")
    clos = found(tmp_path, net)
    assert clos.levels[1].oversubscription == 1.0
    if not lost:
        assert clos.assumed == ()
        return
    (said,) = clos.assumed
    worst = 8 / (8 - 2 * lost)
    assert said.startswith("uplinks at 1:1, the median; 1 of 4 switches is worse, MF0;sw-leaf2:")
    assert said.endswith(f"most: {worst:.4g}:1; {32 / (32 - 2 * lost):.4g}:1 in all")
    assert made(tmp_path, "ibnetdiscover", str(tmp_path / "net.txt")).assumed == (said,)


def test_a_slow_uplink_counts_by_its_rate(tmp_path: Path) -> None:
    net = rails(nodes=16, per_leaf=8, ports=1, spines=8)
    slow = Subnet()
    for name, cables in net.cabled.items():
        for _, other, _, _ in cables:
            if name < other:
                slow.add(name, other, "2xNDR" if "spine" in other + name else "4xNDR")
    assert found(tmp_path, slow).levels[1].oversubscription == 2.0


def fat_tree(pods: int, leaves: int, hosts: int, aggregation: int, cores: int) -> Subnet:
    """Three levels; every switch of a level on every one above in its pod, aggregation on all
    cores."""
    net = Subnet(aggregation=False)
    for pod in range(pods):
        for leaf in range(leaves):
            for host in range(hosts):
                net.add(f"n{pod}-{leaf}-{host} HCA-1", f"sw-l{pod}-{leaf}")
            for one in range(aggregation):
                net.add(f"sw-l{pod}-{leaf}", f"sw-a{pod}-{one}")
        for one in range(aggregation):
            for core in range(cores):
                net.add(f"sw-a{pod}-{one}", f"sw-c{core}")
    return net


def test_three_levels(tmp_path: Path) -> None:
    net = found(tmp_path, fat_tree(pods=3, leaves=4, hosts=4, aggregation=2, cores=2))
    assert shape(net) == [(4, 12, 1.0), (16, 6, 2.0), (48, 2, 2.0)]
    tier = made(tmp_path, "ibnetdiscover", str(tmp_path / "net.txt")).tiers[0]
    totals = [one.oversubscription for one in capabilities_of(tier).classes]
    assert totals == [1, 2, 4]  # hop by hop, each against all endpoints
    assert [one.alpha_s for one in capabilities_of(tier).classes] == pytest.approx(
        [5e-6, 11e-6, 17e-6]
    )


def test_the_switches_of_the_file_are_those_of_the_subnet(tmp_path: Path) -> None:
    """`fabric show` sizes the imported network from radix and rails: as many switches as
    answered."""
    written(tmp_path, rails_of_radix_8().text())
    facts = fabric_facts(made(tmp_path, "ibnetdiscover", str(tmp_path / "net.txt"))).tiers[0]
    assert facts.sizing is not None
    assert [level.switches for level in facts.sizing.levels] == [4, 2]


def rails_of_radix_8() -> Subnet:
    """Two rails, leaves of 4 nodes, a spine for each rail."""
    net = Subnet(ports=8)
    for node in range(8):
        for rail in range(2):
            net.add(f"n{node} mlx5_{rail}", f"sw-l{node // 4}-{rail}")
    for leaf in range(2):
        for rail in range(2):
            for _ in range(4):
                net.add(f"sw-l{leaf}-{rail}", f"sw-s{rail}")
    return net


def test_rails_that_meet_nowhere_are_one_network(tmp_path: Path) -> None:
    """A node changes rails over NVLink: each rail is a Clos of its own."""
    assert shape(found(tmp_path, rails_of_radix_8())) == [(4, 4, 1.0), (8, 2, 1.0)]


def test_other_hosts_are_left_out_by_name(tmp_path: Path) -> None:
    net = rails(nodes=16, per_leaf=8, ports=4, spines=4, up=2)
    net.add("ufm01 HCA-1", "sw-leaf0-0", "4xHDR")
    broken = [cable for cable in net.text().splitlines() if '"node003 mlx5_2"' not in cable]
    several = read_ibnetdiscover(written(tmp_path, "\n".join(broken)))
    assert several.hosts == 16  # the switch still names it: its adapter's record alone is gone
    assert several.notes == ("1 host with 1 port, 200 Gb/s in all: ufm01",)


def test_a_node_and_its_network(tmp_path: Path) -> None:
    """Eight nodes of H100 on leaves of four: DGX H100's numbers, the network as cabled."""
    (tmp_path / "node.xml").write_text(nccl_topo(8, NVSWITCHES, device="0x2330"), encoding="utf-8")
    written(tmp_path, rails(nodes=8, per_leaf=4, ports=8, spines=2, up=1).text())
    dumps = ("nccl-topo", str(tmp_path / "node.xml"), "ibnetdiscover", str(tmp_path / "net.txt"))
    fabric = made(tmp_path, *dumps)
    levels = (
        "[{name: leaf, group: 4, alpha: 5us}, {name: spine, group: 8, alpha: 11us,"
        " oversubscription: 2}]"
    )
    own = colltool.load_fabric("dgx-h100", ["ib.size=8", f"ib.levels={levels}"])
    one, other = (colltool.price(each, "ar", size="1GB").results[0] for each in (fabric, own))
    assert (fabric.ranks, one.total_s) == (64, other.total_s)
    with pytest.raises(ColltoolError, match="tells how many there are: 8"):
        import_dumps(dumps, nodes=16)
    with pytest.raises(ColltoolError, match="tells again"):
        import_dumps([*dumps, *dumps[:2]])


def test_without_aggregation_nodes_there_is_no_sharp(tmp_path: Path) -> None:
    (tmp_path / "node.xml").write_text(nccl_topo(8, NVSWITCHES, device="0x2330"), encoding="utf-8")
    for answers in (True, False):
        written(tmp_path, rails(nodes=4, per_leaf=2, ports=8, spines=2, aggregation=answers).text())
        outer = made(
            tmp_path,
            "nccl-topo",
            str(tmp_path / "node.xml"),
            "ibnetdiscover",
            str(tmp_path / "net.txt"),
        ).tiers[1]
        switch = capabilities_of(outer).in_network
        assert switch is not None
        assert switch.reduce == answers


def ring_of_switches() -> Subnet:
    net = Subnet()
    for at in range(6):
        net.add(f"n{at} HCA-1", f"sw-{at}")
        net.add(f"sw-{at}", f"sw-{(at + 1) % 6}")
    return net


def chain_of_leaves() -> Subnet:
    """Leaves 0 and 2 meet nowhere: only over leaf 1, down and up again."""
    net = Subnet()
    for leaf in range(3):
        net.add(f"n{leaf} HCA-1", f"sw-l{leaf}")
    for leaf, spine in ((0, 0), (1, 0), (1, 1), (2, 1)):
        net.add(f"sw-l{leaf}", f"sw-s{spine}")
    return net


def crossed_rails() -> Subnet:
    net = rails(nodes=4, per_leaf=2, ports=2, spines=1)
    net.add("odd HCA-1", "sw-leaf0-0")
    net.add("odd HCA-2", "sw-leaf1-1")
    return net


def two_islands() -> Subnet:
    net = Subnet()
    for at in range(4):
        net.add(f"n{at} HCA-1", f"sw-{at // 2}")
    return net


@swept(
    ("net", "why"),
    [
        (
            ring_of_switches(),
            "a cable joins MF0;sw-0:MQM9700/U1 and MF0;sw-1:MQM9700/U1, and both have hosts",
        ),
        (
            chain_of_leaves(),
            "the leaves of n0 and n2 share no switch above, though others join them",
        ),
        (crossed_rails(), "share MF0;sw-leaf0-0:MQM9700/U1, but not their other leaves"),
        (two_islands(), "2 parts have no switch in common, such as those of n0 and n2"),
    ],
)
def test_what_is_no_clos(net: Subnet, why: str, tmp_path: Path) -> None:
    with pytest.raises(ColltoolError) as caught:
        found(tmp_path, net)
    assert caught.value.what.startswith("is not a Clos: ")
    assert why in caught.value.what


GOOD = rails(nodes=4, per_leaf=2, ports=1, spines=1).text()


@swept(
    ("text", "what"),
    [
        ("", "has no switch with a cable"),
        (nccl_topo(2, ""), "has no switch with a cable"),
        (GOOD[: GOOD.index("sw-spine0") + 20], "is cut off"),
        (GOOD.replace("4xNDR", ""), "tells no rates such as 4xNDR"),
        (GOOD + '[7]\t"S-0000', "a port's line is cut off"),
        ('Switch\t4 "S-1"\t# "a"\n[1]\t"S-1"[2]\t# "a" lid 1 4xNDR\n', "has no hosts on switches"),
    ],
)
def test_hostile_text(text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(ColltoolError) as caught:
        read_ibnetdiscover(written(tmp_path, text))
    assert what in caught.value.what
    assert caught.value.fix


def test_a_large_subnet_is_read_in_seconds(tmp_path: Path) -> None:
    """512 nodes of 8 ports, 128 leaves: 4,096 adapters, 12,288 cables."""
    net = found(tmp_path, rails(nodes=512, per_leaf=32, ports=8, spines=64))
    assert shape(net) == [(32, 128, 1.0), (512, 64, 1.0)]


def test_a_leaf_without_uplinks_is_refused_and_named(tmp_path: Path) -> None:
    """Three levels join all hosts but one, whose leaf has no cable upwards."""
    net = Subnet()
    for leaf in ("sw-leaf1", "sw-leaf2"):
        net.add(f"host-{leaf} HCA-1", leaf)
        net.add(leaf, f"sw-agg-{leaf}")
        net.add(f"sw-agg-{leaf}", "sw-core")
    net.add("alone HCA-1", "sw-leaf3")
    with pytest.raises(ColltoolError, match="2 parts have no switch in common") as caught:
        found(tmp_path, net)
    assert "alone" in caught.value.what


def test_an_aggregation_node_on_an_adapter_is_no_switch_s(tmp_path: Path) -> None:
    """Such a cable is left out; those of switches are what reduces."""
    text = rails(nodes=8, per_leaf=8, ports=1, spines=0).text()
    cabled = """
Ca\t1 "H-0000000000000a01"\t\t# "Aggregation Node"
[1](a01) \t"H-0000000000000a02"[1]\t\t# lid 9 lmc 0 "node HCA-1" lid 1 4xNDR
"""
    net = read_ibnetdiscover(written(tmp_path, text + cabled))
    assert (net.hosts, net.reduces, net.radix) == (8, True, 64)


@pytest.mark.parametrize(
    ("like", "why"),
    [("mi300x", "its xgmi is a full_mesh"), ("torus512", "its torus is a torus")],
)
def test_a_named_fabric_without_a_clos(like: str, why: str, tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    with pytest.raises(ColltoolError) as caught:
        import_dumps(("ibnetdiscover", str(tmp_path / "net.txt")), like=like)
    assert caught.value.argument == "like"
    assert why in caught.value.what


def test_a_named_fabric_whose_clos_has_no_levels(tmp_path: Path) -> None:
    """As `import` writes one itself, where it does not know the levels."""
    node = str(tmp_path / "node.xml")
    (tmp_path / "node.xml").write_text(nccl_topo(2, "", device="0x26b9"), encoding="utf-8")
    (tmp_path / "own.yaml").write_text(import_dumps(("nccl-topo", node)), encoding="utf-8")
    own = str(tmp_path / "own.yaml")
    assert made(tmp_path, "nccl-topo", node, like=own, nodes=4).ranks == 8
    written(tmp_path, rails(nodes=4, per_leaf=2, ports=8, spines=1).text())
    with pytest.raises(ColltoolError, match="its roce has no levels"):
        made(tmp_path, "nccl-topo", node, "ibnetdiscover", str(tmp_path / "net.txt"), like=own)
