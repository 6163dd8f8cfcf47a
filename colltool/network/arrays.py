"""Array types, and numpy imported at its first use.

Formulas are in the same modules as the schedules that verify them. Only the schedules need arrays,
and a price should not wait for the import of numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["Floats", "Indices", "np"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    # 32 bits where there is an element for every message or rank, 64 elsewhere.
    Indices = NDArray[np.signedinteger[Any]]
else:

    class _LateNumpy:
        """numpy's attributes; each is looked up once and kept."""

        def __getattr__(self, name: str) -> Any:
            import numpy

            value = getattr(numpy, name)
            setattr(self, name, value)
            return value

    np = _LateNumpy()
    Floats = Indices = Any
