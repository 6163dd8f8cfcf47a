"""``sensitivity``: how safe a choice is while its numbers are uncertain; fabrics against each other
under the same draws."""

from __future__ import annotations

from collections.abc import Callable

from colltool.analysis.compare import SAME
from colltool.analysis.contest import Beats, Contest
from colltool.analysis.sensitivity import Sensitivity
from colltool.base.formatting import (
    counted,
    format_factor,
    format_rate,
    format_time,
    percent,
    sentence,
    title_size,
    whole_bytes,
)
from colltool.nccl.rules import name_on
from colltool.render.blocks import Block, Column, Headline, Lines, Table, label, number
from colltool.render.dispatch import (
    Document,
    View,
    context,
    fields,
    group_field,
    listed,
    on_fabric,
    set_field,
)
from colltool.render.estimates import model_field, readings_block, running
from colltool.render.views.compare import ground_block, ground_field, ground_summary

_FLIPS = (
    label("key", "number"),
    label("value", "turns at", get=lambda one: quantity(one.key, one.value)),
    number("factor", "of nominal", format_factor),
)
_TELLING = (
    label("key", "number"),
    label(
        "range",
        "between",
        get=lambda one: f"{quantity(one.key, one.low)} and {quantity(one.key, one.high)}",
    ),
    number("gain_s", "gain on average", format_time),
)


def quantity(key: str, value: float) -> str:
    """A number of a fabric in its unit."""
    last = key.rsplit(".", 1)[-1]
    if last in ("alpha_switch", "post", "launch_overhead") or (
        last == "alpha" and not key.endswith("eta.alpha")
    ):
        return format_time(value)
    return format_rate(value) if last in ("bandwidth", "local_copy") else f"{value:.4g}"


def _name(result: Sensitivity, title: str) -> str:
    """The library's name of an algorithm, else ours."""
    spec = next((row.spec for row in result.rows if row.algorithm == title), "")
    return name_on(result.library, result.primitive, result.group, spec) or title


def verdict(result: Sensitivity) -> str:
    name = _name(result, result.winner)
    ranges = {one.key: one for one in result.numbers}
    near = any(ranges[flip.key].low <= flip.value <= ranges[flip.key].high for flip in result.flips)
    told = f"the fastest in {percent(result.holds)} of the samples"
    if result.holds > 0.9995 and not near:
        told = f"a safe choice: {told}"
    elif result.regret_p95 < 0.01:
        told = f"{told}, and nearly so in the others"
    lost = (
        f"; in 95 of 100 it loses at most {percent(result.regret_p95)}"
        if result.regret_p95 >= 0.0005
        else ""
    )
    if result.flips:
        flip = result.flips[0]
        at = (
            f"{flip.key} {quantity(flip.key, flip.value)} ({format_factor(flip.factor)} of the"
            " file's)"
        )
        return f"{name} is {told}{lost}; {_name(result, flip.winner)} takes over at {at}"
    all_sought = result.flips_sought == len(result.numbers)
    none = (
        "no single number"
        if all_sought
        else f"none of the {result.flips_sought} numbers that move times most"
    )
    return f"{name} is {told}{lost}; {none} turns it within a factor of 100"


def _drawn(result: Sensitivity | Contest) -> str:
    told, asked = counted(result.samples, "sample"), result.samples_asked
    return told if result.samples == asked else f"{told} (not {asked}: the numbers are too many)"


