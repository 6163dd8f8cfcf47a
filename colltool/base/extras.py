"""The parts of colltool that are loaded by name, and the packages that a part may lack.

:mod:`colltool.extras` holds algorithms found by synthesis, other programs' formats, and pictures.
The core imports none of it: it loads a part here when one is wanted, and works without.

Where a package is missing, the error says what to type. colltool is in no package index that we
know of, so ``pip install 'colltool[plot]'`` would find nothing: a checkout is named by its path, an
installation by what pip recorded about it (``direct_url.json``, PEP 610).
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from colltool.base.errors import ColltoolError


class DrawingModule(Protocol):
    """What the core calls in ``colltool.extras.pictures.drawing``."""

    def fabric_svg(self, fabric: Any, prefix: str = ..., *, page: bool = ...) -> str: ...

    def drawn_endpoints(self, diagram: Any) -> int: ...


class SharedOutlines(Protocol):
    """Glyph outlines that the plots of a page share; ``svg`` goes before all of them."""

    @property
    def svg(self) -> str: ...


class PlotModule(Protocol):
    """What the core calls in ``colltool.extras.pictures.plot``; all but ``check_plot`` and
    ``need_matplotlib`` assume that matplotlib is installed."""

    def check_plot(self, path: Path) -> None: ...

    def need_matplotlib(self, what: str, extra: str, argument: str) -> None: ...

    def picture(self, result: Any, suffix: str, view: str) -> bytes: ...

    def page_svg(
        self, result: Any, view: str, prefix: str, *, extra: str, letters: SharedOutlines
    ) -> str: ...

    def shared_letters(self) -> SharedOutlines: ...


def extra(name: str) -> Any:
    """Return a module of :mod:`colltool.extras` by name, such as ``interop.goal``."""
    return import_module(f"colltool.extras.{name}")


def drawing() -> DrawingModule:
    """Return the module that draws fabrics."""
    module: DrawingModule = extra("pictures.drawing")
    return module


def plot() -> PlotModule:
    """Return the module that plots results; its functions raise a ColltoolError where matplotlib is
    missing."""
    module: PlotModule = extra("pictures.plot")
    return module


def register_synthesis() -> None:
    """Add the algorithms of ``colltool.extras.synthesis`` to the registry, unless that part was
    taken out of this installation."""
    try:
        extra("synthesis")
    except ModuleNotFoundError as error:
        # The part itself may be missing; what it imports must be there.
        if error.name not in ("colltool.extras", "colltool.extras.synthesis"):
            raise


def needs_extra(extra: str, what: str, package: str, *, argument: str = "") -> ColltoolError:
    """The error to raise where an import failed:
    ``needs_extra("plot", "a picture", "matplotlib", argument="output")``."""
    return ColltoolError(
        f"{what} needs {package}, which is missing", argument=argument, fix=install_command(extra)
    )


def install_command(extra: str) -> str:
    """Return the line for a shell that adds an extra to this installation:
    ``.venv/bin/python -m pip install -e '.[plot]'``."""
    import shlex
    import sys

    python = shlex.quote(_from_here(sys.executable or "python3"))
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file():
        return f"{python} -m pip install -e '{_from_here(str(checkout))}[{extra}]'"
    return f"{python} -m pip install '{_requirement(extra, _direct_url())}'"


def _from_here(path: str) -> str:
    """A path as typed in the current directory: relative if it lies below."""
    import os

    try:
        return str(Path(path).relative_to(os.getcwd()))
    except (ValueError, OSError):
        # The path lies elsewhere, or the current directory was removed.
        return path


def _direct_url() -> dict[str, Any]:
    """What pip recorded about the source of this installation. Empty for one from an index."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        found = json.loads(distribution("colltool").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _requirement(extra: str, direct_url: dict[str, Any]) -> str:
    """``/src/colltool[plot]`` of a folder, ``colltool[plot] @ git+https://...`` of an address,
    ``colltool[plot]`` of an index."""
    from urllib.parse import unquote, urlsplit

    url = str(direct_url.get("url", ""))
    if url.startswith("file:") and "vcs_info" not in direct_url:
        return f"{_from_here(unquote(urlsplit(url).path))}[{extra}]"
    if not url:
        return f"colltool[{extra}]"
    vcs = direct_url.get("vcs_info")
    if isinstance(vcs, dict):
        url = f"{vcs.get('vcs', 'git')}+{url}@{vcs.get('commit_id', 'HEAD')}"
    return f"colltool[{extra}] @ {url}"
