"""The page of a machine: what it is, what it should reach, how it is joined, each test of nccl-tests
with what was measured of it, and how far off its prices are.

:func:`machine_page` has the sections in their order; each is a function below it that yields the
section's parts as HTML. A ``MachineCurve`` has a group of the machine and its sizes in one test, each an
``ExpectedSize``: ``busbw_Bps`` and ``expected_s`` are expected, ``interval`` holds nine of ten measurements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from colltool.analysis.machine_curves import (
    HEADLINE_OPTIONS,
    HEADLINE_SIZES,
    SIZE_OPTIONS,
    MachineCurve,
    MachineCurves,
)
from colltool.base.extras import drawing
from colltool.base.formatting import format_rate, percent, size_text, title_size
from colltool.base.primitives import Primitive
from colltool.calibration.score import machine_score
from colltool.estimate.accuracy import CLASSES, DATASHEET
from colltool.estimate.accuracy import table as accuracy_table
from colltool.estimate.expected import SHARE, ExpectedSize, test_name
from colltool.fabric.load import SUFFIX, shipped_folder
from colltool.fabric.model import Fabric
from colltool.fabric.properties import basis_of, fabric_facts
from colltool.fabric.results import FabricShown
from colltool.render.blocks import (
    Block,
    Columns,
    Headline,
    Lines,
    Table,
    in_brief,
    label,
    number,
)
from colltool.render.dispatch import blocks, description_line
from colltool.render.markup import html, unstyled_html
from colltool.render.page.lines import AxisWords, ChartDots, ChartLine, ChartPoint, line_chart
from colltool.render.site.frame import (
    MENU,
    SiteLink,
    anchor,
    commands,
    folded,
    machine_link,
    page,
    paragraph,
    section,
    table,
)
from colltool.render.site.measured import MeasuredCurve, measured_curves
from colltool.render.views.expect import EXPECTED_COLUMNS, keepers_text
from colltool.render.views.report_risks import basis_text
from colltool.render.views.score import SCORE_COLUMNS

# bytes with a label: 1 KiB, 32 KiB ... 1 GiB; of the chart of large sizes 16 MiB, 128 MiB ... 8 GiB
_TICKS = tuple(2.0**power for power in range(10, 31, 5))
_LARGE_TICKS = tuple(2.0**power for power in range(24, 34, 3))


_SIZE = AxisWords("size", size_text)
_RATE = AxisWords("bus bandwidth", partial(format_rate, digits=3))


class HeadlineRow(NamedTuple):
    """What a group should reach in an all-reduce, at each of :data:`HEADLINE_SIZES`."""

    nodes: str
    ranks: int
    small: ExpectedSize
    large: ExpectedSize


_SMALL, _LARGE = map(title_size, HEADLINE_SIZES)
_HEADLINE: Columns[HeadlineRow] = (
    label("nodes", "all-reduce on"),
    number("ranks"),
    number("small", f"busbw, {_SMALL}", format_rate, path="small.busbw_Bps"),
    number("small_floor", "a gate may ask", format_rate, path="small.floor_busbw_Bps"),
    number("large", f"busbw, {_LARGE}", format_rate, path="large.busbw_Bps"),
    number("large_floor", "a gate may ask", format_rate, path="large.floor_busbw_Bps"),
    label("support", "it rests on", path="large.interval.reason"),
)


def machine_files(curves: MachineCurves, menu: Sequence[SiteLink]) -> Iterator[tuple[str, str]]:
    """Yield (path, text) of the page of a machine, of its file and of its drawing; paths are relative to the
    folder of the site."""
    fabric = curves.fabric
    name = fabric.name
    file = f"{name}{SUFFIX}"
    path = f"fabrics/{file}"
    yield machine_link(name).path, machine_page(curves, f"../{path}", menu)
    yield path, (shipped_folder() / file).read_text(encoding="utf-8")
    svg = drawing().fabric_svg(fabric)
    yield f"drawings/{name}.svg", f'<?xml version="1.0" encoding="UTF-8"?>\n{svg}\n'


def machine_page(curves: MachineCurves, yaml: str, menu: Sequence[SiteLink] = MENU) -> str:
    """Return the HTML of the page; ``yaml``: the address of the machine's file, relative to the page."""
    fabric = curves.fabric
    name = fabric.name
    body = f"<h1>{html(name)}</h1>\n"
    body += paragraph(f"{description_line(fabric)}.", "lead")
    body += paragraph(_priced_as(fabric))
    body += section("expected", "What it should reach", _headline_parts(curves))
    body += section("machine", "How it is joined", _drawing_parts(fabric, yaml))
    body += section("tests", "Tests", [_test_links(curves)])
    for primitive, of_test in curves.tests.items():
        title = f"{test_name(primitive)}_perf"
        body += section(test_name(primitive), title, _test_parts(name, primitive, of_test))
    body += section("accuracy", "How accurate it is", _accuracy_parts(fabric))
    title = f"{name}: what it should reach in nccl-tests"
    return page(machine_link(name), title, body, menu)


