"""The fabric as pydantic models: the YAML schema, its bounds and the units of every number.

Numbers are SI once validated: seconds, bytes/s. ``source`` and ``notes`` are text for people and never priced.
"""

from __future__ import annotations

from abc import abstractmethod
from math import prod
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, field_validator, model_validator

from colltool.errors import ColltoolError
from colltool.fabric.agreement import (
    check_common_protocols,
    check_levels,
    check_named_once,
    check_protocols,
    check_switch,
    known_algorithm,
)
from colltool.primitives import SHORT, Primitive, parse_primitive
from colltool.units import parse_rate, parse_size, parse_time

SCHEMA = "colltool.fabric/1"

# Bounds that catch a slipped unit rather than a bold design.
MIN_ALPHA_S, MAX_ALPHA_S = 1e-10, 1.0
MIN_BANDWIDTH_BPS, MAX_BANDWIDTH_BPS = 1e6, 1e15
MAX_RANKS = 10_000_000
MAX_DEPTH = 8


def _time(value: Any) -> float:
    if not isinstance(value, str):
        raise ValueError(f"expected a time with a unit, got {value!r}; write 0.5us, 500ns or 2ms")
    return float(_quoted(parse_time, value))


def _rate(value: Any) -> float:
    return float(_quoted(parse_rate, value))


def _primitive(value: Any) -> Primitive:
    if not isinstance(value, str):
        raise ValueError(f"expected a primitive, got {value!r}; one of {', '.join(SHORT.values())}")
    return Primitive(_quoted(parse_primitive, value))


def _quoted(parse: Any, value: Any) -> Any:
    try:
        return parse(value)
    except ColltoolError as error:
        raise ValueError(f"{error.what}; {error.fix}" if error.fix else error.what) from error


# What an editor checks while typing; the validators above have the last word.
_NUMBER = r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_TIME_SCHEMA = WithJsonSchema(
    {
        "type": "string",
        "pattern": rf"^\s*\+?{_NUMBER} ?(s|ms|us|\u00b5s|\u03bcs|ns)\s*$",
        "description": "A time with its unit: 0.5us, 500ns, 2ms.",
    }
)
_RATE_SCHEMA = WithJsonSchema(
    {
        "type": ["string", "number"],
        "pattern": rf"^\s*\+?{_NUMBER} ?(([kKMGTP]|[KMGTP]i)?[Bb](/s|ps))?\s*$",
        "minimum": MIN_BANDWIDTH_BPS,
        "maximum": MAX_BANDWIDTH_BPS,
        "description": "A rate with its unit, 900GB/s (bytes) or 400Gbps (bits); a plain number is bytes/s.",
    }
)

