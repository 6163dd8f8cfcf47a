"""Libraries of kernels: list, show, check and start files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from colltool.base.errors import argument_text
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
    from colltool.engines.files import find_library, shipped_libraries
    from colltool.engines.results import LibraryList, LibraryRow
    from colltool.libraries.nccl.hardware import GPUS, constants, versions

    rows = [
        _row(find_library(f"{name}@{version}").library) for name, version in shipped_libraries()
    ]
    for version in versions():
        algorithms = tuple(map(str, constants(version).algorithms))
        rows.append(LibraryRow("nccl", version, "NCCL's cost model", algorithms, GPUS))
    return LibraryList(tuple(sorted(rows, key=lambda row: row.name)))


def _row(library: LibraryFile) -> LibraryRow:
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
    from colltool.engines.files import find_library, load_library
    from colltool.engines.library_listing import library_rows, nccl_rows

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
    if name.partition("@")[0] == "nccl":
        return nccl_rows(name.partition("@")[2])
    return library_rows(find_library(name).library)


library_command = CommandGroup("Libraries of kernels; list, show, check, start your own.")


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
    short_help="A library's kernels and dispatch table.",
)
def show_command(name: str, out: Out) -> None:
    """Show a library's kernels (formula, values, where measured, error, source), and which kernel it
    picks at which size.

    Examples:
      colltool library show vllm@0.24.0
      colltool library show deepep --format json
    """
    from colltool.engines.files import SUFFIX

    out.emit(show_library(library_file=name) if name.endswith(SUFFIX) else show_library(name))


@command(
    ["files", schema_option("library", "colltool.engines.files:LibraryFile"), RESULT],
    within=library_command,
    name="check",
    short_help="Check library files.",
)
def check_command(files: list[str], out: Out) -> None:
    """Check library files: print every error with its line and column; exit 2 if a file is invalid.

    Examples:
      colltool library check mine.toml
      colltool library check --schema
    """
    from colltool.engines.files import load_library
    from colltool.engines.results import LibraryChecks

    def checks(found: tuple[LibraryFile, ...]) -> LibraryChecks:
        return LibraryChecks(tuple(_row(library) for library in found))

    out.emit(each_checked(files, load_library, checks))


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
    from colltool.engines.files import SUFFIX, find_library, shipped_path, template

    # new_file refuses to overwrite a file that may be filled in
    path = new_file(output, "a library file", (SUFFIX,))
    if library is None:
        write(template(), path)
    elif library.partition("@")[0] == "nccl":
        write(_nccl_template(library.partition("@")[2]), path)
    else:
        shipped = find_library(library).library
        write(shipped_path(shipped.name, shipped.version).read_text(encoding="utf-8"), path)


def _nccl_template(version: str) -> str:
    """The file of a version of NCCL's model, under a version that no shipped one has."""
    from colltool.libraries.nccl.hardware import constants, version_file

    shipped = constants(version).version
    text = version_file(shipped).read_text(encoding="utf-8")
    yours = 'name = "nccl"\nversion = "2.99"  # yours, which no shipped one has'
    return text.replace(f'version = "{shipped}"', yours, 1)
