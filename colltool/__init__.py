"""colltool: capacity planning for collective communication.

``colltool.price(fabric, "all_reduce", ranks=144, size="16MB")`` and one function per command; see :mod:`colltool.api`.
"""

TYPE_CHECKING = False  # what typing calls so; importing it would cost more than all of this file

__version__ = "0.8.0"
__all__ = [
    "ColltoolError", "Readings", "__version__", "breakdown", "calibrate", "compare", "compare_plans", "compare_sensitivity",
    "contention",
    "crossover", "diff", "doctor", "draw_fabric", "explain", "ladder", "list_fabrics", "load_fabric", "load_job", "plan",
    "plan_sensitivity", "price", "price_list", "readings", "report", "search_layouts", "sensitivity", "size_fabric", "sweep",
    "trace", "validate", "verify",
]  # fmt: skip

if TYPE_CHECKING:
    from typing import Any

    from colltool.api import (
        ColltoolError,
        Readings,
        breakdown,
        calibrate,
        compare,
        compare_plans,
        compare_sensitivity,
        crossover,
        diff,
        doctor,
        draw_fabric,
        explain,
        ladder,
        list_fabrics,
        load_fabric,
        load_job,
        plan,
        plan_sensitivity,
        price,
        price_list,
        readings,
        report,
        search_layouts,
        sensitivity,
        size_fabric,
        sweep,
        trace,
        validate,
        verify,
    )
    from colltool.api import networks as contention


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> "Any":
    """Load the public functions on first use: ``import colltool`` alone costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'colltool' has no attribute '{name}'")
    import colltool.api

    return getattr(colltool.api, name)
