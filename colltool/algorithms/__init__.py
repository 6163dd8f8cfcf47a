"""Every algorithm that colltool can price, a family a file: formula, source and messages.

Importing this fills the registry in the order in which tables list algorithms of equal rank.
"""

# isort: skip_file
from colltool.base.extras import register_synthesis
from colltool.algorithms import rooted, all_reduce, gather_scatter, lattice, lattice_trees

# Tables list the synthesized algorithms here, between the families.
register_synthesis()

from colltool.algorithms import multi_link, in_network, multi_rail, uneven, composed  # noqa: E402

__all__ = [
    "all_reduce",
    "composed",
    "gather_scatter",
    "in_network",
    "lattice",
    "lattice_trees",
    "multi_link",
    "multi_rail",
    "rooted",
    "uneven",
]
