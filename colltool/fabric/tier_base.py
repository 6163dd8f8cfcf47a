"""What every tier of a fabric file has (:class:`TierBase`), and what those with a ``size`` have
(:class:`SizedTier`). Topologies add their keys in ``tiers`` and ``routed_tiers``.

A tier is immutable: ``with_...`` and ``on_...`` methods return changed copies. What a tier knows
beyond its file is in private attributes: the ranks inside an endpoint (``model``), and the measured
numbers of a library (``library_numbers``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    PrivateAttr,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.definitions import field_types as ft
from colltool.definitions.field_types import (
    FieldError,
    FieldErrors,
    FieldHint,
    Part,
    model_check,
    raise_errors,
)
from colltool.fabric import tier_parts as parts
from colltool.fabric.media import MediumName
from colltool.fabric.tier_parts import Eta, InNetwork, Protocol
from colltool.libraries.numbers import ProtocolNumbers, TierLibrary

# What errors expect in place of a wrong value.
_PROTOCOL = FieldHint("a protocol: a mapping such as {name: LL, alpha: 0.6us, bandwidth: 40GB/s}")
_PROTOCOLS = FieldHint("a list of protocols, such as [{name: LL, alpha: 0.6us, bandwidth: 40GB/s}]")


class TierBase(Part):
    """A network that joins endpoints.

    ``bandwidth`` in bytes/s, one way; ``cable`` in metres, ``energy`` in J/bit, ``post`` (LogGP's o) in
    seconds; None adds nothing. ``ports``: of an endpoint, each with the bandwidth. ``max_size``: the most endpoints that
    the hardware joins. ``medium``: what the wires are, by which a library's numbers are found;
    default: by the name and the device. ``protocols`` and ``algorithms`` are of schema
    colltool.fabric/1.
    """

    name: ft.Name
    bandwidth: ft.Bandwidth
    eta: Annotated[Eta, Field(default_factory=lambda: Eta()), parts.ETA]
    ports: Annotated[
        int, Field(ge=1, le=1024, strict=True), FieldHint("a whole number from 1 to 1024")
    ] = 1
    max_size: ft.Count | None = None
    cable: ft.Cable | None = None
    energy: ft.BitEnergy | None = None
    post: ft.Overhead | None = None
    medium: MediumName | None = None
    protocols: (
        Annotated[
            tuple[Annotated[Protocol, _PROTOCOL], ...],
            Field(min_length=1, max_length=64),
            _PROTOCOLS,
        ]
        | None
    ) = None
    algorithms: Annotated[
        dict[
            ft.PrimitiveName,
            Annotated[
                tuple[ft.AlgorithmName, ...],
                Field(min_length=1, max_length=ft.MAX_LISTED),
                FieldHint("a list of algorithms, such as [ring, in-network]"),
            ],
        ]
        | None,
        FieldHint("a mapping such as {all_reduce: [ring, in-network]}"),
    ] = None

    _ranks_inside: int = PrivateAttr(default=1)
    _library: TierLibrary | None = PrivateAttr(default=None)

    @property
    @abstractmethod
    def endpoints(self) -> int:
        """How many endpoints it joins: ranks on the innermost tier, on others whole domains of the
        tier below."""

    @property
    def uneven(self) -> tuple[int, ...]:
        """Ranks in each endpoint, where they differ. Empty where all have :attr:`ranks_inside`."""
        return ()

    @property
    def ranks_inside(self) -> int:
        """Ranks in an endpoint, by the tiers below; in the largest where they differ."""
        return self._ranks_inside

    def with_ranks_inside(self, ranks: int) -> Self:
        """Return the tier with this many ranks in an endpoint."""
        if ranks == self._ranks_inside:
            return self
        tier = self.model_copy()
        tier._ranks_inside = ranks
        return tier

    @property
    def level_names(self) -> tuple[str, ...]:
        """Names of the levels, bottom up; empty without levels."""
        return ()

    @property
    def library(self) -> TierLibrary | None:
        """Measured numbers of the library on this tier (layer 3); None without any."""
        return self._library

    def with_library(self, numbers: TierLibrary | None) -> Self:
        """Return the tier with measured numbers of a library."""
        if numbers is self._library:
            return self
        tier = self.model_copy()
        tier._library = numbers
        return tier

    def protocols_for(self, primitive: Primitive) -> dict[str, ProtocolNumbers]:
        """Return the protocols that a primitive can run under here, by name, with what the library adds;
        empty if none is known."""
        if self._library is None:
            return {}
        return self._library.protocols_for(primitive)

    def runs(self, primitive: Primitive) -> tuple[str, ...]:
        """Return the algorithms that the library runs here; empty: no restriction."""
        if self._library is None:
            return ()
        return self._library.runs.get(primitive, ())

    @property
    def choices(self) -> TierLibrary | None:
        """The algorithms that the library runs here, without its numbers; None: no restriction."""
        if self._library is None or not self._library.runs:
            return None
        return TierLibrary(runs=self._library.runs)

    def stated_protocols(self, primitive: Primitive) -> list[str]:
        """Return the names of the protocols that the file itself lists for a primitive: those that
        name it, else those of all primitives."""
        naming_it = []
        of_all = []
        for protocol in self.protocols or ():
            if protocol.primitives is None:
                of_all.append(protocol.name)
            elif primitive in protocol.primitives:
                naming_it.append(protocol.name)
        return naming_it or of_all

    @field_validator("algorithms", mode="wrap")
    @classmethod
    def _algorithms_exist(cls, value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        """Refuse an algorithm that a primitive does not have, or that its list has twice."""
        keys = []
        if isinstance(value, dict):
            keys = [key for key in value if isinstance(key, str)]
        parts.check_named_once(keys)
        algorithms = validate(value)
        errors = []
        # Validation put the primitive in place of each key, in the same order and, as none is named
        # twice, one for one; errors name the key as the file has it.
        for key, (primitive, names) in zip(keys, (algorithms or {}).items(), strict=True):
            for index, name in enumerate(names):
                if name in names[:index]:
                    what = f"'{name}' is named twice"
                    errors.append(FieldError(what, "list it once", (key, index)))
                    continue
                try:
                    parts.check_algorithm(primitive, name)
                except ColltoolError as error:
                    errors.append(FieldError(error.what, error.fix, (key, index)))
        raise_errors(errors)
        return algorithms

    @model_check
    def _names_differ(self) -> Iterator[FieldError]:
        """Refuse two protocols of one name for the same primitive."""
        for index, protocol in enumerate(self.protocols or ()):
            repeated_for = self._name_repeated_for(index, protocol)
            if repeated_for:
                what = f"two protocols are called '{protocol.name}' for {repeated_for}"
                fix = "give each a name of its own, or primitives that differ"
                yield FieldError(what, fix, ("protocols", index))

    @model_check
    def _within_max_size(self) -> Iterator[FieldError]:
        """Refuse more endpoints than the hardware joins."""
        if self.max_size is not None and self.endpoints > self.max_size:
            what = f"joins {self.endpoints} endpoints, more than its max_size of {self.max_size}"
            fix = f"at most {self.max_size} endpoints, or a larger max_size"
            yield FieldError(what, fix, ("max_size",))

    def _name_repeated_for(self, index: int, protocol: Protocol) -> str:
        """The first primitive, in alphabetical order, for which a protocol before this ``index`` has the
        same name, or ``all primitives`` where neither names any. Empty if the name is new."""
        for earlier in (self.protocols or ())[:index]:
            if earlier.name != protocol.name:
                continue
            both = set(protocol.primitives or ()) & set(earlier.primitives or ())
            if both:
                return min(both)
            if protocol.primitives is earlier.primitives is None:
                return "all primitives"
        return ""

    @property
    def rail_only(self) -> bool:
        """Whether a rank reaches only ranks at the same place of other endpoints (rails that never
        meet)."""
        return False

    @property
    def switches(self) -> InNetwork | None:
        """What its switches compute (the key ``in_network``); None for nothing."""
        return None

    def on_datasheet(self) -> Self:
        """Return the tier with its file's numbers alone, without those of a library."""
        plain: dict[str, Any] = {"protocols": None, "algorithms": None}
        if self.switches:
            plain["in_network"] = self.switches.model_copy(update={"protocols": None})
        tier = self.model_copy(update=plain)
        tier._library = None
        return tier


_DOMAINS = FieldHint("a list of the ranks in each domain that it joins, such as [64, 72]")


class SizedTier(TierBase):
    """``domains``: ranks in each domain of the tier below, where these differ; their number is the
    ``size``."""

    size: Annotated[
        ft.Count, FieldHint(f"a whole number from 1 to {ft.MAX_RANKS}", other_key="shape")
    ]
    domains: Annotated[
        tuple[ft.Count, ...] | None, Field(min_length=1, max_length=ft.MAX_LISTED), _DOMAINS
    ] = None

    @field_validator("size", mode="before")
    @classmethod
    def _is_one_number(cls, value: Any) -> Any:
        """Refuse a list with a hint of ``domains``, before pydantic refuses it as no number."""
        if isinstance(value, list):
            fix = (
                "size is that of the largest domain; the tier that joins them lists each: domains:"
                " [64, 72]"
            )
            raise FieldErrors(FieldError("is one number, and this is a list", fix))
        return value

    @property
    def endpoints(self) -> int:
        return self.size

    @property
    def uneven(self) -> tuple[int, ...]:
        return self.domains or ()
