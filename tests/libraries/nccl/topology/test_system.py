"""Systems read from small files, and their paths."""

from __future__ import annotations

from pathlib import Path

from small_nodes import AMD, GEN5, INTEL, TO_SWITCH, cpu, gpu, h100, linked, nic, read, switch
from swept import swept

from colltool.libraries.nccl.topology.bills import bill_of
from colltool.libraries.nccl.topology.domains import domains_of, totals_of, trim
from colltool.libraries.nccl.topology.kinds import KINDS
from colltool.libraries.nccl.topology.paths import Paths, paths_of
from colltool.libraries.nccl.topology.rates import (
    between_cpus_MBps,
    nvlink_MBps,
    port_MBps,
    slot_MBps,
)
from colltool.libraries.nccl.topology.system import SystemNode, add_link
from colltool.libraries.nccl.topology.system_reader import is_switch
from colltool.libraries.nccl.topology.versions import version_of

NEWEST = version_of("2.30.7")


def kinds(paths: Paths, start: int, among: str = "gpus") -> list[str]:
    """Types of path from a GPU to all of a list."""
    system = paths.system
    ends: list[SystemNode] = list(getattr(system, among))
    return [KINDS[paths.get(system.gpus[start], end).kind] for end in ends]


@swept(
    ("speed", "width", "MBps"),
    [
        ("8.0 GT/s PCIe", "16", 12_000),
        ("16.0 GT/s PCIe", "16", 24_000),
        ("32.0 GT/s PCIe", "8", 24_000),
        ("64.0 GT/s PCIe", "16", 96_000),
        ("32 GT/s", "16", 48_000),
        ("32.0 GT/s", "16", 12_000),
        ("Unknown", "0", 12_000),
        ("", "-4", 12_000),
        ("2.5 GT/s PCIe", "1", 188),
    ],
)
def test_slots(speed: str, width: str, MBps: int) -> None:
    assert slot_MBps(speed, width) == MBps


def test_rates_of_links_and_ports() -> None:
    links = {60: 18_000, 70: 20_000, 80: 20_000, 86: 12_000, 90: 20_600, 100: 40_100}
    assert {sm: nvlink_MBps(sm, NEWEST) for sm in links} == links
    assert nvlink_MBps(100, version_of("2.26.2")) == 40_000
    assert [port_MBps(text) for text in ("400000", "-1", "", "x")] == [50_000, 1250, 1250, 1250]


@swept(
    ("arch", "vendor", "family", "model", "MBps"),
    [
        ("x86_64", "GenuineIntel", 6, 0xCF, 40_000),
        ("x86_64", "GenuineIntel", 6, 0x8F, 22_000),
        ("x86_64", "GenuineIntel", 6, 0x6A, 10_000),
        ("x86_64", "GenuineIntel", 6, 0x4F, 6_000),
        ("x86_64", "AuthenticAMD", 25, 1, 16_000),
        ("arm64", "ARM", 8, 3393, 6_000),
        ("ppc64", "IBM", 0, 0, 32_000),
        ("x86_64", "CentaurHauls", 7, 0x5B, 9_000),
        ("x86_64", "", 0, 0, 5_000_000),
    ],
)
def test_rates_between_cpus(arch: str, vendor: str, family: int, model: int, MBps: int) -> None:
    assert between_cpus_MBps(arch, vendor, family, model) == MBps


def test_links_are_added_up_and_sorted_by_rate() -> None:
    one, near, far = (SystemNode("PCI", name) for name in ("one", "near", "far"))
    add_link(one, near, "PCI", 10)
    add_link(one, far, "PCI", 10)
    assert [link.to for link in one.links] == [near, far]
    add_link(one, far, "PCI", 1)
    assert [(link.to, link.MBps) for link in one.links] == [(far, 11), (near, 10)]


