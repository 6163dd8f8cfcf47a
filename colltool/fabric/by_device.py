"""The bundled fabric of the usual machine around a device, by the name that its tools print."""

from __future__ import annotations

import re
from typing import NamedTuple


class Known(NamedTuple):
    """Devices by their name, the bundled fabric of the usual machine around them, and what
    differs."""

    pattern: str
    fabric: str
    differs: tuple[str, ...] = ()


_KNOWN: tuple[Known, ...] = (  # the first match counts
    Known(r"\bGB300\b", "gb300-nvl72"),
    Known(r"\bGB200\b", "nvl72"),
    Known(r"\bGH200\b", "gh200"),
    Known(r"\bB300\b", "dgx-b300"),
    Known(r"\bB200\b", "dgx-b200"),
    Known(r"\bH200\b", "hgx-h200"),
    Known(r"\bH100\b", "dgx-h100"),
    Known(r"\bH800\b", "hgx-h800"),
    Known(r"\bH20\b", "hgx-h20"),
    Known(r"\bA100\b", "dgx-a100"),
    Known(r"\bA800\b", "hgx-a800"),
    # six NVLinks of 25 GB/s: NVIDIA Tesla V100 data sheet
    Known(r"\bV100\b", "dgx-a100", ("nvlink.bandwidth=150GB/s", "nvlink.max_size=16")),
    Known(r"\bMI300X\b", "mi300x"),
    Known(r"\bMI325X\b", "mi325x"),
    Known(r"\bMI355X\b", "mi355x"),
    Known(r"\bL40S?\b|\bL4\b|\bT4\b|\bA10G?\b|\bA40\b|RTX", "l40s-pcie"),
)
_CARDS = Known("", "a100-pcie")  # GPUs in slots, not joined by NVSwitch
CLUSTERS = {"mi300x": "mi300x-cluster"}
"""The same machine in several hosts."""
_CARD = re.compile(r"pcie|\bNVL\b", re.IGNORECASE)


def known(device: str) -> Known | None:
    if _CARD.search(device):
        return _CARDS
    return next((one for one in _KNOWN if re.search(one.pattern, device)), None)
