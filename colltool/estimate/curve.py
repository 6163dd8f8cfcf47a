"""A price as a curve over the message size: what crossovers are solved on."""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple


class Curve(NamedTuple):
    """``t(M) = a + b·M + c·sqrt(M)``, seconds and bytes; exact but for the rounding of P to a whole number.

    On a fabric whose values are arrays a, b and c are arrays too.
    """

    a: float
    b: float
    c: float = 0.0

    def at(self, size: Any) -> Any:
        """Seconds at one size, or at many."""
        return self.a + self.b * size + self.c * size**0.5

    def plus(self, other: Curve) -> Curve:
        """Both one after the other."""
        return Curve(self.a + other.a, self.b + other.b, self.c + other.c)

    @property
    def balance(self) -> float | None:
        """n*, bytes: the size whose bytes take as long as all that no size changes, launch included; None with a root in it.

        Without a launch overhead n_α·α·BW/n_β; of a message between two ranks α·BW.

        >>> round(Curve(18 * 0.5e-6, 2 / 900e9).balance)
        4050000
        """
        return self.a / self.b if self.c == 0 and self.b > 0 else None

    def slope(self, size: float) -> float:
        """Seconds that a byte more takes at a size."""
        return self.b + self.c / (2 * sqrt(size))


Pieces = tuple[tuple[float, Curve], ...]
"""A curve that is another from some sizes on: (first byte, curve), ascending; the first starts at 0."""
