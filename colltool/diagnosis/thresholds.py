"""What healthy machines reach of the price: the bars below which ``doctor`` calls a series slow, and ``trace`` a wire."""

from __future__ import annotations

from colltool.calibration.placement import MOST_IN_A_HOST

EXPECT = 0.80
"""On whole hosts: healthy nodes of eight reach 85 to 107% of the prices of their shipped fabric."""

FEW, EXPECT_FEW, EXPECT_PART = 4, 0.55, 0.75
"""On fewer ranks than that, and on a part of a host: healthy ones reach 56 to 85%, and 80 to 100%.
NCCL 2.27 to 2.29 on 2 and 4 GPUs of NVSwitch nodes (A100, H100, B200), ai-dynamo/aiconfigurator.
"""

OF_FEW = "so few reach 55 to 85% of the price on healthy nodes too, and are held to that; measure all GPUs of a host"
"""NCCL 2.27 to 2.29 on 2 GPUs of NVSwitch nodes (A100, H100, B200), ai-dynamo/aiconfigurator."""

SLACK = 0.20
"""How much lower the bar of small messages is: launch and hops differ more between healthy hosts than rates do."""

FASTER = 1.2
"""Above this share of the price of large messages a machine is another one than the fabric."""


def threshold_of(ranks: int, whole: int, *, across: bool) -> float:
    """The share of the expected rate that large messages of a healthy machine reach.

    Args:
        ranks: that ran.
        whole: the ranks of a host.
        across: whether they ran on several hosts.

    >>> [bar_of(ranks, 8, across=False) for ranks in (2, 4, 8)]
    [0.55, 0.75, 0.8]
    """
    if across or ranks >= min(whole, MOST_IN_A_HOST):
        return EXPECT
    return EXPECT_FEW if ranks < FEW else EXPECT_PART


def of_few(ranks: int) -> str:
    """What to expect of so few ranks; empty of more."""
    return f"{ranks} ranks: {OF_FEW}" if ranks < FEW else ""
