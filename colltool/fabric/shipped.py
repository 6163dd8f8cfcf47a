"""Names and folder of the shipped fabrics, without what reads them: a shell completes these names at
every keystroke."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

SUFFIX = ".yaml"


@lru_cache(maxsize=1)
def shipped_folder() -> Path:
    """Return the folder of the shipped fabrics: within the package in a wheel, at the top of a checkout."""
    package = Path(__file__).parent.parent
    packed = package / "_fabrics"
    return packed if packed.is_dir() else package.parent / "fabrics"


def shipped_fabrics() -> list[str]:
    """Return the names of the shipped fabrics, sorted."""
    return list(stems_in(shipped_folder()))


@lru_cache(maxsize=8)
def stems_in(folder: Path) -> tuple[str, ...]:
    """Return the names, without ``.yaml``, of the files of a folder of the package, sorted; it is listed
    once a process."""
    return tuple(sorted(file.stem for file in folder.glob(f"*{SUFFIX}")))
