"""What a machine should reach in nccl-tests, and what a gate may ask of it: of a fabric alone
(:func:`_expectation`), or of the sizes that logs measured (:func:`_judged_logs`).

A gate is the least bus bandwidth of a test at a size that lets a given share of healthy machines pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import floor
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from colltool.base.errors import ColltoolError, clipped, nearest, rename_arguments
from colltool.base.files import remembering
from colltool.base.primitives import AR, NCCL_TESTS, Primitive, parse_primitive
from colltool.commands.arguments import FORMATS
from colltool.commands.command import command, failed
from colltool.commands.logs import devices_of, measurements_of
from colltool.commands.options import (
    CHART,
    FABRIC,
    GROUP,
    READINGS,
    FabricChoice,
    Out,
    extra_formats,
    option,
    result_options,
    sizes_options,
)
from colltool.commands.output import write
from colltool.commands.public_options import Options, with_options
from colltool.commands.shell import command_line
from colltool.estimate.expected import SHARE, SIZES, Expected, check_share, expected, test_name
from colltool.estimate.groups import place
from colltool.fabric.model import Fabric

if TYPE_CHECKING:
    from colltool.commands.logs import Logs
    from colltool.commands.reading import AnyFabric
    from colltool.commands.requests import Request
    from colltool.estimate.expected import ExpectedSize
    from colltool.estimate.placement import GroupPlacement
    from colltool.estimate.results import Infeasible
    from colltool.logs.series import Measurements, Series

# formats of other programs, besides the usual ones
GATE_FORMATS = (
    "nccl-tests",
    "prometheus",
    "grafana",
    "nvsentinel",
    "aicr",
    "preflight-slurm",
    "preflight-kubernetes",
)
FORMAT_HELP = (
    f"Output format: {', '.join(FORMATS)}, or a gate for other programs: {', '.join(GATE_FORMATS)}."
    " [default: table]"
)
# tests of nccl-tests that have no price, and why
_NOT_PRICED = {
    "gather": "no measurement to price it by",
    "scatter": "no measurement to price it by",
    "hypercube": "it is a pattern of sends, not a collective of the library",
}


class RequestedTests(NamedTuple):
    """The tests that are priced (empty: none was named), and those that ``all`` leaves out, each with
    the reason."""

    primitives: tuple[Primitive, ...]
    left_out: tuple[Infeasible, ...] = ()


@with_options
@remembering()
def expect(
    fabric: AnyFabric,
    test: Sequence[str] | str = (),
    *,
    ranks: int | None = None,
    sizes: Sequence[str | float] = (),
    share: float | None = None,
    against: Logs | None = None,
    nodes: int | None = None,
    in_place: bool = False,
    **options: Unpack[Options],
) -> Expected:
    """What a healthy machine reaches in each test of nccl-tests, and the bus bandwidth that a gate
    may ask of it.

    Args:
        fabric: as :func:`price`.
        test: tests by nccl-tests' names, with or without ``_perf``, or ``"all"``; default:
            all_reduce, with logs the tests that they hold.
        ranks: N; default: all of the fabric; of logs, only for those that do not state it.
        sizes: bytes as nccl-tests counts them, as for :func:`price`: the total of all_gather,
            reduce_scatter and alltoall; default: 8 B to 16 GiB, doubling. With logs: judge only
            measured sizes from the smallest to the largest of these.
        share: of healthy machines that the gate lets pass; default: 0.95.
        against: logs as :func:`validate`: which of their sizes fall short.
        nodes, in_place: as :func:`validate`.

    Returns:
        A :class:`colltool.estimate.expected.Expected`; ``passed`` is False where a measured size
        falls short.

    Raises:
        ColltoolError: as :func:`price`; a test without a price, logs of another machine or on other
            ranks.
    """
    from colltool.commands.reading import fraction_if
    from colltool.commands.requests import price_request, typed_of

    fraction = fraction_if(share, "share")
    passing_share = check_share(SHARE if fraction is None else fraction)
    tests = requested_tests(test)
    sizes_bytes = _sizes_of(sizes)
    # the fabric and the group are the same for all tests
    first = tests.primitives[0] if tests.primitives else AR
    request = price_request(fabric, first, ranks, options)
    if against is None:
        return _expectation(request, tests, sizes_bytes, passing_share)
    measurements = _each_log(against, ranks, nodes, in_place)
    result = _judged_logs(request, tests, sizes_bytes, passing_share, measurements, against)
    # a fabric that was loaded before goes by its name
    name = request.fabric.name if isinstance(fabric, Fabric) else typed_of(fabric)
    sets = [f"{key}={value}" for key, value in request.fabric.overrides]
    return replace(result, doctor=doctor_line(result, [name], sets, ranks))


def requested_tests(tests: Sequence[str] | str) -> RequestedTests:
    """The tests that a user names, in that order, each once; none for no name.

    Raises:
        ColltoolError: a name that nccl-tests does not have, or a test that is not priced.
    """
    from colltool.commands.reading import tests_of
    from colltool.estimate.results import Infeasible

    names = tests_of(tests)
    if "all" in names:
        left_out = [Infeasible(f"{test}_perf", why) for test, why in _NOT_PRICED.items()]
        return RequestedTests(tuple(NCCL_TESTS), tuple(left_out))
    primitives: dict[Primitive, None] = {}
    for typed in names:
        word = typed.lower().replace("-", "_").removesuffix("_perf")
        if word in _NOT_PRICED:
            raise ColltoolError(
                f"{word}_perf has no price: {_NOT_PRICED[word]}",
                argument="test",
                fix=f"priced: {_known_tests()}",
            )
        try:
            primitives[parse_primitive(word)] = None
        except ColltoolError:
            hint = nearest(word, [test_name(primitive) for primitive in NCCL_TESTS])
            raise ColltoolError(
                f"nccl-tests has no test '{clipped(typed)}'",
                argument="test",
                fix=f"{hint} known: {_known_tests()}".strip(),
            ) from None
    return RequestedTests(tuple(primitives))


def _known_tests() -> str:
    """The tests that have prices, for an error."""
    return f"{', '.join(map(test_name, NCCL_TESTS))}, all"


def _sizes_of(sizes: Any) -> list[float]:
    """Bytes of each size, ascending, each once."""
    from colltool.commands.reading import each_size

    with rename_arguments("python", size="sizes"):
        return sorted(set(each_size(sizes)))


def _expectation(
    request: Request, tests: RequestedTests, sizes: Sequence[float], share: float
) -> Expected:
    """What is expected of the group in each test, all-reduce by default, at each size in bytes."""
    from colltool.commands.reading import sizes_between

    tested_sizes = sizes or sizes_between(*SIZES)
    rows: list[ExpectedSize] = []
    for primitive in tests.primitives or (AR,):
        rows += expected(
            request.fabric, primitive, tested_sizes, request.group, request.readings, share
        )
    group = place(request.fabric, request.group).placement
    result = _result(request, share, rows, group)
    return replace(result, left_out=tests.left_out)


def _each_log(logs: Logs, ranks: int | None, nodes: int | None, in_place: bool) -> Measurements:
    """The series of each log by itself, so that a slow machine does not hide behind healthy ones.

    Logs that each have the calls of one rank stay joined, and what was read before as it is.
    """
    from colltool.commands.reading import paths_of
    from colltool.logs.series import Measurements

    together = measurements_of(logs, ranks, primitive=None, nodes=nodes, in_place=in_place)
    if isinstance(logs, Measurements) or any(series.joined for series in together.series):
        return together
    paths = paths_of(logs, "against", "logs", "all_reduce.log")
    if len(paths) == 1:
        return together
    series_of_logs: list[Series] = []
    for path in paths:
        series_of_logs += measurements_of(
            path, ranks, primitive=None, nodes=nodes, in_place=in_place
        ).series
    return together._replace(series=tuple(series_of_logs))


def _judged_logs(
    request: Request,
    tests: RequestedTests,
    sizes: Sequence[float],
    share: float,
    measurements: Measurements,
    logs: Logs,
) -> Expected:
    """The sizes of logs, each with what is expected of it.

    Args:
        sizes: judge only from the smallest to the largest of these, in bytes; empty for all.
        logs: as they were given, for the names of their devices and files.
    """
    from colltool.commands.reading import paths_of
    from colltool.diagnosis.gates import judge_logs
    from colltool.logs.series import Measurements

    judged = judge_logs(
        request.fabric,
        measurements,
        devices_of(logs),
        primitives=tests.primitives,
        sizes=sizes,
        readings=request.readings,
        share=share,
    )
    files: tuple[str, ...] = ()
    if not isinstance(logs, Measurements):
        files = tuple(str(path) for path in paths_of(logs, "against", "logs", "all_reduce.log"))
    result = _result(request, share, judged.expected, judged.group)
    return replace(result, logs=files, measured=judged.measured)


def _result(
    request: Request, share: float, sizes: Sequence[ExpectedSize], group: GroupPlacement
) -> Expected:
    """The result for one fabric and group, with what the page says of it."""
    from colltool.analysis.fitted import noun_of

    fabric = request.fabric
    # what people call the ranks behind an endpoint: a node, a rack; empty where they have no word
    noun = noun_of(fabric)
    return Expected(
        fabric=fabric.name,
        group=group,
        library=fabric.library_name or "",
        share=share,
        readings=request.readings,
        sizes=tuple(sizes),
        noun="" if noun == "domain" else noun,
        device=fabric.device or "",
        overrides=fabric.overrides,
    )


def doctor_line(
    result: Expected, fabrics: Sequence[str], sets: Sequence[str], ranks: int | None
) -> str:
    """The command that finds out why sizes fall short, at the pass mark of the gate; empty where
    none does."""
    if not result.short:
        return ""
    files = sorted({size.file for size in result.short})
    mark = median(size.expected.floor_share for size in result.short)
    # rounded down: what passes the gate passes the doctor
    options = {"ranks": ranks, "expect": f"{floor(100 * mark)}%"}
    return command_line("doctor", *files, fabrics=fabrics, sets=sets, options=options)


@command(
    [
        FABRIC,
        "test",
        *GROUP,
        sizes_options(
            "Bytes as nccl-tests counts them: 1G or 1M-16G. [default: 8 to 16G, doubling]"
        ),
        "share",
        option(
            "against",
            "Log to hold against the gate (repeatable): nccl-tests, rccl-tests, OSU, Inspector and"
            " all else that doctor reads.",
            metavar="LOG",
        ),
        "nodes",
        "in_place",
        "library",
        result_options(CHART, form=extra_formats(GATE_FORMATS, FORMAT_HELP, metavar="FORMAT")),
        READINGS,
    ],
    public=expect,
)
def expect_command(fabric: FabricChoice, out: Out, **arguments: Any) -> None:
    """What a machine should reach in nccl-tests, and what a gate may ask of it.

    The gate is what 95 of 100 healthy machines of this kind keep (--share). With --against, logs
    are held against it: exit 1 if a size falls short. Sizes are nccl-tests' own: the total of
    all_gather, reduce_scatter and alltoall.

    Examples:
      colltool expect -f dgx-h100 -n 32
      colltool expect -f dgx-h100 -n 32 --test all -b 1G -e 16G --factor 4
      colltool expect -f dgx-h100 --against all_reduce.log
      colltool expect -f dgx-h100 -n 16 -M 8G --share 99% --format nvsentinel
      colltool expect -f dgx-h100 -n 16 -b 1G -e 8G --format preflight-slurm -o preflight.sh
    """
    result = expect(fabric.load_for(arguments), **arguments)
    if result.measured:
        ranks = arguments.get("ranks")
        line = doctor_line(result, fabric.names, fabric.overrides, ranks)
        result = replace(result, doctor=line)
    if out.form in GATE_FORMATS:
        from colltool.render.column_choice import without_columns
        from colltool.render.gates import gate_text

        without_columns([] if out.columns is None else [out.columns])
        write(gate_text(result, out.form), out.path)
    else:
        out.emit(result)
    if not result.passed:
        failed()
