"""Schedules: each algorithm's messages, written from its definition and independent of its cost function; and their execution.

Importing this package fills the registry of makers.
"""

from colltool.schedules import all_reduce, all_to_all, full_mesh, gather_scatter, lattice, rooted, switch  # isort: skip

__all__ = ["all_reduce", "all_to_all", "full_mesh", "gather_scatter", "lattice", "rooted", "switch"]
