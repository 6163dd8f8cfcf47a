"""Measured and modelled time (or busbw) over size, as PNG, SVG or PDF. Needs matplotlib, an optional extra.

Nothing here touches pyplot, a display or the user's own style, and the same result gives the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from textwrap import fill, shorten
from typing import TYPE_CHECKING, Any

from colltool.errors import ColltoolError
from colltool.fitting.results import Calibration, Validation
from colltool.render.plot_axes import draw_panel, explain_pens, pens_for
from colltool.render.plot_panels import VIEWS, Panel, What, calibration_panels, validation_panels
from colltool.words import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from colltool.study.compare import Comparison
    from colltool.study.sensitivity import Sensitivity
    from colltool.study.sweep import Sweep

# No dates and no versions, so that the same plot is the same file.
_METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "0.4",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "text.parse_math": False,  # a $ in a name is a $
    "svg.fonttype": "none",
    "svg.hashsalt": "colltool",
    "savefig.dpi": 150,
}
_COLUMNS = {1: 1, 2: 2, 3: 3, 4: 2, 5: 3, 6: 3, 7: 3, 8: 4, 9: 3}
_INCHES_A_LETTER = 0.068  # of 8 points


def calibration_picture(result: Calibration, suffix: str, what: What = "time") -> bytes:
    """Every series with the fit through it and the points left out, as the bytes of a picture.

    Raises:
        ColltoolError: no series.
    """
    title = f"{result.fabric.name}, tier {result.tier}: measured and fitted"
    return _drawn(calibration_panels(result, what), title, suffix, what)


def validation_picture(result: Validation, suffix: str, what: What = "time") -> bytes:
    """Every series with the price of each point, as the bytes of a picture.

    Raises:
        ColltoolError: no series.
    """
    title = f"{result.fabric}: measured and predicted, mean error {percent(result.mape)}"
    return _drawn(validation_panels(result, what), title, suffix, what)


def choice_picture(result: Sweep | Comparison | Sensitivity, suffix: str) -> bytes:
    """Winners over two axes, bus bandwidth of columns over size, or what numbers move, as the bytes of a picture.

    Raises:
        ColltoolError: a sweep with one value on every axis.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from colltool.render.plot_choices import draw_choice

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        draw_choice(result, figure)
        return _picture(figure, suffix.lower())


def check_plot(path: Path, what: str = "time") -> None:
    """Refuse, before any long work, a plot that could not be written after it.

    Raises:
        ColltoolError: a suffix that is no picture's, an unknown view, no matplotlib, a folder or file that cannot be written.
    """
    if path.suffix.lower() not in _METADATA:
        found = f"'{path.suffix}'" if path.suffix else "no suffix"
        hint = f"end the name in {', '.join(_METADATA)}, such as {path.stem or 'fit'}.png"
        raise ColltoolError(f"{path} has {found}, which is no format of a plot", argument="plot", fix=hint)
    if what not in VIEWS:
        raise ColltoolError(f"a plot cannot show '{what}'", argument="plot_what", fix=f"write {' or '.join(VIEWS)}")
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        hint = "install it: pip install 'colltool[plot]'"
        raise ColltoolError("a plot needs matplotlib, which is missing", argument="plot", fix=hint) from error
    folder = path.parent
    if not os.path.isdir(folder):
        raise ColltoolError(f"cannot write {path}: no such folder", argument="plot", fix=f"create it: mkdir -p {folder}")
    if os.path.isdir(path) or not all(os.access(one, os.W_OK) for one in (folder, path) if os.path.exists(one)):
        raise ColltoolError(f"cannot write {path}", argument="plot", fix="name a file in a folder that you can write to")


def _drawn(panels: Sequence[Panel], title: str, suffix: str, what: What) -> bytes:
    import matplotlib

    if not panels:
        raise ColltoolError("there is no series to plot", argument="plot", fix="give logs with at least one row")
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        return _picture(_figure(panels, title, what), suffix.lower())


def _picture(figure: Figure, suffix: str) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format=suffix[1:], metadata=_METADATA[suffix])
    return buffer.getvalue()


def _figure(panels: Sequence[Panel], title: str, what: What) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = _COLUMNS.get(len(panels), 4)
    rows = -(-len(panels) // columns)
    width = 4.2 * columns if columns > 1 else 7.0
    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(rows, columns)
    pens = pens_for(panels)
    for i, panel in enumerate(panels):
        halves = grid[i // columns, i % columns].subgridspec(2, 1, height_ratios=(3, 1), hspace=0)
        main = figure.add_subplot(halves[0])
        strip = figure.add_subplot(halves[1], sharex=main)
        draw_panel(main, strip, panel, pens, what)
        _entitle(main, panel, _letters(width / columns) - 12)
        if i % columns == 0:
            main.set_ylabel(what)
            strip.set_ylabel("time error")
        if i + columns >= len(panels):
            strip.set_xlabel("message size")
    explain_pens(figure.axes[0], panels, pens)
    lines = _add_legend(figure, width)
    figure.suptitle(fill(title, int(0.7 * _letters(width))), fontsize=11)
    figure.set_size_inches(width, 3.7 * rows + 0.6 + 0.18 * lines)
    return figure


def _entitle(main: Axes, panel: Panel, letters: int) -> None:
    main.set_title(f"{shorten(panel.title, letters, placeholder=' ...')}\n", loc="left", fontweight="bold")
    text = shorten(panel.subtitle, int(1.1 * letters), placeholder=" ...")
    main.annotate(text, (0, 1), (0, 5), "axes fraction", "offset points", color="0.35")


def _add_legend(figure: Figure, width: float) -> int:
    """Below the panels, where it covers no point, in as many columns as the longest label lets; how many lines that takes."""
    labelled = (zip(*axes.get_legend_handles_labels(), strict=True) for axes in figure.axes)
    handles = {str(label): handle for pairs in labelled for handle, label in pairs}
    labels = [fill(label, _letters(width) - 10) for label in handles]
    longest = max(len(line) for label in labels for line in label.splitlines())
    columns = max(1, min(len(labels), _letters(width) // (longest + 9)))
    figure.legend(list(handles.values()), labels, loc="outside lower center", ncols=columns)
    return sum(1 + label.count("\n") for label in labels[::columns])


def _letters(inches: float) -> int:
    """How many letters of 8 points fit."""
    return int(inches / _INCHES_A_LETTER)
