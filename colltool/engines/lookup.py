"""Libraries by name and version (:func:`find_library`), or from a user's file (:func:`load_library`)."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from colltool.base.errors import ColltoolError, argument_text, clipped, nearest
from colltool.base.files import read_text
from colltool.definitions.reader import read_source
from colltool.definitions.toml_source import scan_toml
from colltool.engines.files import LibraryFile
from colltool.engines.shipped import (
    FOLDER,
    SUFFIX,
    shipped_libraries,
    shipped_path,
    version_key,
)

# how a note starts that an answer begins with; here: that another version stands in for the requested
WARNING = "warning: "
# well-known libraries without a file, and why there is none (part of an error text)
UNMEASURED = {
    "gloo": "it runs on CPUs, and its thresholds were never measured",
}
# versions that engines are built against, where these are not the newest
_ENGINES_TAKE = {"deepep": "1"}


def find_library(requested: str) -> LibraryFile:
    """Return a shipped library by name and version.

    Without a version it is the one that engines take, or the newest that was measured; ``0.24`` is the
    newest of ``0.24.*``. A version that stands in for another one says so in ``said``, after WARNING.

    Args:
        requested: ``vllm``, or ``vllm@0.24.0``.

    Raises:
        ColltoolError: no library has this name, or there is no data of this version.
    """
    # without an @ the version is empty
    name, _, version = requested.lower().partition("@")
    # ascending
    versions = _measured_versions(name)
    if not versions:
        raise _unknown_library(name)
    version = version or _ENGINES_TAKE.get(name, "")
    if not version:
        return list(versions.values())[-1]
    matching = [known for known in versions if known == version or known.startswith(f"{version}.")]
    if matching:
        return versions[matching[-1]]
    stand_in = _stand_in(versions, version)
    if stand_in is not None:
        return stand_in
    # kernels of versions differ by up to 3 times, so any other one is no stand-in
    listed = [f"{name}@{known}" for known in versions]
    newest = list(versions.values())[-1]
    if newest.read_from is not None:
        listed.append(f"{name}@{newest.read_from} and later")
    raise ColltoolError(
        f"there is no data of {name} {clipped(version)}",
        argument="library",
        fix=f"there is for: {', '.join(listed)}",
    )


@cache
def _measured_versions(name: str) -> dict[str, LibraryFile]:
    """Every measured version of a shipped library, ascending; empty if there is no such library."""
    measured = {}
    for library_name, file_version in shipped_libraries():
        if library_name == name:
            file = _shipped(name, file_version)
            for version in file.measured or (file_version,):
                measured[version] = file.at_version(version)
    return measured


@cache
def _shipped(name: str, version: str) -> LibraryFile:
    """The whole shipped file that holds a version."""
    file = shipped_path(name, version)
    return read_library(file.read_text(encoding="utf-8"), file.name)


def _stand_in(versions: dict[str, LibraryFile], version: str) -> LibraryFile | None:
    """What an unmeasured version is priced by: its own picks where its source was read, or the older
    of its measured neighbours if both have the same kernels; None if neither is known."""
    requested = version_key(version)
    *_, newest = versions.values()
    name = newest.name
    if newest.read_from is not None:
        first_read = version_key(newest.read_from)
        # another major version may be anything
        if requested >= first_read and requested[0] == first_read[0]:
            file = _shipped(name, newest.version)
            by_source = f"version {version} of {name} was not measured: its picks are by its source"
            return file.at_version(version, f"{WARNING}{by_source}")
    older = [known for known in versions if version_key(known) < requested]
    newer = [known for known in versions if version_key(known) > requested]
    if not older or not newer:
        return None
    before, after = versions[older[-1]], versions[newer[0]]
    if before.kernels != after.kernels:
        return None
    instead = f"version {clipped(version)} of {name} was not measured: {before.version} stands in"
    return before.model_copy(update={"said": f"{WARNING}{instead}"})


def _unknown_library(name: str) -> ColltoolError:
    """The error for a name of which no kernels ship."""
    if name in UNMEASURED:
        what = f"{name} has no kernels here: {UNMEASURED[name]}"
        fix = "a file of your own: colltool library init; or one of colltool library list"
    else:
        names = list(dict(shipped_libraries()))
        what = f"no library '{clipped(name)}' has kernels here"
        known = f"known: {', '.join(names)}; colltool library list shows them"
        fix = f"{nearest(name, names)} {known}".strip()
    return ColltoolError(what, argument="library", fix=fix)


def is_library(name: str) -> bool:
    """Whether a name, with or without a version, is that of a library of kernels: one that ships, or
    one of which it is known why there is none."""
    library_name = name.partition("@")[0].lower()
    return library_name in UNMEASURED or library_name in dict(shipped_libraries())


def library_of(library: str | None, file: str | os.PathLike[str] | None) -> LibraryFile | None:
    """Return the user's own library file, a shipped library, or None.

    None is for NCCL and the like, which have no kernels here.

    Raises:
        ColltoolError: a library and a file; a file that is none; a version without data.
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


def load_library(path: str | os.PathLike[str]) -> LibraryFile:
    """Return a user's library file; ManyErrors has each mistake at its line and column."""
    name = os.fspath(path)
    if not name.endswith(SUFFIX):
        raise ColltoolError(
            f"a library file ends in {SUFFIX}, got {clipped(name)}",
            argument="library_file",
            fix=f"name it {Path(name).stem}{SUFFIX}; colltool library init starts one",
        )
    library = read_library(read_text(name, "definition"), name)
    # without its parts for other versions
    return library.at_version(library.version)


def read_library(text: str, name: str) -> LibraryFile:
    """Return a library from TOML text that errors call ``name``."""
    return read_source(LibraryFile, *scan_toml(text, name)).result()


def template() -> str:
    """Return the text that a user's library file starts as."""
    return (FOLDER / f"_template{SUFFIX}").read_text(encoding="utf-8")
