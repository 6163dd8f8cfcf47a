"""Requests that measured kernels answer: dispatch and combine of experts, and the collectives of a
library with kernels of its own.

:func:`split_request` decides whether kernels or algorithms answer a call of ``price`` or
``crossover``; a :class:`KernelRequest` gives the answer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.commands.arguments import LIBRARIES

if TYPE_CHECKING:
    from colltool.commands.reading import AnyFabric, AnyPath
    from colltool.engines.files import LibraryFile, Mode, ReducedType
    from colltool.engines.results import KernelCrossover, KernelPriceList
    from colltool.engines.tokens import Tokens
    from colltool.estimate.placement import GroupSpec
    from colltool.fabric.model import Fabric

# The operations of experts with the format that each sends by default, as DeepEP does; prepare sends
# counts, whatever the format is.
DTYPES = {"prepare": "bf16", "dispatch": "fp8", "combine": "bf16"}
# arguments that a call of experts needs, with the numbers of an example for error texts
REQUIRED_COUNTS = {"tokens": 128, "top_k": 8, "hidden": 7168, "experts": 256}


class ExpertCall(NamedTuple):
    """The arguments of dispatch and combine as they were given, unchecked: those of
    :class:`colltool.commands.public_options.ExpertOptions`."""

    tokens: int | None = None
    top_k: int | None = None
    hidden: int | None = None
    experts: int | None = None
    dtype: str | None = None
    sms: int | None = None
    groups: int | None = None
    skew: float | None = None

    def read(self, operation: str) -> Tokens:
        """The checked call of an operation, a key of :data:`DTYPES`.

        Raises:
            ColltoolError: an argument is missing, or has a value that it cannot have.
        """
        from colltool.commands.reading import count_of, number_of, text_of
        from colltool.engines.tokens import Tokens

        missing = [argument for argument in REQUIRED_COUNTS if getattr(self, argument) is None]
        if missing:
            raise ColltoolError(
                f"{operation} needs {', '.join(missing)}",
                argument=missing[0],
                fix=f"add {' '.join(argument_text(name, REQUIRED_COUNTS[name]) for name in missing)}",
            )
        counts = {name: count_of(getattr(self, name), name) for name in REQUIRED_COUNTS}
        dtype = DTYPES[operation]
        if self.dtype is not None:
            dtype = text_of(self.dtype, "dtype", "fp8").lower()
        skew = 1.0 if self.skew is None else number_of(self.skew, "skew")
        if skew < 1:
            raise ColltoolError(
                f"the hottest rank has at least the mean, got {skew:g}",
                argument="skew",
                fix="1 or more",
            )
        # 0: no limit of nodes, and the library's own number of SMs
        groups = 0 if self.groups is None else count_of(self.groups, "groups")
        sms = 0 if self.sms is None else count_of(self.sms, "sms")
        return Tokens(**counts, dtype=dtype, groups=groups, skew=skew, sms=sms)


class KernelRequest(NamedTuple):
    """A request that kernels answer.

    Args:
        operation: the name of a primitive, ``dispatch``, ``combine`` or ``prepare``.
        library: whose kernels; None for every library that was measured on the fabric.
        call: the arguments of dispatch and combine.
        mode: how a call is launched; None: in a CUDA graph.
    """

    operation: str
    library: LibraryFile | None
    fabric: Fabric
    group: GroupSpec
    call: ExpertCall
    mode: Mode | None = None

    def prices(self, sizes: Sequence[Any]) -> KernelPriceList:
        """The price of a call at each size; for experts one price, whose bytes follow from tokens.

        Raises:
            ColltoolError: sizes for experts, none for other calls, or what is not measured.
        """
        from colltool.commands.reading import each_size
        from colltool.engines.experts import price_experts
        from colltool.engines.price import price_kernels
        from colltool.engines.results import KernelPriceList
        from colltool.engines.tables import price_by_table

        if self.library is None or self.operation in DTYPES:
            if sizes:
                tokens = argument_text("tokens", 128)
                raise ColltoolError(
                    f"the bytes of {self.operation} follow from its tokens",
                    argument="size",
                    fix=f"leave {argument_text('size')} out, and give {tokens}",
                )
            tokens_sent = self.call.read(self.operation)
            price = price_experts(
                self.library, self.fabric, self.operation, tokens_sent, self.group, self.mode
            )
            return KernelPriceList((price,))
        if not sizes:
            raise ColltoolError(
                "a price by kernels needs a size",
                argument="size",
                fix=f"add {argument_text('size', '64KB')}",
            )
        prices = []
        for size in each_size(sizes):
            # runs: the library whose algorithms it takes, by a table, if it has no kernels of its own
            if self.library.runs:
                self._refuse_mode(f"{self.library.full_name} has no kernels of its own")
                price = price_by_table(self.library, self.fabric, self.operation, size, self.group)
            else:
                price = price_kernels(
                    self.library,
                    self.fabric,
                    self.operation,
                    size,
                    self.group,
                    mode=self.mode,
                    dtype=self._reduced_type(),
                )
            prices.append(price)
        return KernelPriceList(tuple(prices))

    def _reduced_type(self) -> ReducedType:
        """The type of the values that an engine's all-reduce adds; ColltoolError for an unknown one."""
        from colltool.commands.reading import choice_of
        from colltool.engines.dispatch import USUAL_TYPE
        from colltool.engines.files import REDUCED_TYPES

        dtype = self.call.dtype or USUAL_TYPE
        return choice_of(dtype, "dtype", REDUCED_TYPES, "type of an engine's all-reduce")

    def _refuse_mode(self, why: str) -> None:
        """Raise ColltoolError for a mode of launch of what nothing launches."""
        if self.mode is not None:
            raise ColltoolError(why, argument="mode", fix=f"leave {argument_text('mode')} out")

    def crossover(self, library: LibraryFile) -> KernelCrossover:
        """The sizes at which a library's kernels cross on a machine, and its own thresholds.

        Args:
            library: that of the request, which the caller knows not to be None.

        Raises:
            ColltoolError: it has a table of algorithms, no kernels.
        """
        from colltool.engines.crossover import kernel_crossover

        if library.runs:
            instead = argument_text("library", library.runs)
            raise ColltoolError(
                f"{library.full_name} has a table of algorithms, no kernels",
                argument="library",
                fix=f"colltool crossover with {instead}, or price at several sizes",
            )
        return kernel_crossover(library, self.fabric, self.operation, self.group, self.mode)


