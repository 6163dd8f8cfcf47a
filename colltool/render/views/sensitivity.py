"""``sensitivity``: whether a choice holds where numbers may be off, what would turn it, and what to measure."""

from __future__ import annotations

from colltool.analysis.break_even import BreakEven
from colltool.analysis.contest import Contest
from colltool.analysis.sensitivity import Sensitivity
from colltool.base.formatting import counted, format_factor, format_rate, format_time, percent, title_size, whole_bytes
from colltool.fabric.parameter_ranges import ParameterRange
from colltool.render.blocks import Block, Headline, Lines, Table, label, number
from colltool.render.estimate_columns import readings_block, running
from colltool.render.estimate_fields import model_field
from colltool.render.sentences import sentence
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
    """Whether the choice is safe, in a sentence."""
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
    """Which numbers turn nothing."""
    all_sought = result.flips_sought == len(result.numbers)
    return "no single number" if all_sought else f"none of the {result.flips_sought} numbers that move times most"


def drawn(result: Sensitivity | Contest) -> str:
    """How many samples; where numbers are very many, of how many that were asked."""
    told, asked = counted(result.samples, "sample"), result.samples_asked
    return told if result.samples == asked else f"{told} (not {asked}: the numbers are too many)"


def _near(result: Sensitivity) -> bool:
    """Whether a number turns the choice within its range."""
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
    """What was asked."""
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


VIEWS = {Sensitivity: View("sensitivity", _blocks, _document, _table, _summary)}
