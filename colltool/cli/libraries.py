"""``colltool library``: files of kernels, shipped and of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from colltool.base.errors import ColltoolError
from colltool.cli import options as o
from colltool.cli.command import command, each_checked, group_app
from colltool.cli.options import Out
from colltool.cli.output import write

library = group_app("Libraries of kernels; list, show, check, start your own.")


@command(library, "list", "The shipped libraries.")
def list_libraries(*, out: Out) -> None:
    """Every library whose measured kernels ship: engines' all-reduces, dispatch and combine of
    experts, KV transfer.

    Example:
      colltool library list
    """
    from colltool.api.kernels import list_libraries

    out.emit(list_libraries())


@command(library, "show", "A library's kernels and dispatch table.")
def show_library(
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
    from colltool.api.kernels import show_library
    from colltool.engines.files import SUFFIX

    out.emit(show_library(library_file=name) if name.endswith(SUFFIX) else show_library(name))


@command(library, "check", "Whether library files hold.")
def check_library(
    files: Annotated[list[str], o.option("files"), o.READ],
    schema: Annotated[  # noqa: ARG001 - has printed and stopped
        bool, o.schema_option("library", "colltool.engines.files:LibraryFile")
    ] = False,
    *,
    out: Out,
) -> None:
    """Check library files: every mistake with line and column; exit 2 where one does not hold.

    Examples:
      colltool library check mine.toml
      colltool library check --schema
    """
    from colltool.engines.files import LibraryFile, load_library
    from colltool.engines.results import LibraryChecks, LibraryRow

    def row(one: LibraryFile) -> LibraryRow:
        return LibraryRow(one.name, one.version, one.spoken, one.operations, one.gpus)

    found = each_checked(
        files, load_library, lambda several: LibraryChecks(tuple(map(row, several)))
    )
    out.emit(found)


@command(library, "init", "Start a library file of your own.")
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
    from colltool.engines.files import SUFFIX, find_library, shipped_path, template

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
