"""Field types of definitions: quantities, counts, names and texts with their bounds and the words
for them; SI once validated.

    Alpha = Annotated[float, BeforeValidator(seconds), Field(ge=1e-10, le=1), FieldHint("a time from
    0.1 ns to 1 s", "time")]

First the errors that validators raise (:class:`FieldErrors`), then the bounds, then the types, last
:class:`Part`, the base of every model. A quantity is a ``float`` in SI units with how it is read, its
bounds, its JSON Schema (an editor's check) and the words of errors (``..._HINT``). A text is a ``Name``
(letters, digits), a ``Label`` (one printable line), ``Words`` (any), ``Statements`` (a list of these), or
``Text`` (any of the forms that notes have). What a model has at a key path of a file:
:mod:`colltool.definitions.places`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from colltool.base import formatting as fmt
from colltool.base.errors import ColltoolError, nearest_and_all, quote
from colltool.base.primitives import SHORT, Primitive, parse_primitive
from colltool.definitions.source import KeyPath

T = TypeVar("T")

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class FieldHint:
    """What a field accepts, for errors and overrides.

    Args:
        words: follow "expected" in errors: ``a time from 0.1 ns to 1 s, such as 0.5us``.
        kind: the quantity, to hint at a missing unit or at quotes.
        other_key: the key that other kinds of the same thing have in its place.
        short_for: the key that a single value is short for, where it may replace a mapping;
            overrides of both add up.
    """

    words: str
    kind: Literal[
        "", "time", "rate", "size", "length", "energy", "power", "energy price", "text"
    ] = ""
    other_key: str = ""
    short_for: str = ""


class FieldError(NamedTuple):
    """One mistake that a validator found: what is wrong, the fix, and where it is ``at``, as the key
    path from the validated part."""

    what: str
    fix: str = ""
    at: KeyPath = ()


class FieldErrors(ValueError):
    """Raised by a validator: all its mistakes, each at its own key."""

    def __init__(self, *errors: FieldError) -> None:
        self.errors = errors
        super().__init__("; ".join(error.what for error in errors))


def raise_errors(errors: Iterable[FieldError]) -> None:
    """Raise the errors together, if there are any."""
    found = tuple(errors)
    if found:
        raise FieldErrors(*found)


def model_check(find_errors: Callable[[Any], Iterable[FieldError]]) -> Any:
    """Make a validator of a model from a method that yields its errors: all of them are raised, each at its
    key. It runs once the fields are valid, and changes nothing."""

    def check(part: Model) -> Model:
        raise_errors(find_errors(part))
        return part

    return model_validator(mode="after")(check)


# Bounds: wide enough for any design, narrow enough to catch a wrong unit.
MIN_ALPHA_S, MAX_ALPHA_S = 1e-10, 1.0

MIN_BANDWIDTH_BPS, MAX_BANDWIDTH_BPS = 1e6, 1e15

# Metres: a millimetre is a mistake; twenty thousand kilometres are half way round the earth.
MIN_CABLE_M, MAX_CABLE_M = 1e-2, 2e7

# J/bit: a wire on a chip takes 0.1 pJ, a long optical link 1 nJ.
MIN_ENERGY, MAX_ENERGY = 1e-15, 1e-8

# Least share of a bandwidth: less is no link, and a time without limit.
MIN_SHARE = 1e-6

# Oversubscription, and the factor of queues on a latency.
MAX_RATIO = 1000

# Watts of one part; its price, or that of a kWh, in any currency.
MAX_POWER_W, MAX_PRICE = 1e6, 1e9

MAX_RANKS = 10_000_000

# Tiers of a fabric, levels of a tier, axes of a shape.
MAX_DEPTH = 8

# Notes in one list: fabric show wraps every one.
MAX_TEXTS = 1000

# Names in one list.
MAX_LISTED = 200


def parsed_quantity(parse: Callable[[Any], T], value: Any) -> T:
    """Return what a parser of ``formatting`` or ``primitives`` makes of a value; raises its ColltoolError as
    ``FieldErrors``."""
    try:
        return parse(value)
    except ColltoolError as error:
        raise FieldErrors(FieldError(error.what, error.fix)) from error


def listed_name(noun: str, names: Sequence[str], otherwise: str = "") -> AfterValidator:
    """Return a validator that refuses a name that is not listed, and names the nearest; ``noun``: what has
    the names; ``otherwise``: what else may be done, to end the fix."""

    def check(name: str) -> str:
        if name not in names:
            fix = nearest_and_all(name, names, "one of") + otherwise
            raise FieldErrors(FieldError(f"no {noun} is called {quote(name)}", fix))
        return name

    return AfterValidator(check)


def _quantity(parse: Callable[[Any], float], *, bare: bool = False) -> BeforeValidator:
    """A validator that reads text with a unit by ``parse``; with ``bare`` a number without one too, which is
    in SI units then."""

    def read(value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not isinstance(value, str) and not (bare and is_number):
            raise ValueError("expected text or a number" if bare else "expected text with a unit")
        return float(parsed_quantity(parse, value))

    return BeforeValidator(read)


# What an editor checks while typing; the validators have the last word.
_NUMBER = r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"


def _schema(units: str, description: str, least: float = 0, most: float = 0) -> WithJsonSchema:
    """The schema of text with one of the ``units`` (a regular expression). With a ``most`` above 0 a plain
    number from ``least`` to ``most`` is allowed too."""
    schema: dict[str, Any] = {"type": "string", "pattern": rf"^\s*\+?{_NUMBER} ?{units}\s*$"}
    if most:
        schema |= {"type": ["string", "number"], "minimum": least, "maximum": most}
    return WithJsonSchema({**schema, "description": description})


_TIME_SCHEMA = _schema(r"(s|ms|us|\u00b5s|\u03bcs|ns)", "A time with its unit: 0.5us, 500ns, 2ms.")

_LENGTH_SCHEMA = _schema("(m|km|cm|ft)", "A length with its unit: 100m, 2km, 30ft.")

_ENERGY_SCHEMA = _schema("[fpn]J/bit", "The energy of a bit with its unit: 30pJ/bit, 1nJ/bit.")

_POWER_SCHEMA = _schema("[kM]?W", "A power with its unit: 1700W, 1.7kW.")

_ENERGY_PRICE_SCHEMA = _schema(
    "/[kM]Wh", "What energy costs, in the currency of the prices: 0.10/kWh."
)

_RATE_SCHEMA = _schema(
    "(([kKMGTP]|[KMGTP]i)?[Bb](/s|ps))?",
    "A rate with its unit, 900GB/s (bytes) or 400Gbps (bits); a plain number is bytes/s.",
    MIN_BANDWIDTH_BPS,
    MAX_BANDWIDTH_BPS,
)

_SIZE_SCHEMA = _schema(
    "(([kKMGTPE]|[KMGTPE]i)?B)?",
    "Bytes per rank with their unit, 16MB or 16MiB; a plain number is bytes.",
    least=1,
    most=fmt.MAX_SIZE,
)

_ALPHA_HINT = FieldHint(
    f"a time from {fmt.format_time(MIN_ALPHA_S)} to {fmt.format_time(MAX_ALPHA_S)}, such as 0.5us",
    "time",
)

_OVERHEAD_HINT = FieldHint(
    f"a time from 0 s to {fmt.format_time(MAX_ALPHA_S)}, such as 2us", "time"
)

_RATE_HINT = FieldHint(
    f"a rate from {fmt.format_rate(MIN_BANDWIDTH_BPS)} to {fmt.format_rate(MAX_BANDWIDTH_BPS)},"
    " such as 900GB/s",
    "rate",
)

_CABLE_HINT = FieldHint(
    f"a length from {fmt.format_length(MIN_CABLE_M)} to {fmt.format_length(MAX_CABLE_M)}, such as"
    " 100m",
    "length",
)

_ENERGY_HINT = FieldHint(
    f"an energy from {fmt.format_bit_energy(MIN_ENERGY)} to {fmt.format_bit_energy(MAX_ENERGY)},"
    " such as 30pJ/bit",
    "energy",
)

_WATTS_HINT = FieldHint(f"a power up to {fmt.format_power(MAX_POWER_W)}, such as 1700W", "power")

_ENERGY_PRICE_HINT = FieldHint("a price of energy, such as 0.10/kWh", "energy price")

_CURRENCY_HINT = FieldHint("a currency by its three letters, such as USD, EUR or JPY", "text")

_SIZE_HINT = FieldHint(f"a size from 1 B to {fmt.format_bytes(fmt.MAX_SIZE)}, such as 16MB", "size")

Alpha = Annotated[
    float,
    _quantity(fmt.parse_time),
    Field(ge=MIN_ALPHA_S, le=MAX_ALPHA_S),
    _TIME_SCHEMA,
    _ALPHA_HINT,
]

Overhead = Annotated[
    float, _quantity(fmt.parse_time), Field(ge=0, le=MAX_ALPHA_S), _TIME_SCHEMA, _OVERHEAD_HINT
]

_RATE_BOUNDS = Field(ge=MIN_BANDWIDTH_BPS, le=MAX_BANDWIDTH_BPS)

Bandwidth = Annotated[
    float, _quantity(fmt.parse_rate, bare=True), _RATE_BOUNDS, _RATE_SCHEMA, _RATE_HINT
]

Cable = Annotated[
    float,
    _quantity(fmt.parse_length),
    Field(ge=MIN_CABLE_M, le=MAX_CABLE_M),
    _LENGTH_SCHEMA,
    _CABLE_HINT,
]

_ENERGY_BOUNDS = Field(ge=MIN_ENERGY, le=MAX_ENERGY)

BitEnergy = Annotated[
    float, _quantity(fmt.parse_energy), _ENERGY_BOUNDS, _ENERGY_SCHEMA, _ENERGY_HINT
]

Watts = Annotated[
    float, _quantity(fmt.parse_power), Field(ge=0, le=MAX_POWER_W), _POWER_SCHEMA, _WATTS_HINT
]

EnergyPrice = Annotated[
    float,
    _quantity(fmt.parse_energy_price),
    Field(ge=0, le=MAX_PRICE),
    _ENERGY_PRICE_SCHEMA,
    _ENERGY_PRICE_HINT,
]

Money = Annotated[
    float,
    Field(ge=0, le=MAX_PRICE, strict=True),
    FieldHint("a price without its currency, such as 600"),
]

Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$"), _CURRENCY_HINT]

Size = Annotated[
    float,
    _quantity(fmt.parse_size, bare=True),
    Field(ge=1, le=fmt.MAX_SIZE),
    _SIZE_SCHEMA,
    _SIZE_HINT,
]

Count = Annotated[
    int, Field(ge=1, le=MAX_RANKS, strict=True), FieldHint(f"a whole number from 1 to {MAX_RANKS}")
]

Flag = Annotated[bool, Field(strict=True), FieldHint("true or false")]

Ratio = Annotated[
    float,
    Field(ge=1, le=MAX_RATIO, strict=True),
    FieldHint(f"a number from 1 to {MAX_RATIO}, such as 1.2"),
]

Fraction = Annotated[
    float,
    Field(ge=MIN_SHARE, le=1, strict=True),
    FieldHint(f"a number from {MIN_SHARE:f} to 1, such as 0.8"),
]

_NAME_PATTERN = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64)

Name = Annotated[
    str,
    _NAME_PATTERN,
    FieldHint("a name of at most 64 letters, digits, '-' and '_', such as rack-1", "text"),
]


def _on_one_line(value: str) -> str:
    """Refuse control characters, line breaks among them."""
    if not value.isprintable():
        raise ValueError("a control character in a name")
    return value


_LINE_HINT = FieldHint("a name of at most 100 printable characters on one line", "text")

Label = Annotated[str, Field(max_length=100), AfterValidator(_on_one_line), _LINE_HINT]

Words = Annotated[str, FieldHint("a text", "text")]

_TEXTS_LIMIT = Field(max_length=MAX_TEXTS)

Statements = Annotated[
    tuple[Words, ...], _TEXTS_LIMIT, FieldHint(f"a list of at most {MAX_TEXTS} texts")
]

Text = Annotated[
    str | Annotated[list[Words], _TEXTS_LIMIT] | Annotated[dict[str, Words], _TEXTS_LIMIT] | None,
    FieldHint(f"a text, a list of texts or a mapping of texts, at most {MAX_TEXTS}", "text"),
]


def _primitive(value: Any) -> Primitive:
    """A primitive by any of its names."""
    if not isinstance(value, str):
        raise ValueError("expected text")
    return Primitive(parsed_quantity(parse_primitive, value))


PrimitiveName = Annotated[
    Primitive,
    BeforeValidator(_primitive),
    WithJsonSchema({"enum": [*SHORT.values(), *map(str, SHORT)]}),
    FieldHint("a primitive, such as all_reduce", "text"),
]

_LIST_LIMIT = Field(min_length=1, max_length=MAX_LISTED)

PrimitiveNames = Annotated[
    tuple[PrimitiveName, ...],
    _LIST_LIMIT,
    FieldHint("a list of primitives, such as [all_reduce, all_gather]"),
]

AlgorithmName = Annotated[
    str, Field(min_length=1, max_length=200), FieldHint("an algorithm, such as ring", "text")
]


class Part(BaseModel):
    """A mapping of the file: unknown keys are refused, values are frozen."""

    # Every mapping may have notes, and the sources of its values: texts for people, never priced.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    notes: Text = None
    source: Text = None
