"""Ways to shard a replica and to recompute activations, a row each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, TypeVar, get_args

from colltool.training.files.schema import Recompute, ShardMode


class _Row(Protocol):
    @property
    def name(self) -> str: ...


R = TypeVar("R", bound=_Row)


def rows_for(names: Any, rows: Iterable[R]) -> dict[str, R]:
    """Rows by name.

    Raises:
        TypeError: ``names``, a Literal of the schema, has a name without a row, or lacks one.
    """
    found = {row.name: row for row in rows}
    if differ := set(get_args(names)) ^ set(found):
        raise TypeError(f"{', '.join(sorted(differ))}: named in the schema or in the rows alone")
    return found


class Sharding(NamedTuple):
    """What of a replica is sharded, and who describes it; ``grouped``: over part of the replicas, copied across the others."""

    name: ShardMode
    optimizer: bool
    gradients: bool
    weights: bool
    source: str
    grouped: bool = False


_ZERO = "Rajbhandari 2020, ZeRO, arXiv:1910.02054, section 7"
_FSDP = "Zhao 2023, PyTorch FSDP, arXiv:2304.11277, section 3.2"
_DDP = "Li 2020, PyTorch Distributed, arXiv:2006.15704, section 3.2.3"
SHARDINGS = rows_for(
    ShardMode,
    [
        Sharding("ddp", optimizer=False, gradients=False, weights=False, source=_DDP),
        Sharding("zero1", optimizer=True, gradients=False, weights=False, source=_ZERO),
        Sharding("zero2", optimizer=True, gradients=True, weights=False, source=_ZERO),
        Sharding("fsdp", optimizer=True, gradients=True, weights=True, source=_FSDP),
        Sharding("hsdp", optimizer=True, gradients=True, weights=True, source=_FSDP, grouped=True),
    ],
)
"""Where weights are sharded, layers are gathered when they are needed."""


class Recomputation(NamedTuple):
    """What the backward pass computes again: ``layers`` from their inputs, or attention's ``core`` alone."""

    name: Recompute
    core: bool
    layers: bool


RECOMPUTATIONS = rows_for(
    Recompute,
    [
        Recomputation("none", core=False, layers=False),
        Recomputation("selective", core=True, layers=False),
        Recomputation("full", core=True, layers=True),
    ],
)
