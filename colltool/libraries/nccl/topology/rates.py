"""The rates that NCCL counts for a link, in MB/s (1e6 bytes/s, thousandths of its GB/s).

Source: NCCL 2.30, src/graph/topo.h and topo.cc.
"""

from __future__ import annotations

from colltool.libraries.nccl.topology.kinds import UNLIMITED_MBps
from colltool.libraries.nccl.topology.versions import Version

# NCCL counts so much of what a lane transfers, from Gen3 on: 24 of 32 GT/s.
TRANSFERS_COUNTED = 3 / 4
# Gb/s that NCCL counts of a lane, by what link_speed starts with; the first that fits
_LANE_Gbps = (
    ("2.5 GT/s", 1.5),
    ("5 GT/s", 3.0),
    ("8 GT/s", 6.0),
    ("16 GT/s", 12.0),
    ("32 GT/s", 24.0),
    ("5.0 GT/s PCIe", 3.0),
    ("8.0 GT/s PCIe", 6.0),
    ("16.0 GT/s PCIe", 12.0),
    ("32.0 GT/s PCIe", 24.0),
    ("64.0 GT/s PCIe", 48.0),
)
_UNKNOWN_LANE_Gbps = 6.0
_UNKNOWN_WIDTH = 16
# between the CPUs of a host; of Intel's family 6 by the least model that has it, newest first
_INTEL_MBps = ((0xCF, 40_000), (0x8F, 22_000), (0x55, 10_000))
_OLD_INTEL_MBps = 6_000
_AMD_MBps = 16_000
_ARM_MBps = 6_000
_POWER_MBps = 32_000
_ZHAOXIN_MBps = 6_000
_ZHAOXIN_KH40000_MBps = 9_000
_ZHAOXIN = ("CentaurHauls", "  Shanghai  ")


def number(text: str) -> int:
    """A whole number, decimal or hexadecimal after 0x; 0 of what is none.

    >>> number("0x12"), number("12"), number("twelve")
    (18, 12, 0)
    """
    try:
        return int(text, 16 if text.lower().startswith("0x") else 10)
    except ValueError:
        return 0


def slot_MBps(link_speed: str, link_width: str) -> int:
    """What a PCI slot's link moves one way, from its speed and width as the file has them; an unknown
    generation counts as Gen3, an unknown width as 16.

    >>> slot_MBps("32.0 GT/s PCIe", "16"), slot_MBps("32.0 GT/s", "16")
    (48000, 12000)
    """
    lane_Gbps = _UNKNOWN_LANE_Gbps
    for start, Gbps in _LANE_Gbps:
        if link_speed.startswith(start):
            lane_Gbps = Gbps
            break
    width = max(number(link_width), 0) or _UNKNOWN_WIDTH
    return round(width * lane_Gbps * 1000 / 8)


def port_MBps(speed: str) -> int:
    """What a NIC's port moves one way, from its speed in Mb/s; one that does not know its speed counts as
    10 Gb/s."""
    Mbps = number(speed)
    if Mbps <= 0:
        return 1_250  # 10 Gb/s
    return round(Mbps / 8)


def nvlink_MBps(sm: int, version: Version) -> int:
    """One NVLink of a GPU, one way, by compute capability: 60 Pascal, 86 A10 and A40, 90 Hopper."""
    if sm >= 100:
        return version.blackwell_link_MBps
    if sm >= 90:
        return 20_600
    if sm == 86:
        return 12_000
    if 60 <= sm < 70:
        return 18_000
    return 20_000


def between_cpus_MBps(arch: str, vendor: str, family: int, model: int) -> int:
    """What a CPU reaches another of its host at; an unknown vendor's without limit. Family and model
    are x86's, as CPUID gives them."""
    if arch == "arm64":
        return _ARM_MBps
    if arch.startswith("ppc64"):
        return _POWER_MBps
    if vendor == "GenuineIntel":
        for least, MBps in _INTEL_MBps:
            if family == 6 and model >= least:
                return MBps
        return _OLD_INTEL_MBps
    if vendor == "AuthenticAMD":
        return _AMD_MBps
    if vendor in _ZHAOXIN:
        return _ZHAOXIN_KH40000_MBps if (family, model) == (7, 0x5B) else _ZHAOXIN_MBps
    return UNLIMITED_MBps
