"""Library files: kernels of an engine or a library as data.

Shipped files are ``data/NAME-VERSION.toml``; users may write their own. A kernel names a formula of
:mod:`colltool.engines.formulas`, its parameters, and the GPUs, ranks and sizes that these were
measured on. ``dispatch`` has the kernel that runs at each size, as in the library's own code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from colltool.base.errors import ColltoolError, clipped, nearest
from colltool.base.primitives import Primitive
from colltool.definitions.field_types import (
    MAX_LISTED,
    FieldError,
    FieldErrors,
    FieldHint,
    Fraction,
    Label,
    Part,
    Size,
    Words,
)
from colltool.definitions.source import KeyPath
from colltool.engines.formulas import FORMULAS, FormulaName
from colltool.engines.shipped import version_key
from colltool.engines.tokens import WIDTHS, Copies
from colltool.fabric.library import DeviceName
from colltool.fabric.tier_parts import check_algorithm

Operation = Literal[
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "prepare",
    "dispatch",
    "combine",
    "kv_transfer",
]
OPERATIONS: tuple[str, ...] = get_args(Operation)
# operations whose size follows from tokens
EXPERTS = ("prepare", "dispatch", "combine")

# Types of the file's fields, each with its bounds and the words of its error.
_Listed = Field(min_length=1, max_length=MAX_LISTED)
_Ends = FieldHint("a list of the least and the most, such as [2, 8]")
RankCount = Annotated[
    int, Field(ge=2, le=2**20, strict=True), FieldHint("a number of ranks from 2 on")
]
TokenCount = Annotated[
    int, Field(ge=1, le=2**24, strict=True), FieldHint("a number of tokens per rank, at least 1")
]
Devices = Annotated[tuple[DeviceName, ...], _Listed, FieldHint("a list of devices, such as [h100]")]
VersionName = Annotated[
    str,
    Field(pattern=r"^[0-9][0-9A-Za-z.+-]{0,30}$"),
    FieldHint('a version in quotes, such as "0.24.0"', "text"),
]
LibraryId = Annotated[
    str,
    Field(pattern=r"^[a-z][a-z0-9-]{0,30}$"),
    FieldHint("a short name in lower case, such as vllm", "text"),
]
Parameter = Annotated[float, Field(ge=0, le=1e9), FieldHint("a number of at least 0")]
Sms = Annotated[int, Field(ge=1, le=1024, strict=True), FieldHint("a number of SMs, such as 20")]
Spread = Annotated[float, Field(gt=0, le=100), FieldHint("a factor, such as 0.9")]
# types that all-reduces of engines take
ReducedType = Literal["bf16", "fp16", "fp32"]
REDUCED_TYPES: tuple[ReducedType, ...] = get_args(ReducedType)
Mode = Literal["graph", "eager"]
MODES: tuple[Mode, ...] = get_args(Mode)


# what a row of a dispatch table may say in place of the name of a kernel:
# between two kernels: the library takes one of them by a rule that is not known here, and the faster
# is assumed
EITHER = " or "
# of a table of algorithms: an all-reduce as two calls
TWO_CALLS = "reduce+broadcast"
# sizes that the library leaves to NCCL
NCCL = "nccl"


class VersionedPart(Part):
    """A part of a library's file that holds from one version on (``since``) and below another."""

    since: VersionName | None = None
    before: VersionName | None = None

    def holds_in(self, version: str) -> bool:
        """Whether a version is ``since`` or later, and earlier than ``before``."""
        key = version_key(version)
        is_earlier = self.since is not None and key < version_key(self.since)
        is_later = self.before is not None and key >= version_key(self.before)
        return not is_earlier and not is_later


