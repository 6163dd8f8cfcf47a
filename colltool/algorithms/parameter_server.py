"""Machines beside the ranks that add up what these send, and send it back."""

from __future__ import annotations

from colltool.algorithms.group import SWITCHED, Group
from colltool.algorithms.references import PARAMETER_SERVER
from colltool.algorithms.registry import algorithm
from colltool.base.cost import Servers, Terms
from colltool.base.primitives import AR


@algorithm(
    "parameter-server",
    AR,
    on=SWITCHED,
    shipped_by=("BytePS", "MXNet (KVStore)", "TensorFlow (ParameterServerStrategy)"),
    source=PARAMETER_SERVER,
    note="servers are machines beside the ranks, with ports like theirs",
    counts="servers",
)
def parameter_server(group: Group) -> Terms:
    """Parameter server: gradients go to K servers, a K-th of them to each, and weights come back, both ways at once.

    t = 2 α + max(1, N/K) M/BW

    K servers stand beside the N ranks: parameter-server is one, parameter-server:8 are eight. Through a server's port go N parts
    of M/K each way; send and receive overlap, as different parts are on their way. With as many servers as ranks it moves half of
    what a ring moves, on twice the ports. It is priced where it is named, and stands in no table beside collectives.

    >>> from colltool.base.cost import totals
    >>> totals(parameter_server(Group(1024, "star", servers=8)))
    (2, 128.0)
    """
    return Terms(2, max(1.0, group.ranks / group.servers), Servers())
