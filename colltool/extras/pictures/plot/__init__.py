"""Results as PNG, SVG or PDF pictures, and as inline ``<svg>`` elements of a page. Needs
matplotlib, an optional extra.

No pyplot, no display, no matplotlibrc of the user: the same result always gives the same bytes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings
from xml.etree import ElementTree

from colltool.analysis.compare import Comparison
from colltool.analysis.jobs import Plans
from colltool.analysis.sensitivity import Sensitivity
from colltool.analysis.sweep import Sweep
from colltool.base.errors import ColltoolError, clipped, either
from colltool.base.extras import needs_extra
from colltool.calibration.calibrate import Calibration
from colltool.diagnosis.results import Diagnosis, Validation
from colltool.estimate.results import Breakdown, Crossover
from colltool.extras.pictures.plot import choices, fits, times
from colltool.extras.pictures.plot.chart import (
    GRID,
    INK,
    LINE,
    PAPER,
    SOFT,
    STYLE,
    Chart,
    draw_chart,
)
from colltool.traces.results import TraceComparison
from colltool.training.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ChartOf = Callable[[Any, bool], Chart]
"""Makes the chart of a result; True is for a page, which has room for fewer panels."""


def _over_size(chart: Callable[..., Chart]) -> dict[str, ChartOf]:
    return {what: partial(chart, what=what) for what in ("time", "busbw")}


VIEWS: dict[type, dict[str, ChartOf]] = {
    Sweep: {"map": choices.map_chart, "busbw": choices.lines_chart},
    Comparison: {"busbw": choices.comparison_chart},
    Sensitivity: {"spread": choices.sensitivity_chart},
    Breakdown: {"phases": times.breakdown_chart},
    Plan: {"step": times.plan_chart},
    Plans: {"step": times.plans_chart},
    Crossover: {"sizes": times.crossover_chart},
    TraceComparison: {"calls": times.trace_chart},
    Diagnosis: {"busbw": fits.diagnosis_chart},
    Calibration: _over_size(fits.calibration_chart),
    Validation: _over_size(fits.validation_chart),
}
"""Which results can be plotted, and their views by name; the first is the default."""

# No dates or versions, so that the same plot is the same file.
_METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
PAGE_COLOURS = {
    INK: "--ct-ink",
    SOFT: "--ct-soft",
    LINE: "--ct-line",
    GRID: "--ct-grid",
    PAPER: "--ct-paper",
}
"""The CSS custom properties that a dark page sets; the colours of data stay."""

_OF_LETTERS = "scale(0.015625)"  # matplotlib gives this transform to glyph outlines only
# enlarged, as 8 points stand beside a page's text of 14 or 16 pixels
_PIXELS_A_POINT = 1.25 * 96 / 72
_XLINK = "{http://www.w3.org/1999/xlink}href"
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_LINK = re.compile(r"url\(#([^)]+)\)")
_NUMBER = re.compile(r"-?\d+\.\d+")
_ACROSS = re.compile(r"translate\((\S+) 0\)")


def chart_of(result: Any, view: str = "", *, paged: bool = False) -> Chart:
    """The chart of a result; raises a ColltoolError for one that has no plot, no such view, or
    nothing to draw."""
    views = VIEWS.get(type(result))
    if views is None:
        fix = f"take its tables: {either(shell='--format html', python='to_html()')}"
        raise ColltoolError(f"{type(result).__name__} has no picture", argument="plot", fix=fix)
    if view and view not in views:
        raise ColltoolError(
            f"a plot cannot show '{view}'", argument="plot_what", fix=f"write {' or '.join(views)}"
        )
    return views[view or next(iter(views))](result, paged)


def picture(result: Any, suffix: str, view: str = "") -> bytes:
    """A result as a picture file; ``view`` is one of :data:`VIEWS`, the first by default."""
    suffix, buffer = suffix.lower(), BytesIO()
    with drawn(result, view) as figure:
        figure.savefig(buffer, format=suffix[1:], metadata=_METADATA[suffix])
    return buffer.getvalue()


@contextmanager
def drawn(result: Any, view: str = "", *, paged: bool = False) -> Iterator[Figure]:
    """A result as a figure; save it inside the ``with``, where the style is set. On a page its text
    is drawn as outlines."""
    need_matplotlib("a plot")
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), catch_warnings():
        filterwarnings("ignore", "Glyph .* missing from font")  # a box is drawn instead
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE | ({"svg.fonttype": "path"} if paged else {}))
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        draw_chart(chart_of(result, view, paged=paged), figure, paged=paged)
        yield figure


def need_matplotlib(what: str, extra: str = "plot", argument: str = "plot") -> None:
    """Raise a ColltoolError if matplotlib is missing or does not load: ``what`` needs it, ``extra``
    brings it."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise needs_extra(extra, what, "matplotlib", argument=argument) from error
    except ValueError as error:  # a bad MPLBACKEND or matplotlibrc
        backend = os.environ.get("MPLBACKEND")
        cause = (
            f"MPLBACKEND={clipped(backend)} names none of its backends"
            if backend
            else clipped(str(error), 200)
        )
        hint = (
            "leave it out of the environment: unset MPLBACKEND"
            if backend
            else "mend its settings: matplotlibrc"
        )
        raise ColltoolError(
            f"{what} needs matplotlib, which does not load: {cause}", argument=argument, fix=hint
        ) from error


