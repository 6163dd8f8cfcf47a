"""Library files: kernels of an engine or a library as data.

Shipped files are ``data/NAME-VERSION.toml``; users may write their own. A kernel names a formula of
:mod:`colltool.engines.formulas`, its parameters, and the GPUs, ranks and sizes that these were
measured on. ``dispatch`` has the kernel that runs at each size, as in the library's own code.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from colltool.base.errors import ColltoolError, argument_text, clipped, nearest
from colltool.base.files import read_text
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
from colltool.definitions.reader import read_source
from colltool.definitions.source import KeyPath
from colltool.definitions.toml_source import scan_toml
from colltool.engines.formulas import FORMULAS, Copies, FormulaName
from colltool.engines.shipped import (
    FOLDER,
    SUFFIX,
    shipped_libraries,
    shipped_path,
)
from colltool.fabric.library import DeviceName
from colltool.fabric.tier_parts import check_algorithm

Operation = Literal["all_reduce", "all_to_all", "dispatch", "combine", "kv_transfer"]
OPERATIONS: tuple[str, ...] = get_args(Operation)
# operations whose size follows from tokens
EXPERTS = ("dispatch", "combine")

# Types of the file's fields, each with the words of its error.
_Listed = Field(min_length=1, max_length=MAX_LISTED)
_Ends = FieldHint("a list of the least and the most, such as [2, 8]")
RankCount = Annotated[
    int, Field(ge=2, le=2**20, strict=True), FieldHint("a number of ranks from 2 on")
]
Tokens = Annotated[
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


class KernelFile(Part):
    """A kernel: what it does, its formula and numbers, and what these were measured on.

    ``error``: the median error on rows that the numbers were not taken from, or on the ones that
    they were; ``error_of`` says which. ``copies``: of dispatch and combine, whether a token goes
    once to each expert, rank or node.
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
        tuple[Tokens, Tokens] | None, FieldHint("a list of two numbers of tokens, such as [1, 128]")
    ] = None
    copies: Copies = "experts"
    across: Annotated[bool, Field(strict=True), FieldHint("true or false")] = False
    network: Words = ""
    error: Fraction | None = None
    error_of: Words = ""
    said: Words = ""

    @model_validator(mode="after")
    def _agrees(self) -> KernelFile:
        errors = [*_wrong_parameters(self.formula, self.parameters)]
        for key, ends in (("ranks", self.ranks), ("sizes", self.sizes), ("tokens", self.tokens)):
            if ends and ends[0] > ends[1]:
                errors.append(FieldError("the least comes first", "turn them round", (key,)))
        if errors:
            raise FieldErrors(*errors)
        return self


def _wrong_parameters(formula: FormulaName, parameters: dict[str, float]) -> Iterator[FieldError]:
    needs = FORMULAS[formula].parameters
    for parameter in parameters:
        if parameter not in needs:
            what = f"{formula} has no parameter '{clipped(parameter)}'"
            fix = f"{nearest(parameter, list(needs))} it takes: {', '.join(needs)}".strip()
            yield FieldError(what, fix, ("parameters", parameter))
    missing = [parameter for parameter in needs if parameter not in parameters]
    if missing:
        yield FieldError(
            f"{formula} needs {', '.join(missing)}", "add what is missing", ("parameters",)
        )
    # formulas divide by these
    for parameter in ("GBps", "own_GBps", "eta"):
        if parameters.get(parameter) == 0:
            yield FieldError(
                f"{parameter} is above 0", "write what was measured", ("parameters", parameter)
            )


class DispatchFile(Part):
    """What the library's code takes: on these GPUs (default: any) and ranks, from one size up to
    another (not included).

    ``per``: the size is M of a rank, or of an all-to-all one block of M/N.
    """

    operation: Operation = "all_reduce"
    kernel: Label
    gpus: Devices = ()
    per: Literal["rank", "block"] = "rank"
    ranks: Annotated[tuple[RankCount, RankCount], _Ends]
    from_: Annotated[Size, Field(alias="from")] = 1.0
    to: Size


