"""``explain`` as blocks: the words of an algorithm, and its formula with numbers put in."""

from colltool.pricing.results import Explained, Explanation, Row
from colltool.primitives import least_n_beta
from colltool.render.parts import Block, Lines
from colltool.units import format_bytes, format_rate, format_size, format_time


def explain_blocks(result: Explanation) -> list[Block]:
    """Every primitive that the algorithm computes, one after the other."""
    return [block for entry in result.entries for block in _explained(entry, result)]


def _explained(entry: Explained, result: Explanation) -> list[Block]:
    name = entry.primitive.spoken
    lines = [*entry.formula, "", f"M is {entry.size_means}.", *(p for p in entry.text.split("\n\n") if p)]
    lines += ["", f"runs on: {entry.runs_on.removeprefix('needs ')}", *(f"requires: {rule}" for rule in entry.requires)]
    lines += [f"status: {entry.status}{', by ' + ', '.join(entry.shipped_by) if entry.shipped_by else ''}"]
    lines += [f"source: {entry.source}"] + ([f"note: {entry.note}"] if entry.note else [])
    out: list[Block] = [Lines(f"{entry.algorithm}, {name}: {entry.title.rstrip('.')}", tuple(lines))]
    if entry.reason:
        out.append(Lines(f"on {result.fabric}: {entry.reason}", ()))
    if entry.row is not None:
        out.append(Lines(_numbers_title(result), tuple(_numbers(entry.row, entry, result))))
    return out


def _numbers_title(result: Explanation) -> str:
    return f"on {result.fabric}, {result.ranks} ranks, {format_size(result.bytes)} per rank, {result.mode}"


def _numbers(row: Row, entry: Explained, result: Explanation) -> list[str]:
    """The formula with numbers put in, a line for each summand."""
    lines = [f"protocol {row.protocol}"] if row.protocol else []
    for phase in row.phases:
        label = f"{phase.level}{f', {phase.label}' if phase.label else ''}" if len(row.phases) > 1 else phase.level
        if phase.n_alpha:
            per_hop = format_time(float(phase.alpha_s / phase.n_alpha))
            lines.append(f"{label}: n_alpha x alpha = {phase.n_alpha:g} x {per_hop} = {format_time(float(phase.alpha_s))}")
        rate = f"({format_rate(float(phase.bandwidth_Bps))} x {phase.eta_beta:.4g})"
        product = f"{float(phase.n_beta):.4g} x {format_bytes(float(phase.bytes))} / {rate}"
        lines.append(f"{label}: n_beta x M / BW = {product} = {format_time(float(phase.bandwidth_s))}")
    if row.overhead_s:
        lines.append(f"launch overhead {format_time(float(row.overhead_s))}")
    lines.append(f"t = {format_time(float(row.total_s))}, busbw {format_rate(float(row.busbw_Bps))}, bound by {row.bound}")
    if row.n_beta is not None and not entry.in_switch:
        least = least_n_beta(entry.primitive, result.ranks)
        lines.append(f"least n_beta of any endpoint-driven schedule on one port: {least:.4g}")
    return lines