def _priced_as(fabric: Fabric) -> str:
    """``72 ranks of GB200, priced as NCCL 2.27 runs them; ...``, with what the numbers rest on."""
    library = fabric.library_facts
    library_runs = "any library would run"
    if library is not None and library.name != "all":
        library_runs = " ".join(filter(None, (library.name.upper(), library.version, "runs")))
    device = f" of {fabric.device}" if fabric.device else ""
    basis = basis_text(basis_of(fabric))
    return f"{fabric.ranks} ranks{device}, priced as {library_runs} them; {basis}."


def _headline_parts(curves: MachineCurves) -> Iterator[str]:
    """The short table, and the commands that give it."""
    rows = []
    command_lines = []
    for curve in curves.headline:
        group = curve.group
        # HEADLINE_SIZES are two
        small, large = curve.sizes
        rows.append(HeadlineRow(group.label, group.ranks, small, large))
        command_lines.append(group.command(Primitive.ALL_REDUCE, HEADLINE_OPTIONS))
    yield table(Table(_HEADLINE, tuple(rows)))
    yield paragraph(
        f"A gate may ask what {keepers_text(SHARE)} keep. Where no measurement supports it, it is"
        " wide: it says what such prices may be off by.",
        "soft",
    )
    yield commands(command_lines)


def _drawing_parts(fabric: Fabric, yaml: str) -> Iterator[str]:
    """The drawing, the tiers and the notes of the file."""
    name = fabric.name
    picture = f"../drawings/{name}.svg"
    image = f'<img src="{picture}" alt="{name} as colltool draws it" loading="lazy">'
    yield f'<div class="beside">\n<figure><a href="{picture}">{image}</a></figure>\n<div>\n'
    yield unstyled_html(list(_fabric_blocks(FabricShown(fabric, fabric_facts(fabric)))))
    yield f"<p>All numbers with their sources: {anchor(yaml, f'{name}.yaml')}.</p>\n"
    yield commands([f"colltool fabric show {name} --all", f"colltool fabric draw {name}"])
    yield "</div>\n</div>\n"


def _fabric_blocks(result: FabricShown) -> Iterator[Block]:
    """The tiers, what follows from them, and the notes of the file."""
    all_blocks = blocks(result)
    brief_blocks, _ = in_brief(all_blocks)
    for block in brief_blocks:
        # the tree of tiers is the block that ends with a branch
        if isinstance(block, Lines) and block.lines and block.lines[-1].lstrip().startswith("+-"):
            yield block._replace(title="tiers, outermost first", verbatim=True)
        elif isinstance(block, Table):
            yield block.without("topology", "neighbours")
        # the headline's sentence is at the top of the page
        elif not isinstance(block, Headline):
            yield block
    # in_brief() left them out
    notes = (block for block in all_blocks if isinstance(block, Lines) and block.title == "notes")
    yield from notes


def _test_links(curves: MachineCurves) -> str:
    """Return links to the tests, and which tests and groups are not those of the file."""
    links = []
    for primitive in curves.tests:
        name = test_name(primitive)
        links.append(anchor(f"#{name}", name))
    text = "gather_perf, scatter_perf and hypercube_perf have no price."
    # ``typed``: the fabric as a command has it, with a number of nodes where the file has another
    grown = [curve.group for curve in curves.headline if curve.group.typed != curves.fabric.name]
    if grown:
        text += f" {grown[-1].typed} is the machine with so many nodes."
    return f"<p>{', '.join(links)}.</p>\n{paragraph(text, 'soft')}"


def _test_parts(
    machine: str, primitive: Primitive, curves: Sequence[MachineCurve]
) -> Iterator[str]:
    """The chart of a test, what was measured, its numbers and their commands; ``curves``: one for each group
    of the machine."""
    measured = measured_curves(machine, primitive)
    caption = (
        "Bus bandwidth over size, and again for large sizes from zero. Line: expected; band: where"
        " nine of ten measurements should lie."
    )
    if measured:
        caption += " Dots: published measurements, each a link to its source; grey on other ranks."
    alt = f"Bus bandwidth of {test_name(primitive)}_perf on {machine}, over size"
    lines = list(map(_expected_line, curves))
    dots = list(_measured_dots(machine, curves, measured))
    charts = line_chart(lines, alt, _SIZE, _RATE, dots=dots, ticks=_TICKS)
    large = [line._replace(points=_large_points(line.points)) for line in lines]
    alt += ", large sizes"
    charts += line_chart(large, alt, _SIZE, _RATE, dots=dots, ticks=_LARGE_TICKS, linear=True)
    yield f'<figure>\n<div class="charts">\n{charts}\n</div>\n'
    yield f"<figcaption>{caption}</figcaption>\n</figure>\n"
    if measured:
        items = "".join(series.item(machine) for series in measured)
        yield f'<p>Published measurements; click a line for its values:</p>\n<ul class="measured">\n{items}</ul>\n'
    else:
        yield paragraph("No published measurement of this test on this machine is known.", "soft")
    sizes: list[ExpectedSize] = []
    command_lines = []
    for curve in curves:
        sizes += curve.sizes
        command_lines.append(curve.group.command(primitive, SIZE_OPTIONS))
    numbers = Table(EXPECTED_COLUMNS, tuple(sizes)).with_shown("ranks")
    yield folded("Numbers of the chart", table(numbers))
    yield commands(command_lines)


