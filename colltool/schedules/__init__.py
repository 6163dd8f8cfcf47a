"""Each algorithm's messages, written from its definition, not its cost function; importing this fills the registry of makers."""

from colltool.schedules import all_reduce, all_to_all, full_mesh, gather_scatter, lattice, rooted, switch  # isort: skip

__all__ = ["all_reduce", "all_to_all", "full_mesh", "gather_scatter", "lattice", "rooted", "switch"]
