"""Every algorithm that colltool can price; importing this fills the registry, in this order."""

# isort: skip_file
from colltool.algorithms import rooted, all_reduce, gather_scatter, lattice, lattice_trees
from colltool.algorithms import hyperx, dragonfly, forest, tacos, mcf, wiring, uneven, composed

__all__ = [
    "all_reduce",
    "composed",
    "dragonfly",
    "forest",
    "gather_scatter",
    "hyperx",
    "lattice",
    "lattice_trees",
    "mcf",
    "rooted",
    "tacos",
    "uneven",
    "wiring",
]
