"""A node of a Chakra trace as the call that PyTorch's profiler would label: :func:`labels_of`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from colltool.logs.call_metadata import (
    DIMENSIONS,
    UNLISTED,
    Labels,
    count,
    text,
)
from colltool.logs.chakra_format import (
    COLLECTIVES,
    ChakraNode,
    Value,
)
from colltool.logs.chakra_json import (
    COLLECTIVE,
)
from colltool.logs.kernel_names import kernel_name

RANKS = "Process Group Ranks"
# what the profiler calls the collectives of Chakra
_COLLECTIVE_NAMES = {
    "ALL_REDUCE": "allreduce",
    "ALL_GATHER": "allgather",
    "REDUCE_SCATTER": "reduce_scatter",
    "ALL_TO_ALL": "all_to_all",
    "BROADCAST": "broadcast",
    "REDUCE": "reduce",
}
MESSAGES = ("COMM_SEND_NODE", "COMM_RECV_NODE")
# labels of the profiler by the attributes of PyTorch's execution trace
_LABELS = {
    COLLECTIVE: "Collective name",
    "in_msg_nelems": "In msg nelems",
    "out_msg_nelems": "Out msg nelems",
    "in_split_size": "In split size",
    "out_split_size": "Out split size",
    "dtype": "dtype",
    "pg_size": "Group size",
    "pg_name": "Process Group Name",
    "pg_desc": "Process Group Description",
    "global_rank_start": "Global rank start",
    "global_rank_stride": "Global rank stride",
}


def labels_of(node: ChakraNode, placed: Mapping[str, Labels], rank: int | None) -> Labels:
    """A node's call as the profiler labels one: ``comm_size`` are bytes that a rank puts in."""
    attributes = node.attributes
    if COLLECTIVE in attributes:
        return _labels_of_pytorch(attributes, placed)
    size = count(attributes.get("comm_size"))
    name = text(attributes.get("pg_name"))
    labels: Labels = {
        "In msg nelems": size,
        "Out msg nelems": size,
        "dtype": "Byte",
        "Process Group Name": name,
    }
    if node.type in MESSAGES:
        ends = {count(attributes.get("comm_src", rank)), count(attributes.get("comm_dst", rank))}
        known = sorted(end for end in ends if end is not None)
        both = len(known) == 2
        message = {
            "Collective name": "send",
            "Group size": 2 if both else None,
            RANKS: known if both else [],
        }
        return labels | message
    group = placed.get(name, {})
    kind = count(attributes.get("comm_type"))
    collective = _by_name(node.name)
    if kind is not None and kind < len(COLLECTIVES):
        collective = COLLECTIVES[kind]
    if collective == "ALL_GATHER":
        labels["Out msg nelems"] = (size or 0) * (group.get("Group size") or 0)
    labels["Collective name"] = _COLLECTIVE_NAMES.get(collective, collective.lower())
    if "0" in text(attributes.get(DIMENSIONS)):
        # the group is what those dimensions of a network join, which the file does not say
        return labels | {DIMENSIONS: True}
    if name and not group.get("Group size"):
        return labels | {UNLISTED: name}
    return labels | group


def _by_name(name: str) -> str:
    """The collective that a kernel's name tells, as Chakra's converter does."""
    primitives = kernel_name(name).primitives
    return primitives[0].name if primitives else "unknown"


def _labels_of_pytorch(attributes: Mapping[str, Value], placed: Mapping[str, Labels]) -> Labels:
    """The labels of a call of PyTorch's execution trace, which are the profiler's own."""
    labels: Labels = {
        label: attributes[attribute]
        for attribute, label in _LABELS.items()
        if attribute in attributes
    }
    listed = placed.get(text(labels.get("Process Group Name")), {})
    known = count(labels.get("Group size"))
    if not known or known == listed.get("Group size"):
        labels |= listed
    return labels


def group_labels(members: list[int]) -> Labels:
    """Labels of a group's ranks: first and stride, which cost nothing to read for each call, else
    all of them."""
    ranks = sorted(set(members))
    strides = {after - before for before, after in pairwise(ranks)}
    if len(ranks) == len(members) and len(strides) == 1:
        return {
            "Group size": len(ranks),
            "Global rank start": ranks[0],
            "Global rank stride": strides.pop(),
        }
    return {"Group size": len(members) or None, RANKS: members}
