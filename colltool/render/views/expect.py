"""``expect``: what a machine should reach in nccl-tests, what a gate may require, and which
measured sizes fall short of it.

Read from :data:`VIEWS`: :func:`_blocks` is the screen under :func:`_answer`; with logs it is of
measured sizes (:func:`_measured_blocks`, :func:`_measured_answer`).

A gate is the bandwidth (``floor_busbw_Bps``) that a share of healthy machines keep. It is ``supported`` where
comparable measurements stand behind its interval, else wide. ``result.largest`` has the largest size of each
test, ``result.short`` the measured sizes that miss their gate, and ``of_floor`` is measured over gate.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from colltool.base.formatting import (
    counted,
    format_rate,
    sentence,
    title_size,
    whole_percent,
)
from colltool.estimate.expected import Expected, ExpectedSize, MeasuredSize
from colltool.estimate.results import Infeasible
from colltool.render.blocks import (
    Block,
    Columns,
    Headline,
    Lines,
    Table,
    columns_at,
    flag,
    label,
    lines_by_names,
    number,
)
from colltool.render.busbw_chart import BusbwChart, curves
from colltool.render.dispatch import View, fabric_of, listed
from colltool.render.documents import Document, derived, optional
from colltool.render.estimates import ModelDocument, readings_block
from colltool.render.shared_documents import GroupDocument, OnFabricDocument, model_echo, whole

_FIRST_ROWS = 11  # shown without --all, spread over the sizes
_FEWEST_TESTS = 2  # that are worth a table of their own


# What a gate rests on by the basis of its interval, where no measurement is comparable.
_BASIS_WORDS = {
    "measured": "measurements near it",
    "interpolated": "measurements around it",
    "extrapolated": "beyond what is measured",
    "other machine": "other machines",
    "changed": "numbers set by you",
    "datasheet": "datasheets",
    "announced": "what is announced",
}


def _support_in_table(size: ExpectedSize) -> str:
    """What a gate rests on, in the few words of a table: ``33 measurements``, or what takes their
    place."""
    interval = size.interval
    if size.supported and interval.rows:
        return counted(interval.rows, "measurement")
    return _BASIS_WORDS[interval.basis]


# ``drop``, ``fold``, ``hidden`` and ``path`` are explained at Column in colltool.render.blocks.
EXPECTED_COLUMNS: Columns[ExpectedSize] = (
    label("test", hidden=True),
    number("ranks", hidden=True),
    number("bytes", "size", title_size, whole=True),
    number("expected_s", "time", drop=3),
    number("busbw_Bps", "busbw"),
    number("floor_busbw_Bps", "a gate may ask"),
    number("floor_share", "of busbw", whole_percent, drop=2),
    label("support", "it rests on", get=_support_in_table),
    number("slowest_s", "slowest", hidden=True),
    *columns_at(
        "interval",
        (number("low_s", "fast end", hidden=True), number("high_s", "slow end", hidden=True)),
    ),
    flag("supported", hidden=True),
    *columns_at(
        "interval",
        (
            label("basis", hidden=True),
            number("rows", hidden=True),
            label("reason", hidden=True),
            label("nearest", hidden=True),
        ),
    ),
    label("algorithm", hidden=True, path="row.name"),
    label("protocol", hidden=True, path="row.protocol"),
)
_MEASURED: Columns[MeasuredSize] = (
    label("file", "log", hidden=True, fold=24),
    label("series", fold=24),
    number("bytes", "size", title_size, path="expected.bytes", whole=True),
    number("measured_busbw_Bps", "measured"),
    number("floor_busbw_Bps", "gate", path="expected.floor_busbw_Bps"),
    number("of_floor", "of gate", whole_percent),
    flag("short", "short", drop=1),
    number("busbw_Bps", "expected", drop=2, path="expected.busbw_Bps"),
    number("measured_s", "time", hidden=True),
    number("expected_s", "expected time", hidden=True, path="expected.expected_s"),
    number("slowest_s", "slowest", hidden=True, path="expected.slowest_s"),
    label("test", hidden=True, path="expected.test"),
    number("ranks", hidden=True),
    flag("supported", hidden=True, path="expected.supported"),
    label("support", "it rests on", hidden=True, get=lambda size: _support_in_table(size.expected)),
    label("where", hidden=True),
)


def _table(result: Expected) -> Table:
    """What CSV has: the measured sizes, else the expected ones. Where logs were given and
    no size was judged it keeps the columns of measured sizes, which scripts then find empty."""
    if result.logs or result.measured:
        return Table(_MEASURED, result.measured)
    return Table(EXPECTED_COLUMNS, result.sizes).with_shown("test")


def machine_text(result: Expected) -> str:
    """``4 nodes of dgx-h100``, with its ranks where they do not fill nodes."""
    name = fabric_of(result)
    if result.nodes > 1:
        return f"{counted(result.nodes, result.noun)} of {name} ({result.group.label})"
    comma = "," if "," in result.group.label else ""
    return f"{result.group.label}{comma} of {name}"


def keepers_text(share: float) -> str:
    """``95 of 100 healthy machines``."""
    hundredths = round(100 * share, 1)
    return f"{hundredths:g} of 100 healthy machines"


def _blocks(result: Expected) -> Iterator[Block]:
    """The answer, then measured sizes, or the expected ones: of several tests the largest size of each first."""
    yield Headline(_answer(result))
    all_sizes = Table(EXPECTED_COLUMNS, result.sizes)
    if result.measured:
        yield from _measured_blocks(result)
    # the largest size of each test
    elif len(result.largest) >= _FEWEST_TESTS:
        all_sizes = all_sizes.with_shown("test")
        yield all_sizes._replace(records=result.largest, title="at the largest size")
        yield all_sizes._replace(title="at every size", first=0)
    else:
        yield all_sizes._replace(first=_FIRST_ROWS, spread=True)
    left_out = [(test.reason, test.algorithm) for test in result.left_out]
    yield from listed("left out", lines_by_names(left_out))
    yield from readings_block(result.readings)


def _measured_blocks(result: Expected) -> Iterator[Block]:
    """The measured sizes: those that fall short first, with the command that looks for a cause."""
    all_sizes = Table(_MEASURED, result.measured, title="every measured size")
    if len(result.logs) > 1:
        all_sizes = all_sizes.with_shown("file")
    if not result.short:
        yield all_sizes._replace(title="", first=_FIRST_ROWS, spread=True)
        return
    yield Lines("to find out why", (result.doctor,), verbatim=True)
    worst_first = sorted(result.short, key=attrgetter("of_floor"))
    table = all_sizes._replace(records=worst_first, title="short of the gate", first=_FIRST_ROWS)
    yield table.without("short")
    yield all_sizes._replace(first=0)


def _answer(result: Expected) -> str:
    """Say what the first test should reach at its largest size, and its gate; with logs what they
    reach."""
    if result.measured:
        return _measured_answer(result)
    largest = result.largest[0]
    expectation = (
        f"{sentence(machine_text(result))} should reach {format_rate(largest.busbw_Bps, 3)} of bus"
        f" bandwidth in {largest.test}_perf at {title_size(largest.bytes)};"
    )
    gate = format_rate(largest.floor_busbw_Bps, 3)
    keepers = keepers_text(result.share)
    if largest.supported:
        return (
            f"{expectation} a gate may ask {gate} ({keepers} keep it; it rests on"
            f" {_support_in_answer(largest)})."
        )
    return (
        f"{expectation} no measurement supports a gate there ({largest.interval.reason}): the wide one"
        f" asks {gate}, which {keepers} should keep."
    )


def _support_in_answer(size: ExpectedSize) -> str:
    """What a gate rests on, in the sentence: ``33 comparable measurements``, else the reason of the
    interval, and the nearest one."""
    interval = size.interval
    if interval.nearest is None:
        return interval.reason
    if not interval.rows:
        return f"the nearest measurement, {interval.nearest}"
    words = counted(interval.rows, "comparable measurement")
    return f"{words}, the nearest {interval.nearest}"


def _measured_answer(result: Expected) -> str:
    """Say which measured sizes fall short, and how far the worst; or how near the nearest comes."""
    short = result.short
    count = len(result.measured)
    keepers = keepers_text(result.share)
    if not short:
        least = min(result.measured, key=attrgetter("of_floor"))
        margin = whole_percent(least.of_floor)
        subject = f"All {count} measured sizes pass" if count > 1 else "The measured size passes"
        return (
            f"{subject} the gate that {keepers} keep; the nearest"
            f" to it, {_series_name(result, least)} at {title_size(least.expected.bytes)}, reaches {margin} of it."
            f"{_unsupported_sentence(result)}"
        )
    worst = min(short, key=attrgetter("of_floor"))
    verb = "falls" if len(short) == 1 else "fall"
    return (
        f"{len(short)} of {counted(count, 'measured size')} {verb} short of what {keepers} keep:"
        f" {_series_name(result, worst)} reaches {format_rate(worst.measured_busbw_Bps, 3)} at"
        f" {title_size(worst.expected.bytes)}, where a gate may ask"
        f" {format_rate(worst.expected.floor_busbw_Bps, 3)}.{_unsupported_sentence(result)}"
    )


def _series_name(result: Expected, size: MeasuredSize) -> str:
    """The series of a size, with its log where there are several."""
    return f"{size.series} of {size.file}" if len(result.logs) > 1 else size.series


def _unsupported_sentence(result: Expected) -> str:
    """Say how many of the gates rest on no measurement, with a blank before it; empty for none."""
    unsupported = sum(not size.expected.supported for size in result.measured)
    if not unsupported:
        return ""
    if unsupported == len(result.measured):
        return " Every gate is wide, for want of measurements."
    verb = "is" if unsupported == 1 else "are"
    return (
        f" {unsupported} of the {len(result.measured)} gates {verb} wide, for want of measurements."
    )


def _chart(result: Expected) -> BusbwChart | None:
    """Expected bandwidth and gates of one test, and what was measured; None for several tests or
    series."""
    # sizes of several series would go back and forth
    if len(result.largest) != 1 or len({size.series for size in result.measured}) > 1:
        return None
    points = []
    for size in result.sizes:
        points.append(("expected", size.bytes, size.busbw_Bps))
        points.append(("gate", size.bytes, size.floor_busbw_Bps))
    for measured in result.measured:
        points.append(("measured", measured.expected.bytes, measured.measured_busbw_Bps))
    return BusbwChart(f"bus bandwidth of {result.largest[0].test}_perf", curves(points))


class ExpectedSizeDocument(Document, of=ExpectedSize):
    """What is expected at a size."""

    test: str
    primitive: str
    ranks: int
    bytes: float = whole("bytes")
    algorithm: str = derived("row.name")
    protocol: str = optional("row.protocol")
    expected_s: float
    busbw_Bps: float
    slowest_s: float
    floor_busbw_Bps: float
    floor_share: float
    low_s: float = derived("interval.low_s")
    high_s: float = derived("interval.high_s")
    supported: bool
    support: str = derived(_support_in_table)
    basis: str = derived("interval.basis")
    rows: int = derived("interval.rows")
    reason: str = derived("interval.reason")
    nearest: str | None = derived("interval.nearest")


class MeasuredSizeDocument(Document, of=MeasuredSize):
    """A measured size against the gate."""

    series: str
    file: str
    where: str
    ranks: int
    measured_s: float
    measured_busbw_Bps: float
    of_floor: float
    short: bool
    expected: ExpectedSizeDocument


class ExpectDocument(OnFabricDocument):
    """What a machine should reach, and whether logs do."""

    group: GroupDocument
    library: str = optional("library")
    nodes: int
    share: float
    model: ModelDocument = derived(model_echo)
    sizes: list[ExpectedSizeDocument]
    left_out: list[Infeasible] = optional("left_out")
    logs: list[str] = optional("logs")
    measured: list[MeasuredSizeDocument] = optional("measured")
    passed: bool
    doctor: str = optional("doctor")


VIEWS = {
    Expected: View("expect", _blocks, ExpectDocument.of, _table, _answer, chart=_chart),
}
