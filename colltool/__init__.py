"""colltool: capacity planning for collective communication.

``colltool.price(fabric, "all_reduce", ranks=144, size="16MB")`` and one function per command.
"""

# as typing has it, whose import would cost more than all of this file; checkers know the name
TYPE_CHECKING = False

__version__ = "0.26.1"
# The modules of public names, each loaded when one of its names is first used. The same names are in
# __all__, and below for checkers of types.
_HOMES = {
    "commands.breakdown": ("breakdown",),
    "commands.calibrate": ("calibrate",),
    "commands.compare": ("compare",),
    "commands.contention": ("contention",),
    "commands.crossover": ("crossover",),
    "commands.diff": ("diff", "diff_libraries"),
    "commands.doctor": ("doctor",),
    "commands.expect": ("expect",),
    "commands.explain": ("explain",),
    "commands.fabric": ("draw_fabric", "list_fabrics", "size_fabric"),
    "commands.job": ("load_job",),
    "commands.ladder": ("ladder",),
    "commands.library": ("list_libraries", "show_library"),
    "commands.plan": ("compare_plans", "plan", "plan_sensitivity", "plan_traces", "search_layouts"),
    "commands.price": ("price", "price_list"),
    "commands.reading": ("readings",),
    "commands.report": ("report",),
    "commands.reshard": ("reshard",),
    "commands.score": ("score",),
    "commands.sensitivity": ("compare_sensitivity", "sensitivity"),
    "commands.serve": ("serve",),
    "commands.sweep": ("sweep",),
    "commands.trace": ("trace",),
    "commands.validate": ("validate",),
    "commands.verify": ("verify",),
    "base.errors": ("ColltoolError",),
    "estimate.assumptions": ("ModelOptions", "Readings"),
    "fabric.load": ("load_fabric",),
}
__all__ = [
    "ColltoolError",
    "ModelOptions",
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
    "expect",
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
    "score",
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

    from colltool.base.errors import ColltoolError
    from colltool.commands.breakdown import breakdown
    from colltool.commands.calibrate import calibrate
    from colltool.commands.compare import compare
    from colltool.commands.contention import contention
    from colltool.commands.crossover import crossover
    from colltool.commands.diff import diff, diff_libraries
    from colltool.commands.doctor import doctor
    from colltool.commands.expect import expect
    from colltool.commands.explain import explain
    from colltool.commands.fabric import draw_fabric, list_fabrics, size_fabric
    from colltool.commands.job import load_job
    from colltool.commands.ladder import ladder
    from colltool.commands.library import list_libraries, show_library
    from colltool.commands.plan import (
        compare_plans,
        plan,
        plan_sensitivity,
        plan_traces,
        search_layouts,
    )
    from colltool.commands.price import price, price_list
    from colltool.commands.reading import readings
    from colltool.commands.report import report
    from colltool.commands.reshard import reshard
    from colltool.commands.score import score
    from colltool.commands.sensitivity import compare_sensitivity, sensitivity
    from colltool.commands.serve import serve
    from colltool.commands.sweep import sweep
    from colltool.commands.trace import trace
    from colltool.commands.validate import validate
    from colltool.commands.verify import verify
    from colltool.estimate.assumptions import ModelOptions, Readings
    from colltool.fabric.load import load_fabric


def __dir__() -> list[str]:
    """The public names, also those that are not loaded yet."""
    return sorted(__all__)


def renderers() -> "Any":
    """The module that renders results, for their methods: these are in ``colltool.base``, which
    imports nothing above it."""
    from importlib import import_module

    return import_module("colltool.render.dispatch")


def __getattr__(name: str) -> "Any":
    """Load a public name on first use: ``import colltool`` alone costs nothing."""
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            public = getattr(import_module(f"colltool.{home}"), name)
            # the next use finds it without this function
            globals()[name] = public
            return public
    raise AttributeError(f"module 'colltool' has no attribute '{name}'")
