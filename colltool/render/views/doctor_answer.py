"""The answer of ``doctor`` in sentences (:func:`diagnosed`): what the machine reaches, the most likely
cause, what the log itself states, and where nothing is off, that it is healthy.

:func:`_sentences` has them in their order; the functions below it follow in three parts: times below
expectation, what the log states, nothing is off. A finding without shares (``low`` is None) is one that
the log states in words; the others are seen in times.

Shares are of the expected bus bandwidth: of a finding from the lowest series (``low``) to the highest
(``high``); of a ``SeriesHealth`` the median of its large messages and of its small ones (None where none was
measured), with the shares that pass (``bar``, ``small_bar``). ``AssumedFabric`` is what times are compared
with; its texts are empty where there is nothing to say.
"""

from __future__ import annotations

from collections.abc import Iterator

from colltool.base.errors import argument_text, either, localize
from colltool.base.formatting import (
    and_text,
    counted,
    or_text,
    percent,
    sentence,
    whole_percent,
)
from colltool.diagnosis.results import (
    AssumedFabric,
    Diagnosis,
    DiagnosisFinding,
    Fleet,
    SeriesHealth,
)
from colltool.diagnosis.sentences import statement
from colltool.logs.stated import StatedLine
from colltool.render.blocks import span_text
from colltool.render.dispatch import fabric_of
from colltool.render.views.health import SeriesWords, names_on_ranks

_UNEXPLAINED = (
    "No known cause explains it: calibrate a healthy machine of this kind and compare with its"
    " fabric file."
)
_MOST_NAMED = 3  # measurements that a sentence names; more are counted
_MOST_STATED = 2  # lines of a log that the answer quotes
_MOST_RIVALS = 6  # causes that give the same channels


def diagnosed(result: Diagnosis) -> str:
    """The whole answer as one text."""
    return " ".join(filter(None, _sentences(result)))


def _sentences(result: Diagnosis) -> Iterator[str]:
    """The answer, sentence by sentence; some are empty."""
    # logs of other hardware than the fabric
    if result.assumed.other_hardware:
        yield f"{sentence(result.assumed.other_hardware)}."
    # NCCL's channels agree with a topology file, or cannot be compared
    channels = ""
    if result.topology is not None:
        channels = str(result.topology.said)
    if channels:
        yield f"{channels}."
    main = main_finding(result)
    if main is None:
        # channels that agree are an answer where the log has no times
        if result.series or not channels:
            yield _answer_without_finding(result)
        yield from _stated_beside_passing(result)
        return
    if result.fleet and any(host.bad for host in result.fleet.hosts):
        yield _fleet_text(result.fleet)
    stated = stated_finding(result)
    if stated is not None:
        yield from _stated_sentences(stated, result)
    if main is stated:
        yield _other_causes(main)
    else:
        yield from _slow_sentences(main, result)
    yield _more_findings(result)


def main_finding(result: Diagnosis) -> DiagnosisFinding | None:
    """The finding to show first: the first one that a cause explains, else the first. What times
    tell goes before what lines state."""
    measured = [finding for finding in result.findings if finding.low is not None]
    explained = [finding for finding in measured if finding.causes]
    for findings in (explained, measured, result.findings):
        if findings:
            return findings[0]
    return None


def stated_finding(result: Diagnosis) -> DiagnosisFinding | None:
    """The first finding that the log states itself; None without one. With times these are failures and
    wrong values, without times also other causes."""
    for finding in result.findings:
        if finding.low is None:
            return finding
    return None


def _more_findings(result: Diagnosis) -> str:
    """Say how many findings the answer does not name; empty where it names all."""
    named = (main_finding(result), stated_finding(result))
    more = sum(all(finding is not other for other in named) for finding in result.findings)
    if not more:
        return ""
    hint = localize(either(shell="; --all shows them", python=""))
    verb = "There is" if more == 1 else "There are"
    return f"{verb} {counted(more, 'more finding')}{hint}."


# --- times below expectation


