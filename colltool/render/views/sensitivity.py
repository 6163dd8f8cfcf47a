"""``sensitivity``: whether a choice holds if numbers are off, what would turn it, and what to measure."""

from __future__ import annotations

from colltool.analysis.break_even import BreakEven
from colltool.analysis.contest import Beats, Contest, ContestSide
from colltool.analysis.outcomes import SAME
from colltool.analysis.sensitivity import Sensitivity
from colltool.base.formatting import counted, format_factor, format_rate, format_time, percent, sentence, title_size, whole_bytes
from colltool.fabric.variants import ParameterRange
from colltool.render.blocks import Block, Column, Headline, Lines, Table, label, number
from colltool.render.estimate_columns import readings_block, running
from colltool.render.estimate_fields import model_field
from colltool.render.grounds import ground_block, ground_field, ground_summary
from colltool.render.view import Document, View, group_field, on_fabric, set_field

_RATES, _TIMES = ("bandwidth", "local_copy"), ("alpha", "alpha_switch", "post", "launch_overhead")

_ROWS = (
    label("fabric", "fabric", get=lambda one: one[0].fabric, hidden=True),
    label("primitive", "primitive", get=lambda one: one[0].primitive, hidden=True),
    number("ranks", "ranks", get=lambda one: one[0].group.ranks, hidden=True),
    number("bytes", "size", title_size, get=lambda one: whole_bytes(one[0].bytes), hidden=True),
    label("algorithm", "algorithm", get=lambda one: one[1].algorithm, fold=22),
    number("nominal_s", "nominal", format_time, 1, get=lambda one: one[1].nominal_s),
    number("p5_s", "5% below", format_time, 3, get=lambda one: one[1].p5_s),
    number("p50_s", "median", format_time, 2, get=lambda one: one[1].p50_s),
    number("p95_s", "95% below", format_time, 3, get=lambda one: one[1].p95_s),
    number("wins", "wins", percent, get=lambda one: one[1].wins),
    label("spec", "spec", get=lambda one: one[1].spec, hidden=True),
)
_FLIPS = (
    label("key", "number", get=lambda one: one.key),
    label("value", "turns at", get=lambda one: quantity(one.key, one.value)),
    number("factor", "of nominal", format_factor),
    label("winner", "then fastest", fold=22),
)
_TELLING = (
    label("key", "number"),
    label("range", "between", get=lambda one: f"{quantity(one.key, one.low)} and {quantity(one.key, one.high)}"),
    number("gain_s", "gain on average", format_time),
)


def quantity(key: str, value: float) -> str:
    """A number of a fabric in its unit."""
    last = key.rsplit(".", 1)[-1]
    if key.endswith(("eta.alpha", "eta.beta")):
        return f"{value:.4g}"
    return format_time(value) if last in _TIMES else format_rate(value) if last in _RATES else f"{value:.4g}"


def verdict(result: Sensitivity) -> str:
    if result.holds > 0.9995 and not _near(result):
        safe = f"{result.winner} is a safe choice: the fastest in {percent(result.holds)} of the samples"
    elif result.regret_p95 < 0.01:
        safe = f"{result.winner} is the fastest in {percent(result.holds)} of the samples, and nearly so in the others"
    else:
        safe = f"{result.winner} is the fastest in {percent(result.holds)} of the samples"
    lost = f"; in 95 of 100 it loses at most {percent(result.regret_p95)}" if result.regret_p95 >= 0.0005 else ""
    near = result.flips[0] if result.flips else None
    turns = (
        f"; {near.winner} takes over at {near.key} {_times(near)}"
        if near
        else f"; {_none(result)} turns it within a factor of 100"
    )
    return f"{safe}{lost}{turns}"


def _none(result: Sensitivity) -> str:
    all_sought = result.flips_sought == len(result.numbers)
    return "no single number" if all_sought else f"none of the {result.flips_sought} numbers that move times most"


