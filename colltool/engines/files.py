"""Library files: an engine's or a library's kernels as data, ``data/NAME-VERSION.toml``; and files
of one's own.

A kernel is a formula of :mod:`colltool.engines.formulas` by name with its numbers, and the GPUs,
ranks and sizes that these were measured on. ``dispatch`` says which kernel runs at which size, as
the library's own code has it.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import Field, model_validator

from colltool.base.errors import ColltoolError, clipped, given, nearest
from colltool.base.files import read_text
from colltool.base.primitives import Primitive
from colltool.definitions.field_types import (
    MAX_LISTED,
    Accepted,
    Fraction,
    Label,
    Part,
    Size,
    Slip,
    Slips,
    Words,
)
from colltool.definitions.reader import read_source
from colltool.definitions.toml_source import scan_toml
from colltool.engines.formulas import FORMULAS, Copies, FormulaName
from colltool.fabric.library import DeviceName
from colltool.fabric.tier_parts import check_algorithm

Operation = Literal["all_reduce", "all_to_all", "dispatch", "combine", "kv_transfer"]
OPERATIONS: tuple[str, ...] = get_args(Operation)
EXPERTS = ("dispatch", "combine")
SUFFIX = ".toml"
_FOLDER = Path(__file__).parent / "data"

_Listed = Field(min_length=1, max_length=MAX_LISTED)
_Ends = Accepted("a list of the least and the most, such as [2, 8]")
RankCount = Annotated[
    int, Field(ge=2, le=2**20, strict=True), Accepted("a number of ranks from 2 on")
]
Tokens = Annotated[
    int, Field(ge=1, le=2**24, strict=True), Accepted("a number of tokens of a rank from 1 on")
]
Devices = Annotated[tuple[DeviceName, ...], _Listed, Accepted("a list of devices, such as [h100]")]
VersionName = Annotated[
    str,
    Field(pattern=r"^[0-9][0-9A-Za-z.+-]{0,30}$"),
    Accepted('a version in quotes, such as "0.24.0"', "text"),
]
LibraryId = Annotated[
    str,
    Field(pattern=r"^[a-z][a-z0-9-]{0,30}$"),
    Accepted("a short name in lower case, such as vllm", "text"),
]
Parameter = Annotated[float, Field(ge=0, le=1e9), Accepted("a number of at least 0")]


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
        Accepted("a table such as {base_us = 4.2, per_rank_us = 0.1, GBps = 265}"),
    ]
    gpus: Devices
    ranks: Annotated[tuple[RankCount, RankCount], _Ends]
    sizes: Annotated[
        tuple[Size, Size] | None, Accepted('a list of two sizes, such as ["1KiB", "4MiB"]')
    ] = None
    tokens: Annotated[
        tuple[Tokens, Tokens] | None, Accepted("a list of two numbers of tokens, such as [1, 128]")
    ] = None
    copies: Copies = "experts"
    across: Annotated[bool, Field(strict=True), Accepted("true or false")] = False
    network: Words = ""
    error: Fraction | None = None
    error_of: Words = ""
    said: Words = ""

    @model_validator(mode="after")
    def _agrees(self) -> KernelFile:
        needs = FORMULAS[self.formula].parameters
        slips = []
        for name in self.parameters:
            if name not in needs:
                fix = f"{nearest(name, list(needs))} it takes: {', '.join(needs)}".strip()
                slips.append(
                    Slip(
                        f"{self.formula} has no parameter '{clipped(name)}'",
                        fix,
                        ("parameters", name),
                    )
                )
        if missing := [name for name in needs if name not in self.parameters]:
            slips.append(
                Slip(
                    f"{self.formula} needs {', '.join(missing)}",
                    "add what is missing",
                    ("parameters",),
                )
            )
        for key in ("GBps", "own_GBps", "eta"):
            if self.parameters.get(key) == 0:
                slips.append(
                    Slip(f"{key} is above 0", "write what was measured", ("parameters", key))
                )
        for key, ends in (("ranks", self.ranks), ("sizes", self.sizes), ("tokens", self.tokens)):
            if ends and ends[0] > ends[1]:
                slips.append(Slip("the least comes first", "turn them round", (key,)))
        if slips:
            raise Slips(*slips)
        return self


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
        Accepted('a table such as {h200 = "h100"}'),
    ]
    like_error: Annotated[
        dict[DeviceName, Fraction],
        Field(default_factory=dict),
        Accepted("a table such as {h200 = 0.049}"),
    ]
    kernels: Annotated[
        tuple[KernelFile, ...], Field(max_length=MAX_LISTED), Accepted("tables [[kernels]]")
    ] = ()
    dispatch: Annotated[
        tuple[DispatchFile, ...], Field(max_length=MAX_LISTED), Accepted("tables [[dispatch]]")
    ] = ()

    @model_validator(mode="after")
    def _names_exist(self) -> LibraryFile:
        names = [one.name for one in self.kernels]
        slips = []
        for at, row in enumerate(self.dispatch):
            if self.runs is not None:
                slips += _unknown_algorithm(row, at)
            elif row.kernel not in (*names, NCCL):
                fix = f"{nearest(row.kernel, names)} known: {', '.join(dict.fromkeys(names))}, {NCCL}".strip()
                slips.append(
                    Slip(
                        f"no kernel is called '{clipped(row.kernel)}'",
                        fix,
                        ("dispatch", at, "kernel"),
                    )
                )
        if slips:
            raise Slips(*slips)
        return self

    @property
    def called(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def operations(self) -> tuple[str, ...]:
        named = {row.operation for row in (self.dispatch if self.runs else self.kernels)}
        return tuple(one for one in OPERATIONS if one in named)

    @property
    def gpus(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(gpu for kernel in self.kernels for gpu in kernel.gpus))


TWO_CALLS = "reduce+broadcast"
"""In a table of algorithms: an all-reduce as two calls."""


def _unknown_algorithm(row: DispatchFile, at: int) -> list[Slip]:
    if row.kernel == TWO_CALLS:
        return []
    try:
        check_algorithm(Primitive(row.operation), row.kernel)
    except (ColltoolError, ValueError) as error:
        return [
            Slip(
                getattr(error, "what", str(error)),
                getattr(error, "fix", ""),
                ("dispatch", at, "kernel"),
            )
        ]
    return []


NCCL = "nccl"
"""In a dispatch table: what the library leaves to NCCL."""


UNMEASURED = {
    "uccl-ep": "it is measured on EFA and on AMD, and no rows of it are held here",
    "flashinfer": "its all-reduce is measured inside engines alone",
    "gloo": "it is of CPUs, and nobody measured its thresholds",
    "oneccl": "no measured rows of it are held here",
    "mpich": "its decision tables are made for each machine",
}
"""Libraries that people ask for, and why there is no file."""


class AskedLibrary(NamedTuple):
    """A library as somebody wrote it, ``vllm@0.24.0``; ``unknown``: the version that there is no
    data of, empty if there is."""

    library: LibraryFile
    unknown: str = ""


@cache
def shipped_libraries() -> tuple[tuple[str, str], ...]:
    """(name, version) of every shipped file, versions ascending."""
    found = [
        re.fullmatch(r"([a-z][a-z-]*[a-z])-(\d.*)", file.stem)
        for file in _FOLDER.glob(f"*{SUFFIX}")
    ]
    return tuple(
        sorted(
            ((one[1], one[2]) for one in found if one), key=lambda one: (one[0], _ordered(one[1]))
        )
    )


def is_library(name: str) -> bool:
    """Whether kernels of a library with this name (without its version) ship."""
    own = name.partition("@")[0].lower()
    return own in UNMEASURED or own in {one for one, _ in shipped_libraries()}


def find_library(asked: str) -> AskedLibrary:
    """A shipped library by name and version; without a version the newest, of an unknown version
    the nearest.

    Raises:
        ColltoolError: no library has this name.
    """
    name, _, version = asked.lower().partition("@")
    known = [one for own, one in shipped_libraries() if own == name]
    if not known:
        names = list(dict.fromkeys(own for own, _ in shipped_libraries()))
        if name in UNMEASURED:
            fix = "a file of your own: colltool library init; or one of colltool library list"
            raise ColltoolError(
                f"{name} has no kernels here: {UNMEASURED[name]}", argument="library", fix=fix
            )
        fix = f"{nearest(name, names)} known: {', '.join(names)}; colltool library list shows them".strip()
        raise ColltoolError(
            f"no library '{clipped(name)}' has kernels here", argument="library", fix=fix
        )
    version = (
        next((one for one in reversed(known) if one.startswith(f"{version}.")), version)
        if version
        else version
    )
    if not version or version in known:
        return AskedLibrary(_shipped(name, version or known[-1]))
    at = sum(_ordered(one) <= _ordered(version) for one in known)
    return AskedLibrary(_shipped(name, known[max(at - 1, 0)]), clipped(version))


def load_library(path: str | os.PathLike[str]) -> LibraryFile:
    """A library file of one's own; ManyErrors with each mistake at its line and column."""
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
    return read_source(LibraryFile, *scan_toml(text, name)).result()


def library_of(library: str | None, file: str | os.PathLike[str] | None) -> AskedLibrary | None:
    """The library of a question: a file of one's own, a shipped one, or none (NCCL and the like
    have no kernels here)."""
    if file is not None:
        if library is not None:
            raise ColltoolError(
                "names the library", argument="library_file", fix=f"leave {given('library')} out"
            )
        return AskedLibrary(load_library(file))
    return find_library(library) if library is not None and is_library(library) else None


@cache
def _shipped(name: str, version: str) -> LibraryFile:
    file = shipped_path(name, version)
    return read_library(file.read_text(encoding="utf-8"), file.name)


def shipped_path(name: str, version: str) -> Path:
    return _FOLDER / f"{name}-{version}{SUFFIX}"


def template() -> str:
    """The file that a library file of one's own starts as."""
    return (_FOLDER / f"_template{SUFFIX}").read_text(encoding="utf-8")


def _ordered(version: str) -> list[tuple[int, str]]:
    """For comparing ``0.9`` with ``0.24.0`` and ``1.3.0rc20``."""
    return [
        (int(one[0]) if one[0] else -1, one[1])
        for one in re.findall(r"(\d*)([^\d.]*)", version)
        if any(one)
    ]