def _slow_sentences(main: DiagnosisFinding, result: Diagnosis) -> Iterator[str]:
    """Say what is below expectation, the most likely cause, and how well it explains the times."""
    yield from _stated_before_times(main, result)
    yield f"Slow{_assumption_text(result.assumed)}: {reached(main, result)}."
    slow_series = _series_of(main, result)
    if len(slow_series) == 1:
        yield _series_words(result).largest(slow_series[0])
    else:
        yield _expectation(result)
    # others are faster than the fabric allows, which makes it a doubtful baseline
    if result.too_fast:
        yield f"But {_fastest_outcome(result)}."
    # a cause that no price supports is not guessed at
    if main.causes:
        yield _likely_cause(main, result)
        yield _other_causes(main)
    else:
        yield _UNEXPLAINED


def reached(finding: DiagnosisFinding, result: Diagnosis) -> str:
    """``all-reduce on 8 H100 reaches 73% of expected (pass mark 80%)``."""
    if finding.low is None or finding.high is None:
        return "nothing was measured"
    series = _series_of(finding, result)
    names = list(dict.fromkeys(map(_series_words(result).name, series)))
    subject = f"{len(names)} measurements"
    if len(names) <= _MOST_NAMED:
        subject = names_on_ranks(names)
    verb = "reaches" if len(names) == 1 else "reach"
    if finding.size == "small":
        subject = f"small messages of {subject}"
        verb = "reach"
    share = span_text(whole_percent(finding.low), whole_percent(finding.high))
    marks = [_pass_mark(health, finding) for health in series]
    if not marks:
        return f"{subject} {verb} {share} of expected"
    pass_mark = span_text(whole_percent(min(marks)), whole_percent(max(marks)))
    return f"{subject} {verb} {share} of expected (pass mark {pass_mark})"


def _series_of(finding: DiagnosisFinding, result: Diagnosis) -> list[SeriesHealth]:
    """The series of a finding, which has their titles."""
    return [health for health in result.series if health.judged.series.title in finding.series]


def _pass_mark(health: SeriesHealth, finding: DiagnosisFinding) -> float:
    """The share of the expected rate that a series must reach, at the sizes of a finding."""
    if finding.size == "small" and health.small_bar is not None:
        return health.small_bar
    return health.bar


def _series_words(result: Diagnosis) -> SeriesWords:
    return SeriesWords(result.series, result.assumed.devices, judged_fabric(result))


def judged_fabric(result: Diagnosis) -> str:
    """The fabric that times are compared with: ``dgx-h100 with ib.size=64``."""
    return fabric_of(result.assumed)


def _expectation(result: Diagnosis) -> str:
    return f"Expected is what {judged_fabric(result)} should reach."


def _fastest_outcome(result: Diagnosis) -> str:
    """What the fastest of the series that are too fast reaches of what the fabric allows."""
    return _series_words(result).outcome(_fastest(result))


def _fastest(result: Diagnosis) -> SeriesHealth:
    """The series that is furthest above what the fabric allows; of a result with such series."""
    # these all have large messages, by which they are too fast
    return max(result.too_fast, key=lambda health: health.large or 0.0)


def _assumption_text(assumed: AssumedFabric) -> str:
    """Say what the expectation assumes because the logs do not tell: the machine (``guessed``), or NICs that
    are not the fabric's own (``network``). Empty where they tell."""
    if assumed.guessed:
        machine = _assumed_machine(assumed)
        if not assumed.alike:
            machine += ", the slowest of the usual machines"
        return f", assuming {machine} (the logs name no GPUs)"
    if not assumed.network:
        return ""
    return (
        f", assuming {assumed.network} NICs per host (the logs name none; {assumed.fabric} has"
        f" {assumed.own})"
    )


def _assumed_machine(assumed: AssumedFabric) -> str:
    """The machines that the times fit, with the NICs that these need."""
    machine = or_text(assumed.alike or (assumed.fabric,))
    nics = assumed.network or assumed.own
    return f"{machine} with {nics} per host" if nics else machine


