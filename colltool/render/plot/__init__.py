"""Results as pictures: PNG, SVG or PDF for a file, SVG for a page. Needs matplotlib, an optional extra.

The one module that draws with matplotlib; what is drawn stands in the ``plot_*`` modules, by :mod:`colltool.render.plot.views`.
Nothing here touches pyplot, a display or the user's own style, and the same result gives the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings

from colltool.base.errors import ColltoolError
from colltool.base.quoting import clipped
from colltool.render.plot.style import STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# No dates and no versions, so that the same plot is the same file.
_METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def picture(result: Any, suffix: str, view: str = "") -> bytes:
    """A result as the bytes of a picture.

    Args:
        result: one of :data:`colltool.render.plot.views.VIEWS`.
        suffix: ``.png``, ``.svg`` or ``.pdf``, in any case.
        view: what to show, where there is a choice: ``map`` or ``busbw`` of a sweep, ``time`` or ``busbw`` over size.

    Raises:
        ColltoolError: a result without a picture or such a view, nothing to draw, no matplotlib.
    """
    suffix = suffix.lower()
    return _saved(result, view, suffix[1:], metadata=_METADATA[suffix])


def page_picture(result: Any, view: str = "", *, packages: str = "matplotlib") -> bytes:
    """A result as an SVG document for a page: letters as outlines, no background or heading, one panel below the other.

    Raises:
        ColltoolError: as :func:`picture`; ``packages`` are what to install.
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
    """A result as a figure, in the style that it is to be saved in.

    Raises:
        ColltoolError: a result without a picture or such a view, nothing to draw, no matplotlib.
    """
    need_matplotlib("a plot")
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from colltool.render.plot.chart import draw_chart
    from colltool.render.plot.views import chart_of

    with matplotlib.rc_context(), catch_warnings():
        filterwarnings("ignore", "Glyph .* missing from font")  # a box in its place is seen
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE | (style or {}))
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        draw_chart(chart_of(result, view, paged=paged), figure, paged=paged)
        yield figure


def need_matplotlib(what: str, packages: str = "matplotlib", argument: str = "plot") -> None:
    """Refuse what cannot be drawn.

    Args:
        what: to be drawn, as the subject of a sentence.
        packages: to install, matplotlib among them.
        argument: that asked for it.

    Raises:
        ColltoolError: no matplotlib, or one that does not load.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        hint = f"pip install {packages}"
        raise ColltoolError(f"{what} needs matplotlib, which is missing", argument=argument, fix=hint) from error
    except ValueError as error:  # it reads its settings as it loads
        backend = os.environ.get("MPLBACKEND")
        cause = f"MPLBACKEND={clipped(backend)} names none of its backends" if backend else clipped(str(error), 200)
        hint = "leave it out of the environment: unset MPLBACKEND" if backend else "mend its settings: matplotlibrc"
        raise ColltoolError(f"{what} needs matplotlib, which does not load: {cause}", argument=argument, fix=hint) from error


def check_plot(path: Path) -> None:
    """Refuse, before any long work, a plot that could not be written after it.

    Raises:
        ColltoolError: a suffix that is no picture's, no matplotlib, a folder or file that cannot be written.
    """
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
