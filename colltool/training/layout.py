"""The groups that the dimensions of a job form over its ranks.

Ranks are numbered with the first dimension of ``order`` fastest, so a dimension's stride is the product of the sizes inside it.
Attention and experts cut the same ranks in two ways, as Megatron-Core's two rank generators do (``parallel_state.py``): tp, cp,
dp, pp for what every token passes, and etp, ep, the experts' own dp and pp for the experts.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

from colltool.training.files.schema import ContextMode

Axes = tuple[tuple[int, int], ...]


class RankGroup(NamedTuple):
    """(size, stride) of each axis, innermost first; evenly spaced ranks have a single axis."""

    axes: Axes

    @property
    def ranks(self) -> int:
        return prod(size for size, _ in self.axes)

    @property
    def stride(self) -> int:
        """The distance of neighbours on the innermost axis."""
        return self.axes[0][1] if self.axes else 1

    @property
    def members(self) -> tuple[int, ...]:
        found = [0]
        for size, stride in self.axes:
            found = [first + step * stride for step in range(size) for first in found]
        return tuple(found)


class ParallelLayout(NamedTuple):
    tp: int = 1
    sp: bool = False
    cp: int = 1
    cp_mode: ContextMode = "ring"
    ep: int = 1
    etp: int = 1
    pp: int = 1
    virtual: int = 1
    dp: int = 1  # 0: not known yet
    order: tuple[str, ...] = ("tp", "cp", "ep", "dp", "pp")
    stages: tuple[int, ...] = ()  # layers of each
    deduplicate: bool = False  # a token goes once to a rank with several of its experts

    @property
    def ranks(self) -> int:
        return self.tp * self.cp * self.pp * self.dp

    @property
    def expert_dp(self) -> int:
        """Replicas of an expert: D t c / (e t_e)."""
        return self.ranks // (self.pp * self.ep * self.etp)

    @property
    def dense_sizes(self) -> dict[str, int]:
        return {"tp": self.tp, "cp": self.cp, "ep": 1, "dp": self.dp, "pp": self.pp}

    @property
    def expert_sizes(self) -> dict[str, int]:
        """tp is that of an expert, dp its replicas."""
        return {"tp": self.etp, "cp": 1, "ep": self.ep, "dp": self.expert_dp, "pp": self.pp}

    def group(self, *names: str, experts: bool = False) -> RankGroup:
        """Over one dimension or several: ``group("cp", "dp")`` sums gradients."""
        return _group(self, names, experts)


@lru_cache(maxsize=65536)
def _group(layout: ParallelLayout, names: tuple[str, ...], experts: bool) -> RankGroup:
    """Cached, as a search asks for the same groups again and again."""
    return group_over(layout.expert_sizes if experts else layout.dense_sizes, layout.order, names)


def strides(sizes: dict[str, int], order: tuple[str, ...]) -> dict[str, int]:
    found, stride = {}, 1
    for name in order:
        found[name] = stride
        stride *= sizes[name]
    return found


def group_over(sizes: dict[str, int], order: tuple[str, ...], names: tuple[str, ...]) -> RankGroup:
    """The ranks that differ in these dimensions alone; axes that continue each other are merged."""
    apart = strides(sizes, order)
    axes: list[tuple[int, int]] = []
    for name in order:
        if name not in names or sizes[name] == 1:
            continue
        if axes and axes[-1][0] * axes[-1][1] == apart[name]:
            axes[-1] = (axes[-1][0] * sizes[name], axes[-1][1])
        else:
            axes.append((sizes[name], apart[name]))
    return RankGroup(tuple(axes))


def cut(group: RankGroup, inner: int) -> tuple[RankGroup, RankGroup]:
    """Its first ``inner`` ranks, and the ranks of equal place in each such part; ValueError where parts do not tile the group."""
    inside: list[tuple[int, int]] = []
    across: list[tuple[int, int]] = []
    left = inner
    for size, stride in group.axes:
        taken = min(left, size)
        if size % taken or left % taken:
            raise ValueError(f"parts of {inner} do not tile {group.ranks} ranks")
        if taken > 1:
            inside.append((taken, stride))
        if size > taken:
            across.append((size // taken, stride * taken))
        left //= taken
    if left != 1:
        raise ValueError(f"parts of {inner} do not tile {group.ranks} ranks")
    return RankGroup(tuple(inside)), RankGroup(tuple(across))
