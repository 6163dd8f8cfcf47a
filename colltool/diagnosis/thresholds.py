"""What share of the expected rate healthy machines reach: the pass marks (bars) of ``doctor`` and
``trace``, and the errors within which a price explains a time."""

from __future__ import annotations

import re

from colltool.base.primitives import P2P, Primitive
from colltool.base.statements import NOTHING, Statement
from colltool.calibration.log_fits import MOST_IN_A_HOST
from colltool.diagnosis.sentences import statement
from colltool.logs.series import Series

# Bars are shares of the expected rate that large messages must reach.
# On whole hosts: healthy nodes of eight reach 85 to 107% of the prices of their bundled fabric.
HEALTHY_SHARE = 0.80
# On fewer ranks than FEW healthy machines reach 56 to 85%, on part of a host 80 to 100%: NCCL 2.27
# to 2.29 on 2 and 4 GPUs of NVSwitch nodes (A100, H100, B200), ai-dynamo/aiconfigurator.
FEW = 4
HEALTHY_FEW = 0.55
HEALTHY_PART = 0.75

# a message between hosts takes few channels: 54 to 95% of a NIC on 2 and 10 healthy hosts of H100
HEALTHY_P2P = 0.5
# the bar of small messages is lower: launch and hops vary more between healthy hosts than rates do
SLACK = 0.20
FASTER = 1.2  # share of the expected rate above which the machine is not the fabric

CLOSE = 0.10  # relative error up to which one of several prices explains a time
WITHIN = 0.15  # mean relative error up to which a cause's prices explain times
# the same for small messages between hosts, which depend on NICs and proxies that no log names
WITHIN_ACROSS = 0.30


def threshold_of(primitive: Primitive, ranks: int, whole: int, *, across: bool) -> float:
    """The share of the expected rate that large messages of a healthy machine reach.

    Args:
        whole: ranks of a host of the fabric.
        across: they go from host to host.
    """
    if ranks < FEW:
        return HEALTHY_FEW
    if across and primitive is P2P:
        return HEALTHY_P2P
    if across or ranks >= min(whole, MOST_IN_A_HOST):
        return HEALTHY_SHARE
    return HEALTHY_PART


def few_ranks_note(ranks: int) -> Statement:
    """A note that a low share means little on so few ranks; NOTHING for FEW or more."""
    return statement("few-ranks", ranks=ranks) if ranks < FEW else NOTHING


def across_hosts(series: Series) -> bool:
    """Whether a series ran on several hosts, by its nodes or by its size."""
    return (series.nodes or 1) > 1 or series.ranks > MOST_IN_A_HOST


# the bars of small messages with an old library, and over NICs that no log names (EFA)
SMALL_OLD = 0.35
SMALL_UNKNOWN_NICS = 0.30
LEAST_PASS = 0.30  # share of what is expected below which nothing passes, whatever is assumed
FIRST_QUICK = (2, 12)  # first version of NCCL that is not old
# "NCCL 2.10.3"
_VERSION = re.compile(r"\b(\d{1,2})\.(\d{1,3})")


def small_bar(series: Series, bar: float, *, alone: bool) -> float:
    """The share of the price that small messages of a healthy machine reach.

    Old versions launch slowly (NCCL 2.10 on A100, microsoft/superbenchmark: 41%), and NICs that no
    log names differ (EFA).

    Args:
        bar: of large messages.
        alone: they are slow where large ones are not, and the fabric was assumed, not named by the
            user.
    """
    usual = max(bar - SLACK, min(bar, LEAST_PASS))
    if alone and across_hosts(series):
        return min(usual, SMALL_UNKNOWN_NICS)
    if alone and _may_be_old(series.library):
        return min(usual, SMALL_OLD)
    return usual


def _may_be_old(library: str) -> bool:
    """Whether a library, as a log names it, may be one that launches slowly."""
    # logs without a version are mostly old
    version = _VERSION.search(library)
    return version is None or (int(version[1]), int(version[2])) < FIRST_QUICK
