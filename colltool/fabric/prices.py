"""The key ``prices`` of a fabric: what its parts cost and draw. No time depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from colltool.base.errors import nearest
from colltool.definitions.field_types import MAX_LISTED, Currency, EnergyPrice, Money, Name, Part, Watts
from colltool.definitions.schema_hints import Accepted, Slip
from colltool.fabric.validators import refuse

_EACH = Accepted("a price such as 600, or with its power such as {price: 600, draws: 12W}", plain="price")
_NAMES = Field(min_length=1, max_length=MAX_LISTED)

PARTS = ("switch", "cable", "optic", "nic")


class PartPrice(Part):
    """What one part costs and the power it draws; not given is unknown, not zero."""

    price: Money | None = None
    draws: Watts | None = None


class Prices(Part):
    """What the parts of a network cost; no prices ship with colltool.

    ``switch``, ``cable``, ``optic`` and ``nic`` are each. A cable has an optic at both ends, but for those that enter the levels
    (or tiers) of ``copper``. ``tiers`` are those that are bought by the piece; without it all but the innermost, which is inside
    a node or rack. ``power`` is what energy costs, ``years`` how long it runs.
    """

    currency: Currency
    switch: Annotated[Money | PartPrice | None, _EACH] = None
    cable: Annotated[Money | PartPrice | None, _EACH] = None
    optic: Annotated[Money | PartPrice | None, _EACH] = None
    nic: Annotated[Money | PartPrice | None, _EACH] = None
    power: EnergyPrice | None = None
    years: Annotated[float, Field(gt=0, le=100, strict=True), Accepted("a number of years, such as 4")] | None = None
    copper: Annotated[tuple[Name, ...], _NAMES, Accepted("a list of levels or tiers, such as [leaf]")] | None = None
    tiers: Annotated[tuple[Name, ...], _NAMES, Accepted("a list of tiers, such as [ib]")] | None = None

    def of(self, part: str) -> PartPrice | None:
        given = {"switch": self.switch, "cable": self.cable, "optic": self.optic, "nic": self.nic}[part]
        return PartPrice(price=given) if isinstance(given, float) else given

    def check_names(self, tiers: Sequence[str], levels: Sequence[str]) -> None:
        """``tiers`` and ``copper`` must name what the fabric has."""
        known = {"tiers": (self.tiers, tiers), "copper": (self.copper, [*tiers, *levels])}
        slips = []
        for key, (given, names) in known.items():
            for index, name in enumerate(given or ()):
                if name not in names:
                    fix = f"{nearest(name, list(names))} known: {', '.join(names)}".strip()
                    slips.append(Slip(f"there is no '{name}'", fix, ("prices", key, index)))
        refuse(slips)