def check_plot(path: Path) -> None:
    """Raise a ColltoolError, before any long work, if the plot could not be written afterwards."""
    if path.suffix.lower() not in _METADATA:
        found = f"'{path.suffix}'" if path.suffix else "no suffix"
        hint = f"end the name in {', '.join(_METADATA)}, such as {path.stem or 'fit'}.png"
        raise ColltoolError(
            f"{path} has {found}, which is no format of a plot", argument="plot", fix=hint
        )
    need_matplotlib("a plot")
    folder = path.parent
    if not os.path.isdir(folder):
        raise ColltoolError(
            f"cannot write {path}: no such folder",
            argument="plot",
            fix=f"create it: mkdir -p {folder}",
        )
    if os.path.isdir(path) or not all(
        os.access(one, os.W_OK) for one in (folder, path) if os.path.exists(one)
    ):
        raise ColltoolError(
            f"cannot write {path}",
            argument="plot",
            fix="name a file in a folder that you can write to",
        )


class Letters:
    """Glyph outlines shared by the plots of a page, each once in :attr:`svg`, which the page puts
    before them."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def take(self, root: ElementTree.Element) -> None:
        """Replace a plot's own outlines by references to the shared ones."""
        names: dict[str, str] = {}
        for defs in root.iter("defs"):
            for outline in [one for one in defs if one.get("transform") == _OF_LETTERS]:
                drawn = outline.get("d", "")
                names[f"#{outline.get('id')}"] = "#" + self._names.setdefault(
                    drawn, f"letter-{len(self._names)}"
                )
                defs.remove(outline)
        for one in root.iter("use"):
            one.set("href", names.get(one.attrib["href"], one.attrib["href"]))

    @property
    def svg(self) -> str:
        root = ElementTree.Element(
            "svg",
            {"width": "0", "height": "0", "aria-hidden": "true", "style": "position: absolute"},
        )
        defs = ElementTree.SubElement(root, "defs")
        for drawn, name in self._names.items():
            ElementTree.SubElement(
                defs,
                "path",
                {"id": name, "transform": _OF_LETTERS} | ({"d": drawn} if drawn else {}),
            )
        return ElementTree.tostring(root, encoding="unicode")


