"""A data file is what its name says."""

from __future__ import annotations

from swept import swept

from colltool.engines.lookup import find_library
from colltool.engines.shipped import shipped_libraries


@swept(("name", "version"), shipped_libraries())
def test_a_library_file_holds_the_version_of_its_name(name: str, version: str) -> None:
    library = find_library(f"{name}@{version}")
    assert (library.name, library.version) == (name, version)
