"""Prices by measured kernels, where a question names a library that has any."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.errors import ColltoolError, given
from colltool.commands.arguments import LIBRARIES, Options

if TYPE_CHECKING:
    from colltool.commands.reading import AnyFabric, AnyPath
    from colltool.engines.files import AskedLibrary
    from colltool.engines.formulas import Tokens
    from colltool.engines.results import KernelCrossover, KernelPriceList


EXPERTS = ("dispatch", "combine")


DTYPES = {"dispatch": "fp8", "combine": "bf16"}  # as DeepEP sends them


class ExpertCall(NamedTuple):
    """The arguments of dispatch and combine as they were given."""

    tokens: int | None = None
    top_k: int | None = None
    hidden: int | None = None
    experts: int | None = None
    dtype: str | None = None
    groups: int | None = None
    skew: float | None = None

    def read(self, operation: str) -> Tokens:
        """The tokens of a call; a ColltoolError names what is missing."""
        from colltool.commands.reading import count_of, number_of, text_of
        from colltool.engines.formulas import Tokens

        missing = [
            name for name in ("tokens", "top_k", "hidden", "experts") if getattr(self, name) is None
        ]
        if missing:
            example = {"tokens": 128, "top_k": 8, "hidden": 7168, "experts": 256}
            fix = f"add {' '.join(given(name, example[name]) for name in missing)}"
            raise ColltoolError(
                f"{operation} needs {', '.join(missing)}", argument=missing[0], fix=fix
            )
        counts = {
            name: count_of(getattr(self, name), name, 1, 2**24)
            for name in ("tokens", "top_k", "hidden", "experts")
        }
        dtype = (
            DTYPES[operation] if self.dtype is None else text_of(self.dtype, "dtype", "fp8").lower()
        )
        skew = 1.0 if self.skew is None else number_of(self.skew, "skew")
        if skew < 1:
            raise ColltoolError(
                f"the hottest rank has at least the mean, got {skew:g}",
                argument="skew",
                fix="1 or more",
            )
        groups = 0 if self.groups is None else count_of(self.groups, "groups", 1, 2**20)
        return Tokens(**counts, dtype=dtype, groups=groups, skew=skew)


NO_TOKENS = ExpertCall()


def asked_of(
    primitive: Any,
    library: Any,
    library_file: AnyPath | None,
    call: ExpertCall,
    slow_rank: float | None = None,
) -> tuple[str, AskedLibrary | None] | None:
    """The operation, and the library if one is named, of a question for kernels; None of one for
    algorithms."""
    from colltool.commands.reading import primitive_of

    word = primitive.lower() if isinstance(primitive, str) else ""
    own = library is None or (isinstance(library, str) and library in LIBRARIES)
    if own and word not in EXPERTS and library_file is None and all(part is None for part in call):
        return None  # what is asked most, without reading any kernel
    from colltool.engines.files import find_library, library_of

    name = library if isinstance(library, str) else None
    asked = library_of(name, library_file)
    if slow_rank is not None and (asked is not None or word in EXPERTS):
        raise ColltoolError(
            "kernels were measured with all ranks alike", argument="slow_rank", fix="leave it out"
        )
    if word in EXPERTS:
        if name is not None and asked is None:
            asked = find_library(name)  # says which there are
        return word, asked
    if given_ := [part for part, value in call._asdict().items() if value is not None]:
        fix = f"colltool price dispatch, or leave {given(given_[0])} out"
        raise ColltoolError("is for dispatch and combine", argument=given_[0], fix=fix)
    return None if asked is None else (primitive_of(primitive).value, asked)


def own_version(library_file: AnyPath | None, options: Options) -> tuple[AnyPath | None, Options]:
    """The options with a version of NCCL that a library file describes; any other file stays one of
    kernels.

    Raises:
        ColltoolError: no TOML, or not what a version of NCCL's model may say.
    """
    from colltool.commands.reading import wrong

    if library_file is None:
        return None, options
    if not isinstance(library_file, str | os.PathLike):
        raise wrong(
            library_file, "library_file", "a path", f"write {given('library_file', 'mine.toml')}"
        )
    from colltool.base.files import read_text
    from colltool.definitions.toml_source import scan_toml
    from colltool.libraries.nccl.hardware import take_version

    name = os.fspath(library_file)
    source, _ = scan_toml(read_text(name, "definition"), name)
    if source.data.get("name") != "nccl":
        return library_file, options
    return None, {**options, "library": f"nccl@{take_version(source.data, source.at)}"}


def price_by(
    fabric: AnyFabric,
    kernels: tuple[str, AskedLibrary | None],
    sizes: Sequence[Any],
    ranks: int | None,
    call: ExpertCall,
    options: Options,
) -> KernelPriceList:
    """A call by kernels at each size; of experts one, made of its tokens."""
    from colltool.commands.reading import size_of
    from colltool.commands.requests import fabric_of, model_request
    from colltool.engines.price import price_experts, price_kernels
    from colltool.engines.results import KernelPriceList

    own: Options = {**options, "library": None}
    operation, asked = kernels
    on, loaded = model_request(ranks, own), fabric_of(fabric)
    if operation in EXPERTS:
        if sizes:
            fix = (
                f"leave {given('size')} out: bytes follow from {given('tokens', 128)} and the like"
            )
            raise ColltoolError(f"{operation} is asked in tokens", argument="size", fix=fix)
        return KernelPriceList(
            (price_experts(asked, loaded, operation, call.read(operation), on.group),)
        )
    assert asked is not None
    if not sizes:
        raise ColltoolError("needs a size", argument="size", fix=f"add {given('size', '64KB')}")
    from colltool.engines.tables import price_by_table

    each, run = (
        [size_of(size) for size in sizes],
        price_by_table if asked.library.runs else price_kernels,
    )
    return KernelPriceList(tuple(run(asked, loaded, operation, size, on.group) for size in each))


def crossover_by(
    fabric: AnyFabric, operation: str, asked: AskedLibrary, ranks: int | None, options: Options
) -> KernelCrossover:
    """Where a library's kernels cross on a machine, beside its own thresholds."""
    from colltool.commands.requests import fabric_of, model_request
    from colltool.engines.crossover import kernel_crossover

    if asked.library.runs:
        fix = (
            f"colltool crossover with {given('library', asked.library.runs)}, or price at several"
            " sizes"
        )
        raise ColltoolError(
            f"{asked.library.called} has a table of algorithms, no kernels",
            argument="library",
            fix=fix,
        )

    own: Options = {**options, "library": None}
    return kernel_crossover(asked, fabric_of(fabric), operation, model_request(ranks, own).group)
