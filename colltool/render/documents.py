"""Results as plain documents: the field names and order that machine output promises."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from colltool import __version__
from colltool.pricing.results import (
    Breakdown,
    Crossover,
    Explained,
    Explanation,
    Infeasible,
    Ladder,
    Pair,
    Phase,
    Price,
    PriceList,
    Row,
    Rung,
)
from colltool.study.results import Change, Diff

if TYPE_CHECKING:
    from colltool.fabric.derive import FabricFacts
    from colltool.fabric.model import Fabric
    from colltool.fabric.plausible import Checked, Implausible

Document = dict[str, Any]


@singledispatch
def document(result: Any) -> Document:
    """A result as a document of plain values: times in seconds, sizes in bytes, rates in bytes/s, at full precision."""
    raise TypeError(f"no document for {type(result).__name__}")


def _head(command: str) -> Document:
    return {"schema": f"colltool.{command}/1", "colltool": __version__}


def _plain(value: Any) -> Any:
    """Arrays and their scalars as Python numbers; whole counts without a decimal point."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


@document.register
def _price(result: Price) -> Document:
    return _head("price") | _price_fields(result)


@document.register
def _price_list(result: PriceList) -> Document:
    if len(result.prices) == 1 and not result.winners_only:
        return document(result.prices[0])
    return _head("price") | {"sizes": [_price_fields(one) for one in result.prices]}


def _price_fields(result: Price) -> Document:
    return {
        "fabric": result.fabric,
        "primitive": str(result.primitive),
        "ranks": result.ranks,
        "bytes": _size(result.bytes),
        "mode": result.mode,
        "model": result.model.echo(),
        "results": [_row(row) for row in result.results],
        "infeasible": [_infeasible(one) for one in result.infeasible],
    }


def _size(size: Any) -> Any:
    """Whole bytes as integers, as a person writes them."""
    plain = _plain(size)
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def _row(row: Row) -> Document:
    array = hasattr(row.bytes, "tolist")
    return {
        "algorithm": row.algorithm,
        "detail": row.detail,
        "n_alpha": _plain(row.n_alpha),
        "n_beta": _plain(row.n_beta),
        "alpha_s": _plain(row.alpha_s),
        "bandwidth_s": _plain(row.bandwidth_s),
        "overhead_s": _plain(row.overhead_s),
        "total_s": _plain(row.total_s),
        "bound": None if array else row.bound,
        "algbw_Bps": _plain(row.algbw_Bps),
        "busbw_Bps": _plain(row.busbw_Bps),
        "status": row.status,
        "shipped_by": list(row.shipped_by),
        "notes": list(row.notes),
        "phases": [_phase(phase) for phase in row.phases],
    } | _under(row.protocol)


def _under(protocol: Any) -> Document:
    """The protocol, where the fabric lists any."""
    return {"protocol": _plain(protocol)} if len(protocol) else {}


def _phase(phase: Phase) -> Document:
    return {
        "tier": phase.tier,
        "level": phase.level,
        "label": phase.label,
        "primitive": str(phase.primitive),
        "algorithm": phase.algorithm,
        "ranks": phase.ranks,
        "bytes": _size(phase.bytes),
        "n_alpha": _plain(phase.n_alpha),
        "n_beta": _plain(phase.n_beta),
        "alpha_s": _plain(phase.alpha_s),
        "bandwidth_s": _plain(phase.bandwidth_s),
        "eta_alpha": _plain(phase.eta_alpha),
        "eta_beta": _plain(phase.eta_beta),
        "bandwidth_Bps": _plain(phase.bandwidth_Bps),
        "share": _plain(phase.share),
    }


def _infeasible(one: Infeasible) -> Document:
    return {"algorithm": one.algorithm, "reason": one.reason}


@document.register
def _breakdown(result: Breakdown) -> Document:
    fields = _price_fields(result.price)
    return _head("breakdown") | fields | {"baselines": [_row(row) for row in result.baselines]}


@document.register
def _crossover(result: Crossover) -> Document:
    return _head("crossover") | {
        "fabric": result.fabric,
        "primitive": str(result.primitive),
        "ranks": result.ranks,
        "mode": result.mode,
        "model": result.model.echo(),
        "pairs": [_pair(pair) for pair in result.pairs],
        "winners": [
            {"from_bytes": one.from_bytes, "to_bytes": one.to_bytes, "algorithm": one.algorithm} | _under(one.protocol)
            for one in result.winners
        ],
        "balance": result.balance,
    }


