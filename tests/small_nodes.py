"""Topology files of small nodes, as text."""

from __future__ import annotations

from pathlib import Path

from colltool.base.xml_tree import read_xml
from colltool.libraries.nccl.topology.system import System
from colltool.libraries.nccl.topology.system_reader import FORMAT, system_of
from colltool.libraries.nccl.topology.versions import version_of

GEN5 = 'link_speed="32.0 GT/s PCIe" link_width="16"'
INTEL = 'arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"'
AMD = 'arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1"'
TO_SWITCH = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'


def gpu(rank: int, links: str = "", *, sm: int = 90, slot: str = GEN5, gdr: int = 1) -> str:
    return (
        f'<pci busid="0000:{rank + 16:02x}:00.0" class="0x030200" {slot}>'
        f'<gpu dev="{rank}" sm="{sm}" rank="{rank}" gdr="{gdr}">{links}</gpu></pci>'
    )


def nic(dev: int, *, speed: int = 400_000, slot: str = GEN5, gdr: int = 1, more: str = "") -> str:
    return (
        f'<pci busid="0000:{dev + 64:02x}:00.0" class="0x020700" {slot}><nic>'
        f'<net name="mlx5_{dev}" dev="{dev}" speed="{speed}" port="1" guid="0x{dev + 1:x}"'
        f' gdr="{gdr}" {more}/></nic></pci>'
    )


def switch(number: int, *inside: str, slot: str = GEN5, ids: str = "") -> str:
    text = "".join(inside)
    return f'<pci busid="0000:{number:02x}:00.0" class="0x060400" {slot} {ids}>{text}</pci>'


def cpu(number: int, *inside: str, kind: str = INTEL) -> str:
    return f'<cpu host_hash="0x1" numaid="{number}" {kind}>{"".join(inside)}</cpu>'


def linked(rank: int, count: int = 4) -> str:
    """NVLinks to another GPU."""
    return f'<nvlink target="0000:{rank + 16:02x}:00.0" count="{count}" tclass="0x030200"/>'


def written(folder: Path, *cpus: str) -> Path:
    file = folder / "node.xml"
    file.write_text(f'<system version="1">{"".join(cpus)}</system>', encoding="utf-8")
    return file


def read(folder: Path, *cpus: str, release: str = "2.30.7") -> System:
    return system_of(read_xml(written(folder, *cpus), FORMAT), "node.xml", version_of(release))


def h100(gpus: int = 8, nics: int = 8, slot: str = GEN5) -> tuple[str, str]:
    """Two halves of a node with NVSwitches and a switch for each GPU and its NIC."""
    parts = []
    for rank in range(gpus):
        inside = [gpu(rank, TO_SWITCH)]
        if rank < nics:
            inside.append(nic(rank, slot=slot))
        parts.append(switch(rank + 1, *inside))
    half = gpus // 2
    return cpu(0, *parts[:half]), cpu(1, *parts[half:])
