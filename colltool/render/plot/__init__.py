"""Results as PNG, SVG or PDF pictures. Needs matplotlib, an optional extra.

No pyplot, no display, no matplotlibrc of the user: the same result always gives the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings

from colltool.base.errors import ColltoolError, clipped
from colltool.render.plot.style import STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# No dates or versions, so that the same plot is the same file.
_METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def picture(result: Any, suffix: str, view: str = "") -> bytes:
    """A result as a picture file; ``view`` is one of :data:`colltool.render.plot.views.VIEWS`, the first by default."""
    suffix = suffix.lower()
    return _saved(result, view, suffix[1:], metadata=_METADATA[suffix])


def page_picture(result: Any, view: str = "", *, packages: str = "matplotlib") -> bytes:
    """A result as SVG for a page: text as outlines, no background or title, panels in one column.

    ``packages`` is what the error tells the user to install when matplotlib is missing.
    """
    need_matplotlib("a picture", packages)
    options = {"metadata": _METADATA[".svg"], "transparent": True}
    return _saved(result, view, "svg", style={"svg.fonttype": "path"}, paged=True, **options)


def _saved(
    result: Any, view: str, form: str, *, style: dict[str, str] | None = None, paged: bool = False, **options: Any
) -> bytes:
    buffer = BytesIO()
    with drawn(result, view, style=style, paged=paged) as figure:
        figure.savefig(buffer, format=form, **options)
    return buffer.getvalue()


@contextmanager
def drawn(result: Any, view: str = "", *, style: dict[str, str] | None = None, paged: bool = False) -> Iterator[Figure]:
    """A result as a figure; save it inside the ``with``, where the style is set."""
    need_matplotlib("a plot")
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from colltool.render.plot.chart import draw_chart
    from colltool.render.plot.views import chart_of

    with matplotlib.rc_context(), catch_warnings():
        filterwarnings("ignore", "Glyph .* missing from font")  # a box is drawn instead
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE | (style or {}))
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        draw_chart(chart_of(result, view, paged=paged), figure, paged=paged)
        yield figure


def need_matplotlib(what: str, packages: str = "matplotlib", argument: str = "plot") -> None:
    """Raise a ColltoolError if matplotlib is missing or does not load; ``what`` is the subject of its message."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        hint = f"pip install {packages}"
        raise ColltoolError(f"{what} needs matplotlib, which is missing", argument=argument, fix=hint) from error
    except ValueError as error:  # a bad MPLBACKEND or matplotlibrc
        backend = os.environ.get("MPLBACKEND")
        cause = f"MPLBACKEND={clipped(backend)} names none of its backends" if backend else clipped(str(error), 200)
        hint = "leave it out of the environment: unset MPLBACKEND" if backend else "mend its settings: matplotlibrc"
        raise ColltoolError(f"{what} needs matplotlib, which does not load: {cause}", argument=argument, fix=hint) from error


def check_plot(path: Path) -> None:
    """Raise a ColltoolError, before any long work, if the plot could not be written afterwards."""
    if path.suffix.lower() not in _METADATA:
        found = f"'{path.suffix}'" if path.suffix else "no suffix"
        hint = f"end the name in {', '.join(_METADATA)}, such as {path.stem or 'fit'}.png"
        raise ColltoolError(f"{path} has {found}, which is no format of a plot", argument="plot", fix=hint)
    need_matplotlib("a plot")
    folder = path.parent
    if not os.path.isdir(folder):
        raise ColltoolError(f"cannot write {path}: no such folder", argument="plot", fix=f"create it: mkdir -p {folder}")
    if os.path.isdir(path) or not all(os.access(one, os.W_OK) for one in (folder, path) if os.path.exists(one)):
        raise ColltoolError(f"cannot write {path}", argument="plot", fix="name a file in a folder that you can write to")
