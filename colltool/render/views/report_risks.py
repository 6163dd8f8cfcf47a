"""What the verdict of a report depends on: the model's error, the number that moves it most, what the
prices rest on, and in what the fabrics differ.

:func:`risks` yields a sentence or more on each, in this order; the functions below are those that it asks, and
each yields nothing where the report has no such result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from colltool.analysis.compare import Comparison
from colltool.analysis.jobs import Plans
from colltool.analysis.report import Assumptions, Report
from colltool.analysis.sensitivity import Sensitivity
from colltool.base.formatting import format_time, percent, sentence
from colltool.estimate.results import Breakdown
from colltool.fabric.properties import basis_of
from colltool.render.assumption_differences import basis_sentences
from colltool.render.blocks import names_by_text
from colltool.render.intervals import interval_and_reason
from colltool.render.views.report_steps import titled_plans

_SAFE = 0.01  # a choice of algorithm that loses less than this share is safe


def risks(report: Report) -> Iterator[str]:
    """A sentence for each thing that the verdict depends on, in the order of this module's first
    sentence. Plans of a job compare the fabrics where there are any, else comparisons of collectives do."""
    yield from _errors(report)
    yield from map(_most_sensitive_text, report.results_of(Sensitivity))
    yield from _sources(report)
    plans = report.result_of(Plans)
    if plans:
        yield from _assumed_devices(report, plans)
        yield from _differences([plans])
    else:
        yield from _differences(report.results_of(Comparison))


def _errors(report: Report) -> Iterator[str]:
    """How far off the prices may be; collectives with the same interval share a sentence."""
    intervals = []
    for breakdown in report.results_of(Breakdown):
        price = breakdown.price
        if price.best.interval is not None:
            intervals.append((interval_and_reason(price.best), price.primitive.label))
    for interval, primitives in names_by_text(intervals).items():
        yield f"{sentence(', '.join(primitives))}: {_interval_in_words(interval)}."


def _interval_in_words(interval: str) -> str:
    """``within -34% and +51% (no measurement beyond 192 ranks)``, or ``between 0.7 and 3.2 times the
    price``: from what :func:`interval_and_reason` writes, ``-34% to +51%: no measurement beyond 192 ranks`` and
    ``0.7 to 3.2 times that``."""
    ends, _, reason = interval.partition(": ")
    text = ends
    if ends.startswith("-"):
        text = f"within {ends.replace(' to ', ' and ')}"
    elif ends.endswith(" times that"):
        factors = ends.replace(" to ", " and ").replace("that", "the price")
        text = f"between {factors}"
    if reason:
        text += f" ({reason})"
    return text


def _sources(report: Report) -> Iterator[str]:
    """What the numbers of each fabric come from, and how many have no source."""
    bases = []
    for fabric, title in zip(report.fabrics, report.titles, strict=True):
        bases.append((basis_text(basis_of(fabric)), title))
    for basis, titles in names_by_text(bases).items():
        yield f"{', '.join(titles)}: {basis}."
    for assumptions in report.results_of(Assumptions):
        unsourced = sum(not entry.source for entry in assumptions.stated)
        if unsourced:
            name = assumptions.fabric.name
            yield f"{name}: {unsourced} of its {len(assumptions.stated)} numbers have no source."


def _assumed_devices(report: Report, plans: Plans) -> Iterator[str]:
    """The fabrics whose step is for the job's device, because their files name none."""
    for plan, title in titled_plans(report, plans):
        if plan.device is not None and plan.job.device_from == "default":
            yield f"{title} names no device: the step is for {plan.device}, which the job names."


def _differences(results: Iterable[Plans | Comparison]) -> Iterator[str]:
    """What the fabrics' prices assume differently, each difference once."""
    differences: dict[str, None] = {}
    for result in results:
        differences.update(dict.fromkeys(basis_sentences(result.ground)))
    for difference in differences:
        yield f"Different assumptions: {difference}."


_BASIS = {
    "measured": "prices come from measurements of such machines",
    "datasheet": "prices come from datasheets, without a measurement",
    "announced": "announced, not shipped; its numbers are the vendor's",
    "hypothetical": "hypothetical; no such machine exists",
}


def basis_text(basis: str) -> str:
    """What the prices of a fabric rest on; ``basis`` may be ``as`` with the name of a machine."""
    return _BASIS.get(basis) or f"prices come from measurements of {basis.removeprefix('as ')}"


def _most_sensitive_text(result: Sensitivity) -> str:
    """The number that moves the time most, and what a wrong choice of algorithm would cost."""
    choice = f"A wrong choice of algorithm costs at most {percent(result.regret_p95)}."
    if result.regret_p95 < _SAFE:
        choice = "The choice of algorithm is safe."
    collective = sentence(result.primitive.label)
    # low_s and high_s: the time at the low and at the high end of a number's range
    moving = [move for move in result.moves if move.low_s != move.high_s]
    if not moving:
        return f"{collective}: no number of the fabric moves it. {choice}"
    largest = max(moving, key=lambda move: abs(move.high_s - move.low_s))
    shortest_s, longest_s = sorted((largest.low_s, largest.high_s))
    times = f"{format_time(shortest_s, 3)} to {format_time(longest_s, 3)}"
    number = number_in_words(largest.key)
    return f"{collective} is most sensitive to {number}: {times} over its plausible range. {choice}"


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
# by the end of a key; a longer end stands before the one that it ends in
_NUMBER_NAMES = {
    "eta.beta": "bandwidth efficiency",
    "eta.alpha": "latency factor",
    "alpha_switch": "switch latency",
    "alpha": "latency",
    "bandwidth": "bandwidth",
    "oversubscription": "oversubscription",
}


def number_in_words(key: str) -> str:
    """``ib.levels.spine.alpha`` as people say it: ``InfiniBand spine latency``; the key itself where
    it ends in no number that has a name."""
    tier, *path = key.split(".")
    words = [_TIER_NAMES.get(tier, tier)]
    if not path:
        return words[0]
    if "in_network" in path:
        words.append("in-network")
    if path[0] == "levels" and len(path) > 1:
        words.append(path[1])
    if "eta_beta" in path:
        return " ".join((*words, "bandwidth efficiency"))
    for end, name in _NUMBER_NAMES.items():
        if ".".join(path).endswith(end):
            return " ".join((*words, name))
    return key
