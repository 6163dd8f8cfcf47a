"""Schedules that are found for a network: trees packed over all links, traffic split over many ways,
matched steps, and orders of ranks and axes.

Importing this registers them, in this order.
"""

# isort: skip_file
from colltool.extras.synthesis import hyperx, gateways, forest, tacos, mcf

__all__ = ["forest", "gateways", "hyperx", "mcf", "tacos"]
