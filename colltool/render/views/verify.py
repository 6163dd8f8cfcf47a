"""``verify``: formulas beside their executed schedules."""

from __future__ import annotations

from colltool.base.formatting import counted, format_count, format_time, ordinal
from colltool.render.blocks import Block, Column, Headline, Lines, Table, gathered, label, later, number
from colltool.render.sentences import sentence
from colltool.render.steps import trace_blocks, trace_fields
from colltool.render.view import Document, Overrides, View, group_columns, group_field, set_field, set_text
from colltool.verification.results import COUNTS_ONLY, VERDICTS, Verification, Verified

ENDS_HERE = (
    "A step waits for its busiest port or link, and for its longest way; flows of a domain are spread evenly over its uplinks. "
    "For packets, queues and adaptive routing turn to a packet-level simulator (ns-3, htsim, SST) or to ASTRA-sim."
)

_COLUMNS: tuple[Column, ...] = (
    label("primitive", "primitive", lambda primitive: primitive.spoken),
    label("fabric", "fabric", drop=7),
    label("algorithm", "algorithm"),
    number("ranks", "ranks", drop=6),
    label("verdict", "verdict"),
    number("n_alpha_formula", "n_alpha", format_count, 4, get=lambda one: one.n_alpha[0]),
    number("n_alpha_executed", "executed", format_count, 5, get=lambda one: one.n_alpha[1]),
    number("n_beta_formula", "n_beta", format_count, 2, get=lambda one: one.n_beta[0]),
    number("n_beta_executed", "executed", format_count, 3, get=lambda one: one.n_beta[1]),
    number("price_s", "price", format_time, 8, get=lambda one: one.time_s and one.time_s[0]),
    number("executed_s", "executed", format_time, 9, get=lambda one: one.time_s and one.time_s[1]),
    label("note", "note", hidden=True),
)


def _table(result: Verification, title: str = "") -> Table:
    apart = group_columns(result.results[0].group, lambda one: one.group)
    return Table((*_COLUMNS, *apart, *_set(result.overrides)), result.results, None, title)


def _set(overrides: Overrides) -> tuple[Column, ...]:
    return (label("set", "set", get=lambda _: set_text(overrides), hidden=True),) if overrides else ()


def _counts(result: Verification) -> str:
    verdicts = [one.verdict for one in result.results]
    shown = [name for name in VERDICTS if name != COUNTS_ONLY or name in verdicts]
    counts = ", ".join(f"{verdicts.count(name)} {name}" for name in shown)
    counts += f"; {len(result.skipped)} not executed" if result.skipped else ""
    if (stride := result.results[0].group.stride) > 1:
        counts += f"; every {ordinal(stride)} rank"
    return counts + (f"; with {set_text(result.overrides)}" if result.overrides else "")


def _blocks(result: Verification) -> list[Block]:
    """A row for every algorithm, those that do not hold exactly first; traces as asked for; notes; what was not executed."""
    ordered = sorted(result.results, key=lambda one: _ORDER[one.verdict])
    odd = sum(one.verdict != "proved" for one in ordered)
    noted = ((one.note, f"{one.algorithm} ({one.primitive.spoken}, {one.fabric})") for one in ordered if one.note)
    lines = [f"{note}: {', '.join(names)}" for note, names in gathered(noted).items()]
    by_reason = gathered((skipped.reason, skipped.algorithm) for skipped in result.skipped)
    reasons = tuple(f"{reason}: {', '.join(names)}" for reason, names in by_reason.items())
    table = _table(result)._replace(records=tuple(ordered), first=max(odd, _MOST_ROWS))
    out: list[Block] = [Headline(_answer(result)), table, *trace_blocks(result.results)]
    return [*out, *map(later, [Lines("notes", (*lines, ENDS_HERE)), *([Lines("not executed", reasons)] if reasons else [])])]


_MOST_ROWS = 10
"""Rows of the default view, where all hold."""
_ORDER = {name: at for at, name in enumerate(reversed(VERDICTS))}


def _answer(result: Verification) -> str:
    """How many formulas the executed schedules agree with."""
    verdicts = [one.verdict for one in result.results]
    wrong, held, every = verdicts.count("mismatch"), verdicts.count("proved"), len(verdicts)
    if wrong:
        return f"{wrong} of {counted(every, 'formula')} do not hold: {_counts(result)}."
    which = (
        "The formula holds" if every == held == 1 else f"{'All' if every == held else held} of {counted(every, 'formula')} hold"
    )
    return f"{sentence(which)} exactly when executed: {_counts(result)}."


def _document(result: Verification) -> Document:
    return {"holds": result.holds} | set_field(result.overrides) | {
        "results": [_fields(one) for one in result.results],
        "skipped": [{"algorithm": one.algorithm, "reason": one.reason} for one in result.skipped],
    }  # fmt: skip


def _fields(one: Verified) -> Document:
    return {
        "primitive": str(one.primitive),
        "algorithm": one.algorithm,
        "fabric": one.fabric,
        "ranks": one.ranks,
        "group": group_field(one.group),
        "verdict": one.verdict,
        "n_alpha": dict(zip(("formula", "executed"), one.n_alpha, strict=True)),
        "n_beta": dict(zip(("formula", "executed"), one.n_beta, strict=True)),
        "post_condition": one.post_condition,
        "time_s": dict(zip(("price", "executed"), one.time_s, strict=True)) if one.time_s else None,
        "note": one.note,
        "spec": one.spec,
    } | ({"trace": trace_fields(one.trace)} if one.trace else {})


def _summary(result: Verification) -> str:
    return f"executed: {_counts(result)}"


VIEWS = {Verification: View("verify", _blocks, _document, _table, _summary)}
