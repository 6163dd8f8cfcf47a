"""The dimensions of a parallel job as groups of ranks: in an order, innermost first, each is a stride.

Source: the rank order of Megatron-LM (core/parallel_state.py, ``order="tp-cp-ep-dp-pp"``): a dimension's neighbours are as many
ranks apart as the sizes inside it multiply to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from colltool.base.errors import ColltoolError, nearest
from colltool.base.units import parse_count
from colltool.estimate.who import Who

ORDER = ("tp", "cp", "ep", "dp", "pp")
"""Tensor, context, expert, data and pipeline parallel, innermost first, where a job does not say."""


def groups_of(sizes: Mapping[str, int], order: Sequence[str] = ORDER) -> dict[str, Who]:
    """The group of each dimension, one of many that run at the same time.

    Args:
        sizes: ranks of a group of each dimension; 1 where one is left out.
        order: every dimension once, innermost first.

    Returns:
        By dimension, in the order; of a dimension of size 1 a group of one rank, which has nothing to send.

    Raises:
        ColltoolError: a size below 1, a dimension that the order does not have, or has twice.

    >>> [(name, group.ranks, group.stride) for name, group in groups_of({"tp": 8, "dp": 64, "pp": 4}).items() if group.ranks > 1]
    [('tp', 8, 1), ('dp', 64, 8), ('pp', 4, 512)]
    """
    _check(sizes, order)
    groups, stride = {}, 1
    for name in order:
        ranks = parse_count(sizes.get(name, 1), name, least=1)
        groups[name] = Who(ranks, stride, in_order=True)
        stride *= ranks
    return groups


def group_over(sizes: Mapping[str, int], names: Sequence[str], order: Sequence[str] = ORDER) -> Who:
    """The group that spans several dimensions at once, such as the gradients of data and context parallel ranks.

    Args:
        sizes, order: as for :func:`groups_of`.
        names: of the dimensions, at least one, in any order; those of size 1 may lie between them.

    Raises:
        ColltoolError: as for :func:`groups_of`, or a dimension in between that is not in the group: it has no one stride then.

    >>> group_over({"tp": 8, "cp": 2, "dp": 4}, ["dp", "cp"])[:2]
    (8, 8)
    """
    groups, inner_first = groups_of(sizes, order), list(order)
    _check(dict.fromkeys(names, 1), order)
    several = [name for name in inner_first if (groups[name].ranks or 1) > 1]
    mine = [name for name in several if name in names]
    if not mine:
        return groups[min(names, key=inner_first.index)]._replace(ranks=1)
    run = several[several.index(mine[0]) : several.index(mine[-1]) + 1]
    if between := [name for name in run if name not in mine]:
        what = f"{' and '.join(mine)} are no one stride: {' and '.join(between)} lies between them"
        raise ColltoolError(what, argument="order", fix=f"put {' and '.join(mine)} next to each other in the order")
    return groups[mine[0]]._replace(ranks=prod(groups[name].ranks or 1 for name in mine))


def _check(sizes: Mapping[str, int], order: Sequence[str]) -> None:
    """Every dimension stands in the order, once."""
    twice = [name for index, name in enumerate(order) if name in order[:index]]
    if twice:
        raise ColltoolError(f"'{twice[0]}' is in the order twice", argument="order", fix="name each dimension once")
    for name in sizes:
        if name not in order:
            fix = f"{nearest(name, list(order))} the order has {', '.join(order)}".strip()
            raise ColltoolError(f"no dimension '{name}' in the order", argument="order", fix=fix)
