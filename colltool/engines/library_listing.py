"""A library file as ``colltool library show`` tells it."""

from __future__ import annotations

from colltool.base.formatting import plain_number, size_text
from colltool.engines.files import KernelFile, LibraryFile
from colltool.engines.formulas import FORMULAS
from colltool.engines.results import DispatchRow, KernelRow, LibraryShown
from colltool.libraries.nccl.hardware import constants


def shown_library(library: LibraryFile) -> LibraryShown:
    rows = tuple(
        DispatchRow(one.kernel, one.gpus, one.ranks, one.from_, one.to) for one in library.dispatch
    )
    sources = dict.fromkeys(str(one.source) for one in library.kernels if one.source)
    return LibraryShown(
        library=library.called,
        spoken=library.spoken,
        kernels=tuple(map(_row, library.kernels)),
        dispatch=rows,
        like=tuple(library.like.items()),
        sources=tuple(sources),
    )


def shown_nccl(version: str) -> LibraryShown:
    """A version of NCCL's cost model: its rules; a price with it names what it picks."""
    own = constants(version)
    tables = {key: table for key, table in own.rule.items() if isinstance(table, dict)}
    rules = [
        (f"{key}.{inner}", str(value))
        for key, table in tables.items()
        for inner, value in table.items()
    ]
    rules += [(key, value) for key, value in own.rule.items() if isinstance(value, str)]
    return LibraryShown(
        library=f"nccl@{own.version}",
        spoken="NCCL's cost model",
        kernels=(),
        dispatch=(),
        like=(),
        sources=(own.source,),
        rules=tuple(rules),
    )


def _row(one: KernelFile) -> KernelRow:
    sizes = f"{size_text(one.sizes[0])}-{size_text(one.sizes[1])}" if one.sizes else ""
    sizes = f"{one.tokens[0]}-{one.tokens[1]} tokens" if one.tokens else sizes
    numbers = ", ".join(
        f"{name}={plain_number(value):g}" for name, value in one.parameters.items() if value
    )
    said = "; ".join(filter(None, (one.network, one.said)))
    return KernelRow(
        kernel=one.name,
        operation=one.operation,
        gpus=one.gpus,
        ranks=one.ranks,
        sizes=sizes,
        formula=FORMULAS[one.formula].words,
        parameters=numbers,
        error=one.error,
        said=said,
    )