def drawn(result: Sensitivity | Contest) -> str:
    told, asked = counted(result.samples, "sample"), result.samples_asked
    return told if result.samples == asked else f"{told} (not {asked}: the numbers are too many)"


def _near(result: Sensitivity) -> bool:
    ranges = {one.key: one for one in result.numbers}
    return any(ranges[flip.key].low <= flip.value <= ranges[flip.key].high for flip in result.flips)


def _times(flip: BreakEven) -> str:
    return f"{quantity(flip.key, flip.value)} ({format_factor(flip.factor)} of the file's)"


def _blocks(result: Sensitivity) -> list[Block]:
    opening = Headline(f"{verdict(result)}. {sentence(sensitivity_title(result))}.")
    out: list[Block] = [opening, _table(result), Lines("samples", tuple(_facts(result)), first=1)]
    out += readings_block(result.readings)
    if result.held:
        out.append(Lines("notes", result.held, first=0))
    if result.flips:
        out.append(Table(_FLIPS, result.flips, None, "the smallest change of one number that turns it", first=3))
    if result.telling:
        out.append(Table(_TELLING, result.telling[:5], None, "what knowing one number would gain", first=2))
    if result.experiment:
        out.append(Lines(f"to know {result.telling[0].key}", (result.experiment,), verbatim=True))
    return out


def _table(result: Sensitivity, title: str = "") -> Table:
    return Table(_ROWS, tuple((result, row) for row in result.rows), None, title)


def sensitivity_title(result: Sensitivity) -> str:
    library = f", {running(result.library, leads=result.library_leads)}" if result.library else ""
    mode = "ideal" if result.ideal else "realistic"
    where = on_fabric(result.fabric, result.overrides)
    return f"{result.primitive.spoken} on {where}, {result.group.spoken}, {title_size(result.bytes)} per rank{library}, {mode}"


def _facts(result: Sensitivity) -> list[str]:
    whose = "ranges assumed: none given" if result.assumed else "ranges as given"
    lines = [f"{drawn(result)} of {counted(len(result.numbers), 'number')}, seed {result.seed}; {whose}"]
    return lines + [f"  {_range(one)}" for one in result.numbers[:12]] + (["  ..."] if len(result.numbers) > 12 else [])


def _range(one: ParameterRange) -> str:
    return f"{one.key} {quantity(one.key, one.value)}: {quantity(one.key, one.low)} to {quantity(one.key, one.high)}"


def _document(result: Sensitivity) -> Document:
    return {"fabric": result.fabric} | set_field(result.overrides) | {
        "primitive": str(result.primitive),
        "ranks": result.group.ranks,
        "group": group_field(result.group),
        "bytes": whole_bytes(result.bytes),
        "mode": "ideal" if result.ideal else "realistic",
        **model_field(result.readings),
        "winner": result.winner,
        "spec": result.spec,
        "holds": result.holds,
        "regret_mean": result.regret_mean,
        "seed": result.seed,
        "samples": result.samples,
        "samples_asked": result.samples_asked,
        "rows": [row._asdict() for row in result.rows],
        "regret_p95": result.regret_p95,
        "flips": [flip._asdict() for flip in result.flips],
        "flips_sought": result.flips_sought,
        "moves": [one._asdict() for one in result.moves],
        "telling": [one._asdict() for one in result.telling],
        "experiment": result.experiment or None,
        "ranges": [{"key": one.key, "value": one.value, "low": one.low, "high": one.high} for one in result.numbers],
        "assumed": result.assumed,
        "verdict": verdict(result),
    }  # fmt: skip


def _summary(result: Sensitivity) -> str:
    return f"{sensitivity_title(result)}: {verdict(result)}"


_BEATS = ("faster", "same", "slower", "ratio_p5", "ratio_p50", "ratio_p95")


def _contest_of(key: str) -> Column:
    titles = {"faster": "faster", "same": f"same to {SAME:.0%}", "slower": "slower", "ratio_p5": "ratio, 5% below",
              "ratio_p50": "median ratio", "ratio_p95": "95% below"}  # fmt: skip
    show = format_factor if key.startswith("ratio") else percent
    return number(key, titles[key], show, 0 if key in ("faster", "ratio_p50") else 2, get=lambda row: getattr(row[1], key, None))


