"""The names under which documents and other libraries know the algorithms here."""

from __future__ import annotations

import re

# By names that are one: our spec, or several where the primitive decides: the first that computes it is
# meant.
_CALLED: dict[tuple[str, ...], tuple[str, ...]] = {
    ("inc", "nvls", "sharp", "nvlink-sharp", "in-network-reduction"): (
        "in-network",
        "hierarchical:in-network/in-network",
    ),
    ("collnet", "collnet-chain", "collnetchain"): ("hierarchical:ring/in-network", "in-network"),
    ("collnet-direct", "collnetdirect"): ("hierarchical:direct/in-network",),
    ("nvlstree", "nvls-tree"): ("hierarchical:in-network/double-binary-tree",),
    ("dbt", "double-tree", "double-binary"): ("double-binary-tree",),
    (
        "rhd",
        "butterfly",
        "halving-doubling",
        "recursive-halving-doubling",
        "recursive-halving-and-doubling",
    ): ("rabenseifner", "recursive-doubling", "recursive-halving"),
    ("rd", "doubling", "hypercube", "simple-recursive-doubling"): ("recursive-doubling",),
    ("halving",): ("recursive-halving",),
    ("ring", "pipeline", "pipelined-ring", "segmented-ring"): ("ring", "chain"),
    ("tree", "binary-tree"): ("tree", "binomial"),
    ("binomial-tree", "knomial"): ("binomial",),
    ("2d-ring", "3d-ring", "torus-ring", "2d-torus", "dimension-ring"): (
        "dim-ring",
        "hierarchical:ring/ring",
    ),
    ("ring-relay",): ("shortest-path",),
    ("dim-decomposed", "dimension-ordered"): ("dim-by-dim", "dim-ring"),
    ("oneshot", "1-shot", "1shot"): ("one-shot",),
    ("twoshot", "2-shot", "2shot", "allpairs", "all-pairs"): ("two-shot",),
    ("linear", "basic-linear", "direct-send", "scattered"): ("direct",),
    ("modified-bruck",): ("bruck",),
    ("ps", "byteps"): ("parameter-server",),
    ("van-de-geijn", "scatter-ring-allgather", "scatter-all-gather"): ("scatter-allgather",),
    ("pxn",): ("two-level", "cross-rail"),
    ("hierarchical-ring",): ("hierarchical:ring/ring",),
}
SPECS = {theirs: ours for names, ours in _CALLED.items() for theirs in names}
"""Our specs by each of those names, in its :func:`normal_form`."""

LIBRARY_NAMES = ("Ring", "Tree", "NVLS", "NVLSTree", "PAT", "CollNetChain", "CollNetDirect")
"""NCCL's names, which an error offers besides ours."""


def normal_form(name: str) -> str:
    """A name in small letters, with hyphens for spaces and underscores.

    >>> normal_form("Double_Binary Tree")
    'double-binary-tree'
    """
    return re.sub(r"[\s_-]+", "-", name.strip().lower())


def any_spec_called(name: str) -> str:
    """The spec that a name means first, of any primitive; empty where nothing is called so."""
    return next(iter(SPECS.get(normal_form(name), ())), "")


def names_for(spec: str) -> tuple[str, ...]:
    """The other names of an algorithm, as documents and libraries have them; none of one that is only
    the second meaning of a name.

    >>> names_for("double-binary-tree")
    ('dbt', 'double-tree', 'double-binary')
    """
    aliases: list[str] = []
    for names, specs in _CALLED.items():
        if specs[0] == spec:
            aliases += [name for name in names if name != spec]
    return tuple(aliases)
