"""Each algorithm's messages, written from its definition, not its cost function; importing this fills the registry of makers."""

from colltool.schedules import gather_scatter, hyperx, lattice, rooted  # isort: skip

__all__ = ["gather_scatter", "hyperx", "lattice", "rooted"]