# The docstrings of these models are printed by colltool schema library.
class KernelFile(VersionedPart):
    """A kernel: what it does, its formula and numbers, and what these were measured on.

    ``error``: the median error on rows that the numbers were not taken from, or on the ones that
    they were; ``error_of`` says which.
    ``error_beyond``: the error on twice the most measured ranks, and as much more for each doubling.
    ``nine_in_ten``: between which factors of the formula nine of ten rows lie.
    ``within``: whether its ranks are on one host, or reach the whole domain of an NVLink rack, whose
    hosts are trays.
    Several kernels of one name are one kernel with numbers for other GPUs, ranks or formats.

    Of experts: ``copies``: whether a token goes once to each expert, rank or node.
    ``wires``: the networks across nodes by the tier's name, empty for RDMA.
    ``mode``: whether the time is the kernel's, or that of a call by the engine's host without a CUDA
    graph.
    ``captured``: whether a CUDA graph can run it.
    ``sends``: the formats that were measured, empty if unknown;
    ``sends_others``: whether others are priced by their bytes;
    ``always_sends``: the format that it sends whatever the call's is.
    ``sms``: how many were measured;
    ``sms_default``: how many the library takes.
    """

    name: Label
    operation: Operation
    formula: FormulaName
    parameters: Annotated[
        dict[str, Parameter],
        FieldHint("a table such as {base_us = 4.2, per_rank_us = 0.1, GBps = 265}"),
    ]
    gpus: Devices
    ranks: Annotated[tuple[RankCount, RankCount], _Ends]
    sizes: Annotated[
        tuple[Size, Size] | None, FieldHint('a list of two sizes, such as ["1KiB", "4MiB"]')
    ] = None
    tokens: Annotated[
        tuple[TokenCount, TokenCount] | None,
        FieldHint("a list of two numbers of tokens, such as [1, 128]"),
    ] = None
    copies: Copies = "experts"
    # whether it was measured across nodes, and runs there alone
    across: Annotated[bool, Field(strict=True), FieldHint("true or false")] = False
    within: Literal["host", "domain"] = "domain"
    # for people: on which network it was measured
    network: Words = ""
    mode: Mode = "graph"
    captured: Annotated[bool, Field(strict=True), FieldHint("true or false")] = True
    sends: Annotated[tuple[Label, ...], FieldHint("a list of formats, such as [bf16]")] = ()
    sends_others: Annotated[bool, Field(strict=True), FieldHint("true or false")] = True
    always_sends: Label | None = None
    wires: Annotated[tuple[Label, ...], FieldHint("a list of tiers, such as [efa]")] = ()
    sms: Annotated[tuple[Sms, Sms] | None, _Ends] = None
    sms_default: Sms | None = None
    error: Fraction | None = None
    error_of: Words = ""
    error_beyond: Fraction | None = None
    nine_in_ten: Annotated[
        tuple[Spread, Spread] | None, FieldHint("a list of two factors, such as [0.9, 1.12]")
    ] = None
    # a note on every price by it
    said: Words = ""

    @model_validator(mode="after")
    def _agrees(self) -> KernelFile:
        """Refuse parameters, ranges and formats that do not fit the formula or each other."""
        errors = [*_wrong_parameters(self.formula, self.parameters)]
        for key in ("ranks", "sizes", "tokens", "sms", "nine_in_ten"):
            ends = getattr(self, key)
            if ends and ends[0] > ends[1]:
                errors.append(FieldError("the least comes first", "turn them round", (key,)))
        for key, formats in (("sends", self.sends), ("always_sends", (self.always_sends,))):
            for dtype in formats:
                if dtype is not None and dtype not in WIDTHS:
                    fix = f"one of {', '.join(WIDTHS)}"
                    errors.append(FieldError(f"'{clipped(dtype)}' is not known", fix, (key,)))
        if "GBps_per_sm" in self.parameters and self.sms_default is None:
            what = f"{self.formula} needs the SMs that the library takes"
            errors.append(FieldError(what, "add sms_default = 20", ("sms_default",)))
        if errors:
            raise FieldErrors(*errors)
        return self


