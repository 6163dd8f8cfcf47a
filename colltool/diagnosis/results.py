"""What ``doctor`` returns: frozen records in SI units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from colltool.base.primitives import Primitive
from colltool.base.result import Result
from colltool.calibration.results import ValidatedSeries
from colltool.measurements.series import Skipped
from colltool.traces.results import LeftOut


class Assumed(NamedTuple):
    """The fabric that the logs are held against.

    Args:
        fabric: its name.
        overrides: its values that the logs, or the caller, changed.
        devices, hosts: as the logs name them; empty where they do not.
        said: in sentences, what was read and what was assumed.
    """

    fabric: str
    overrides: tuple[tuple[str, str], ...]
    devices: tuple[str, ...]
    hosts: tuple[str, ...]
    said: tuple[str, ...]


class Health(NamedTuple):
    """One series beside the fabric.

    Args:
        judged: its points beside the prices.
        wire: the outermost tier that it crosses.
        large, small: the share of the expected rate that large and small messages reach, medians; None where not measured.
        low: whether that of large, or of small messages is below the bar.
        bar: the share of the expected rate that large messages are held to; small ones are held to less.
    """

    judged: ValidatedSeries
    wire: str
    large: float | None
    small: float | None
    low: bool
    bar: float


class Cause(NamedTuple):
    """A cause that the prices support.

    Args:
        name: ``nvls-off``, ``nvlinks``, ...
        said: in words, with the number that was found.
        look: what shows it on the machine.
        error: how far its prices are from the times it explains, on average; a fraction.
        error_all: the same over all sizes of these series.
    """

    name: str
    said: str
    look: str
    error: float
    error_all: float


class Foretold(NamedTuple):
    """What an experiment would show if a cause were true: busbw at ``Experiment.bytes``, and the time."""

    cause: str
    busbw_Bps: float
    seconds: float


class Experiment(NamedTuple):
    """What to run next: the command line, and what each remaining cause makes of it.

    Args:
        command: with sizes, ranks and environment.
        bytes: the size whose outcome is foretold.
        note: what else to do; mostly empty.
        foretold: of each cause; of a single one, of the fabric as it should be beside it.
    """

    command: str
    bytes: float
    foretold: tuple[Foretold, ...]
    note: str = ""


class UpperBound(NamedTuple):
    """Calls of traces that cannot be judged: a kernel waits for the slowest rank, and not all ranks were seen.

    Args:
        primitive, ranks, calls: how many calls, on how many ranks.
        missing: the ranks without a trace; empty where the traces do not tell, or all are there and their calls do not pair off.
        wire: the outermost tier that they cross.
    """

    primitive: Primitive
    ranks: int
    calls: int
    missing: tuple[int, ...]
    wire: str


class Finding(NamedTuple):
    """Something that is off, once for all series that share it.

    Args:
        series: their titles.
        size: ``large`` or ``small`` messages, or ``large and small``.
        low, high: the least and largest share of the expected rate among them.
        error: how far the fabric's own prices are from these times.
        causes: best first; empty where no price explains it.
        experiments: what would tell them apart, or confirm the only one, in this order.
        hints: what ``validate`` says of the series, where no cause is known.
    """

    series: tuple[str, ...]
    size: str
    low: float
    high: float
    error: float
    causes: tuple[Cause, ...]
    experiments: tuple[Experiment, ...]
    hints: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis(Result):
    """What logs and traces say of a machine; ``expect`` is the bar, a share of the expected rate.

    ``bounds`` are calls that say nothing of a wire, ``measure`` what would, ``left_out`` what of traces is in no row.
    """

    subject: ClassVar[str] = "doctor"
    assumed: Assumed
    expect: float
    series: tuple[Health, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    bounds: tuple[UpperBound, ...] = ()
    measure: tuple[Experiment, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether everything is as expected."""
        return not self.findings
