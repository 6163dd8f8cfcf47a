"""``verify`` as blocks and as a document."""

from typing import Any

from colltool import __version__
from colltool.proof.results import Verification, Verified
from colltool.render.parts import Block, Cell, Column, Lines, Table, gathered, plain
from colltool.units import format_time

ENDS_HERE = (
    "A step waits for its busiest port or link, and for its longest way; flows of a domain are spread evenly over its uplinks. "
    "For packets, queues and adaptive routing turn to a packet-level simulator (ns-3, htsim, SST) or to ASTRA-sim."
)

_COLUMNS = (
    Column("primitive", "primitive", right=False),
    Column("fabric", "fabric", 7, right=False),
    Column("algorithm", "algorithm", right=False),
    Column("ranks", "ranks", 6),
    Column("verdict", "verdict", right=False),
    Column("n_alpha_formula", "n_alpha", 4),
    Column("n_alpha_executed", "executed", 5),
    Column("n_beta_formula", "n_beta", 2),
    Column("n_beta_executed", "executed", 3),
    Column("price_s", "price", 8),
    Column("executed_s", "executed", 9),
    Column("note", "note", right=False, hidden=True),
)


def verify_blocks(result: Verification) -> list[Block]:
    """A row for every algorithm, its notes below, then what could not be executed."""
    rows = tuple(_row(one) for one in result.results)
    verdicts = [one.verdict for one in result.results]
    counts = ", ".join(f"{verdicts.count(name)} {name}" for name in ("proved", "idealised", "mismatch"))
    if result.skipped:
        counts += f"; {len(result.skipped)} not executed"
    noted = ((one.note, f"{one.algorithm} ({one.primitive.spoken}, {one.fabric})") for one in result.results if one.note)
    lines = [f"{note}: {', '.join(names)}" for note, names in gathered(noted).items()]
    if any(one.time_s is None for one in result.results):
        lines.append("without a price: over several tiers counts are compared, tier by tier; seconds follow from them")
    out: list[Block] = [Table(_COLUMNS, rows, None, f"executed: {counts}"), Lines("notes", (*lines, ENDS_HERE))]
    by_reason = gathered((skipped.reason, skipped.algorithm) for skipped in result.skipped)
    reasons = tuple(f"{reason}: {', '.join(names)}" for reason, names in by_reason.items())
    return out + ([Lines("not executed", reasons)] if reasons else [])


def _row(one: Verified) -> tuple[Cell, ...]:
    texts = (one.primitive.spoken, one.fabric, one.algorithm, one.ranks, one.verdict)
    counts = [Cell(f"{value:.6g}", value) for pair in (one.n_alpha, one.n_beta) for value in pair]
    times = [Cell(format_time(value), value) for value in one.time_s] if one.time_s else [Cell("-", None), Cell("-", None)]
    return (*map(plain, texts), *counts, *times, Cell(one.note or "-", one.note or None))


def verify_document(result: Verification) -> dict[str, Any]:
    """The promised fields of ``verify``."""
    return {
        "schema": "colltool.verify/1",
        "colltool": __version__,
        "holds": result.holds,
        "results": [_fields(one) for one in result.results],
        "skipped": [{"algorithm": one.algorithm, "reason": one.reason} for one in result.skipped],
    }


def _fields(one: Verified) -> dict[str, Any]:
    return {
        "primitive": str(one.primitive),
        "algorithm": one.algorithm,
        "fabric": one.fabric,
        "ranks": one.ranks,
        "verdict": one.verdict,
        "n_alpha": dict(zip(("formula", "executed"), one.n_alpha, strict=True)),
        "n_beta": dict(zip(("formula", "executed"), one.n_beta, strict=True)),
        "post_condition": one.post_condition,
        "time_s": dict(zip(("price", "executed"), one.time_s, strict=True)) if one.time_s else None,
        "note": one.note,
    }
