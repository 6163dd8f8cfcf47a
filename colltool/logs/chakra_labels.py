"""A node of a Chakra trace as the call that PyTorch's profiler would label.

:func:`labels_of` makes a node's labels, which :mod:`colltool.logs.call_metadata` reads;
:func:`group_labels` those of a process group, which it takes over.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from colltool.logs.call_metadata import (
    DIMENSIONS,
    UNLISTED,
    Labels,
    as_count,
    as_text,
)
from colltool.logs.chakra_format import (
    COLLECTIVES,
    ChakraNode,
    Value,
)
from colltool.logs.chakra_observer import COLLECTIVE
from colltool.logs.kernel_names import kernel_name

RANKS = "Process Group Ranks"
"""The label that lists the ranks of a group."""
# what the profiler calls the collectives of Chakra; others by their own name in lower case
_COLLECTIVE_NAMES = {
    "ALL_REDUCE": "allreduce",
    "ALL_GATHER": "allgather",
    "REDUCE_SCATTER": "reduce_scatter",
    "ALL_TO_ALL": "all_to_all",
    "BROADCAST": "broadcast",
    "REDUCE": "reduce",
}
MESSAGES = ("COMM_SEND_NODE", "COMM_RECV_NODE")
"""Types of nodes that send or receive from one rank to another."""
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


def labels_of(node: ChakraNode, groups: Mapping[str, Labels], rank: int | None) -> Labels:
    """A node's call as the profiler labels one: with the labels of its group where the file lists
    that, else with a label that says what is missing (DIMENSIONS, UNLISTED).

    Args:
        groups: labels of process groups by name; of all ranks of the job by an empty one.
        rank: of the file; None if it is unknown.
    """
    attributes = node.attributes
    if COLLECTIVE in attributes:
        return _labels_of_pytorch(attributes, groups)
    size = as_count(attributes.get("comm_size"))  # bytes that a rank puts in
    group_name = as_text(attributes.get("pg_name"))
    labels: Labels = {
        "In msg nelems": size,
        "Out msg nelems": size,
        "dtype": "Byte",
        "Process Group Name": group_name,
    }
    if node.type in MESSAGES:
        return labels | _message_labels(attributes, rank)
    group = groups.get(group_name, {})
    collective = _collective_of(node)
    if collective == "ALL_GATHER":
        labels["Out msg nelems"] = (size or 0) * (group.get("Group size") or 0)
    labels["Collective name"] = _COLLECTIVE_NAMES.get(collective, collective.lower())
    # a text of 0 and 1, a digit a dimension of the network
    if "0" in as_text(attributes.get(DIMENSIONS)):
        # the group is what those dimensions join, which the file does not say
        return labels | {DIMENSIONS: True}
    if group_name and not group.get("Group size"):
        return labels | {UNLISTED: group_name}
    return labels | group


def _message_labels(attributes: Mapping[str, Value], rank: int | None) -> Labels:
    """Labels of what is sent from one rank to another; the rank of the file is the end that is not
    named."""
    ends = {as_count(attributes.get("comm_src", rank)), as_count(attributes.get("comm_dst", rank))}
    known_ends = sorted(end for end in ends if end is not None)
    if len(known_ends) < 2:
        known_ends = []
    return {"Collective name": "send", "Group size": len(known_ends) or None, RANKS: known_ends}


def _collective_of(node: ChakraNode) -> str:
    """Chakra's name of a node's collective, by its number, else by the kernel's name as Chakra's
    converter does; ``unknown`` where neither tells."""
    collective_number = as_count(node.attributes.get("comm_type"))
    if collective_number is not None and collective_number < len(COLLECTIVES):
        return COLLECTIVES[collective_number]
    primitives = kernel_name(node.name).primitives
    return primitives[0].name if primitives else "unknown"


def _labels_of_pytorch(attributes: Mapping[str, Value], groups: Mapping[str, Labels]) -> Labels:
    """The labels of a call of PyTorch's execution trace, which are the profiler's own; those of its
    group as well where the file lists it and the two agree on its size."""
    labels: Labels = {
        label: attributes[attribute]
        for attribute, label in _LABELS.items()
        if attribute in attributes
    }
    group = groups.get(as_text(labels.get("Process Group Name")), {})
    group_size = as_count(labels.get("Group size"))
    if not group_size or group_size == group.get("Group size"):
        labels |= group
    return labels


def group_labels(members: list[int]) -> Labels:
    """Labels of a group's ranks: first and stride, which cost nothing to read for each call; where
    ranks are unevenly spaced, all of them. The size is None for no members."""
    ranks = sorted(set(members))
    strides = {after - before for before, after in pairwise(ranks)}
    if len(ranks) == len(members) and len(strides) == 1:
        return {
            "Group size": len(ranks),
            "Global rank start": ranks[0],
            "Global rank stride": strides.pop(),
        }
    return {"Group size": len(members) or None, RANKS: members}
