"""The nodes of Chakra execution traces (``.et``), and the numbers of their fields in the file.

A file is of one rank: a stream of protobuf messages, each behind its length, the metadata first,
then the nodes. :mod:`~colltool.logs.chakra_encode` writes it, :mod:`~colltool.logs.chakra_decode`
reads it, by the numbers here, which are those of mlcommons/chakra, schema/protobuf/et_def.proto.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

PROCESS_GROUPS = "process_groups"  # the key of the metadata that lists the groups of ranks
VERSION = "0.0.4"  # of the metadata, as Chakra's own generator writes it
MOST_NODES = 1_000_000  # of a file: about 1 GB in memory

NodeType = Literal[
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
    "STORAGE_NODE",
    "BATCH_NODE",
    "CHECKPOINT_NODE",
]
NODE_TYPES: tuple[NodeType, ...] = get_args(NodeType)
"""Types of nodes; the index is the number in the file."""
COLLECTIVES = (
    "ALL_REDUCE",
    "REDUCE",
    "ALL_GATHER",
    "GATHER",
    "SCATTER",
    "BROADCAST",
    "ALL_TO_ALL",
    "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK",
    "BARRIER",
)
"""Collectives; the index is the number that attribute ``comm_type`` has."""

# Fields of the metadata.
VERSION_FIELD = 1
METADATA_FIELD = 2  # an attribute
# Fields of a node.
ID = 1
NODE_NAME = 2
TYPE = 3
CTRL_DEPS = 4
DATA_DEPS = 5
START = 6
DURATION = 7
INPUTS = 8  # a message, whose first field has the values as text
INPUT_VALUES = 1
ATTRIBUTES = 10
# Fields of an attribute: its name, and one of the others, each for a type of value.
ATTRIBUTE_NAME = 1
DOUBLE = 3
FLOAT = 5
INT32 = 7
INT64 = 9
ZIGZAG = (15, 17)  # sint32, sint64
FIXED = (19, 21, 23, 25)  # fixed32, fixed64, sfixed32, sfixed64
SIGNED_FIXED = (23, 25)
BOOL = 27
BOOLS = 28
STRING = 29

Value = bool | int | float | str


class ChakraNode(NamedTuple):
    """A node of a trace; times in whole microseconds, as the format has them."""

    id: int
    name: str
    type: NodeType
    ctrl_deps: tuple[int, ...] = ()  # ids; name the caller, which ends after what it calls
    data_deps: tuple[int, ...] = ()  # ids; the order, as Chakra's feeder takes it
    start_us: int = 0
    duration_us: int = 0
    attributes: Mapping[str, Value] = MappingProxyType({})
    inputs: str = ""  # the values of its inputs as text