def test_a_gpu_without_rank_and_a_net_that_is_none_are_not_there(tmp_path: Path) -> None:
    without = gpu(1).replace('rank="1" ', "")
    system = read(tmp_path, cpu(0, gpu(0), without, nic(0), nic(1, more='net="0"')))
    assert [part.rank for part in system.gpus] == [0]
    assert len(system.devices) == 1
    assert [net.name for net in system.nets] == ["mlx5_0"]


def test_classes_by_prefix() -> None:
    assert all(map(is_switch, ("0x060400", "0x080100", "", "0x1200")))
    assert not any(map(is_switch, ("0x030200", "0x020700", "0x068000", "0x068001")))


def test_a_link_up_is_last_of_a_switch(tmp_path: Path) -> None:
    system = read(tmp_path, cpu(0, switch(1, gpu(0), nic(0, slot=""))))
    [part] = system.switches
    assert [link.to.type for link in part.links] == ["DEV", "NIC", "CPU"]


def test_levels_of_one_broadcom_switch_are_one(tmp_path: Path) -> None:
    outer = 'vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" subsystem_device="0x0005"'
    inner = outer.replace("0x0005", "0x100b")
    parts = cpu(0, switch(1, switch(2, gpu(0), ids=inner), switch(3, gpu(1), ids=inner), ids=outer))
    system = read(tmp_path, parts)
    assert len(system.switches) == 1
    assert kinds(paths_of(system), 0) == ["LOC", "PIX"]
    apart = read(tmp_path, parts.replace("0x1000", "0x1111"))
    assert kinds(paths_of(apart), 0) == ["LOC", "PXB"]


def test_types_of_paths_on_pcie(tmp_path: Path) -> None:
    near = switch(1, switch(2, gpu(0), gpu(1)), switch(3, gpu(2)))
    system = read(tmp_path, cpu(0, near, gpu(3)), cpu(1, gpu(4)))
    paths = Paths(system)
    assert kinds(paths, 0) == ["LOC", "PIX", "PXB", "PHB", "SYS"]
    assert paths.get(system.gpus[0], system.gpus[4]).MBps == 22_000


def test_a_near_slow_path_beats_a_far_fast_one(tmp_path: Path) -> None:
    parts = (cpu(0, gpu(0, linked(1, 1)), gpu(1, linked(0, 1))),)
    system = read(tmp_path, *parts)
    path = Paths(system).get(system.gpus[0], system.gpus[1])
    assert (KINDS[path.kind], path.MBps, len(path.links)) == ("NVL", 20_600, 3)
    # up to 2.30.3 a path had to have fewer links and a higher rate
    assert Paths(read(tmp_path, *parts, release="2.30.3")).get(*system.gpus).kind == path.kind


def test_one_gpu_relays_nvlink_and_two_do_not(tmp_path: Path) -> None:
    chain = [linked(1), linked(0) + linked(2), linked(1) + linked(3), linked(2)]
    system = read(tmp_path, cpu(0, *[gpu(rank, links) for rank, links in enumerate(chain)]))
    assert kinds(Paths(system), 0) == ["LOC", "NVL", "NVB", "PHB"]


def test_a_one_way_nvlink_carries_nothing(tmp_path: Path) -> None:
    system = read(tmp_path, cpu(0, gpu(0, linked(1)), gpu(1)))
    assert kinds(Paths(system), 0) == ["LOC", "PHB"]


def test_gpus_with_faster_nics_than_the_path_between_them_are_two_nodes(tmp_path: Path) -> None:
    halves = [cpu(0, switch(1, gpu(0), nic(0))), cpu(1, switch(2, gpu(1), nic(1)))]
    paths = paths_of(read(tmp_path, *halves))
    assert kinds(paths, 0) == ["LOC", "NET"]
    assert [[part.rank for part in group] for group in domains_of(paths)] == [[0], [1]]
    slow = [half.replace("400000", "100000") for half in halves]
    assert len(domains_of(paths_of(read(tmp_path, *slow)))) == 1


