"""Every maker of schedules; importing this fills their registry."""

from colltool.schedules import all_reduce, all_to_all, folded, full_mesh, gather_scatter, lattice_rings, rooted, servers, switch  # noqa: F401  # noqa: F401
from colltool.schedules.registry import effort, maker

__all__ = ["effort", "maker"]
