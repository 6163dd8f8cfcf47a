"""What changed between two JSON outputs, or between two libraries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colltool.base.errors import ColltoolError, argument_text, rename_arguments
from colltool.commands.command import command, failed
from colltool.commands.options import MAYBE_FABRIC, RESULT, FabricChoice, Out, option

if TYPE_CHECKING:
    from colltool.analysis.diff import Diff
    from colltool.commands.reading import AnyFabric
    from colltool.engines.library_diff import LibraryDiff

# ranks on which libraries of kernels are compared by default: a node
DEFAULT_RANKS = 8
# smaller relative changes are rounding, not changes
DEFAULT_RTOL = 1e-6
# help of --library
LIBRARY_PAIR = "Compare two libraries, or two versions of one, on a fabric instead of two files."


def diff(old: Mapping[str, Any], new: Mapping[str, Any], rtol: float = DEFAULT_RTOL) -> Diff:
    """What changed between two JSON documents of the same command by more than a relative tolerance.

    Args:
        old, new: what ``json.load`` made of two outputs; NaN and infinite numbers in them are
            refused.
        rtol: numbers that differ by at most this fraction of the old one are the same.

    Raises:
        ColltoolError: not documents of colltool, or of different commands.
    """
    from colltool.analysis.diff import diff as run
    from colltool.commands.reading import number_of, wrong

    for argument, document in (("old", old), ("new", new)):
        if not isinstance(document, Mapping):
            raise wrong(
                document, argument, "a JSON document as a mapping", "give what json.load returns"
            )
    return run(old, new, number_of(rtol, "rtol"))


def diff_libraries(
    fabric: AnyFabric, old: str, new: str, *, ranks: int | None = None, mode: str | None = None
) -> LibraryDiff:
    """Where two libraries, or two versions of NCCL, run different kernels on a fabric, and what
    that costs.

    Args:
        fabric: a fabric, or a path or shipped name to load.
        old, new: ``"nccl@2.30"`` and ``"nccl@2.31"``, or two of :func:`list_libraries`.
        ranks: ranks in the group (libraries of kernels only); default: 8.
        mode: how engines launch the calls: ``"graph"`` (default) or ``"eager"``.

    Raises:
        ColltoolError: an unknown library, or a library of algorithms compared with one of kernels.
    """
    from colltool.commands.kernel_prices import mode_if
    from colltool.commands.reading import count_of, text_of
    from colltool.commands.requests import fabric_of
    from colltool.engines.library_diff import diff_kernels, diff_versions
    from colltool.engines.lookup import WARNING, find_library, is_library
    from colltool.libraries.nccl.hardware import constants

    loaded = fabric_of(fabric)
    first = text_of(old, "library", "nccl@2.31").lower()
    second = text_of(new, "library", "nccl@2.31").lower()
    if is_library(first) and is_library(second):
        group = DEFAULT_RANKS if ranks is None else count_of(ranks, "ranks", least=2)
        old_library = find_library(first)
        new_library = find_library(second)
        for file in (old_library, new_library):
            # said: what find_library has to say of what it found; so it begins where the data of another
            # version stand in, and comparing these would compare the wrong ones
            if file.said.startswith(WARNING):
                raise ColltoolError(
                    file.said.removeprefix(WARNING),
                    argument="library",
                    fix=f"compare {file.full_name}",
                )
        return diff_kernels(loaded, old_library, new_library, group, mode_if(mode))
    if mode is not None:
        raise ColltoolError(
            "only engines' libraries say how a call is launched",
            argument="mode",
            fix=f"leave {argument_text('mode')} out",
        )
    versions = []
    for name in (first, second):
        library, _, version = name.partition("@")
        if library != "nccl":
            raise ColltoolError(
                f"{first} and {second} have nothing to compare",
                argument="library",
                fix="two versions of nccl, or two of colltool library list",
            )
        # the version whose data stands for the one that was named
        versions.append(constants(version).version)
    return diff_versions(loaded, *versions)


@command(
    [
        "old",
        "new",
        "rtol",
        option("library", LIBRARY_PAIR, metavar="OLD NEW", kind="pair", words=()),
        MAYBE_FABRIC,
        option("ranks", "Ranks in the group (requires --library). [default: 8]"),
        "mode",
        RESULT,
    ],
)
def diff_command(
    fabric: FabricChoice,
    out: Out,
    old: Path | None = None,
    new: Path | None = None,
    rtol: float | None = None,
    library: tuple[str, str] | None = None,
    ranks: int | None = None,
    mode: str | None = None,
) -> None:
    """Show what changed between two JSON outputs of the same command; exit 1 if anything did.

    The winner's total comes first. Rows are matched by content, not by position. With --library:
    where two libraries pick different kernels on a fabric.

    Examples:
      colltool diff old.json new.json
      colltool diff old.json new.json --rtol 0.01 --format markdown
      colltool diff --library nccl@2.30 nccl@2.31 -f dgx-h100
    """
    from colltool.analysis.json_documents import read_document

    if library is not None:
        if old is not None or rtol is not None:
            raise ColltoolError(
                "compares two libraries, not two files",
                argument="library",
                fix=f"leave the files and {argument_text('rtol')} out",
            )
        if not fabric.names:
            raise ColltoolError(
                "libraries are compared on a fabric",
                argument="fabric",
                fix=f"add {argument_text('fabric', 'dgx-h100')}",
            )
        emit_difference(diff_libraries(fabric.load(), *library, ranks=ranks, mode=mode), out)
        return
    if old is None or new is None:
        raise ColltoolError(
            f"{'OLD' if old is None else 'NEW'} is missing",
            fix=f"a JSON output of colltool, or two libraries: {argument_text('library', 'nccl@2.30')}"
            " nccl@2.31; colltool diff -h shows both",
        )
    if fabric.names or ranks is not None or mode is not None:
        raise ColltoolError(
            "files are compared as they are",
            argument="fabric",
            fix=f"leave it out, or add {argument_text('library', 'nccl@2.30')} nccl@2.31",
        )
    # an error names the file, not the argument
    with rename_arguments("shell", old=str(old), new=str(new)):
        moved = diff(read_document(old), read_document(new), DEFAULT_RTOL if rtol is None else rtol)
    emit_difference(moved, out)


def emit_difference(result: Diff | LibraryDiff, out: Out) -> None:
    """Write what changed, and end with exit code 1 where anything did, as diff(1) does."""
    out.emit(result)
    if result.moved:
        failed()
