"""Libraries of kernels: list, show, check and start files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from colltool.base.errors import ColltoolError, given
from colltool.commands import options as o
from colltool.commands.command import command, each_checked, group_app
from colltool.commands.options import Out
from colltool.commands.output import write

if TYPE_CHECKING:
    from colltool.commands.reading import AnyPath
    from colltool.kernels.results import LibraryList, LibraryShown


def list_libraries() -> LibraryList:
    """Every library whose kernels ship, with its versions, operations and the GPUs that they were
    measured on."""
    from colltool.kernels.files import find_library, shipped_libraries
    from colltool.kernels.results import LibraryList, LibraryRow
    from colltool.nccl.hardware import GPUS, constants, versions

    found = (find_library(f"{name}@{version}").library for name, version in shipped_libraries())
    rows = [
        LibraryRow(one.name, one.version, one.spoken, one.operations, one.gpus) for one in found
    ]
    nccl = [
        LibraryRow(
            "nccl", one, "NCCL's cost model", tuple(map(str, constants(one).algorithms)), GPUS
        )
        for one in versions()
    ]
    return LibraryList(tuple(sorted([*rows, *nccl], key=lambda one: one.name)))


def show_library(
    library: str | None = None, *, library_file: AnyPath | None = None
) -> LibraryShown:
    """A library's kernels with their laws, what they were measured on, and its dispatch table.

    Args:
        library: ``"vllm@0.24.0"``, or a name for its newest version.
        library_file: one of your own in its place.

    Raises:
        ColltoolError: no such library, or every mistake of the file at its line and column.
    """
    from colltool.commands import reading as v
    from colltool.kernels.files import find_library, load_library
    from colltool.kernels.shown import shown_library, shown_nccl

    if library_file is not None:
        if not isinstance(library_file, str | os.PathLike):
            raise v.wrong(
                library_file,
                "library_file",
                "a path",
                f"write {given('library_file', 'mine.toml')}",
            )
        return shown_library(load_library(library_file))
    name = v.text_of(library, "library", "vllm@0.24.0").lower()
    if name.partition("@")[0] == "nccl":
        return shown_nccl(name.partition("@")[2])
    return shown_library(find_library(name).library)


library_command = group_app("Libraries of kernels; list, show, check, start your own.")


@command(library_command, "list", "The shipped libraries.")
def list_libraries_command(*, out: Out) -> None:
    """Every library whose measured kernels ship: engines' all-reduces, dispatch and combine of
    experts, KV transfer.

    Example:
      colltool library list
    """

    out.emit(list_libraries())


@command(library_command, "show", "A library's kernels and dispatch table.")
def show_library_command(
    name: Annotated[str, o.option("library_name")],
    *,
    out: Out,
) -> None:
    """A library's kernels: law, numbers, GPUs, ranks and sizes measured, error, source; and which
    it takes at which size.

    Examples:
      colltool library show vllm@0.24.0
      colltool library show deepep --format json
    """
    from colltool.kernels.files import SUFFIX

    out.emit(show_library(library_file=name) if name.endswith(SUFFIX) else show_library(name))


@command(library_command, "check", "Whether library files hold.")
def check_library(
    files: Annotated[list[str], o.option("files"), o.READ],
    schema: Annotated[  # noqa: ARG001 - has printed and stopped
        bool, o.schema_option("library", "colltool.kernels.files:LibraryFile")
    ] = False,
    *,
    out: Out,
) -> None:
    """Check library files: every mistake with line and column; exit 2 where one does not hold.

    Examples:
      colltool library check mine.toml
      colltool library check --schema
    """
    from colltool.kernels.files import LibraryFile, load_library
    from colltool.kernels.results import LibraryChecks, LibraryRow

    def row(one: LibraryFile) -> LibraryRow:
        return LibraryRow(one.name, one.version, one.spoken, one.operations, one.gpus)

    found = each_checked(
        files, load_library, lambda several: LibraryChecks(tuple(map(row, several)))
    )
    out.emit(found)


@command(library_command, "init", "Start a library file of your own.")
def init_library(
    source: Annotated[str | None, o.option("library_source")] = None,
    output: Annotated[
        Path | None,
        o.option("output", "Where to write it. [default: the terminal]", metavar="OUT.toml"),
        o.WRITTEN,
    ] = None,
) -> None:
    """A library file to fill in with what you measured: a commented template, or a shipped one to
    change.

    Examples:
      colltool library init
      colltool library init --from vllm@0.24.0 -o own.toml
    """
    from colltool.kernels.files import SUFFIX, find_library, shipped_path, template

    path = o.to_file(output)
    if path is not None and path.suffix != SUFFIX:
        fix = f"name it {path.stem}{SUFFIX}"
        raise ColltoolError(
            f"a library file ends in {SUFFIX}, got {path}", argument="output", fix=fix
        )
    if path is not None and path.exists():
        said = f"{path} is there already, and somebody may have filled it in"
        raise ColltoolError(said, argument="output", fix="name another file, or remove it first")
    if source is None:
        write(template(), path)
        return
    if source.partition("@")[0] == "nccl":
        from colltool.nccl.hardware import constants, version_file

        own_version = constants(source.partition("@")[2]).version
        text = version_file(own_version).read_text(encoding="utf-8")
        yours = 'name = "nccl"\nversion = "2.99"  # yours, which no shipped one has'
        write(text.replace(f'version = "{own_version}"', yours, 1), path)
        return
    own = find_library(source).library
    write(shipped_path(own.name, own.version).read_text(encoding="utf-8"), path)
