"""Each algorithm's messages, written from its definition, not its cost function; importing this
fills the registry of makers, in this order."""

# isort: skip_file
from colltool.schedules import forest, gateways, gather_scatter, hyperx, lattice, lattice_trees
from colltool.schedules import rooted, tacos, uneven

__all__ = [
    "forest",
    "gateways",
    "gather_scatter",
    "hyperx",
    "lattice",
    "lattice_trees",
    "rooted",
    "tacos",
    "uneven",
]