def page_svg(
    result: Any,
    view: str = "",
    prefix: str = "fig",
    *,
    extra: str = "plot",
    letters: Letters | None = None,
) -> str:
    """The plot of a result as one ``<svg>`` element for an HTML page: no background or title,
    panels in one column.

    Colours of text, lines and paper are CSS custom properties (:data:`PAGE_COLOURS`) that default
    to light ones. ``prefix``: of all ids; each plot of a page needs its own. ``extra``: which the
    error says to install when matplotlib is missing.
    ``letters``: the outlines that the plots of a page share; without it a plot has its own.
    """
    need_matplotlib("a picture", extra)
    buffer = BytesIO()
    with drawn(result, view, paged=True) as figure:
        figure.savefig(buffer, format="svg", metadata=_METADATA[".svg"], transparent=True)
    root = ElementTree.fromstring(buffer.getvalue())
    _strip(root)
    _rename(root, prefix)
    if letters is not None:
        letters.take(root)
    _flatten(root)
    for element in root.iter():
        _restyle(element)
    width, height = (
        float(root.attrib[side].removesuffix("pt")) * _PIXELS_A_POINT
        for side in ("width", "height")
    )
    root.attrib = {
        "xmlns": "http://www.w3.org/2000/svg",
        "role": "img",
        "aria-label": chart_of(result, view).alt,
        "width": f"{width:.0f}",
        "height": f"{height:.0f}",
        "viewBox": root.attrib["viewBox"],
        # as in matplotlib's own style sheet, which was stripped
        "style": "stroke-linejoin: round; stroke-linecap: butt",
    }
    return ElementTree.tostring(root, encoding="unicode")


def _strip(root: ElementTree.Element) -> None:
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.text, element.tail = None, None
        if (link := element.attrib.pop(_XLINK, None)) is not None:
            element.set("href", link)
    for parent in list(root.iter()):
        parent[:] = [child for child in parent if child.tag not in ("metadata", "style")]


def _rename(root: ElementTree.Element, prefix: str) -> None:
    values = [pair for element in root.iter() for pair in element.items()]
    referred = [
        name
        for key, value in values
        for name in ([value[1:]] if key == "href" else _LINK.findall(value))
    ]
    names = {name: f"{prefix}-{at}" for at, name in enumerate(dict.fromkeys(referred))}
    for element in root.iter():
        if (name := element.attrib.pop("id", None)) in names:
            element.set("id", names[name])
        for key, value in element.items():
            if key == "href":
                element.set(key, f"#{names[value[1:]]}")
            elif "url(#" in value:
                element.set(key, _LINK.sub(lambda found: f"url(#{names[found[1]]})", value))


def _flatten(parent: ElementTree.Element) -> None:
    found: list[ElementTree.Element] = []
    for child in parent:
        _flatten(child)
        found += list(child) if child.tag == "g" and not child.attrib else [child]
    parent[:] = found
    styles = {child.get("style") for child in parent}
    if (
        parent.tag == "g"
        and len(parent) > 1
        and len(styles) == 1
        and None not in styles
        and "style" not in parent.attrib
    ):
        parent.set("style", styles.pop() or "")  # as of the marks of a line
        for child in parent:
            del child.attrib["style"]


def _restyle(element: ElementTree.Element) -> None:
    for key in ("style", "fill", "stroke"):
        if key in element.attrib:
            element.set(key, _COLOUR.sub(_of_page, element.attrib[key]))
    if element.tag == "use" and (found := _ACROSS.fullmatch(element.attrib.get("transform", ""))):
        del element.attrib["transform"]  # one glyph of a text
        element.set("x", found[1])
    for key in ("d", "x", "y", "width", "height", "points"):
        if key in element.attrib:
            element.set(key, " ".join(_NUMBER.sub(_rounded, element.attrib[key]).split()))


def _rounded(found: re.Match[str]) -> str:
    return f"{float(found[0]):.2f}".rstrip("0").rstrip(".")


def _of_page(found: re.Match[str]) -> str:
    name = PAGE_COLOURS.get(found[0])
    return f"var({name}, {found[0]})" if name else found[0]


def shared_letters() -> Letters:
    """Outlines for the plots of one page."""
    return Letters()
