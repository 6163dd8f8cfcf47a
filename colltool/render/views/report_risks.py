"""What the verdict of a report depends on: the model's error, the number that moves it most, what the
prices rest on, and in what the fabrics differ.

:func:`risks` asks for each in this order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from colltool.analysis.compare import Comparison
from colltool.analysis.jobs import Plans
from colltool.analysis.report import Assumptions, Report
from colltool.analysis.sensitivity import Sensitivity
from colltool.base.formatting import format_time, percent, sentence
from colltool.estimate.results import Breakdown
from colltool.fabric.properties import basis_of
from colltool.render.assumption_differences import basis_sentences
from colltool.render.blocks import gathered
from colltool.render.intervals import within
from colltool.render.views.report_decision import titled_plans

_SAFE = 0.01  # a choice of algorithm that loses less is safe


def risks(result: Report) -> Iterator[str]:
    """What the verdict depends on: the model's error, the number that moves it most, what the
    prices rest on, and in what the fabrics differ."""
    yield from _errors(result.results_of(Breakdown))
    yield from map(_most_sensitive_text, result.results_of(Sensitivity))
    yield from _rests_on(result)
    plans = result.result_of(Plans)
    if plans:
        yield from _assumed_devices(result, plans)
        yield from _differences([plans])
    else:
        yield from _differences(result.results_of(Comparison))


def _errors(breakdowns: Sequence[Breakdown]) -> Iterator[str]:
    """How far off the prices may be; collectives with the same interval share a sentence."""
    errors = []
    for breakdown in breakdowns:
        price = breakdown.price
        if price.best.interval is not None:
            errors.append((within(price.best), price.primitive.label))
    for off, names in gathered(errors).items():
        # -34% to +51%: no measurement beyond 192 ranks
        around, _, why = off.partition(": ")
        ends = around.replace(" to ", " and ")
        inside = around
        if around.startswith("-"):
            inside = f"within {ends}"
        elif around.endswith(" times that"):
            inside = f"between {ends.replace('that', 'the price')}"
        if why:
            inside += f" ({why})"
        yield f"{sentence(', '.join(names))}: {inside}."


def _rests_on(result: Report) -> Iterator[str]:
    """What the numbers of each fabric come from, and how many have no source."""
    bases = []
    for fabric, title in zip(result.fabrics, result.titles, strict=True):
        bases.append((basis_text(basis_of(fabric)), title))
    for basis, names in gathered(bases).items():
        yield f"{', '.join(names)}: {basis}."
    for assumptions in result.results_of(Assumptions):
        without = sum(not entry.source for entry in assumptions.stated)
        if without:
            name = assumptions.fabric.name
            yield f"{name}: {without} of its {len(assumptions.stated)} numbers have no source."


def _assumed_devices(result: Report, plans: Plans) -> Iterator[str]:
    """The fabrics whose step is for the job's device, because their files name none."""
    for plan, title in titled_plans(result, plans):
        if plan.device is not None and plan.job.device_from == "default":
            yield f"{title} names no device: the step is for {plan.device}, which the job names."


def _differences(results: Sequence[Plans | Comparison]) -> Iterator[str]:
    """What the fabrics' prices assume differently, each difference once."""
    lines: dict[str, None] = {}
    for result in results:
        lines.update(dict.fromkeys(basis_sentences(result.ground)))
    for line in lines:
        yield f"Different assumptions: {line}."


_BASIS = {
    "measured": "prices come from measurements of such machines",
    "datasheet": "prices come from datasheets, without a measurement",
    "announced": "announced, not shipped; its numbers are the vendor's",
    "hypothetical": "hypothetical; no such machine exists",
}


def basis_text(basis: str) -> str:
    """What the prices of a fabric rest on; ``basis`` may be ``as`` with the name of a machine."""
    return _BASIS.get(basis) or f"prices come from measurements of {basis[3:]}"


def _most_sensitive_text(result: Sensitivity) -> str:
    """The number that moves the time most, and what a wrong choice of algorithm would cost."""
    choice = f"A wrong choice of algorithm costs at most {percent(result.regret_p95)}."
    if result.regret_p95 < _SAFE:
        choice = "The choice of algorithm is safe."
    what = sentence(result.primitive.label)
    moving = [bar for bar in result.moves if bar.low_s != bar.high_s]
    if not moving:
        return f"{what}: no number of the fabric moves it. {choice}"
    bar = max(moving, key=lambda move: abs(move.high_s - move.low_s))
    low, high = (format_time(end, 3) for end in sorted((bar.low_s, bar.high_s)))
    span = f"{low} to {high} over its plausible range"
    return f"{what} is most sensitive to {number_in_words(bar.key)}: {span}. {choice}"


_TIER_NAMES = {
    "ib": "InfiniBand",
    "nvlink": "NVLink",
    "roce": "RoCE",
    "pcie": "PCIe",
    "efa": "EFA",
    "xgmi": "xGMI",
    "ici": "ICI",
    "launch_overhead": "launch overhead",
}
_NUMBER_NAMES = {
    "eta.beta": "bandwidth efficiency",
    "eta.alpha": "latency factor",
    "alpha_switch": "switch latency",
    "alpha": "latency",
    "bandwidth": "bandwidth",
    "oversubscription": "oversubscription",
}


def number_in_words(key: str) -> str:
    """``ib.levels.spine.alpha`` as people say it: ``InfiniBand spine latency``."""
    tier, *rest = key.split(".")
    words = [_TIER_NAMES.get(tier, tier)]
    if "in_network" in rest:
        words.append("in-network")
    if rest[:1] == ["levels"] and len(rest) > 1:
        words.append(rest[1])
    if "eta_beta" in rest:
        words.append("bandwidth efficiency")
        return " ".join(words)
    for end, name in _NUMBER_NAMES.items():
        if ".".join(rest).endswith(end):
            return " ".join((*words, name))
    return " ".join(words) if not rest else key
