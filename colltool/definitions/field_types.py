"""Field types of definitions: quantities, counts, names and texts with their bounds and the words for them; SI once validated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_bit_energy, format_length, format_rate, format_time
from colltool.base.primitives import SHORT, Primitive, parse_primitive
from colltool.base.units import (
    MAX_SIZE,
    parse_energy,
    parse_energy_price,
    parse_length,
    parse_power,
    parse_rate,
    parse_size,
    parse_time,
)
from colltool.definitions.schema_hints import Accepted, Slip, Slips

# Bounds that catch a slipped unit rather than a bold design.
MIN_ALPHA_S, MAX_ALPHA_S = 1e-10, 1.0
MIN_BANDWIDTH_BPS, MAX_BANDWIDTH_BPS = 1e6, 1e15
MIN_CABLE_M, MAX_CABLE_M = 1e-2, 2e7  # a millimetre is a slip; twenty thousand kilometres are half way round the earth
MIN_ENERGY, MAX_ENERGY = 1e-15, 1e-8  # J/bit: a wire on a chip takes 0.1 pJ, a long way by light 1 nJ
MIN_SHARE = 1e-6  # what survives of a bandwidth: less is no link, and a price without end
MAX_RATIO = 1000  # of oversubscription, or of what queues do to a latency
MAX_POWER_W, MAX_PRICE = 1e6, 1e9  # of one part
MAX_RANKS = 10_000_000
MAX_DEPTH = 8
MAX_TEXTS = 1000  # notes in one list: fabric show wraps every one
MAX_LISTED = 200  # names in one list


def units_own(parse: Callable[[Any], Any], value: Any) -> Any:
    """Call a parser of ``units`` or ``primitives`` and raise its error as ``Slips``."""
    try:
        return parse(value)
    except ColltoolError as error:
        raise Slips(Slip(error.what, error.fix)) from error


def _with_unit(parse: Callable[[Any], float]) -> BeforeValidator:
    """A quantity that is ambiguous without its unit."""

    def read(value: Any) -> float:
        if not isinstance(value, str):
            raise ValueError("expected text with a unit")
        return float(units_own(parse, value))

    return BeforeValidator(read)


def _quantity(parse: Callable[[Any], float]) -> BeforeValidator:
    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError("expected text or a number")
        return float(units_own(parse, value))

    return BeforeValidator(read)


def _primitive(value: Any) -> Primitive:
    if not isinstance(value, str):
        raise ValueError("expected text")
    return Primitive(units_own(parse_primitive, value))


def _on_one_line(value: str) -> str:
    if not value.isprintable():
        raise ValueError("a control character in a name")
    return value


# What an editor checks while typing; the validators above have the last word.
_NUMBER = r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"


def _text_schema(units: str, description: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": rf"^\s*\+?{_NUMBER} ?{units}\s*$", "description": description})


_TIME_SCHEMA = _text_schema(r"(s|ms|us|\u00b5s|\u03bcs|ns)", "A time with its unit: 0.5us, 500ns, 2ms.")
_LENGTH_SCHEMA = _text_schema("(m|km|cm|ft)", "A length with its unit: 100m, 2km, 30ft.")
_ENERGY_SCHEMA = _text_schema("[fpn]J/bit", "The energy of a bit with its unit: 30pJ/bit, 1nJ/bit.")
_POWER_SCHEMA = _text_schema("[kM]?W", "A power with its unit: 1700W, 1.7kW.")
_ENERGY_PRICE_SCHEMA = _text_schema("/[kM]Wh", "What energy costs, in the currency of the prices: 0.10/kWh.")
_RATE_SCHEMA = WithJsonSchema(
    {
        "type": ["string", "number"],
        "pattern": rf"^\s*\+?{_NUMBER} ?(([kKMGTP]|[KMGTP]i)?[Bb](/s|ps))?\s*$",
        "minimum": MIN_BANDWIDTH_BPS,
        "maximum": MAX_BANDWIDTH_BPS,
        "description": "A rate with its unit, 900GB/s (bytes) or 400Gbps (bits); a plain number is bytes/s.",
    }
)
_SIZE_SCHEMA = WithJsonSchema(
    {
        "type": ["string", "number"],
        "pattern": rf"^\s*\+?{_NUMBER} ?(([kKMGTPE]|[KMGTPE]i)?B)?\s*$",
        "minimum": 1,
        "maximum": MAX_SIZE,
        "description": "Bytes per rank with their unit, 16MB or 16MiB; a plain number is bytes.",
    }
)


_RATE = Accepted(f"a rate from {format_rate(MIN_BANDWIDTH_BPS)} to {format_rate(MAX_BANDWIDTH_BPS)}, such as 900GB/s", "rate")

Alpha = Annotated[
    float,
    _with_unit(parse_time),
    Field(ge=MIN_ALPHA_S, le=MAX_ALPHA_S),
    _TIME_SCHEMA,
    Accepted(f"a time from {format_time(MIN_ALPHA_S)} to {format_time(MAX_ALPHA_S)}, such as 0.5us", "time"),
]
Overhead = Annotated[
    float,
    _with_unit(parse_time),
    Field(ge=0, le=MAX_ALPHA_S),
    _TIME_SCHEMA,
    Accepted(f"a time from 0 s to {format_time(MAX_ALPHA_S)}, such as 2us", "time"),
]
Bandwidth = Annotated[float, _quantity(parse_rate), Field(ge=MIN_BANDWIDTH_BPS, le=MAX_BANDWIDTH_BPS), _RATE_SCHEMA, _RATE]
Cable = Annotated[
    float,
    _with_unit(parse_length),
    Field(ge=MIN_CABLE_M, le=MAX_CABLE_M),
    _LENGTH_SCHEMA,
    Accepted(f"a length from {format_length(MIN_CABLE_M)} to {format_length(MAX_CABLE_M)}, such as 100m", "length"),
]
BitEnergy = Annotated[
    float,
    _with_unit(parse_energy),
    Field(ge=MIN_ENERGY, le=MAX_ENERGY),
    _ENERGY_SCHEMA,
    Accepted(f"an energy from {format_bit_energy(MIN_ENERGY)} to {format_bit_energy(MAX_ENERGY)}, such as 30pJ/bit", "energy"),
]
Watts = Annotated[
    float,
    _with_unit(parse_power),
    Field(ge=0, le=MAX_POWER_W),
    _POWER_SCHEMA,
    Accepted("a power up to 1 MW, such as 1700W", "power"),
]
EnergyPrice = Annotated[
    float,
    _with_unit(parse_energy_price),
    Field(ge=0, le=MAX_PRICE),
    _ENERGY_PRICE_SCHEMA,
    Accepted("a price of energy, such as 0.10/kWh", "energy price"),
]
Money = Annotated[float, Field(ge=0, le=MAX_PRICE, strict=True), Accepted("a price without its currency, such as 600")]
Currency = Annotated[
    str, Field(pattern=r"^[A-Z]{3}$"), Accepted("a currency by its three letters, such as USD, EUR or JPY", "text")
]
Size = Annotated[
    float,
    _quantity(parse_size),
    Field(ge=1, le=MAX_SIZE),
    _SIZE_SCHEMA,
    Accepted("a size from 1 B to 1 EB, such as 16MB", "size"),
]
Count = Annotated[int, Field(ge=1, le=MAX_RANKS, strict=True), Accepted(f"a whole number from 1 to {MAX_RANKS}")]
Flag = Annotated[bool, Field(strict=True), Accepted("true or false")]
Ratio = Annotated[float, Field(ge=1, le=MAX_RATIO, strict=True), Accepted(f"a number from 1 to {MAX_RATIO}, such as 1.2")]
Fraction = Annotated[float, Field(ge=MIN_SHARE, le=1, strict=True), Accepted(f"a number from {MIN_SHARE:f} to 1, such as 0.8")]
Name = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64),
    Accepted("a name of at most 64 letters, digits, '-' and '_', such as rack-1", "text"),
]
Label = Annotated[
    str,
    Field(max_length=100),
    AfterValidator(_on_one_line),
    Accepted("a name of at most 100 printable characters on one line", "text"),
]
Words = Annotated[str, Accepted("a text", "text")]
_Some = Field(max_length=MAX_TEXTS)
Text = Annotated[
    str | Annotated[list[Words], _Some] | Annotated[dict[str, Words], _Some] | None,
    Accepted(f"a text, a list of texts or a mapping of texts, at most {MAX_TEXTS}", "text"),
]
PrimitiveName = Annotated[
    Primitive,
    BeforeValidator(_primitive),
    WithJsonSchema({"enum": [*SHORT.values(), *(str(primitive) for primitive in SHORT)]}),
    Accepted("a primitive, such as all_reduce", "text"),
]
PrimitiveNames = Annotated[
    tuple[PrimitiveName, ...],
    Field(min_length=1, max_length=MAX_LISTED),
    Accepted("a list of primitives, such as [all_reduce, all_gather]"),
]
AlgorithmName = Annotated[str, Field(min_length=1, max_length=200), Accepted("an algorithm, such as ring", "text")]


class Part(BaseModel):
    """A mapping of the file: unknown keys are refused, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    notes: Text = None
    source: Text = None
