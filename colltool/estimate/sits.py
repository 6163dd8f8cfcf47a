"""How the members of a group sit on the endpoints of a tier."""

from __future__ import annotations

from typing import NamedTuple


class Sits(NamedTuple):
    """How the members of a group sit on the endpoints of a tier.

    Args:
        stride: from one member's endpoint to the next: so many groups are interleaved there.
        beside: ranks behind an endpoint for each member behind it, where their ports share uplinks.
        alone: the ports of those other groups are idle.
    """

    stride: int = 1
    beside: int = 1
    alone: bool = False

    def members(self, endpoints: int) -> int:
        """Of a domain of so many endpoints those that are the group's."""
        return max(1, endpoints // self.stride)

    def ports(self, endpoints: int) -> int:
        """Ports of such a domain that each endpoint of the group's may count as its own, those of idle siblings included."""
        return endpoints // self.members(endpoints) * self.beside if self.alone else 1


PACKED = Sits()
"""Every endpoint from the first on, and all ranks behind each."""
