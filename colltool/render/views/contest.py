"""``sensitivity`` of several fabrics: how often each is faster than the first."""

from __future__ import annotations

from colltool.analysis.compare import SAME
from colltool.analysis.contest import Beats, Contest, ContestSide
from colltool.base.formatting import format_factor, format_time, percent, title_size, whole_bytes
from colltool.render.blocks import Block, Column, Headline, Lines, Table, label, number
from colltool.render.grounds import ground_block, ground_field, ground_summary
from colltool.render.sentences import sentence
from colltool.render.view import Document, View
from colltool.render.views.sensitivity import drawn, quantity

_BEATS = ("faster", "same", "slower", "ratio_p5", "ratio_p50", "ratio_p95")


def _of(key: str) -> Column:
    """A field of a fabric against the first; the first has none."""
    titles = {"faster": "faster", "same": f"same to {SAME:.0%}", "slower": "slower", "ratio_p5": "ratio, 5% below",
              "ratio_p50": "median ratio", "ratio_p95": "95% below"}  # fmt: skip
    show = format_factor if key.startswith("ratio") else percent
    return number(key, titles[key], show, 0 if key in ("faster", "ratio_p50") else 2, get=lambda row: getattr(row[1], key, None))


_ROWS = (
    label("name", "fabric", get=lambda row: row[0].name),
    label("algorithm", "fastest, nominal", drop=4, get=lambda row: row[0].algorithm),
    number("nominal_s", "nominal", format_time, 1, get=lambda row: row[0].nominal_s),
    number("p5_s", "5% below", format_time, 3, get=lambda row: row[0].p5_s),
    number("p50_s", "median", format_time, get=lambda row: row[0].p50_s),
    number("p95_s", "95% below", format_time, 3, get=lambda row: row[0].p95_s),
    *map(_of, _BEATS),
)


def _table(result: Contest, title: str = "") -> Table:
    rows: list[tuple[ContestSide, Beats | None]] = list(zip(result.sides, (None, *result.beats), strict=True))
    return Table(_ROWS, tuple(rows), None, title)


def _blocks(result: Contest) -> list[Block]:
    lines = (f"{drawn(result)}, seed {result.seed}", *_drawn(result))
    opening = Headline(f"{'; '.join(verdict(result))}. {sentence(_title(result))}.")
    return [opening, _table(result), Lines("samples", lines, first=1), *ground_block(result.ground, [result.ranks])]


def _title(result: Contest) -> str:
    what = f"{result.primitive.spoken} against {result.sides[0].name}, {result.ranks} ranks, {title_size(result.bytes)} per rank"
    return f"{what}, {'ideal' if result.ideal else 'realistic'}"


def verdict(result: Contest) -> tuple[str, ...]:
    """Each fabric against the first, in a sentence."""
    return tuple(_sentence(result, one) for one in result.beats)


def _sentence(result: Contest, one: Beats) -> str:
    first = result.sides[0].name
    if one.faster is None or one.same is None or one.ratio_p5 is None or one.ratio_p50 is None or one.ratio_p95 is None:
        return f"{one.name}: not compared with {first}: one of the two has no launch overhead, and it would be felt"
    how = f"{one.name} is faster than {first} in {percent(one.faster)} of the samples"
    same = f", the same to {SAME:.0%} in {percent(one.same)}" if one.same else ""
    low, middle, high = (format_factor(ratio) for ratio in (one.ratio_p5, one.ratio_p50, one.ratio_p95))
    return f"{how}{same}; it takes {middle} of its time in the median, in 90 of 100 between {low} and {high}"


def _drawn(result: Contest) -> tuple[str, ...]:
    """Which numbers are drawn once for both, and which ranges."""
    found = []
    for side in result.sides:
        whose = "assumed: none given" if side.assumed else "as given"
        ranges = (f"{one.key} {quantity(one.key, one.low)} to {quantity(one.key, one.high)}" for one in side.numbers)
        found.append(f"  {side.name}, ranges {whose}: {', '.join(ranges) or 'none'}")
    for one in result.beats:
        first = result.sides[0].name
        found.append(
            f"  drawn once for {first} and {one.name}: {', '.join(one.shared) or 'nothing'}; all else for each by itself"
        )
    return tuple(found)


def _document(result: Contest) -> Document:
    return {
        "primitive": str(result.primitive),
        "ranks": result.ranks,
        "bytes": whole_bytes(result.bytes),
        "mode": "ideal" if result.ideal else "realistic",
        "samples": result.samples,
        "samples_asked": result.samples_asked,
        "seed": result.seed,
        "rows": [_row(side, one) for side, one in zip(result.sides, (None, *result.beats), strict=True)],
        "verdict": list(verdict(result)),
        "ground": ground_field(result.ground),
    }


def _row(side: ContestSide, one: Beats | None) -> Document:
    ranges = [{"key": n.key, "value": n.value, "low": n.low, "high": n.high} for n in side.numbers]
    own = {key: getattr(one, key, None) for key in _BEATS}
    against = {"shared": list(one.shared) if one else [], "compared": one.compared if one else True}
    seen = {key: value for key, value in side._asdict().items() if key != "numbers"}
    return seen | own | against | {"ranges": ranges}


def _summary(result: Contest) -> str:
    return "; ".join((*verdict(result), *ground_summary(result.ground)))


VIEWS = {Contest: View("sensitivity-compare", _blocks, _document, _table, _summary)}
