"""A report's words on a training step: how long it takes, on which fabric it is shortest, and whether
the GPU or the network makes the difference.

``report_decision`` puts the first three functions into the title of the page, and what
:func:`compared_steps` yields into its verdict. A plan's index is its fabric's in ``report.titles``;
0 is the page's own fabric, with which :class:`Plans` compares all others: ``plans.ratio(index)`` is a step's time over
that of the first, ``plans.error(index)`` the relative error of the ratio; None of the first, and on the same fabric.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from colltool.analysis.jobs import Plans
from colltool.analysis.report import Report
from colltool.base.formatting import format_time, percent
from colltool.render.views.report_reference import rank_noun
from colltool.training.plan import Plan

_SAME_STEP = 0.005  # steps that differ by a smaller share are equally long
_NEGLIGIBLE_PART = 0.01  # GPU or network with a smaller share of a difference is not named


# --- in the title


def step_in_title(plan: Plan) -> str:
    """``a training step of llama3-70b takes 4.43 s (3.9-5.1 s, 90% interval)``."""
    return f"a training step of {plan.job.name} takes {_step_time(plan)}"


def compared_step_in_title(plans: Plans) -> str:
    """``training step 12% faster``: how the page's own fabric does beside the other of two."""
    if _is_same(plans, 1):
        return "training step equally long"
    if _too_close(plans, 1):
        return "training step too close to call"
    # the ratio is the other fabric's time over this one's
    change = plans.ratio(1) - 1
    share = percent(abs(change))
    if change > 0:
        return f"training step {share} faster"
    return f"training step {share} slower"


def fastest_step_in_title(
    report: Report,
    plans: Plans,
) -> str:
    """``llama3-70b trains fastest on nvl72, 7.7% ahead of dgx-b200``: of three fabrics and more."""
    steps_s = [plan.step_s for plan in plans.plans]
    fastest_first = sorted(range(len(steps_s)), key=steps_s.__getitem__)
    best, rival = fastest_first[:2]
    fastest = report.titles[best]
    second = report.titles[rival]
    job = plans.first.job.name
    lead = steps_s[rival] / steps_s[best] - 1
    # errors are of comparisons with the first plan, so it has none itself
    errors = [plans.error(index) or 0.0 for index in (best, rival) if index != 0]
    if lead <= max(_SAME_STEP, *errors):
        return f"training step of {job}: too close to call between {fastest} and {second}"
    return f"{job} trains fastest on {fastest}, {percent(lead)} ahead of {second}"


# --- in the verdict


def compared_steps(
    report: Report,
    plans: Plans,
) -> Iterator[str]:
    """Which fabric has the shortest step, then a line for each that is compared with the first."""
    first, *others = plans.plans
    step = f"A training step of {first.job.name} on {first.ranks} {rank_noun(report)}"
    if len(others) == 1:
        times = []
        for plan, title in titled_plans(report, plans):
            times.append(f"{_step_time(plan)} on {title}")
        yield f"{step} takes {', '.join(times)}."
        error = plans.error(1)
        doubt = ""
        if error:
            doubt = f"such comparisons are typically {percent(error)} off"
        difference = _difference_and_cause(report, plans, 1, doubt)
        yield f"{report.titles[1]}: {difference}."
        return
    fastest = min(plans.plans, key=attrgetter("step_s"))
    title = report.titles[plans.plans.index(fastest)]
    text = f"{step} is fastest on {title}: {_step_time(fastest)}."
    # once for all, where each line would repeat it
    error = max(plans.error(index) or 0.0 for index in range(1, len(plans.plans)))
    if error:
        text += f" Comparisons of steps are typically {percent(error)} off."
    yield text
    for index, plan in enumerate(others, 1):
        time = format_time(plan.step_s, 3)
        difference = _difference_and_cause(report, plans, index)
        yield f"{report.titles[index]}: {time}, {difference}."


def titled_plans(report: Report, plans: Plans) -> Iterator[tuple[Plan, str]]:
    """Each plan with the title of its fabric."""
    yield from zip(plans.plans, report.titles, strict=True)


def _step_time(plan: Plan) -> str:
    """``4.43 s (3.9-5.1 s, 90% interval)``; the time alone where it was measured or its error is
    not known."""
    time = format_time(plan.step_s, 3)
    if plan.error is None or plan.job.measured_step_s is not None:
        return time
    low_s, high_s = plan.error.spread(plan.step_s)
    low = format_time(low_s, 2)
    high = format_time(high_s, 2)
    ends = f"{low} to {high}"
    # one unit is enough where both ends have it
    number, unit = low.split(" ")
    if high.endswith(f" {unit}"):
        ends = f"{number}-{high}"
    return f"{time} ({ends}, 90% interval)"


# --- how two steps differ


def _too_close(plans: Plans, index: int) -> bool:
    """Whether a step differs from the first by no more than the error of comparing them."""
    error = plans.error(index)
    if error is None:
        return False
    return abs(plans.ratio(index) - 1) <= error


def _difference_and_cause(
    report: Report,
    plans: Plans,
    index: int,
    doubt: str = "",
) -> str:
    """``12% slower than nvl72; 360 ms of 539 ms because the GPU is slower, 179 ms because of the
    network``: how a step differs from the first, and why.

    ``doubt``: a sentence on the error of comparing them, where it is not said for all.
    """
    difference = _difference_text(report, plans, index)
    if _is_same(plans, index):
        return difference
    if _too_close(plans, index):
        if doubt:
            difference = f"the step is {difference}, and {doubt}"
        return f"too close to call ({difference})"
    if doubt:
        difference += f" ({doubt})"
    return f"{difference}; {_cause_text(plans, index)}"


def _is_same(plans: Plans, index: int) -> bool:
    """Whether nobody could measure a difference from the first step."""
    return abs(plans.ratio(index) - 1) < _SAME_STEP


def _difference_text(
    report: Report,
    plans: Plans,
    index: int,
) -> str:
    """``12% slower than nvl72``, the first fabric."""
    first = report.titles[0]
    if _is_same(plans, index):
        return f"no measurable difference to {first}"
    change = plans.ratio(index) - 1
    share = percent(abs(change))
    return f"{share} {_slower_or_faster(change)} than {first}"


def _slower_or_faster(change: float) -> str:
    if change > 0:
        return "slower"
    return "faster"


def _cause_text(plans: Plans, index: int) -> str:
    """What of the difference between a step and the first the GPU makes and what the network, by the
    steps on a free network: ``360 ms of 539 ms because the GPU is slower, 179 ms because of the
    network``."""
    plan = plans.plans[index]
    change_s = plan.step_s - plans.first.step_s
    by_device_s = plan.control_step_s - plans.first.control_step_s
    by_network_s = change_s - by_device_s
    word = _slower_or_faster(change_s)
    total = format_time(abs(change_s), 3)
    negligible_s = _NEGLIGIBLE_PART * abs(change_s)
    # all of it, where compute is given by the job or both fabrics have the same device
    if abs(by_device_s) < negligible_s:
        return f"all {total} because the network is {word}"
    if abs(by_network_s) < negligible_s:
        return f"all {total} because the GPU is {word}"
    device = format_time(abs(by_device_s), 3)
    network = format_time(abs(by_network_s), 3)
    if (by_device_s > 0) == (by_network_s > 0):
        return f"{device} of {total} because the GPU is {word}, {network} because of the network"
    if by_device_s > 0:
        return f"its GPU costs {device}, its network saves {network}"
    return f"its GPU saves {device}, its network costs {network}"