def _likely_cause(main: DiagnosisFinding, result: Diagnosis) -> str:
    """Name the best cause, and how well it explains the times."""
    best = main.causes[0]
    # a collapse at some size is seen in the times: it is no guess
    if best.name == "collapse":
        return f"{sentence(best.said)}."
    if best.error is None or main.error is None:
        return f"Most likely: {best.said}."
    fits = f"fits the log to {percent(best.error)}"
    # less would be shown as 0.0%
    if best.error < 0.0005:
        fits = "fits the log exactly"
    healthy = f"a healthy {result.assumed.fabric} would be {percent(main.error, 0)} off"
    return f"Most likely: {best.said} ({fits}; {healthy})."


def _other_causes(main: DiagnosisFinding) -> str:
    """Name the causes besides the best one that the times or the log support; empty without any."""
    best, *other_causes = main.causes
    if not other_causes:
        return ""
    if best.name == "topology":
        rivals = or_text([cause.said for cause in other_causes[: _MOST_RIVALS - 1]])
        return f"The same channels would follow if {rivals}."
    if main.low is None:
        return f"The log states {counted(len(other_causes), 'more thing')}, listed below."
    names = dict.fromkeys(cause_name(cause.name) for cause in other_causes)
    return f"Also possible: {', '.join(names)}."


def cause_name(name: str) -> str:
    """A cause as sentences name it."""
    return str(statement(f"name-{name}"))


# --- what the log itself states


def _stated_sentences(finding: DiagnosisFinding, result: Diagnosis) -> Iterator[str]:
    """Say what the log states (a stated finding has one cause at least), what to do, and what becomes of its
    times."""
    cause = finding.causes[0]
    # the names of these kinds of causes say less than what was stated
    if cause.name in ("rails", "cause", "setting", "warning", "topology"):
        yield f"{sentence(cause.said)}."
    else:
        yield f"{sentence(cause_name(cause.name))}: {cause.said}."
    if cause.look:
        yield f"Next: {cause.look}."
    if result.unjudged:
        yield f"Its times are not judged: {localize(result.unjudged)}."
    elif not result.series:
        yield "The log holds no times to judge."


def _stated_beside_passing(result: Diagnosis) -> Iterator[str]:
    """What the log states beside times that pass."""
    troubles = [stated for stated in result.stated if stated.kind != "fact"]
    for stated in troubles[:_MOST_STATED]:
        yield f"The log also says: {_quotation(stated)}."


def _stated_before_times(main: DiagnosisFinding, result: Diagnosis) -> Iterator[str]:
    """What the log states and the most likely cause does not: it comes before what times tell."""
    likely_cause = ""
    if main.causes:
        likely_cause = str(main.causes[0].said)
    causes = [stated for stated in result.stated if stated.kind in ("cause", "setting")]
    for stated in causes[:_MOST_STATED]:
        # a cause that was taken from the line quotes it
        if f"'{stated.quoted}'" not in likely_cause:
            yield f"{sentence(_quotation(stated))}."


def _quotation(stated: StatedLine) -> str:
    """What a line of a log means, with its words and its place."""
    return f"{stated.means} ('{stated.quoted}', {stated.where})"


def _fleet_text(fleet: Fleet) -> str:
    """The sentences that name hosts; a list below the answer has all."""
    bad = sum(host.bad for host in fleet.hosts)
    # sentences on hosts, one of each that is bad, come before those on single runs
    sentences = fleet.said[: max(1, bad)]
    if not sentences:
        return f"{len(fleet.hosts)} hosts are alike."
    return f"{'. '.join(map(str, sentences))}."


# --- nothing is off


def _answer_without_finding(result: Diagnosis) -> str:
    """The answer where nothing was found."""
    if result.fleet and not result.ok:
        healthy_hosts = f"The others reach what {judged_fabric(result)} should."
        return f"{_fleet_text(result.fleet)} {healthy_hosts}"
    if not any(health.judgeable for health in result.series):
        return _not_judged_answer(result)
    if result.too_fast:
        return _no_baseline_answer(result)
    if result.assumed.network:
        return _network_answer(result.assumed)
    if not result.assumed.guessed:
        return f"Healthy: {_healthy_text(result)}"
    name = localize(argument_text("fabric", "NAME"))
    return (
        f"If this is {_assumed_machine(result.assumed)}, it is healthy: {_healthy_text(result)}"
        f" If it is not, name it with {name}."
    )


