"""The keyword arguments that most public functions share, as types and in their signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

from colltool.estimate.assumptions import ModelOptions

if TYPE_CHECKING:
    from colltool.base.primitives import Pipelining
    from colltool.fabric.custom_machine import CustomMachine

AnyShape = str | Sequence[int]
Function = TypeVar("Function", bound=Callable[..., Any])


class Options(TypedDict, total=False):
    """Keyword arguments of most public functions: the group, the library, and model options.

    See :func:`colltool.price` for stride, alone, shape, library and machine,
    :class:`colltool.Readings` for the others.
    """

    stride: int
    alone: bool
    shape: AnyShape | None
    library: str | None
    machine: CustomMachine | None
    readings: ModelOptions | None
    ideal: bool
    pipelining: Pipelining
    phases: Literal["auto", "sequential", "pipelined"]
    placement: Literal["packed", "scattered"]
    ring_alpha: Literal["mean", "worst"]
    tree_beta: float
    ports: Literal["all", "one"]
    order: Literal["auto", "outer-first", "inner-first"]


class ExpertOptions(TypedDict, total=False):
    """Keyword arguments that describe a call of dispatch or combine."""

    tokens: int | None
    top_k: int | None
    hidden: int | None
    experts: int | None
    dtype: str | None
    sms: int | None
    groups: int | None
    skew: float | None


class PriceOptions(ExpertOptions, Options, total=False):
    """Keyword arguments of a price: those of experts, and those of most public functions."""


# defaults of the keys of PriceOptions; keys that are not here default to None
OPTION_DEFAULTS = {"stride": 1, "alone": False, **ModelOptions._field_defaults}


def with_options(function: Function) -> Function:
    """Replace ``**options`` in the function's signature, as ``inspect`` and ``help`` show it, with
    the keys of :class:`Options` or :class:`PriceOptions`."""
    from inspect import Parameter, signature

    declared = signature(function)
    # the last parameter is **options: Unpack[PriceOptions] or Unpack[Options]
    *parameters, collected = declared.parameters.values()
    keys: Any = PriceOptions if "PriceOptions" in str(collected.annotation) else Options
    for option, annotation in keys.__annotations__.items():
        # annotations are texts here (the future import above), kept as forward references
        parameter = Parameter(
            option,
            Parameter.KEYWORD_ONLY,
            default=OPTION_DEFAULTS.get(option),
            annotation=annotation.__forward_arg__,
        )
        parameters.append(parameter)
    function.__signature__ = declared.replace(parameters=parameters)  # type: ignore[attr-defined]
    return function
