"""``sensitivity`` of several fabrics: how often each is faster than the first under the same draws.

Read from :data:`VIEWS`: :func:`contest_verdict` is the headline, :func:`_blocks` the screen. A side is a fabric
with its times over all samples; ``beats`` compares each but the first with the first, sample by sample: ``faster``,
``same`` and ``slower`` are shares of the samples, ratios are its time over the first's. The two are not ``compared``,
and all of these are None, for one cause only: a launch overhead that one of them states, where it matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from colltool.analysis.contest import Beats, Contest, ContestSide
from colltool.analysis.outcomes import SAME
from colltool.base.formatting import format_factor, format_time, percent, sentence, title_size
from colltool.render.assumption_differences import BasisDocument, basis_block, basis_summary
from colltool.render.blocks import Block, Columns, Headline, Lines, Table, label, number
from colltool.render.dispatch import View
from colltool.render.documents import Document, derived
from colltool.render.estimates import CONTENTION
from colltool.render.shared_documents import ideal_or_realistic, whole_size
from colltool.render.views.sensitivity import RangeDocument, range_ends, samples_text


class _SideLine(NamedTuple):
    """A fabric, and how it compares with the first; None for the first."""

    side: ContestSide
    beats: Beats | None


def _side_lines(result: Contest) -> list[_SideLine]:
    """The fabrics in their order. ``beats`` has one comparison for each but the first, in the same order."""
    beats: Sequence[Beats | None] = (None, *result.beats)
    return list(map(_SideLine, result.sides, beats))


# Key and title, then how a value is shown; ``path`` is where it stands, and it is empty where ``beats`` is None.
# On a narrow screen the columns with the highest ``drop`` go first, those without one never.
_CONTEST: Columns[_SideLine] = (
    label("name", "fabric", path="side.name"),
    label("algorithm", "fastest, nominal", drop=4, path="side.algorithm"),
    number("nominal_s", "nominal", format_time, drop=1, path="side.nominal_s"),
    number("p5_s", "5th percentile", format_time, drop=3, path="side.p5_s"),
    number("p50_s", "median", format_time, path="side.p50_s"),
    number("p95_s", "95th percentile", format_time, drop=3, path="side.p95_s"),
    number("faster", "faster", percent, path="beats.faster"),
    number("same", f"same to {SAME:.0%}", percent, drop=2, path="beats.same"),
    number("slower", "slower", percent, drop=2, path="beats.slower"),
    number("ratio_p5", "ratio, 5th percentile", format_factor, drop=2, path="beats.ratio_p5"),
    number("ratio_p50", "median ratio", format_factor, path="beats.ratio_p50"),
    number("ratio_p95", "ratio, 95th percentile", format_factor, drop=2, path="beats.ratio_p95"),
)


def _table(result: Contest) -> Table:
    """A row for each fabric, the first without a comparison."""
    return Table(_CONTEST, tuple(_side_lines(result)))


def _blocks(result: Contest) -> list[Block]:
    """Which fabric wins in how many samples, and which of their numbers were drawn together."""
    first = result.sides[0].name
    size = title_size(result.bytes)
    mode = CONTENTION[ideal_or_realistic(result)]
    collective = sentence(result.primitive.label)
    question = f"{collective} against {first}, {result.ranks} ranks, {size} per rank, {mode}"
    verdict = ". ".join(contest_verdict(result))
    return [
        Headline(f"{verdict}. {question}."),
        _table(result),
        Lines("samples", tuple(_sample_lines(result)), first=1),
        *basis_block(result.ground, [result.ranks]),
    ]


def _sample_lines(result: Contest) -> Iterator[str]:
    """How many samples were drawn, from which ranges, and what for two fabrics at once."""
    first = result.sides[0].name
    yield f"{samples_text(result)}, seed {result.seed}"
    for side in result.sides:
        origin = "as given"
        if side.assumed:
            origin = "assumed, as none were given"
        ranges = []
        for drawn in side.numbers:
            ends = range_ends(drawn, "to")
            ranges.append(f"{drawn.key} {ends}")
        ranges_text = ", ".join(ranges) or "none"
        yield f"  {side.name}, ranges {origin}: {ranges_text}"
    for beats in result.beats:
        shared = ", ".join(beats.shared) or "nothing"
        yield f"  drawn together for {first} and {beats.name}: {shared}; all others separately"


def contest_verdict(result: Contest) -> tuple[str, ...]:
    """A sentence on each fabric compared with the first."""
    return tuple(_against_first(result.sides[0].name, beats) for beats in result.beats)


def _against_first(first: str, beats: Beats) -> str:
    """``b is faster than a in 95% of the samples. Its time is 0.8x that of a (0.7x to 0.9x, 90%
    interval)``."""
    # where the two are not ``compared`` all are None, and so are the shares
    ratios = (beats.ratio_p5, beats.ratio_p50, beats.ratio_p95)
    factors = [format_factor(ratio) for ratio in ratios if ratio is not None]
    if beats.faster is None or len(factors) < len(ratios):
        return (
            f"{beats.name} is not comparable with {first}: only one of the two includes launch"
            " overhead, and it matters at this size"
        )
    low, median, high = factors
    faster = percent(beats.faster)
    text = f"{beats.name} is faster than {first} in {faster} of the samples"
    if beats.same:
        same = percent(beats.same)
        text += f" and equal within {SAME:.0%} in {same}"
    return f"{text}. Its time is {median} that of {first} ({low} to {high}, 90% interval)"


def _summary(result: Contest) -> str:
    return "; ".join((*contest_verdict(result), *basis_summary(result.ground)))


class SideTimesDocument(Document, at="side"):
    """The times of a fabric over all samples: attributes of the ``side`` of a line."""

    name: str
    fabric: str
    algorithm: str
    nominal_s: float
    p5_s: float
    p50_s: float
    p95_s: float
    assumed: bool


class BeatsDocument(Document, at="beats"):
    """How a fabric compares with the first: attributes of a line's ``beats``; null for the first itself, which has
    none."""

    faster: float | None
    same: float | None
    slower: float | None
    ratio_p5: float | None
    ratio_p50: float | None
    ratio_p95: float | None


class SideDocument(SideTimesDocument, BeatsDocument):
    """A line of the table: the keys of its side, then those of its comparison."""

    # the first has no ``beats``; it shares nothing, and nothing keeps it from being compared
    shared: list[str] = derived(lambda line: line.beats.shared if line.beats else ())
    compared: bool = derived(lambda line: line.beats is None or line.beats.compared)
    ranges: list[RangeDocument] = derived("side.numbers")


def _side_documents(result: Contest) -> tuple[dict[str, Any], ...]:
    return tuple(map(SideDocument.of, _side_lines(result)))


class ContestDocument(Document):
    """Fabrics against the first under the same draws."""

    primitive: str
    ranks: int
    bytes: float = derived(whole_size)
    mode: str = derived(ideal_or_realistic)
    samples: int
    samples_asked: int
    seed: int
    rows: list[SideDocument] = derived(_side_documents)
    verdict: list[str] = derived(contest_verdict)
    ground: list[BasisDocument]


VIEWS = {Contest: View("sensitivity-compare", _blocks, ContestDocument.of, _table, _summary)}
