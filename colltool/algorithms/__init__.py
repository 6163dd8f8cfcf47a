"""Every algorithm that colltool can price; importing this fills the registry, in this order."""

from colltool.algorithms import rooted, all_reduce, gather_scatter, all_to_all, folded  # isort: skip
from colltool.algorithms import lattice, lattice_paths, full_mesh, in_network, flat, composed  # isort: skip

__all__ = [
    "all_reduce",
    "all_to_all",
    "composed",
    "flat",
    "folded",
    "full_mesh",
    "gather_scatter",
    "in_network",
    "lattice",
    "lattice_paths",
    "rooted",
]
