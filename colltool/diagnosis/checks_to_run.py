"""Where to look for a cause on the machine, in the words of the maker of its devices."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

Maker = Literal["NVIDIA", "AMD", ""]
"""Of the devices; empty where nothing says."""

_AMD = re.compile(r"\bAMD\b|Instinct|\bMI\d{3}")

_NVIDIA_SMI = {
    "nvls-off": "'NVLS' in the output of NCCL_DEBUG=INFO; the fabric manager: systemctl status nvidia-fabricmanager",
    "links": "nvidia-smi nvlink --status; nvidia-smi nvlink --errorcounters",
    "pcie": "nvidia-smi topo -m (NV18, not SYS or PHB); 'via P2P' and not 'via SHM' in the output of NCCL_DEBUG=INFO",
    "slow-rank": "one device apart from the others: nvidia-smi dmon -s pucv; other jobs on the host; NCCL_MAX_NCHANNELS",
    "launch": "NCCL_DEBUG, CUDA_LAUNCH_BLOCKING and profilers off; cores pinned (numactl); or measure graphs (-G 1)",
    "clocks": "nvidia-smi -q -d CLOCK,PERFORMANCE,POWER",
}
_ROCM_SMI = {
    "links": "rocm-smi --showxgmierr --shownodesbw; amd-smi xgmi; dmesg | grep -i xgmi",
    "pcie": "rocm-smi --showtopotype (XGMI, not PCIE); env | grep -E 'NCCL|RCCL|HSA'; 'via P2P' with NCCL_DEBUG=INFO",
    "slow-rank": "one device apart from the others: rocm-smi --showuse; other jobs on the host; NCCL_MIN_NCHANNELS",
    "launch": "NCCL_DEBUG, HIP_LAUNCH_BLOCKING, AMD_SERIALIZE_KERNEL and profilers off; cores pinned (numactl)",
    "clocks": "rocm-smi --showclocks --showpower --showperflevel",
}
_EITHER = {
    "protocol": "env | grep NCCL_PROTO; /etc/nccl.conf",
    "algorithm": "env | grep NCCL_ALGO; /etc/nccl.conf; a tuner plugin (NCCL_TUNER_PLUGIN)",
    "rails": "'NET/IB' lines of NCCL_DEBUG=INFO list the NICs in use; NCCL_IB_HCA; ibstat",
    "network": "ibstat | grep Rate; ib_write_bw between two hosts; counters of the switches; 'GDRDMA' with NCCL_DEBUG=INFO",
}


def maker_of(devices: Iterable[str], library: str, tier: str) -> Maker:
    """Who made the devices: by their names, else by the library that ran on them, else by the wires between them."""
    named = " ".join(devices)
    if named:
        return "AMD" if _AMD.search(named) else "NVIDIA"
    if library == "RCCL" or "xgmi" in tier.lower():
        return "AMD"
    return "NVIDIA" if library == "NCCL" or "nvl" in tier.lower() else ""


def look_for(what: str, maker: Maker) -> str:
    """What shows a cause on machines of this maker; of each, where the maker is not known."""
    if what in _EITHER:
        return _EITHER[what]
    found = {"NVIDIA": _NVIDIA_SMI.get(what), "AMD": _ROCM_SMI.get(what)}
    return found.get(maker) or "; or ".join(filter(None, found.values()))