def split_request(
    fabric: AnyFabric,
    primitive: Any,
    ranks: int | None,
    options: Mapping[str, object],
    *,
    library_file: AnyPath | None,
    slow_rank: float | None = None,
    mode: str | None = None,
) -> tuple[KernelRequest | None, dict[str, Any]]:
    """Split the arguments of a price into a request for kernels and options of the model.

    A library file that describes a version of NCCL registers it, and stands for ``nccl@VERSION``.

    Returns:
        The request, or None if algorithms answer the call; and ``options`` without the arguments of
        experts, with ``library`` set if the library file describes a version of NCCL.
    """
    from colltool.commands.requests import fabric_of, model_request

    # a price by algorithms has no arguments of experts
    other_options: dict[str, Any] = dict(options)
    call = ExpertCall(
        **{field_name: other_options.pop(field_name, None) for field_name in ExpertCall._fields}
    )
    if library_file is not None:
        version = _register_nccl_version(library_file)
        # from here on the file's version is one like any other
        if version is not None:
            other_options["library"] = f"nccl@{version}"
            library_file = None
    kernel_call = _operation_and_library(
        primitive, other_options.get("library"), library_file, call, slow_rank
    )
    if kernel_call is None:
        if mode is not None:
            raise ColltoolError(
                "only an engine's library says how a call is launched",
                argument="mode",
                fix=f"add {argument_text('library', 'vllm')}, or leave {argument_text('mode')} out",
            )
        return None, other_options
    operation, library = kernel_call
    # a library of kernels is unknown to the model of algorithms
    group = model_request(ranks, {**other_options, "library": None}).group
    launch_mode = mode_if(mode)
    kernels = KernelRequest(operation, library, fabric_of(fabric), group, call, launch_mode)
    return kernels, other_options


