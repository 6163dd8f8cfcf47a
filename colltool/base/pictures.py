"""The door to :mod:`colltool.extras.pictures`: the core imports none of it, and loads it by name
when a picture is wanted."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Protocol


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


def drawing() -> DrawingModule:
    """Drawings of fabrics."""
    module: DrawingModule = _part("drawing")
    return module


def plot() -> PlotModule:
    """Plots of results; its functions raise a ColltoolError where matplotlib is missing."""
    module: PlotModule = _part("plot")
    return module


def _part(name: str) -> Any:
    return import_module(f"colltool.extras.pictures.{name}")
