"""The public functions: one per command, taking text with units or numbers, returning the records that the CLI renders.

Each imports its part of the house when it is called, so that a price does not wait for a ladder to load.
"""

import colltool.algorithms as _filled  # the registry fills on import
from colltool.api.arguments import readings
from colltool.api.comparisons import compare, compare_sensitivity, sensitivity, sweep
from colltool.api.fabrics import draw_fabric, size_fabric
from colltool.api.jobs import compare_plans, load_job, plan, plan_sensitivity, search_layouts
from colltool.api.measurements import calibrate, doctor, trace, validate
from colltool.api.networks import contention
from colltool.api.prices import breakdown, crossover, diff, explain, ladder, price, price_list, verify
from colltool.api.reports import report
from colltool.base.errors import ColltoolError
from colltool.estimate.assumptions import Readings
from colltool.fabric.load import load_fabric
from colltool.fabric.load import shipped_fabrics as list_fabrics

assert _filled
__all__ = [
    "ColltoolError", "Readings", "breakdown", "calibrate", "compare", "compare_plans", "compare_sensitivity",
    "contention", "crossover", "diff",
    "doctor", "draw_fabric", "explain", "ladder", "list_fabrics", "load_fabric", "load_job", "plan", "plan_sensitivity",
    "price", "price_list", "readings", "report", "search_layouts", "sensitivity", "size_fabric", "sweep", "trace",
    "validate", "verify",
]  # fmt: skip