class LibraryFile(Part):
    """A library: its name, version, kernels, and which of them runs when.

    ``like``: a GPU that was not measured, by one that was; ``like_error``: the median error of
    that, where it is known.
    ``most_ranks``: that its all-reduce takes; more are left to NCCL. ``runs``: it has no kernels of
    its own but takes colltool's algorithms, those that this library implements, by its table.
    """

    schema_: Annotated[Literal["colltool.library/1"], Field(alias="schema")] = "colltool.library/1"
    name: LibraryId
    version: VersionName
    spoken: Label
    most_ranks: RankCount | None = None
    runs: Literal["mpi", "rccl", "nccl"] | None = None
    like: Annotated[
        dict[DeviceName, DeviceName],
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

    @model_validator(mode="after")
    def _names_exist(self) -> LibraryFile:
        names = [kernel.name for kernel in self.kernels]
        errors = []
        for index, case in enumerate(self.dispatch):
            place = ("dispatch", index, "kernel")
            if self.runs is not None:
                errors += _unknown_algorithm(case, place)
            elif case.kernel not in (*names, NCCL):
                known = ", ".join(dict.fromkeys((*names, NCCL)))
                fix = f"{nearest(case.kernel, names)} known: {known}".strip()
                errors.append(
                    FieldError(f"no kernel is called '{clipped(case.kernel)}'", fix, place)
                )
        if errors:
            raise FieldErrors(*errors)
        return self

    @property
    def full_name(self) -> str:
        """``NAME@VERSION``."""
        return f"{self.name}@{self.version}"

    @property
    def operations(self) -> tuple[str, ...]:
        rows: tuple[KernelFile | DispatchFile, ...] = self.dispatch if self.runs else self.kernels
        present = {row.operation for row in rows}
        return tuple(operation for operation in OPERATIONS if operation in present)

    @property
    def gpus(self) -> tuple[str, ...]:
        gpus: list[str] = []
        for kernel in self.kernels:
            gpus += kernel.gpus
        return tuple(dict.fromkeys(gpus))


TWO_CALLS = "reduce+broadcast"
"""An all-reduce as two calls, in a table of algorithms."""


def _unknown_algorithm(row: DispatchFile, place: KeyPath) -> list[FieldError]:
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


NCCL = "nccl"
"""The kernel of a dispatch table for sizes that the library leaves to NCCL."""

UNMEASURED = {
    "uccl-ep": "it is measured on EFA and on AMD, and colltool has no such rows",
    "flashinfer": "its all-reduce is measured only within engines",
    "gloo": "it runs on CPUs, and its thresholds were never measured",
    "oneccl": "colltool has no measured rows of it",
    "mpich": "its decision tables are made for each machine",
}
"""Well-known libraries without a file, and why there is none (part of an error text)."""


def is_library(name: str) -> bool:
    """Whether kernels of a library with this name (without its version) ship."""
    library_name = name.partition("@")[0].lower()
    return library_name in UNMEASURED or library_name in dict(shipped_libraries())


def find_library(requested: str) -> LibraryFile:
    """Return a shipped library by name and version.

    Without a version it is the newest; ``0.24`` is the newest of ``0.24.*``.

    Raises:
        ColltoolError: no library has this name, or there is no data of this version.
    """
    name, _, version = requested.lower().partition("@")
    known = [shipped for library, shipped in shipped_libraries() if library == name]
    if not known:
        raise _unknown_library(name)
    if not version:
        return _shipped(name, known[-1])
    inside = [shipped for shipped in known if shipped.startswith(f"{version}.")]
    if inside:
        version = inside[-1]
    if version in known:
        return _shipped(name, version)
    # versions differ by up to 3 times, so another one is no stand-in
    raise ColltoolError(
        f"there is no data of {name} {clipped(version)}",
        argument="library",
        fix=f"there is for: {', '.join(f'{name}@{shipped}' for shipped in known)}",
    )


def _unknown_library(name: str) -> ColltoolError:
    if name in UNMEASURED:
        what = f"{name} has no kernels here: {UNMEASURED[name]}"
        fix = "a file of your own: colltool library init; or one of colltool library list"
    else:
        names = list(dict(shipped_libraries()))
        what = f"no library '{clipped(name)}' has kernels here"
        known = f"known: {', '.join(names)}; colltool library list shows them"
        fix = f"{nearest(name, names)} {known}".strip()
    return ColltoolError(what, argument="library", fix=fix)


def load_library(path: str | os.PathLike[str]) -> LibraryFile:
    """Return a user's library file; ManyErrors has each mistake at its line and column."""
    typed = os.fspath(path)
    if not typed.endswith(SUFFIX):
        fix = f"name it {Path(typed).stem}{SUFFIX}; colltool library init starts one"
        raise ColltoolError(
            f"a library file ends in {SUFFIX}, got {clipped(typed)}",
            argument="library_file",
            fix=fix,
        )
    return read_library(read_text(typed, "definition"), typed)


def read_library(text: str, name: str) -> LibraryFile:
    """Return a library from TOML text that errors call ``name``."""
    return read_source(LibraryFile, *scan_toml(text, name)).result()


def library_of(library: str | None, file: str | os.PathLike[str] | None) -> LibraryFile | None:
    """Return the user's own library file, a shipped library, or None.

    None is for NCCL and the like, which have no kernels here.
    """
    if file is not None:
        if library is not None:
            raise ColltoolError(
                "names the library",
                argument="library_file",
                fix=f"leave {argument_text('library')} out",
            )
        return load_library(file)
    if library is None or not is_library(library):
        return None
    return find_library(library)


@cache
def _shipped(name: str, version: str) -> LibraryFile:
    file = shipped_path(name, version)
    return read_library(file.read_text(encoding="utf-8"), file.name)


def template() -> str:
    """Return the text that a user's library file starts as."""
    return (FOLDER / f"_template{SUFFIX}").read_text(encoding="utf-8")