def _wrong_parameters(formula: FormulaName, parameters: dict[str, float]) -> Iterator[FieldError]:
    """Errors for parameters that a formula does not have, lacks, or divides by and that are 0."""
    needs = FORMULAS[formula].parameters
    takes = (*needs, *FORMULAS[formula].optional)
    for parameter in parameters:
        if parameter not in takes:
            what = f"{formula} has no parameter '{clipped(parameter)}'"
            fix = f"{nearest(parameter, list(takes))} it takes: {', '.join(takes)}".strip()
            yield FieldError(what, fix, ("parameters", parameter))
    missing = [parameter for parameter in needs if parameter not in parameters]
    if missing:
        yield FieldError(
            f"{formula} needs {', '.join(missing)}", "add what is missing", ("parameters",)
        )
    # formulas divide by these
    for parameter in ("GBps", "own_GBps", "link_GBps", "GBps_per_sm", "eta"):
        if parameters.get(parameter) == 0:
            yield FieldError(
                f"{parameter} is above 0", "write what was measured", ("parameters", parameter)
            )


class DispatchFile(VersionedPart):
    """What the library's code takes: on these GPUs (default: any) and ranks, from one size up to
    another, which counts as well if ``to_included``. The first row that fits is taken; rows of a
    kernel that does not reach all ranks (``within``) do not fit.

    ``per``: the size is M of a rank, of an all-to-all one block of M/N, or N M in all.
    ``multiple_of``: only sizes that are multiples of so many bytes.
    ``dtypes``: only these types of the reduced values; empty for any.
    """

    operation: Operation = "all_reduce"
    kernel: Label
    gpus: Devices = ()
    per: Literal["rank", "block", "total"] = "rank"
    ranks: Annotated[tuple[RankCount, RankCount], _Ends]
    from_: Annotated[Size, Field(alias="from")] = 1.0
    to: Size
    to_included: Annotated[bool, Field(strict=True), FieldHint("true or false")] = False
    multiple_of: Annotated[int, Field(ge=1, le=2**20, strict=True), FieldHint("bytes")] = 1
    dtypes: Annotated[tuple[ReducedType, ...], FieldHint("a list of types, such as [bf16]")] = ()


class LaunchFile(VersionedPart):
    """What a call takes at least if no CUDA graph launches it: the host's part, on these GPUs.

    ``within``: of a group on one host, or over the hosts of a rack.
    ``kernels``: of these alone, or of any; the first row that fits counts.
    ``error``: as of kernels.
    ``copy_us``, ``copy_GBps``: of kernels that read a buffer of the engine's, the copy of the vector
    into it, which a graph does without.
    """

    gpus: Devices
    kernels: Annotated[tuple[Label, ...], _Listed, FieldHint("a list of kernels")] | None = None
    within: Literal["host", "domain"] = "host"
    us: Annotated[float, Field(gt=0, le=1e6), FieldHint("microseconds above 0")]
    copy_us: Parameter = 0.0
    copy_GBps: Annotated[float, Field(gt=0, le=1e6), FieldHint("GB/s above 0")] | None = None
    error: Fraction
    error_of: Words = ""

    def copy_s(self, size: float) -> float:
        """Seconds of the copy of ``size`` bytes before the kernel."""
        if self.copy_GBps is None:
            return 0.0
        return self.copy_us * 1e-6 + size / (self.copy_GBps * 1e9)

    def total_s(self, kernel_s: float, size: float) -> float:
        """Seconds of a call of ``size`` bytes whose kernel takes ``kernel_s``."""
        return max(self.us * 1e-6, kernel_s + self.copy_s(size))


