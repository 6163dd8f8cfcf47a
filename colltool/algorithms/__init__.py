"""Every algorithm that colltool can price; importing this fills the registry, in this order."""

from colltool.algorithms import rooted, all_reduce, gather_scatter, lattice, lattice_trees, hyperx, forest, wiring, composed  # noqa: F401, I001
