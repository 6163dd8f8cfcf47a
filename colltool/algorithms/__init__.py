"""Every algorithm that colltool can price; importing this fills the registry, in this order."""

from colltool.algorithms import rooted, all_reduce, gather_scatter, lattice, lattice_trees  # noqa: F401, I001
from colltool.algorithms import hyperx, dragonfly, forest, tacos, mcf, wiring, uneven, composed  # noqa: F401
