"""Every algorithm that colltool can price, a family a file: formula, source and messages.

Importing this fills the registry in the order in which tables list algorithms of equal rank.
"""

# isort: skip_file
from colltool.base.extras import register_synthesis
from colltool.algorithms import broadcast, all_reduce, all_gather, all_to_all, off_powers_of_two
from colltool.algorithms import lattice, lattice_trees

# Tables list the synthesized algorithms here, between the families.
register_synthesis()

from colltool.algorithms import multi_link, in_network, multi_rail, mixed_sizes, composed  # noqa: E402

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "composed",
    "in_network",
    "lattice",
    "lattice_trees",
    "mixed_sizes",
    "multi_link",
    "multi_rail",
    "off_powers_of_two",
]
