"""colltool: capacity planning for collective communication.

``colltool.price(fabric, "all_reduce", ranks=144, size="16MB")`` and one function per command.
"""

TYPE_CHECKING = False  # what typing calls so; importing it would cost more than all of this file

__version__ = "0.19.0"
_HOMES = {
    "api.prices": ("breakdown", "crossover", "diff", "explain", "ladder", "price", "price_list"),
    "api.comparisons": ("compare", "compare_sensitivity", "sensitivity", "sweep"),
    "api.jobs": ("compare_plans", "load_job", "plan", "plan_sensitivity", "search_layouts"),
    "api.kernels": ("diff_libraries", "list_libraries", "show_library"),
    "api.measurements": ("calibrate", "doctor", "plan_traces", "trace", "validate"),
    "api.networks": ("contention", "draw_fabric", "size_fabric", "verify"),
    "api.report": ("report",),
    "api.serving": ("reshard", "serve"),
    "api.values": ("list_fabrics", "readings"),
    "base.errors": ("ColltoolError",),
    "estimate.assumptions": ("Readings",),
    "fabric.load": ("load_fabric",),
}
__all__ = [
    "ColltoolError",
    "Readings",
    "__version__",
    "breakdown",
    "calibrate",
    "compare",
    "compare_plans",
    "compare_sensitivity",
    "contention",
    "crossover",
    "diff",
    "diff_libraries",
    "doctor",
    "draw_fabric",
    "explain",
    "ladder",
    "list_fabrics",
    "list_libraries",
    "load_fabric",
    "load_job",
    "plan",
    "plan_sensitivity",
    "plan_traces",
    "price",
    "price_list",
    "readings",
    "report",
    "reshard",
    "search_layouts",
    "sensitivity",
    "serve",
    "show_library",
    "size_fabric",
    "sweep",
    "trace",
    "validate",
    "verify",
]

if TYPE_CHECKING:
    from typing import Any

    from colltool.api.comparisons import compare, compare_sensitivity, sensitivity, sweep
    from colltool.api.jobs import compare_plans, load_job, plan, plan_sensitivity, search_layouts
    from colltool.api.kernels import diff_libraries, list_libraries, show_library
    from colltool.api.measurements import calibrate, doctor, plan_traces, trace, validate
    from colltool.api.networks import contention, draw_fabric, size_fabric, verify
    from colltool.api.prices import breakdown, crossover, diff, explain, ladder, price, price_list
    from colltool.api.report import report
    from colltool.api.serving import reshard, serve
    from colltool.api.values import list_fabrics, readings
    from colltool.base.errors import ColltoolError
    from colltool.estimate.assumptions import Readings
    from colltool.fabric.load import load_fabric


def __dir__() -> list[str]:
    return sorted(__all__)


def renderers() -> "Any":
    """Open the renderers for the methods of a result, which know nothing above them."""
    from importlib import import_module

    return import_module("colltool.render.dispatch")


def __getattr__(name: str) -> "Any":
    """Load a public function on first use: ``import colltool`` alone costs nothing."""
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            globals()[name] = found = getattr(import_module(f"colltool.{home}"), name)
            return found
    raise AttributeError(f"module 'colltool' has no attribute '{name}'")