def test_a_trimmed_node_keeps_its_nics_and_devices(tmp_path: Path) -> None:
    system = read(tmp_path, cpu(0, switch(1, gpu(0), nic(0))), cpu(1, switch(2, gpu(1), nic(1))))
    trim(system, {1})
    assert (len(system.gpus), len(system.devices), len(system.nets)) == (1, 2, 2)
    assert totals_of(paths_of(system), True).most_MBps == 48_000


def test_totals_are_of_the_device_with_most(tmp_path: Path) -> None:
    system = read(tmp_path, cpu(0, gpu(0, TO_SWITCH), gpu(1, TO_SWITCH.replace("18", "4"))))
    assert totals_of(paths_of(system), False) == (82_400, 370_800)
    alone = read(tmp_path, cpu(0, gpu(0)))
    assert totals_of(paths_of(alone), False).most_MBps == 5_000_000


def test_a_far_nic_is_reached_through_the_gpu_whose_it_is(tmp_path: Path) -> None:
    paths = paths_of(read(tmp_path, *h100(4, 4)))
    assert kinds(paths, 0, "nets") == ["PIX", "PXN", "PXN", "PXN"]
    # only on the way out
    system = paths.system
    back = paths.get(system.nets[1], system.gpus[0])
    assert KINDS[back.kind] == "PHB"


def test_without_gpudirect_a_nic_goes_through_the_cpu(tmp_path: Path) -> None:
    near = paths_of(read(tmp_path, cpu(0, switch(1, gpu(0), nic(0)))))
    staged = paths_of(read(tmp_path, cpu(0, switch(1, gpu(0), nic(0, gdr=0)))))
    assert (kinds(near, 0, "nets"), kinds(staged, 0, "nets")) == (["PIX"], ["PHB"])


def test_c2c_makes_a_nic_on_the_cpu_near(tmp_path: Path) -> None:
    grace = cpu(0, gpu(0, '<c2c bw="44712" count="5"/>', sm=100), nic(0), kind='arch="arm64"')
    assert kinds(paths_of(read(tmp_path, grace)), 0, "nets") == ["P2C"]
    assert kinds(paths_of(read(tmp_path, grace, release="2.26.2")), 0, "nets") == ["PHB"]


def test_gpus_share_nics_by_number_and_each_nic_has_a_home(tmp_path: Path) -> None:
    paths = paths_of(read(tmp_path, cpu(0, switch(1, gpu(0), gpu(1), nic(0), nic(1)))))
    nets, gpus = paths.system.nets, paths.system.gpus
    assert [paths.preferred_net(part, 0) for part in gpus] == nets
    assert [paths.home_gpu(net) for net in nets] == gpus
    one = paths_of(read(tmp_path, cpu(0, switch(1, gpu(0), nic(0), nic(1)))))
    assert one.preferred_nets(one.system.gpus[0]) == one.system.nets
    assert paths_of(read(tmp_path, cpu(0, gpu(0)))).preferred_net(gpus[0], 0) is None


def test_an_intel_cpu_makes_copies_dearer(tmp_path: Path) -> None:
    for kind, dearest in ((INTEL, 12_000), (AMD, 10_000)):
        paths = Paths(read(tmp_path, cpu(0, gpu(0), gpu(1), kind=kind)))
        one, other = paths.system.gpus
        assert max(MBps for _, MBps in bill_of(paths.get(one, other), 10_000)) == dearest


def test_before_ampere_what_a_gpu_receives_answers(tmp_path: Path) -> None:
    for sm, links in ((70, 5), (80, 4)):
        system = read(tmp_path, cpu(0, switch(1, gpu(0, sm=sm), nic(0, slot=GEN5))))
        paths = Paths(system)
        bill = bill_of(paths.get(system.nets[0], system.gpus[0]), 8_000)
        # port, card, switch, GPU and back
        charged = [MBps for _, MBps in bill if system.links]
        assert len(charged) == links - 1
        assert (1_000 in charged) == (sm == 70)