_CONTEST_ROWS = (
    label("name", "fabric", get=lambda row: row[0].name),
    label("algorithm", "fastest, nominal", drop=4, get=lambda row: row[0].algorithm),
    number("nominal_s", "nominal", format_time, 1, get=lambda row: row[0].nominal_s),
    number("p5_s", "5% below", format_time, 3, get=lambda row: row[0].p5_s),
    number("p50_s", "median", format_time, get=lambda row: row[0].p50_s),
    number("p95_s", "95% below", format_time, 3, get=lambda row: row[0].p95_s),
    *map(_contest_of, _BEATS),
)


def _contest_table(result: Contest, title: str = "") -> Table:
    rows: list[tuple[ContestSide, Beats | None]] = list(zip(result.sides, (None, *result.beats), strict=True))
    return Table(_CONTEST_ROWS, tuple(rows), None, title)


def _contest_blocks(result: Contest) -> list[Block]:
    lines = (f"{drawn(result)}, seed {result.seed}", *_contest_drawn(result))
    opening = Headline(f"{'; '.join(contest_verdict(result))}. {sentence(_contest_title(result))}.")
    return [opening, _contest_table(result), Lines("samples", lines, first=1), *ground_block(result.ground, [result.ranks])]


def _contest_title(result: Contest) -> str:
    what = f"{result.primitive.spoken} against {result.sides[0].name}, {result.ranks} ranks, {title_size(result.bytes)} per rank"
    return f"{what}, {'ideal' if result.ideal else 'realistic'}"


def contest_verdict(result: Contest) -> tuple[str, ...]:
    return tuple(_contest_sentence(result, one) for one in result.beats)


def _contest_sentence(result: Contest, one: Beats) -> str:
    first = result.sides[0].name
    if one.faster is None or one.same is None or one.ratio_p5 is None or one.ratio_p50 is None or one.ratio_p95 is None:
        return f"{one.name}: not compared with {first}: one of the two has no launch overhead, and it would be felt"
    how = f"{one.name} is faster than {first} in {percent(one.faster)} of the samples"
    same = f", the same to {SAME:.0%} in {percent(one.same)}" if one.same else ""
    low, middle, high = (format_factor(ratio) for ratio in (one.ratio_p5, one.ratio_p50, one.ratio_p95))
    return f"{how}{same}; it takes {middle} of its time in the median, in 90 of 100 between {low} and {high}"


def _contest_drawn(result: Contest) -> tuple[str, ...]:
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


def _contest_document(result: Contest) -> Document:
    return {
        "primitive": str(result.primitive),
        "ranks": result.ranks,
        "bytes": whole_bytes(result.bytes),
        "mode": "ideal" if result.ideal else "realistic",
        "samples": result.samples,
        "samples_asked": result.samples_asked,
        "seed": result.seed,
        "rows": [_row(side, one) for side, one in zip(result.sides, (None, *result.beats), strict=True)],
        "verdict": list(contest_verdict(result)),
        "ground": ground_field(result.ground),
    }


def _row(side: ContestSide, one: Beats | None) -> Document:
    ranges = [{"key": n.key, "value": n.value, "low": n.low, "high": n.high} for n in side.numbers]
    own = {key: getattr(one, key, None) for key in _BEATS}
    against = {"shared": list(one.shared) if one else [], "compared": one.compared if one else True}
    seen = {key: value for key, value in side._asdict().items() if key != "numbers"}
    return seen | own | against | {"ranges": ranges}


def _contest_summary(result: Contest) -> str:
    return "; ".join((*contest_verdict(result), *ground_summary(result.ground)))


VIEWS = {
    Sensitivity: View("sensitivity", _blocks, _document, _table, _summary),
    Contest: View("sensitivity-compare", _contest_blocks, _contest_document, _contest_table, _contest_summary),
}