def _expected_line(curve: MachineCurve) -> ChartLine:
    """A curve with its interval, as bus bandwidth."""
    points = []
    for size in curve.sizes:
        # bus bandwidth is these bytes over the time: the longest time is the lowest bandwidth
        bus_bytes = size.busbw_Bps * size.expected_s
        low = bus_bytes / size.interval.high_s
        high = bus_bytes / size.interval.low_s
        points.append(ChartPoint(size.bytes, size.busbw_Bps, low, high))
    return ChartLine(curve.group.label, points)


def _large_points(points: Sequence[ChartPoint]) -> list[ChartPoint]:
    """The points of the chart of large sizes, which begins at its first tick."""
    return [point for point in points if point.x >= _LARGE_TICKS[0]]


def _measured_dots(
    machine: str, curves: Sequence[MachineCurve], measured: Sequence[MeasuredCurve]
) -> Iterator[ChartDots]:
    """The measured points, in the colour of the line that is on as many ranks; grey (line None) without
    one."""
    ranks = [curve.group.ranks for curve in curves]
    for series in measured:
        line = None
        # rows of another shape of the machine belong to none of its lines
        if series.ranks in ranks and series.source.machine == machine:
            line = ranks.index(series.ranks)
        yield series.dots(line)


class DeviceErrors(NamedTuple):
    """Median errors of a device's prices in each class of size, as ``8.1% (12)`` with the number of rows;
    None where nothing was measured."""

    wire: str  # inside a node, or across nodes
    test: str  # the collective
    # as CLASSES are, in their order
    small: str | None
    medium: str | None
    large: str | None
    largest: str | None


_ERRORS: Columns[DeviceErrors] = (
    label("wire", "where"),
    label("test"),
    number("small", CLASSES[0]),
    number("medium", CLASSES[1]),
    number("large", CLASSES[2]),
    number("largest", CLASSES[3]),
)


def _accuracy_parts(fabric: Fabric) -> Iterator[str]:
    """Errors on this machine, and on machines of the same device; without either, those of prices from
    datasheets alone."""
    name = fabric.name
    rows = machine_score(name)
    if rows:
        scored = Table(SCORE_COLUMNS, tuple(rows), title=f"published rows of {name}")
        yield table(scored.without("predictor", "own_median", "nearer"))
        yield paragraph(
            "error: median of |predicted/measured - 1|; p90: what nine of ten rows do not exceed;"
            " bias: median of predicted/measured - 1; inside: measurements inside the interval."
            " Each row is priced without its own source.",
            "soft",
        )
    device_errors = tuple(_device_errors(fabric.device or ""))
    if device_errors:
        title = f"median errors on all machines with {fabric.device}, rows in brackets"
        yield table(Table(_ERRORS, device_errors, title=title))
    elif not rows:
        medians = zip(map(percent, DATASHEET), CLASSES, strict=True)
        errors = ", ".join(f"{median} ({size_class})" for median, size_class in medians)
        yield paragraph(
            f"No published measurement judges these prices. Prices from datasheets alone were off by"
            f" a median of {errors}, on published rows of other machines."
        )
    yield f"<p>{anchor('../guides/accuracy.html', 'How accuracy is measured')}.</p>\n"
    yield commands(["colltool score --all"])


def _device_errors(device: str) -> Iterator[DeviceErrors]:
    """The rows of the table of errors for a device, a line for each wire and collective."""
    of_device = [errors for errors in accuracy_table() if errors.device == device]
    # rows of one wire and collective are neighbours in the package's table, one for each class
    for (wire, collective), classes in groupby(of_device, key=attrgetter("wire", "collective")):
        texts: list[str | None] = [None] * len(CLASSES)
        for errors in classes:
            # ``size``: the class, as an index of CLASSES
            texts[errors.size] = f"{percent(errors.median)} ({errors.rows})"
        where = "inside a node" if wire == "inside" else "across nodes"
        yield DeviceErrors(where, collective, *texts)