def _sensitivity_blocks(result: Sensitivity) -> list[Block]:
    whose = "ranges assumed: none given" if result.assumed else "ranges as given"
    facts = [
        f"{_drawn(result)} of {counted(len(result.numbers), 'number')}, seed {result.seed}; {whose}"
    ]
    facts += [
        f"  {one.key} {quantity(one.key, one.value)}: {quantity(one.key, one.low)} to"
        f" {quantity(one.key, one.high)}"
        for one in result.numbers[:12]
    ] + ["  ..."] * (len(result.numbers) > 12)
    out: list[Block] = [
        Headline(f"{verdict(result)}. {sentence(sensitivity_title(result))}."),
        _samples(result, people=True),
    ]
    out += [
        Lines("samples", tuple(facts), first=1),
        *readings_block(result.readings),
        *listed("notes", result.held, first=0),
    ]
    if result.flips:
        then = label("winner", "then fastest", fold=22, get=lambda one: _name(result, one.winner))
        out.append(
            Table(
                (*_FLIPS, then),
                result.flips,
                None,
                "the smallest change of one number that turns it",
                first=3,
            )
        )
    if result.telling:
        out.append(
            Table(_TELLING, result.telling[:5], None, "what knowing one number would gain", first=2)
        )
    if result.experiment:
        out.append(Lines(f"to know {result.telling[0].key}", (result.experiment,), verbatim=True))
    return out


_TIMES = (
    number("nominal_s", "nominal", format_time, 1),
    number("p5_s", "5% below", format_time, 3),
    number("p50_s", "median", format_time, 2),
    number("p95_s", "95% below", format_time, 3),
)


def _samples(result: Sensitivity, *, people: bool = False) -> Table:
    asked = context(
        fabric=result.fabric,
        primitive=result.primitive,
        ranks=result.group.ranks,
        bytes=whole_bytes(result.bytes),
    )
    name = label(
        "algorithm",
        "algorithm",
        fold=22,
        get=lambda one: _name(result, one.algorithm) if people else one.algorithm,
    )
    how = label("how", "how (inside / across)", fold=22, get=lambda one: result.how[one.algorithm])
    named = people and any(
        _name(result, one.algorithm).lower() != one.algorithm for one in result.rows
    )
    columns = (
        name,
        *([how] if named else []),
        *_TIMES,
        number("wins", "wins", percent),
        label("spec", "spec", hidden=True),
    )
    return Table((*asked, *columns), result.rows)


def sensitivity_title(result: Sensitivity) -> str:
    library = f", {running(result.library, leads=result.library_leads)}" if result.library else ""
    mode = "ideal" if result.ideal else "realistic"
    where = on_fabric(result.fabric, result.overrides)
    return (
        f"{result.primitive.spoken} on {where}, {result.group.spoken}, {title_size(result.bytes)}"
        f" per rank{library}, {mode}"
    )


def _sensitivity_document(result: Sensitivity) -> Document:
    return (
        {"fabric": result.fabric, **set_field(result.overrides), "primitive": str(result.primitive)}
        | {
            "ranks": result.group.ranks,
            "group": group_field(result.group),
            "bytes": whole_bytes(result.bytes),
        }
        | {"mode": "ideal" if result.ideal else "realistic", **model_field(result.readings)}
        | fields(result, "winner spec holds regret_mean seed samples samples_asked rows")
        | fields(result, "regret_p95 flips flips_sought moves telling")
        | {
            "experiment": result.experiment or None,
            "ranges": [fields(one, "key value low high") for one in result.numbers],
        }
        | {"assumed": result.assumed, "verdict": verdict(result)}
    )


def _sensitivity_summary(result: Sensitivity) -> str:
    return f"{sensitivity_title(result)}: {verdict(result)}"


_BEATS: dict[str, tuple[str, Callable[[float], str], int]] = {
    "faster": ("faster", percent, 0),
    "same": (f"same to {SAME:.0%}", percent, 2),
    "slower": ("slower", percent, 2),
    "ratio_p5": ("ratio, 5% below", format_factor, 2),
    "ratio_p50": ("median ratio", format_factor, 0),
    "ratio_p95": ("95% below", format_factor, 2),
}


def _against(key: str) -> Column:
    title, show, drop = _BEATS[key]
    return number(key, title, show, drop, get=lambda row: getattr(row[1], key, None))


