"""hwloc's XML of a host: NICs by PCI id and slot; NVLinks are not in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.fabric.dumps.read import import_dumps
from colltool.fabric.load import load_fabric

DOCTYPE = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n'


def device(busid: str, ids: str, speed: str, *parts: str) -> str:
    inside = "".join(parts)
    return (
        f'<object type="PCIDev" pci_busid="{busid}" pci_type="{ids}" pci_link_speed="{speed}">'
        f"{inside}</object>"
    )


def part(name: str, kind: int) -> str:
    return f'<object type="OSDev" name="{name}" osdev_type="{kind}"/>'


def host(gpu: str = "0302 [10de:20b2] [10de:1463] a1", arch: str = "x86_64") -> str:
    """Two packages with a switch for two GPUs and a NIC; a storage NIC and Ethernet at the first."""
    lines = [DOCTYPE, '<topology version="2.0"><object type="Machine">']
    lines.append(f'<info name="Architecture" value="{arch}"/>')
    for at in range(2):
        lines += [
            f'<object type="Package" os_index="{at}"><object type="Bridge" bridge_type="0-1">',
            '<object type="Bridge" bridge_type="1-1" pci_type="0604 [1000:c010] [0:0] 00">',
            device(f"0000:{at}1:00.0", gpu, "31.507692", part(f"cuda{at}", 5)),
            device(f"0000:{at}2:00.0", gpu, "31.507692"),
            device(
                f"0000:{at}3:00.0",
                "0207 [15b3:101b] [15b3:0006] 00",
                "31.507692",
                part(f"ib{at}", 2),
                part(f"mlx5_{at}", 3),
            ),
            "</object>",
        ]
        if at == 0:
            nic = "0200 [15b3:101d] [15b3:0006] 00"
            lines.append(device("0000:05:00.0", nic, "15.753846", part("mlx5_9", 3)))
            lines.append(device("0000:06:00.0", "0200 [8086:1521] [1:2] 01", "2", part("eno1", 2)))
            lines.append(device("0000:07:00.0", "0300 [1a03:2000] [1:2] 41", "0"))
        lines.append("</object></object>")
    return "\n".join([*lines, "</object></topology>"])


def imported(folder: Path, text: str, **options: Any) -> tuple[dict[str, Any], str]:
    (folder / "node.xml").write_text(text, encoding="utf-8")
    made = import_dumps(["lstopo", str(folder / "node.xml")], **options)
    return yaml.safe_load(made), made


def test_a_host_with_a_named_machine(tmp_path: Path) -> None:
    data, text = imported(tmp_path, host(), like="dgx-a100", nodes=2)
    fabric = load_fabric(data)
    assert (fabric.tiers[0].endpoints, fabric.tiers[1].bandwidth) == (4, 2 * 25e9 / 4)
    assert data["assumed"][:2] == [
        "ib.bandwidth: NICs of 200 Gb/s, as ConnectX-6 by its PCI id; no rate is given",
        "nvlink.bandwidth: links as in dgx-a100; the file lists none",
    ]
    assert "(eno1): for sockets" in text
    assert "(mlx5_9): behind no PCIe switch" in text


def test_it_states_no_nvlinks(tmp_path: Path) -> None:
    with pytest.raises(ColltoolError) as caught:
        imported(tmp_path, host())
    assert caught.value.what == "does not state NVLinks; they are NVIDIA A100"
    assert 'like="dgx-a100"' in str(caught.value)


def test_cards_need_no_links(tmp_path: Path) -> None:
    data, _ = imported(tmp_path, host("0302 [10de:26b9] [10de:1463] a1"))
    assert (data["like"], data["set"]["pcie.bandwidth"]) == ("l40s-pcie", "32GB/s")


def test_grace_by_the_architecture(tmp_path: Path) -> None:
    with pytest.raises(ColltoolError, match="they are NVIDIA GB200"):
        imported(tmp_path, host("0302 [10de:2901] [10de:1463] a1", "aarch64"))


@swept(
    ("text", "what"),
    [
        ("", "is not the XML of hwloc"),
        (host()[:-20], "cut off"),
        ("<system/>", "its root is <system>, hwloc's is <topology>"),
        ("<topology/>", "has no accelerators"),
        (host().replace('dtd"', 'dtd" [<!ENTITY b "c">]'), "has a document type"),
        (host().replace(' SYSTEM "hwloc2.dtd"', ' [<!ENTITY b "c">]'), "has a document type"),
        (host().replace("<!DOCTYPE topology", "<!DOCTYPE other"), "has a document type (other)"),
        (host().replace("10de:20b2", "10de:2330", 1), "has different accelerators"),
    ],
)
def test_hostile_text(text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(ColltoolError) as caught:
        imported(tmp_path, text)
    assert what in caught.value.what