def kernels_of(library: Any) -> LibraryFile | None:
    """Return the library of kernels of this name; None for libraries of algorithms, also those that
    take another one's by a table, and for what is no text."""
    # the usual call: no file of kernels is read
    if not isinstance(library, str) or library in LIBRARIES:
        return None
    from colltool.engines.lookup import library_of

    kernels = library_of(library, None)
    # a table of algorithms is no library of kernels
    if kernels is not None and kernels.runs:
        return None
    return kernels


def mode_if(value: Any) -> Mode | None:
    """How a call is launched, by its word; None if it is not said."""
    from colltool.commands.reading import choice_of
    from colltool.engines.files import MODES

    return None if value is None else choice_of(value, "mode", MODES, "mode")


def _register_nccl_version(library_file: AnyPath) -> str | None:
    """Register the version of NCCL's model that a library file describes, and return its name; None
    for a file of kernels.

    Raises:
        ColltoolError: no TOML, or not what a version of NCCL's model may say.
    """
    from colltool.base.files import read_text
    from colltool.commands.reading import path_of
    from colltool.definitions.toml_source import scan_toml
    from colltool.libraries.nccl.hardware import add_version

    name = os.fspath(path_of(library_file, "library_file", "a path", "mine.toml"))
    source, _ = scan_toml(read_text(name, "definition"), name)
    if source.data.get("name") != "nccl":
        return None
    return add_version(source.data, source.at)


def _operation_and_library(
    primitive: Any,
    library: Any,
    library_file: AnyPath | None,
    call: ExpertCall,
    slow_rank: float | None,
) -> tuple[str, LibraryFile | None] | None:
    """The operation and the library of a call that kernels answer; None if algorithms do.

    Kernels answer dispatch, combine and prepare, for which the library is None if all are asked, and
    collectives under a library of kernels.

    Raises:
        ColltoolError: an unknown library of experts, arguments of experts in another call, or a slow
            rank among measured kernels.
    """
    from colltool.commands.reading import primitive_of

    word = primitive.lower() if isinstance(primitive, str) else ""
    is_expert_call = word in DTYPES
    names_algorithms = library is None or (isinstance(library, str) and library in LIBRARIES)
    expert_arguments = [name for name, value in call._asdict().items() if value is not None]
    names_kernels = not names_algorithms or library_file is not None
    # the usual call, which algorithms answer: no file of kernels is read
    if not names_kernels and not is_expert_call and not expert_arguments:
        return None
    from colltool.engines.lookup import find_library, library_of

    name = library if isinstance(library, str) else None
    kernels = library_of(name, library_file)
    if slow_rank is not None and (kernels is not None or is_expert_call):
        raise ColltoolError(
            "kernels were measured with all ranks alike", argument="slow_rank", fix="leave it out"
        )
    if is_expert_call:
        # a library without kernels: find_library refuses it, and says which there are
        if name is not None and kernels is None:
            kernels = find_library(name)
        return word, kernels
    # an engine, which leaves to NCCL what its all-reduce does not take, may have another kernel for
    # another type
    is_typed_reduce = kernels is not None and kernels.leaves_rest and expert_arguments == ["dtype"]
    if expert_arguments and not is_typed_reduce:
        raise _only_of_experts(expert_arguments[0])
    if kernels is None:
        return None
    return primitive_of(primitive).value, kernels


def _only_of_experts(argument: str) -> ColltoolError:
    """The error for an argument of dispatch and combine in another call."""
    what = "only dispatch and combine take it"
    if argument == "dtype":
        what = "only dispatch, combine and an engine's all-reduce take it"
    return ColltoolError(
        what,
        argument=argument,
        fix=f"colltool price dispatch, or leave {argument_text(argument)} out",
    )