def _pair(pair: Pair) -> Document:
    crossings = [{"bytes": c.bytes, "faster_below": c.faster_below, "faster_above": c.faster_above} for c in pair.crossings]
    return {
        "a": pair.a,
        "b": pair.b,
        "crossings": crossings,
        "dominates": pair.dominates,
        "approximations": pair.approximations,
    }


@document.register
def _ladder(result: Ladder) -> Document:
    fields = {"ladder": result.name, "description": result.description, "bytes": _size(result.bytes)}
    return _head("ladder") | fields | {"rows": [_rung(rung) for rung in result.rows]}


def _rung(rung: Rung) -> Document:
    return {
        "primitive": str(rung.primitive),
        "fabric": rung.fabric,
        "algorithm": rung.algorithm,
        "ranks": rung.ranks,
        "n_alpha": _plain(rung.ideal.n_alpha),
        "n_beta": _plain(rung.ideal.n_beta),
        "ideal": _seconds(rung.ideal),
        "realistic": _seconds(rung.realistic) | _etas(rung.realistic),
        "gap_ideal": rung.gap_ideal,
        "gap_realistic": rung.gap_realistic,
    }


def _seconds(row: Row) -> Document:
    paid = {"overhead_s": row.overhead_s} if row.overhead_s else {}
    return {"alpha_s": row.alpha_s, "bandwidth_s": row.bandwidth_s, "total_s": row.total_s} | paid | _under(row.protocol)


def _etas(row: Row) -> Document:
    """The coefficients of a rung; None where its phases have different ones."""
    alphas, betas = ({getattr(phase, name) for phase in row.phases} for name in ("eta_alpha", "eta_beta"))
    return {
        "eta_alpha": alphas.pop() if len(alphas) == 1 else None,
        "eta_beta": betas.pop() if len(betas) == 1 else None,
    }


@document.register
def _diff(result: Diff) -> Document:
    changed = [_change(change) for change in result.changed]
    lists = {"changed": changed, "added": list(result.added), "removed": list(result.removed)}
    return _head("diff") | {"rtol": result.rtol} | lists


def _change(change: Change) -> Document:
    return {"where": change.where, "old": change.old, "new": change.new, "relative": change.relative}


@document.register
def _explanation(result: Explanation) -> Document:
    fields: Document = {"algorithm": result.algorithm}
    if result.fabric:
        fields |= {"fabric": result.fabric, "ranks": result.ranks, "bytes": _size(result.bytes), "mode": result.mode}
    return _head("explain") | fields | {"primitives": [_explained(entry) for entry in result.entries]}


def _explained(entry: Explained) -> Document:
    return {
        "primitive": str(entry.primitive),
        "title": entry.title,
        "formula": list(entry.formula),
        "text": entry.text,
        "size_means": entry.size_means,
        "runs_on": entry.runs_on,
        "requires": list(entry.requires),
        "status": entry.status,
        "shipped_by": list(entry.shipped_by),
        "source": entry.source,
        "note": entry.note,
        "result": None if entry.row is None else _row(entry.row),
        "reason": entry.reason,
    }


def fabric_document(fabric: Fabric, facts: FabricFacts) -> Document:
    """``fabric show``: the file's values in SI units, and what follows from them."""
    from dataclasses import asdict

    given = fabric.model_dump(by_alias=True, exclude_none=True)
    given.pop("schema")
    return _head("fabric-show") | {"fabric": given, "facts": asdict(facts)}


def fabrics_document(fabrics: list[Fabric]) -> Document:
    """``fabric list``."""
    rows = [
        {"name": one.name, "description": one.description, "ranks": one.ranks, "tiers": [tier.name for tier in one.tiers]}
        for one in fabrics
    ]
    return _head("fabric-list") | {"fabrics": rows}


def checked_document(checks: Sequence[Checked]) -> Document:
    """``fabric check``: the files that hold, and what is odd about them."""
    odd = [
        {"file": check.file, "where": one.where, "what": one.what, "why": one.why} for check in checks for one in check.warnings
    ]
    return _head("fabric-check") | {"valid": [check.file for check in checks], "warnings": odd}


def _odd(one: Implausible) -> Document:
    return {"where": one.where, "what": one.what, "why": one.why}
