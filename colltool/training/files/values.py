"""The values of job files that fabrics do not have: durations, rates of arithmetic, sizes of memory, small counts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from colltool.base.units import parse_flops, parse_time
from colltool.definitions.field_types import MAX_RANKS, Flag, units_own
from colltool.definitions.schema_hints import Accepted

MAX_DURATION_S = 1e7  # of a step; a longer one is a slip of the unit
MIN_FLOPS, MAX_FLOPS = 1e9, 1e18
MAX_DIMENSION = 10_000_000

Precision = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4"]
BYTES: dict[str, float] = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "fp4": 0.5}
"""Bytes of an element."""


def _duration(value: Any) -> float:
    if not isinstance(value, str):
        raise ValueError("a time needs its unit")
    return float(units_own(parse_time, value))


def _flops(value: Any) -> float:
    if not isinstance(value, str):
        raise ValueError("a rate of arithmetic needs its unit")
    return float(units_own(parse_flops, value))


_NUMBER = r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
Duration = Annotated[
    float,
    BeforeValidator(_duration),
    Field(ge=0, le=MAX_DURATION_S),
    WithJsonSchema({"type": "string", "pattern": rf"^\s*\+?{_NUMBER} ?(s|ms|us|\u00b5s|\u03bcs|ns)\s*$"}),
    Accepted("a time of at most 10000000 s, such as 7ms or 14.8s", "time"),
]
FlopRate = Annotated[
    float,
    BeforeValidator(_flops),
    Field(ge=MIN_FLOPS, le=MAX_FLOPS),
    WithJsonSchema({"type": "string", "pattern": rf"^\s*\+?{_NUMBER} ?[kKMGTPE]?FLOP(/s|S)\s*$"}),
    Accepted("a rate of arithmetic from 1 GFLOP/s to 1 EFLOP/s, such as 989TFLOP/s"),
]
Dimension = Annotated[int, Field(ge=1, le=MAX_DIMENSION, strict=True), Accepted(f"a whole number from 1 to {MAX_DIMENSION}")]
Parallel = Annotated[int, Field(ge=1, le=MAX_RANKS, strict=True), Accepted("a whole number of ranks, such as 8")]
ParallelOrAuto = Annotated[
    Annotated[int, Field(ge=1, le=MAX_RANKS, strict=True)] | Literal["auto"],
    Accepted("a whole number of ranks, such as 8, or auto"),
]
Parameters = Annotated[float, Field(ge=1, le=1e15, strict=True), Accepted("a number of parameters, such as 70e9")]
Share = Annotated[float, Field(gt=0, le=1, strict=True), Accepted("a share above 0 and at most 1, such as 0.78")]
SmallShare = Annotated[float, Field(ge=1e-6, le=1, strict=True), Accepted("a share from 1e-6 to 1, such as 0.01")]
PercentOrShare = Annotated[
    float,
    BeforeValidator(lambda value: _share(value)),
    Field(ge=0, le=10),
    WithJsonSchema({"type": ["string", "number"]}),
    Accepted("a share such as 10% or 0.1"),
]
Factor = Annotated[float, Field(ge=0, le=1e6, strict=True), Accepted("a number of at least 0, such as 20")]
Imbalance = Annotated[
    float, Field(ge=1, le=1000, strict=True), Accepted("the busiest rank's load over the mean, from 1, such as 1.2")
]
MaybeFlag = Annotated[Flag | None, Accepted("true or false")]


def _share(value: Any) -> Any:
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            return float(value.strip().removesuffix("%")) / 100
        except ValueError as error:
            raise ValueError("expected a share") from error
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("expected a share")
    return value


def written(value: object) -> str:
    """A value as files and options write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
