"""Each algorithm's messages, written from its definition, not its cost function; importing this fills the registry of makers."""

from colltool.schedules import forest, gateways, gather_scatter, hyperx, lattice, lattice_trees, rooted, tacos, uneven  # isort: skip

__all__ = ["forest", "gateways", "gather_scatter", "hyperx", "lattice", "lattice_trees", "rooted", "tacos", "uneven"]
