"""Libraries of kernels: list, show, check and start files.

Versions of NCCL's cost model are listed among them, and shown and started by the same commands.
"""

from __future__ import annotations

import os
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from colltool.base.errors import ColltoolError, argument_text
from colltool.commands.command import CommandGroup, command, each_checked
from colltool.commands.options import RESULT, Out, new_file, option, schema_option
from colltool.commands.output import write

if TYPE_CHECKING:
    from colltool.commands.reading import AnyPath
    from colltool.engines.files import LibraryFile
    from colltool.engines.results import LibraryList, LibraryRow, LibraryShown


def list_libraries() -> LibraryList:
    """Every library whose kernels ship, with its versions, operations and the GPUs that they were
    measured on."""
    from colltool.engines.lookup import find_library
    from colltool.engines.results import LibraryList, LibraryRow
    from colltool.engines.shipped import shipped_libraries
    from colltool.libraries.nccl.hardware import GPUS, constants, versions

    rows = [
        _row(find_library(f"{library_name}@{version}"))
        for library_name, version in shipped_libraries()
    ]
    for version in versions():
        algorithms = tuple(map(str, constants(version).algorithms))
        rows.append(LibraryRow("nccl", version, "NCCL's cost model", algorithms, GPUS))
    return LibraryList(tuple(sorted(rows, key=attrgetter("name"))))


def _row(library: LibraryFile) -> LibraryRow:
    """A library's row of a listing."""
    from colltool.engines.results import LibraryRow

    return LibraryRow(
        library.name, library.version, library.spoken, library.operations, library.gpus
    )


def show_library(
    library: str | None = None, *, library_file: AnyPath | None = None
) -> LibraryShown:
    """A library's kernels with their formulas, what they were measured on, and its dispatch table.

    Args:
        library: ``"vllm@0.24.0"``, or a name for its newest version.
        library_file: one of your own in its place.

    Raises:
        ColltoolError: no such library, or every mistake of the file at its line and column.
    """
    from colltool.commands.reading import text_of, wrong
    from colltool.engines.library_listing import library_rows, nccl_rows
    from colltool.engines.lookup import load_library

    if library_file is not None:
        if not isinstance(library_file, str | os.PathLike):
            raise wrong(
                library_file,
                "library_file",
                "a path",
                f"write {argument_text('library_file', 'mine.toml')}",
            )
        return library_rows(load_library(library_file))
    name = text_of(library, "library", "vllm@0.24.0").lower()
    base_name, _, version = name.partition("@")
    if base_name == "nccl":
        return nccl_rows(version)
    return library_rows(_named(name))


def _named(name: str) -> LibraryFile:
    """A library by name and version, or from a file, which is told by its suffix.

    Raises:
        ColltoolError: no such library, no data of this version, or a mistake in the file.
    """
    from colltool.engines.lookup import find_library, load_library
    from colltool.engines.shipped import SUFFIX

    if name.endswith(SUFFIX):
        return load_library(name)
    try:
        return find_library(name)
    except ColltoolError as error:
        # the same error without its argument: here the name is no option --library, as in prices
        raise ColltoolError(error.what, fix=error.fix) from None


library_command = CommandGroup("Shipped libraries of kernels; show, check and start library files.")


@command([RESULT], within=library_command, name="list", short_help="The shipped libraries.")
def list_command(out: Out) -> None:
    """List the libraries with measured kernels: all-reduce of inference engines, dispatch and combine
    of experts, KV transfer.

    Example:
      colltool library list
    """
    out.emit(list_libraries())


@command(
    [option("library_name", python="name"), RESULT],
    within=library_command,
    name="show",
    short_help="What a library's kernels take, and which it picks.",
)
def show_command(name: str, out: Out) -> None:
    """Show a library's kernels (formula, values, where measured, error, source), and which kernel it
    picks at which size.

    Examples:
      colltool library show vllm@0.24.0
      colltool library show deepep --format json
    """
    from colltool.engines.shipped import SUFFIX

    out.emit(show_library(library_file=name) if name.endswith(SUFFIX) else show_library(name))


@command(
    [
        option("files", "Library files, or names of shipped ones.", offers="library"),
        schema_option("library", "colltool.engines.files:LibraryFile"),
        RESULT,
    ],
    within=library_command,
    name="check",
    short_help="Check library files.",
)
def check_command(files: list[str], out: Out) -> None:
    """Check library files: print every error with its line and column; exit 2 if a file is invalid.

    Examples:
      colltool library check mine.toml vllm
      colltool library check --schema
    """
    from colltool.engines.results import CheckedLibrary, LibraryChecks
    from colltool.engines.shipped import SUFFIX, shipped_path

    def check(file: str) -> CheckedLibrary:
        library = _named(file)
        return CheckedLibrary(
            file=file
            if file.endswith(SUFFIX)
            else shipped_path(library.name, library.version).name,
            row=_row(library),
            kernels=len(library.kernels),
            thresholds=len(library.dispatch),
        )

    def result(checks: tuple[CheckedLibrary, ...]) -> LibraryChecks:
        return LibraryChecks(tuple(check.row for check in checks), checks)

    out.emit(each_checked(files, check, result))


@command(
    [
        "library_source",
        option("output", "File to write. [default: the terminal]", metavar="OUT.toml"),
    ],
    within=library_command,
    name="init",
    short_help="Start a library file of your own.",
)
def init_command(library: str | None = None, output: Path | None = None) -> None:
    """Write a library file to fill in with your measurements: a commented template, or a copy of a
    shipped library.

    Examples:
      colltool library init
      colltool library init --from vllm@0.24.0 -o own.toml
    """
    from colltool.engines.lookup import template
    from colltool.engines.shipped import SUFFIX, shipped_path

    # new_file refuses to overwrite a file that may be filled in
    path = new_file(output, "a library file", (SUFFIX,))
    if library is None:
        write(template(), path)
        return
    base_name, _, version = library.partition("@")
    if base_name == "nccl":
        write(_nccl_template(version), path)
    else:
        shipped = _named(library)
        write(shipped_path(shipped.name, shipped.version).read_text(encoding="utf-8"), path)


def _nccl_template(version: str) -> str:
    """The file of a version of NCCL's model (empty: the usual one), under a version that no shipped
    one has, so that it can be registered beside them."""
    from colltool.libraries.nccl.hardware import constants, version_file

    shipped = constants(version).version
    text = version_file(shipped).read_text(encoding="utf-8")
    yours = 'name = "nccl"\nversion = "2.99"  # yours, which no shipped one has'
    return text.replace(f'version = "{shipped}"', yours, 1)