class LibraryFile(Part):
    """A library: its name, version, kernels, and which of them runs when.

    ``measured``: its versions that rows were measured of, ascending;
    ``read_from``: from this one on its picks are known by its source alone.
    ``like``: a GPU that was not measured, by one that was, or by several of which the first counts
    that has the kernel;
    ``like_error``: the median error of that, where it is known.
    ``launch``: the least of a call without CUDA graphs.
    ``most_ranks``: that its all-reduce takes; more are left to NCCL.
    ``runs``: it has no kernels of its own but takes colltool's algorithms, those that this library
    implements, by its table.
    """

    schema_: Annotated[Literal["colltool.library/1"], Field(alias="schema")] = "colltool.library/1"
    name: LibraryId
    version: VersionName
    # its name for people
    spoken: Label
    measured: (
        Annotated[tuple[VersionName, ...], _Listed, FieldHint("a list of versions")] | None
    ) = None
    read_from: VersionName | None = None
    most_ranks: RankCount | None = None
    # a note on every answer by it
    said: Words = ""
    runs: Literal["mpi", "rccl", "nccl"] | None = None
    like: Annotated[
        dict[DeviceName, DeviceName | Devices],
        Field(default_factory=dict),
        FieldHint('a table such as {h200 = "h100"}'),
    ]
    like_error: Annotated[
        dict[DeviceName, Fraction],
        Field(default_factory=dict),
        FieldHint("a table such as {h200 = 0.049}"),
    ]
    kernels: Annotated[
        tuple[KernelFile, ...], Field(max_length=MAX_LISTED), FieldHint("tables [[kernels]]")
    ] = ()
    dispatch: Annotated[
        tuple[DispatchFile, ...], Field(max_length=MAX_LISTED), FieldHint("tables [[dispatch]]")
    ] = ()
    launch: Annotated[
        tuple[LaunchFile, ...], Field(max_length=MAX_LISTED), FieldHint("tables [[launch]]")
    ] = ()

    @model_validator(mode="after")
    def _names_exist(self) -> LibraryFile:
        """Refuse dispatch rows of kernels that the file lacks, or of unknown algorithms."""
        names = [kernel.name for kernel in self.kernels]
        errors = []
        for index, case in enumerate(self.dispatch):
            place = ("dispatch", index, "kernel")
            if self.runs is not None:
                errors += _unknown_algorithm(case, place)
                continue
            for name in case.kernel.split(EITHER):
                if name not in (*names, NCCL):
                    known = ", ".join(dict.fromkeys((*names, NCCL)))
                    fix = f"{nearest(name, names)} known: {known}".strip()
                    what = f"no kernel is called '{clipped(name)}'"
                    errors.append(FieldError(what, fix, place))
        if errors:
            raise FieldErrors(*errors)
        return self

    @property
    def full_name(self) -> str:
        """``NAME@VERSION``."""
        return f"{self.name}@{self.version}"

    @property
    def operations(self) -> tuple[str, ...]:
        """What it has kernels (or algorithms) for, in the order of OPERATIONS."""
        rows: tuple[KernelFile | DispatchFile, ...] = self.dispatch if self.runs else self.kernels
        present = {row.operation for row in rows}
        return tuple(operation for operation in OPERATIONS if operation in present)

    @property
    def gpus(self) -> tuple[str, ...]:
        """GPUs that any of its kernels was measured on."""
        gpus: list[str] = []
        for kernel in self.kernels:
            gpus += kernel.gpus
        return tuple(dict.fromkeys(gpus))

    @property
    def leaves_rest(self) -> bool:
        """Whether NCCL runs what its own all-reduce does not take, as in engines."""
        picks = any(case.operation == "all_reduce" for case in self.dispatch)
        return self.runs is None and (picks or self.most_ranks is not None)

    def likes(self, gpu: str) -> tuple[str, ...]:
        """A GPU and those whose numbers stand in for it, the nearest first."""
        stand_ins = self.like.get(gpu, ())
        if isinstance(stand_ins, str):
            stand_ins = (stand_ins,)
        return (gpu, *stand_ins)

    def at_version(self, version: str, said: str = "") -> LibraryFile:
        """The library in a version, with the parts that hold in it.

        Args:
            said: a note on every answer by this version, before the file's own; empty for none.
        """
        parts: dict[str, object] = {}
        for key in ("kernels", "dispatch", "launch"):
            several: tuple[VersionedPart, ...] = getattr(self, key)
            parts[key] = tuple([part for part in several if part.holds_in(version)])
        words = "; ".join(filter(None, (said, self.said)))
        return self.model_copy(update={**parts, "version": version, "said": words})


def _unknown_algorithm(row: DispatchFile, place: KeyPath) -> list[FieldError]:
    """The error for a row of a table of algorithms whose algorithm colltool does not have."""
    if row.kernel == TWO_CALLS:
        return []
    try:
        check_algorithm(Primitive(row.operation), row.kernel)
    except ColltoolError as error:
        return [FieldError(error.what, error.fix, place)]
    except ValueError as error:
        # an operation that is no collective
        return [FieldError(str(error), at=place)]
    return []