_CONTEST = (
    label("name", "fabric", get=lambda row: row[0].name),
    label("algorithm", "fastest, nominal", drop=4, get=lambda row: row[0].algorithm),
    number("nominal_s", "nominal", format_time, 1, get=lambda row: row[0].nominal_s),
    number("p5_s", "5% below", format_time, 3, get=lambda row: row[0].p5_s),
    number("p50_s", "median", format_time, get=lambda row: row[0].p50_s),
    number("p95_s", "95% below", format_time, 3, get=lambda row: row[0].p95_s),
    *map(_against, _BEATS),
)


def _contest_table(result: Contest) -> Table:
    return Table(_CONTEST, tuple(zip(result.sides, (None, *result.beats), strict=True)))


def _contest_blocks(result: Contest) -> list[Block]:
    first = result.sides[0].name
    asked = (
        f"{result.primitive.spoken} against {first}, {result.ranks} ranks,"
        f" {title_size(result.bytes)} per rank"
    )
    lines = [f"{_drawn(result)}, seed {result.seed}"]
    for side in result.sides:
        whose = "assumed: none given" if side.assumed else "as given"
        ranges = (
            f"{one.key} {quantity(one.key, one.low)} to {quantity(one.key, one.high)}"
            for one in side.numbers
        )
        lines.append(f"  {side.name}, ranges {whose}: {', '.join(ranges) or 'none'}")
    for one in result.beats:
        shared = ", ".join(one.shared) or "nothing"
        lines.append(
            f"  drawn once for {first} and {one.name}: {shared}; all else for each by itself"
        )
    opening = (
        f"{'; '.join(contest_verdict(result))}. {sentence(asked)},"
        f" {'ideal' if result.ideal else 'realistic'}."
    )
    samples = Lines("samples", tuple(lines), first=1)
    return [
        Headline(opening),
        _contest_table(result),
        samples,
        *ground_block(result.ground, [result.ranks]),
    ]


def contest_verdict(result: Contest) -> tuple[str, ...]:
    return tuple(_beaten(result.sides[0].name, one) for one in result.beats)


def _beaten(first: str, one: Beats) -> str:
    if (
        one.faster is None
        or one.same is None
        or one.ratio_p5 is None
        or one.ratio_p50 is None
        or one.ratio_p95 is None
    ):
        return (
            f"{one.name}: not compared with {first}: one of the two has no launch overhead, and it"
            " would be felt"
        )
    how = f"{one.name} is faster than {first} in {percent(one.faster)} of the samples"
    same = f", the same to {SAME:.0%} in {percent(one.same)}" if one.same else ""
    low, middle, high = (
        format_factor(ratio) for ratio in (one.ratio_p5, one.ratio_p50, one.ratio_p95)
    )
    return (
        f"{how}{same}; it takes {middle} of its time in the median, in 90 of 100 between {low} and"
        f" {high}"
    )


def _contest_document(result: Contest) -> Document:
    rows = []
    for side, one in zip(result.sides, (None, *result.beats), strict=True):
        seen = {key: value for key, value in side._asdict().items() if key != "numbers"}
        own = {key: getattr(one, key, None) for key in _BEATS}
        against = {
            "shared": list(one.shared) if one else [],
            "compared": one.compared if one else True,
        }
        rows.append(
            seen
            | own
            | against
            | {"ranges": [fields(number, "key value low high") for number in side.numbers]}
        )
    return (
        {
            "primitive": str(result.primitive),
            "ranks": result.ranks,
            "bytes": whole_bytes(result.bytes),
        }
        | {
            "mode": "ideal" if result.ideal else "realistic",
            **fields(result, "samples samples_asked seed"),
        }
        | {
            "rows": rows,
            "verdict": list(contest_verdict(result)),
            "ground": ground_field(result.ground),
        }
    )


def _contest_summary(result: Contest) -> str:
    return "; ".join((*contest_verdict(result), *ground_summary(result.ground)))


VIEWS = {
    Sensitivity: View(
        "sensitivity", _sensitivity_blocks, _sensitivity_document, _samples, _sensitivity_summary
    ),
    Contest: View(
        "sensitivity-compare", _contest_blocks, _contest_document, _contest_table, _contest_summary
    ),
}
