"""numpy at its first use.

Formulas share their files with the messages that are held against them: those need arrays, and a
price loads no numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["Floats", "Indices", "np"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    # 32 bits where there is one for every message or rank, 64 elsewhere
    Indices = NDArray[np.signedinteger[Any]]
else:

    class _LateNumpy:
        """Attributes of numpy, which is imported for the first of them."""

        def __getattr__(self, name: str) -> Any:
            import numpy

            value = getattr(numpy, name)
            setattr(self, name, value)
            return value

    np = _LateNumpy()
    Floats = Indices = Any
