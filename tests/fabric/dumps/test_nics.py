"""Which NICs of a node are counted and at which rate: machines are generated, NIC by NIC, and the
answer is worked out beside the reader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.fabric.dumps import pci
from colltool.fabric.dumps.nccl_topo import read_nccl_topo
from colltool.fabric.dumps.read import import_dumps
from colltool.fabric.load import load_fabric
from colltool.machines.used import assumed_text

pytestmark = pytest.mark.usefixtures("whole_nodes_alone")

NVSWITCH = '<nvlink target="0000:f0:00.0" count="18" tclass="0x068000"/>'
GEN5 = 'link_speed="32.0 GT/s PCIe" link_width="16"'


class Machine(NamedTuple):
    """A host of two CPUs with a switch for each GPU.

    Args:
        gpus: of each CPU.
        near: speeds in Mb/s of the NICs at the switches, one for each GPU in turn.
        at_cpu: NICs in a slot of the CPU of each GPU, as for storage.
        far: NICs at a third CPU without GPUs.
        extra: XML at the first CPU.
    """

    gpus: int
    near: Sequence[int]
    at_cpu: int = 0
    far: int = 0
    extra: str = ""
    slot: str = GEN5
    gdr: str = "1"
    links: str = NVSWITCH

    def text(self) -> str:
        lines = ['<system version="1">']
        number = 0
        for cpu in range(2):
            lines.append(f'<cpu numaid="{cpu}" arch="x86_64" vendor="GenuineIntel">')
            for _ in range(self.gpus):
                lines.append(f'<pci busid="0000:{number:x}0:00.0" class="0x060400" {GEN5}>')
                lines.append(
                    f'<pci busid="0000:{number:x}1:00.0" class="0x030200" vendor="0x10de"'
                    f' device="0x2330" {GEN5}><gpu dev="{number}" sm="90" rank="{number}"'
                    f' gdr="1">{self.links}</gpu></pci>'
                )
                if number < len(self.near):
                    lines.append(self.nic(number, self.near[number], self.slot))
                lines.append("</pci>")
                number += 1
            for at in range(self.at_cpu):
                lines.append(self.nic(100 + 10 * cpu + at, max(self.near), GEN5))
            lines.append(self.extra if cpu == 0 else "")
            lines.append("</cpu>")
        if self.far:
            lines.append('<cpu numaid="2" arch="x86_64" vendor="GenuineIntel">')
            lines += [self.nic(200 + at, max(self.near), GEN5) for at in range(self.far)]
            lines.append("</cpu>")
        return "\n".join([*lines, "</system>"])

    def nic(self, number: int, mbps: int, slot: str) -> str:
        return (
            f'<pci busid="0001:{number:02x}:00.0" class="0x020700" vendor="0x15b3" device="0x1021"'
            f' {slot}><nic><net name="mlx5_{number}" dev="{number}" speed="{mbps}" port="1"'
            f' guid="0xa{number}" gdr="{self.gdr}"/></nic></pci>'
        )


def written(folder: Path, text: str) -> str:
    path = folder / "node.xml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def imported(folder: Path, text: str, kind: str = "nccl-topo", **options: Any) -> dict[str, Any]:
    made = import_dumps([kind, written(folder, text)], **options)
    data: dict[str, Any] = yaml.safe_load(made)
    notes = [line for line in made.splitlines() if line.startswith("# Note: ")]
    data["notes"] = [note for note in notes if "ring channel" not in note]
    data["loaded"] = load_fabric({key: data[key] for key in data if key not in ("notes",)})
    return data


def rate_of(data: dict[str, Any]) -> float:
    return float(data["loaded"].tiers[-1].bandwidth)


@settings(
    deadline=None,
    max_examples=examples(8),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_the_nics_that_serve_gpus_are_counted(data: st.DataObject, tmp_path: Path) -> None:
    """Those behind the GPUs' switches, which all GPUs use; storage and other CPUs' are not."""
    gpus = data.draw(st.integers(1, 3))
    nics = data.draw(st.integers(1, 2 * gpus))
    speed = data.draw(st.sampled_from([100_000, 200_000, 400_000]))
    machine = Machine(
        gpus, [speed] * nics, data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))
    )
    made = imported(tmp_path, machine.text(), nodes=2)
    assert rate_of(made) == pytest.approx(nics * speed * 1e6 / 8 / (2 * gpus))
    said = [int(note.split()[2]) for note in made["notes"]]
    assert sum(said) == 2 * machine.at_cpu + machine.far


@pytest.mark.alike(5)
@pytest.mark.parametrize(
    ("slot", "GBps"),
    [
        ('link_speed="8.0 GT/s PCIe" link_width="16"', 12.5),
        ('link_speed="8 GT/s" link_width="8"', 6.25),
        ('link_speed="16.0 GT/s PCIe" link_width="8"', 12.5),
        ('link_speed="5.0 GT/s PCIe" link_width="4"', 1.5625),
        ('link_speed="32.0 GT/s PCIe" link_width="0"', 50),
        # what NCCL does not know it takes for PCIe 3.0
        ('link_speed="Unknown" link_width="16"', 12.5),
        ('link_speed="" link_width=""', 12.5),
        ('link_speed="32.0 GT/s" link_width="16"', 12.5),
        # what is not in the file at all NCCL looks up where it runs
        ("", 50),
    ],
)
def test_a_nic_carries_no_more_than_its_slot(slot: str, GBps: float, tmp_path: Path) -> None:
    made = imported(tmp_path, Machine(1, [400_000, 400_000], slot=slot).text(), nodes=2)
    assert rate_of(made) == GBps * 1e9
    assert any("slots of 64GB/s" in line for line in made["assumed"]) == (slot == "")


def test_a_gpu_takes_no_more_than_its_own_slot(tmp_path: Path) -> None:
    """Four NICs of 400 Gb/s for two GPUs in PCIe 5.0 slots."""
    extra = "".join(Machine(1, [0]).nic(50 + at, 400_000, GEN5) for at in range(2))
    text = Machine(1, [400_000, 400_000]).text().replace("</gpu></pci>", f"</gpu></pci>{extra}", 1)
    assert rate_of(imported(tmp_path, text, nodes=2)) == 50e9


def test_two_ports_of_a_card_share_its_slot(tmp_path: Path) -> None:
    """A card of two ports of 200 Gb/s in a slot of 25 GB/s, on the switch of one GPU of two."""
    slot = 'link_speed="16.0 GT/s PCIe" link_width="16"'
    one = Machine(1, [0]).nic(7, 200_000, slot)
    port = '<net name="mlx5_7b" dev="8" speed="200000" port="2" guid="0xa7" gdr="1"/></nic>'
    text = Machine(1, []).text().replace("</gpu></pci>", f"</gpu></pci>{one}", 1)
    made = imported(tmp_path, text.replace("</nic>", port), nodes=2)
    assert rate_of(made) == 12.5e9


def test_nics_behind_a_switch_of_their_own_share_its_way(tmp_path: Path) -> None:
    switch = 'link_speed="16.0 GT/s PCIe" link_width="16"'
    cards = "".join(Machine(1, [0]).nic(at, 200_000, GEN5) for at in (7, 8))
    shared = f'<pci busid="0000:aa:00.0" class="0x060400" {switch}>{cards}</pci>'
    text = Machine(1, []).text().replace("</gpu></pci>", f"</gpu></pci>{shared}", 1)
    assert rate_of(imported(tmp_path, text, nodes=2)) == 12.5e9


LOOPBACK = '<nic><net name="lo" dev="9" speed="10000" port="0" guid="0x0" gdr="0"/></nic>'
ETHERNET = '<nic><net name="eth0" dev="9" speed="100000" port="0" guid="0x0" gdr="0"/></nic>'


@pytest.mark.parametrize("extra", [LOOPBACK, ETHERNET, LOOPBACK + ETHERNET])
def test_sockets_beside_verbs_are_not_counted(extra: str, tmp_path: Path) -> None:
    made = imported(tmp_path, Machine(1, [400_000] * 2, extra=extra).text(), nodes=2)
    assert rate_of(made) == 50e9
    assert len(made["notes"]) == extra.count("eth0")


def test_loopback_is_no_network(tmp_path: Path) -> None:
    alone = imported(tmp_path, Machine(1, [], links="", extra=LOOPBACK).text())
    assert [tier.name for tier in alone["loaded"].tiers] == ["pcie"]
    with pytest.raises(ColltoolError, match="has no NIC of a network"):
        imported(tmp_path, Machine(1, [], links="", extra=LOOPBACK).text(), nodes=4)
    stated = imported(tmp_path, Machine(1, [], links="", extra=LOOPBACK).text(), nodes=4, nic="25G")
    assert rate_of(stated) == 3.125e9


def test_sockets_alone_are_a_network_of_sockets(tmp_path: Path) -> None:
    """Of 100 Gb/s at one CPU; what joins the CPUs carries half of it."""
    made = imported(tmp_path, Machine(1, [], extra=ETHERNET).text(), nodes=2)
    tier = made["loaded"].tiers[-1]
    assert (tier.name, tier.medium, tier.bandwidth) == ("tcp", "socket", 3.125e9)


def test_nets_that_nccl_does_not_use(tmp_path: Path) -> None:
    """One without dev, one with net="0", and a second device of the same port."""
    text = Machine(1, [400_000] * 2).text()
    more = (
        '<nic><net name="mlx5_90" speed="400000" port="1" guid="0x90"/>'
        '<net name="mlx5_91" dev="91" net="0" speed="400000" port="1" guid="0x91"/>'
        '<net name="mlx5_0b" dev="92" speed="400000" port="1" guid="0xa0"/></nic>'
    )
    text = text.replace('guid="0xa0" gdr="1"/></nic>', f'guid="0xa0" gdr="1"/></nic>{more}', 1)
    assert rate_of(imported(tmp_path, text, nodes=2)) == 50e9


def test_gdr_is_honoured(tmp_path: Path) -> None:
    made = imported(tmp_path, Machine(1, [400_000] * 2, gdr="0").text(), nodes=2)
    assert made["set"]["library.gpudirect"] is False
    assert made["notes"] == [
        '# Note: no GPUDirect: gdr="0", NICs do not reach the memory of the GPUs'
    ]
    assert "library.gpudirect" not in imported(tmp_path, Machine(1, [1000]).text())["set"]


# --- by PCI id


def cloud(vendor: str, device: str, subsystem: str = "", gpu: str = "0x20b0") -> str:
    """A file for NCCL_TOPO_FILE: two GPUs and a NIC behind one switch."""
    slot = 'link_speed="16 GT/s" link_width="16"'
    card = f'class="0x030200" vendor="0x10de" device="{gpu}" {slot}'
    return (
        f'<system version="1"><cpu numaid="0" arch="x86_64" vendor="GenuineIntel">'
        f'<pci busid="ffff:ff:01.0" class="0x060400" {slot}>'
        f'<pci busid="0000:10:1c.0" {card}/><pci busid="0000:10:1d.0" {card}/>'
        f'<pci busid="0000:10:1b.0" class="0x020000" vendor="{vendor}" device="{device}"'
        f' subsystem_device="{subsystem}" {slot}/></pci></cpu></system>'
    )


@swept(
    ("vendor", "device", "gbps"),
    [
        ("0x15b3", "0x1013", 100),
        ("0x15b3", "0x1017", 100),
        ("0x15b3", "0x101b", 200),
        ("0x15b3", "0x101d", 200),
        ("0x15b3", "0xa2d6", 200),
        ("0x1d0f", "0xefa0", 100),
        ("0x1d0f", "0xEFA1", 100),
        ("0x14e4", "0x1750", 200),
        ("0x8086", "0x1592", 100),
        # no rate is the id's own: that of the usual machine around the GPU
        ("0x15b3", "0x101e", 200),
        ("0xffff", "0xffff", 200),
    ],
)
def test_a_nic_by_its_id(vendor: str, device: str, gbps: int, tmp_path: Path) -> None:
    made = imported(tmp_path, cloud(vendor, device), like="dgx-a100", nodes=2)
    assert rate_of(made) == gbps * 1e9 / 8 / 2
    assert any(f"NICs of {gbps} Gb/s" in text for text in made["assumed"])


@swept(("device", "gbps"), [("0x1021", 400), ("0x1023", 800), ("0xa2dc", 400)])
def test_the_slot_caps_a_fast_nic(device: str, gbps: int, tmp_path: Path) -> None:
    made = imported(tmp_path, cloud("0x15b3", device), like="dgx-a100", nodes=2)
    assert rate_of(made) == 32e9 / 2
    assert (
        f"1 NIC of {gbps} Gb/s in slots that carry 32 GB/s" in (made["set"]["ib.source.bandwidth"])
    )


def test_efa_is_efa(tmp_path: Path) -> None:
    tier = imported(tmp_path, cloud("0x1d0f", "0xefa0"), like="dgx-a100", nodes=2)["loaded"].tiers[
        1
    ]
    assert (tier.name, tier.medium) == ("efa", "efa")


def test_a_subsystem_tells_cards_of_one_id() -> None:
    assert pci.nic_of("0x020000", "0x1dd8", "0x1002").rate_Bps is None
    pollara = pci.nic_of("0x020000", "0x1dd8", "0x1002", "0x5201")
    assert (pollara.rate_Bps, pollara.medium) == (50e9, "roce")


@swept(
    ("device", "sm", "model"),
    [
        ("0x1db5", "70", "NVIDIA V100"),
        ("0x20b3", "80", "NVIDIA A100"),
        ("0x20f3", "80", "NVIDIA A800"),
        ("0x2324", "90", "NVIDIA H800"),
        ("0x2331", "90", "NVIDIA H100 PCIe"),
        ("0x2335", "90", "NVIDIA H200"),
        ("0x2901", "100", "NVIDIA B200"),
        ("0x3182", "103", "NVIDIA B300"),
        ("0xffff", "90", "NVIDIA H100"),
        ("", "80", "NVIDIA A100"),
        ("0xffff", "999", ""),
    ],
)
def test_a_gpu_by_its_id_or_its_generation(
    device: str, sm: str, model: str, tmp_path: Path
) -> None:
    text = Machine(1, []).text().replace("0x2330", device).replace('sm="90"', f'sm="{sm}"')
    node = read_nccl_topo(written(tmp_path, text))
    assert node.model == model
    by_generation = device in ("", "0xffff") and model != ""
    assert any("which others share" in text for text in node.assumed) == by_generation


@swept(("speed", "hint"), [("8 GT/s", "dgx-1v"), ("16 GT/s", "dgx-a100"), ("32 GT/s", "dgx-h100")])
def test_a_hint_names_a_machine_of_such_slots(speed: str, hint: str, tmp_path: Path) -> None:
    text = cloud("", "", gpu="").replace("16 GT/s", speed)
    with pytest.raises(ColltoolError) as caught:
        imported(tmp_path, text)
    assert f'like="{hint}"' in str(caught.value)
    assert "dgx-a100" not in str(caught.value) or hint == "dgx-a100"


def test_a_hint_by_the_device(tmp_path: Path) -> None:
    with pytest.raises(ColltoolError) as caught:
        imported(tmp_path, cloud("", "", gpu="0x2335"))
    assert 'like="hgx-h200"' in str(caught.value)
    # cards without NVLink need none
    assert imported(tmp_path, cloud("", "", gpu="0x26b9"))["like"] == "l40s-pcie"


def test_links_to_a_power_cpu_are_no_switch(tmp_path: Path) -> None:
    links = '<nvlink target="0000:00:00.0" count="3" tclass="0x068001"/>'
    node = read_nccl_topo(written(tmp_path, Machine(1, [], links=links).text()))
    assert not any(node.to_switch)


def test_hidden_nvlinks_are_said_and_taken_from_a_named_fabric(tmp_path: Path) -> None:
    text = Machine(4, [400_000] * 8, links="").text()
    assert imported(tmp_path, text, nodes=2)["assumed"][0].startswith("PCIe alone between")
    named = imported(tmp_path, text, nodes=2, like="dgx-h100")
    assert named["loaded"].tiers[0].bandwidth == 450e9


@swept("nic", ["", "fast", "-5G", "0G", "9e99G", "100 parsecs"])
def test_a_rate_that_is_none(nic: str, tmp_path: Path) -> None:
    with pytest.raises(ColltoolError) as caught:
        imported(tmp_path, Machine(1, []).text(), nic=nic)
    assert caught.value.argument == "nic"


def test_what_is_assumed_is_inherited_until_it_is_set(tmp_path: Path) -> None:
    base = {
        "schema": "colltool.fabric/2",
        "name": "base",
        "like": "dgx-a100",
        "assumed": ["ib.bandwidth: NICs of 200 Gb/s; no rate is given", "two racks: as planned"],
    }
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(base), encoding="utf-8")
    own = {"schema": "colltool.fabric/2", "name": "own", "like": "base.yaml"}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(own), encoding="utf-8")
    path = str(tmp_path / "own.yaml")
    assert list(load_fabric(path).overrides.assumed) == base["assumed"]
    changed = load_fabric(path, ["ib.bandwidth=10GB/s"])
    assert changed.overrides.assumed == ("two racks: as planned",)
    assert assumed_text(changed.overrides) == "assumed: two racks: as planned"
    assert assumed_text(load_fabric("dgx-a100").overrides) == ""
