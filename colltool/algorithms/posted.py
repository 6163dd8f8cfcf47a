"""A message from every rank to every other: posted all at once, or on one port one after the other."""

from __future__ import annotations

from typing import Any

from colltool.algorithms.group import Group
from colltool.algorithms.registry import Caveat
from colltool.base.cost import AllPeers, Peers, Terms


def to_all(group: Group, each: float, **more: Any) -> Terms:
    """``each``·M to all peers; on a full mesh over all links at once, so that one carries a single message.

    >>> to_all(Group(4, "star"), 0.25)[:2], to_all(Group(4, "full_mesh"), 0.25)[:2]
    ((1, 0.75), (1, 0.25))
    >>> to_all(Group(4, "full_mesh", one_port=True), 0.25)[:2]
    (3, 0.75)
    """
    peers = group.ranks - 1
    if group.one_port:
        return Terms(peers, peers * each, Peers(), **more)
    return Terms(1, each if group.dedicated else peers * each, AllPeers(each), **more)


def many_sends(group: Group) -> Caveat | None:
    """What is taken for granted where all messages leave at once, and the fabric does not say what that takes."""
    return (
        None if group.one_port or group.posts_cost else Caveat("shipped", "assumes that a rank posts N-1 messages for one alpha")
    )