def _healthy_text(result: Diagnosis) -> str:
    """What passes, in sentences: one measurement with its rates, few by name, of more the lowest."""
    words = _series_words(result)
    judged = [health for health in result.series if health.judgeable]
    if len(judged) == 1:
        return f"{words.outcome(judged[0])}. {words.largest(judged[0])}"
    if len(judged) <= _MOST_NAMED:
        return f"{words.outcomes(judged)}. {_expectation(result)}"
    lowest = min(judged, key=_share_of_pass_mark)
    return (
        f"all {len(judged)} measurements pass; nearest to its pass mark, {words.outcome(lowest)}."
        f" {_expectation(result)}"
    )


def _share_of_pass_mark(health: SeriesHealth) -> float:
    """What large messages reach over their pass mark; small ones where no large one was measured, of a series
    that can be judged."""
    if health.large is not None:
        return health.large / health.bar
    return (health.small or 0.0) / (health.small_bar or 1.0)


def _no_baseline_answer(result: Diagnosis) -> str:
    """The answer where the times are faster than the fabric allows."""
    text = f"Not judged: {_fastest_outcome(result)} and {judged_fabric(result)} is no baseline."
    # tiers of PCIe have it in their names
    if "pcie" in _fastest(result).wire:
        text += " A PCIe slot carries no more; NVLink bridges would."
    fits = [name for name in result.fits if name != result.assumed.fabric]
    name = "NAME"
    advice = "No bundled machine fits: name yours with"
    if fits:
        name = fits[0]
        advice = f"The times fit {or_text(fits[:_MOST_NAMED])}: compare with"
    return f"{text} {advice} {localize(argument_text('fabric', name))}."


_FRACTIONS = {2: "half", 4: "a quarter", 8: "an eighth"}  # by the divisor


def _network_answer(assumed: AssumedFabric) -> str:
    """The answer where other NICs than the fabric's own fit the times between hosts."""
    hosts = f"If your hosts have {assumed.network} NICs"
    if assumed.guessed:
        hosts = f"If this is {_assumed_machine(assumed)}"
    share = ""
    if assumed.network_share is not None:
        share = f" ({whole_percent(assumed.network_share)} of their line rate)"
    # within 1% of a fraction that has a name
    divisor = round(1 / assumed.network_factor)
    fraction = whole_percent(assumed.network_factor)
    if divisor in _FRACTIONS and abs(divisor * assumed.network_factor - 1) <= 0.01:
        fraction = _FRACTIONS[divisor]
    name = localize(argument_text("fabric", assumed.fabric))
    return (
        f"{hosts}, this is normal{share}. If they have {assumed.own}, the network is at {fraction} of"
        " its rate: NICs at a lower speed or unused, or congested uplinks. The log does not name"
        f" them: for {assumed.own}, add {name}."
    )


def _not_judged_answer(result: Diagnosis) -> str:
    """Why nothing can be said, and what would tell."""
    if result.series:
        return (
            f"Not judged against {judged_fabric(result)}: the log has too few sizes, and none is"
            " large. Measure up to 1 GiB."
        )
    tiers = list(dict.fromkeys(bound.wire for bound in result.bounds))
    if not tiers:
        text = "Not judged: the log holds no times, and states nothing that is off"
        facts = [stated.means for stated in result.stated if stated.code != "setting"]
        if facts:
            text += f": {'; '.join(facts)}"
        return f"{text}."
    tier_names = and_text(tiers)
    return (
        f"Not judged: nothing can be said of {tier_names} by these traces, as a kernel waits for the"
        f" slowest rank. Give the traces of all ranks, or measure {tier_names}."
    )