Alpha = Annotated[float, BeforeValidator(_time), Field(ge=MIN_ALPHA_S, le=MAX_ALPHA_S), _TIME_SCHEMA]
Overhead = Annotated[float, BeforeValidator(_time), Field(ge=0, le=MAX_ALPHA_S), _TIME_SCHEMA]
Bandwidth = Annotated[float, BeforeValidator(_rate), Field(ge=MIN_BANDWIDTH_BPS, le=MAX_BANDWIDTH_BPS), _RATE_SCHEMA]
Size = Annotated[
    float,
    BeforeValidator(lambda value: _quoted(parse_size, value)),
    WithJsonSchema({"type": ["string", "number"], "description": "A size with its unit: 16MB, 32MiB; a plain number is bytes."}),
]
Count = Annotated[int, Field(ge=1, le=MAX_RANKS, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Ratio = Annotated[float, Field(ge=1, le=1000, strict=True)]
Fraction = Annotated[float, Field(gt=0, le=1, strict=True)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64)]
Text = str | list[str] | dict[str, str] | None
PrimitiveName = Annotated[
    Primitive, BeforeValidator(_primitive), WithJsonSchema({"enum": [*SHORT.values(), *(str(primitive) for primitive in SHORT)]})
]
AlgorithmName = Annotated[str, Field(min_length=1, max_length=200)]


class Part(BaseModel):
    """A mapping of the file: unknown keys are refused, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    notes: Text = None
    source: Text = None


class Eta(Part):
    """Contention: ``alpha`` >= 1 inflates latency, ``beta`` in (0, 1] is the bandwidth that survives."""

    alpha: Ratio = 1.0
    beta: Fraction = 1.0


class InNetwork(Part):
    """What the switches of a tier compute: NVLS, SHARP, hardware all-to-all; under which of its protocols, where not all."""

    reduce: Flag = False
    multicast: Flag = False
    all_to_all: Flag = False
    alpha_switch: Alpha
    levels: Annotated[int, Field(ge=1, le=MAX_DEPTH, strict=True)] | None = None
    eta_beta: Fraction | None = None
    protocols: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None


class Level(Part):
    """One level of a Clos: ``group`` endpoints under one switch or pod, ``alpha`` of a pair that meets here."""

    name: Name
    group: Count
    alpha: Alpha
    oversubscription: Ratio = 1.0


class Measured(Part):
    """Bytes between which the numbers of a protocol were measured; a price beyond says that it is extrapolated."""

    smallest: Size
    largest: Size

    @model_validator(mode="after")
    def _ordered(self) -> Measured:
        if self.smallest > self.largest:
            raise ValueError("smallest is above largest")
        return self


class Protocol(Part):
    """One way in which a library moves bytes on a tier, such as NCCL's LL, LL128 and Simple.

    What it leaves out is the tier's own. ``local_copy`` is the rate at which a rank moves its own share of M, M/N bytes that
    cross no wire. ``primitives`` restricts it: a primitive that some entries name is priced with those alone.
    ``measured`` is never priced.
    """

    name: Name
    launch_overhead: Overhead | None = None
    alpha: Alpha | None = None
    bandwidth: Bandwidth | None = None
    eta: Eta | None = None
    local_copy: Bandwidth | None = None
    measured: Measured | None = None
    primitives: Annotated[tuple[PrimitiveName, ...], Field(min_length=1)] | None = None


class Sizing(Part):
    """Numbers for ``fabric show`` to size a rail-optimised Clos; never priced."""

    rails: Count
    nics_per_rail: Count
    radix: Count


class TierBase(Part):
    """What every tier has."""

    name: Name
    bandwidth: Bandwidth
    eta: Annotated[Eta, Field(default_factory=lambda: Eta())]
    ports: Annotated[int, Field(ge=1, le=1024, strict=True)] = 1
    max_size: Count | None = None
    protocols: Annotated[tuple[Protocol, ...], Field(min_length=1, max_length=64)] | None = None
    algorithms: dict[PrimitiveName, Annotated[tuple[AlgorithmName, ...], Field(min_length=1)]] | None = None

    @property
    @abstractmethod
    def endpoints(self) -> int:
        """Endpoints that the tier joins: ranks, or whole lower-tier domains."""

    def protocols_for(self, primitive: Primitive) -> dict[str, Protocol]:
        """The protocols under which a primitive runs here, by name; empty where the tier lists none for it."""
        listed = self.protocols or ()
        own = {one.name: one for one in listed if one.primitives and primitive in one.primitives}
        return own or {one.name: one for one in listed if one.primitives is None}

    @field_validator("algorithms", mode="before")
    @classmethod
    def _named_once(cls, listed: Any) -> Any:
        check_named_once([key for key in listed if isinstance(key, str)] if isinstance(listed, dict) else [])
        return listed

    @field_validator("algorithms")
    @classmethod
    def _algorithms_exist(cls, listed: Any) -> Any:
        for primitive, names in (listed or {}).items():
            for name in names:
                _quoted(lambda text, primitive=primitive: known_algorithm(primitive, text), name)
        return listed

    @model_validator(mode="after")
    def _protocols_agree(self) -> TierBase:
        check_protocols(self.protocols or ())
        return self

    @model_validator(mode="after")
    def _fits(self) -> TierBase:
        if self.max_size is not None and self.endpoints > self.max_size:
            raise ValueError(f"joins {self.endpoints} endpoints, more than its max_size of {self.max_size}")
        return self


class SizedTier(TierBase):
    """A tier that gives its endpoints by number."""

    size: Count

    @property
    def endpoints(self) -> int:
        """Endpoints that the tier joins."""
        return self.size


class StarTier(SizedTier):
    """A star: one switch, every endpoint one hop from every other."""

    topology: Literal["star"]
    alpha: Alpha
    in_network: InNetwork | None = None

    @model_validator(mode="after")
    def _switch_agrees(self) -> StarTier:
        check_switch(self.in_network, self.protocols or ())
        return self


class FullMeshTier(SizedTier):
    """A link between every pair; ``alpha`` and ``bandwidth`` are one link's."""

    topology: Literal["full_mesh"]
    alpha: Alpha


class LatticeTier(TierBase):
    """A torus or a k-D mesh; ``alpha`` and ``bandwidth`` are one link's, one direction."""

    topology: Literal["torus", "mesh"]
    shape: Annotated[tuple[Count, ...], Field(min_length=1, max_length=MAX_DEPTH)]
    alpha: Alpha

    @field_validator("shape")
    @classmethod
    def _small_enough(cls, shape: tuple[int, ...]) -> tuple[int, ...]:
        if prod(shape) > MAX_RANKS:
            raise ValueError(f"{prod(shape)} endpoints are more than {MAX_RANKS}")
        return shape

    @property
    def endpoints(self) -> int:
        """Endpoints that the tier joins: the product of its shape."""
        return prod(self.shape)


class ClosTier(SizedTier):
    """Levels of switches, bottom up; give ``alpha`` for a single level or ``levels`` for more."""

    topology: Literal["clos"]
    alpha: Alpha | None = None
    levels: Annotated[tuple[Level, ...], Field(min_length=1, max_length=MAX_DEPTH)] | None = None
    in_network: InNetwork | None = None
    sizing: Sizing | None = None

    @model_validator(mode="after")
    def _switch_agrees(self) -> ClosTier:
        check_switch(self.in_network, self.protocols or ())
        return self

    @model_validator(mode="after")
    def _levels_nest(self) -> ClosTier:
        if (self.alpha is None) == (self.levels is None):
            raise ValueError(
                "has both alpha and levels: give each level its own alpha" if self.levels else "needs alpha, or levels"
            )
        if self.levels is not None:
            check_levels(self.levels, self.size)
        return self


Tier = Annotated[StarTier | FullMeshTier | LatticeTier | ClosTier, Field(discriminator="topology")]


class Fabric(Part):
    """A fabric file: its tiers, innermost first."""

    schema_: Annotated[Literal["colltool.fabric/1"], Field(alias="schema")] = "colltool.fabric/1"
    name: Name
    description: str = ""
    tiers: Annotated[tuple[Tier, ...], Field(min_length=1, max_length=MAX_DEPTH)]
    launch_overhead: Overhead = 0.0

    @property
    def ranks(self) -> int:
        """Ranks of the whole fabric: the product of its tiers."""
        return prod(tier.endpoints for tier in self.tiers)

    @model_validator(mode="after")
    def _tiers_agree(self) -> Fabric:
        names = [tier.name for tier in self.tiers]
        if len(set(names)) < len(names):
            raise ValueError(f"two tiers have the same name: {', '.join(names)}")
        if self.ranks > MAX_RANKS:
            raise ValueError(f"{self.ranks} ranks are more than {MAX_RANKS}")
        check_common_protocols(self)
        return self
