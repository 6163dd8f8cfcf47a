"""A library file as ``colltool library show`` prints it."""

from __future__ import annotations

from colltool.base.formatting import plain_number, size_text
from colltool.engines.files import KernelFile, LibraryFile
from colltool.engines.formulas import FORMULAS
from colltool.engines.results import DispatchRow, KernelRow, LibraryShown
from colltool.libraries.nccl.hardware import constants


def library_rows(library: LibraryFile) -> LibraryShown:
    """Return a library's kernels and dispatch table, as rows of tables."""
    dispatch = [
        DispatchRow(
            kernel=case.kernel,
            gpus=case.gpus,
            ranks=case.ranks,
            from_bytes=case.from_,
            to_bytes=case.to,
            to_included=case.to_included,
            per=case.per,
        )
        for case in library.dispatch
    ]
    sources = dict.fromkeys(str(kernel.source) for kernel in library.kernels if kernel.source)
    return LibraryShown(
        library=library.full_name,
        spoken=library.spoken,
        kernels=tuple(map(_row, library.kernels)),
        dispatch=tuple(dispatch),
        versions=library.measured or (),
        like=tuple([(gpu, ", ".join(library.likes(gpu)[1:])) for gpu in library.like]),
        sources=tuple(sources),
    )


def nccl_rows(version: str) -> LibraryShown:
    """Return the rules of a version of NCCL's cost model, as rows of a table: numbers as
    ``TABLE.KEY`` first, then rules in words."""
    model = constants(version)
    words = []
    rules = []
    for key, value in model.rule.items():
        if isinstance(value, dict):
            rules += [(f"{key}.{field}", str(entry)) for field, entry in value.items()]
        elif isinstance(value, str):
            words.append((key, value))
    return LibraryShown(
        library=f"nccl@{model.version}",
        spoken="NCCL's cost model",
        kernels=(),
        dispatch=(),
        like=(),
        sources=(model.source,),
        rules=(*rules, *words),
    )


def _row(kernel: KernelFile) -> KernelRow:
    """A kernel as text; parameters that are 0 are left out."""
    sizes = ""
    if kernel.tokens:
        sizes = f"{kernel.tokens[0]}-{kernel.tokens[1]} tokens"
    elif kernel.sizes:
        sizes = f"{size_text(kernel.sizes[0])}-{size_text(kernel.sizes[1])}"
    numbers = [
        f"{parameter}={plain_number(value):g}"
        for parameter, value in kernel.parameters.items()
        if value
    ]
    return KernelRow(
        kernel=kernel.name,
        operation=kernel.operation,
        gpus=kernel.gpus,
        ranks=kernel.ranks,
        sizes=sizes,
        formula=FORMULAS[kernel.formula].words,
        parameters=", ".join(numbers),
        error=kernel.error,
        said="; ".join(filter(None, (kernel.network, kernel.said))),
    )
