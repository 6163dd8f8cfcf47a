"""The answer of ``doctor`` in sentences (:func:`diagnosed`): what the machine reaches, the most likely
cause, what the log itself states, and where nothing is off, that it is healthy."""

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
from colltool.render.blocks import (
    span_text,
)
from colltool.render.dispatch import fabric_of
from colltool.render.views.health import (
    SeriesWords,
    together,
)

_UNEXPLAINED = (
    "No known cause explains it: calibrate a healthy machine of this kind and compare with its"
    " fabric file."
)
_MOST_NAMED = 3  # measurements that a sentence names; more are counted
_MOST_STATED = 2  # lines of a log that the answer quotes
_MOST_RIVALS = 6  # causes that give the same channels


def diagnosed(result: Diagnosis) -> str:
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
        if result.series or not channels:
            yield _without_finding(result)
        yield from _also_stated(result)
        return
    if result.fleet and any(host.bad for host in result.fleet.hosts):
        yield _fleet_text(result.fleet)
    stated = stated_finding(result)
    if stated is not None:
        yield from _stated(stated, result)
    if main is stated:
        yield _others(main)
    else:
        yield from _slow(main, result)
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
    """What the log states itself: a failure or wrong values, without times also other causes."""
    for finding in result.findings:
        if finding.low is None:
            return finding
    return None


def _more_findings(result: Diagnosis) -> str:
    """How many findings the answer does not name."""
    named = {id(main_finding(result)), id(stated_finding(result))}
    more = sum(id(finding) not in named for finding in result.findings)
    if not more:
        return ""
    where = localize(either(shell="; --all shows them", python=""))
    verb = "There is" if more == 1 else "There are"
    return f"{verb} {counted(more, 'more finding')}{where}."


# --- times below expectation


def _slow(main: DiagnosisFinding, result: Diagnosis) -> Iterator[str]:
    """What is below expectation, the most likely cause, and how well it explains the times."""
    yield from _stated_first(main, result)
    yield f"Slow{_assumption(result.assumed)}: {reached(main, result)}."
    found = _found(main, result)
    if len(found) == 1:
        yield _words(result).largest(found[0])
    else:
        yield _expected(result)
    # which makes the fabric a doubtful baseline
    if result.too_fast:
        yield f"But {_outcome_of_fastest(result)}."
    # a cause that no price supports is not guessed at
    if main.causes:
        yield _likely(main, result)
        yield _others(main)
    else:
        yield _UNEXPLAINED


def reached(finding: DiagnosisFinding, result: Diagnosis) -> str:
    """``all-reduce on 8 H100 reaches 73% of expected (pass mark 80%)``."""
    if finding.low is None or finding.high is None:
        return "nothing was measured"
    found = _found(finding, result)
    names = list(dict.fromkeys(map(_words(result).name, found)))
    who = f"{len(names)} measurements"
    if len(names) <= _MOST_NAMED:
        who = together(names)
    verb = "reaches" if len(names) == 1 else "reach"
    if finding.size == "small":
        who = f"small messages of {who}"
        verb = "reach"
    share = span_text(whole_percent(finding.low), whole_percent(finding.high))
    marks = [_mark(health, finding) for health in found]
    if not marks:
        return f"{who} {verb} {share} of expected"
    pass_mark = span_text(whole_percent(min(marks)), whole_percent(max(marks)))
    return f"{who} {verb} {share} of expected (pass mark {pass_mark})"


def _found(finding: DiagnosisFinding, result: Diagnosis) -> list[SeriesHealth]:
    """The series of a finding."""
    return [health for health in result.series if health.judged.series.title in finding.series]


def _mark(health: SeriesHealth, finding: DiagnosisFinding) -> float:
    if finding.size == "small" and health.small_bar is not None:
        return health.small_bar
    return health.bar


def _words(result: Diagnosis) -> SeriesWords:
    return SeriesWords(result.series, result.assumed.devices, judged_fabric(result))


def judged_fabric(result: Diagnosis) -> str:
    return fabric_of(result.assumed)


def _expected(result: Diagnosis) -> str:
    return f"Expected is what {judged_fabric(result)} should reach."


def _outcome_of_fastest(result: Diagnosis) -> str:
    """What the fastest series reaches of what the fabric allows."""
    return _words(result).outcome(_fastest(result))


def _fastest(result: Diagnosis) -> SeriesHealth:
    return max(result.too_fast, key=lambda health: health.large or 0.0)


def _assumption(assumed: AssumedFabric) -> str:
    """What the expectation assumes because the logs do not say it: the machine, or its NICs. Empty
    where they say it."""
    if assumed.guessed:
        machine = _guessed(assumed)
        if not assumed.alike:
            machine += ", the slowest of the usual machines"
        return f", assuming {machine} (the logs name no GPUs)"
    if not assumed.network:
        return ""
    return (
        f", assuming {assumed.network} NICs per host (the logs name none; {assumed.fabric} has"
        f" {assumed.own})"
    )


def _guessed(assumed: AssumedFabric) -> str:
    """The machines that the times fit, with the NICs that these need."""
    machine = or_text(assumed.alike or (assumed.fabric,))
    nics = assumed.network or assumed.own
    return f"{machine} with {nics} per host" if nics else machine


def _likely(main: DiagnosisFinding, result: Diagnosis) -> str:
    """The best cause, and how well it explains the times."""
    best = main.causes[0]
    # a drop is seen in the times: it is no guess
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


def _others(main: DiagnosisFinding) -> str:
    """The other causes that the times or the log support."""
    best, *others = main.causes
    if not others:
        return ""
    if best.name == "topology":
        also = or_text([cause.said for cause in others[: _MOST_RIVALS - 1]])
        return f"The same channels would follow if {also}."
    if main.low is None:
        return f"The log states {counted(len(others), 'more thing')}, listed below."
    names = dict.fromkeys(cause_name(cause.name) for cause in others)
    return f"Also possible: {', '.join(names)}."


def cause_name(name: str) -> str:
    """A cause as sentences name it; its stable word where it is none of ours."""
    return str(statement(f"name-{name}"))


# --- what the log itself states


def _stated(finding: DiagnosisFinding, result: Diagnosis) -> Iterator[str]:
    """What the log states, what to do, and what becomes of its times."""
    cause = finding.causes[0]
    # these names say less than what was stated: few NICs, or NICs that differ
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


def _also_stated(result: Diagnosis) -> Iterator[str]:
    """What the log states beside times that pass."""
    off = [stated for stated in result.stated if stated.kind != "fact"]
    for stated in off[:_MOST_STATED]:
        yield f"The log also says: {_in_short(stated)}."


def _stated_first(main: DiagnosisFinding, result: Diagnosis) -> Iterator[str]:
    """What the log states and the most likely cause does not: it comes before what times tell."""
    likely = ""
    if main.causes:
        likely = str(main.causes[0].said)
    causes = [stated for stated in result.stated if stated.kind in ("cause", "setting")]
    for stated in causes[:_MOST_STATED]:
        if f"'{stated.quoted}'" not in likely:
            yield f"{sentence(_in_short(stated))}."


def _in_short(stated: StatedLine) -> str:
    return f"{stated.means} ('{stated.quoted}', {stated.where})"


def _fleet_text(fleet: Fleet) -> str:
    """The sentences that name hosts; a list below the answer has all."""
    bad = sum(host.bad for host in fleet.hosts)
    # single runs are for the list
    named = ". ".join(map(str, fleet.said[: max(1, bad)]))
    return f"{named or f'{len(fleet.hosts)} hosts are alike'}."


# --- nothing is off


def _without_finding(result: Diagnosis) -> str:
    """The answer where nothing was found."""
    if result.fleet and not result.ok:
        others = f"The others reach what {judged_fabric(result)} should."
        return f"{_fleet_text(result.fleet)} {others}"
    if not any(health.judgeable for health in result.series):
        return _not_judged(result)
    if result.too_fast:
        return _no_baseline(result)
    if result.assumed.network:
        return _network_text(result.assumed)
    if not result.assumed.guessed:
        return f"Healthy: {_healthy(result)}"
    name = localize(argument_text("fabric", "NAME"))
    return (
        f"If this is {_guessed(result.assumed)}, it is healthy: {_healthy(result)}"
        f" If it is not, name it with {name}."
    )


def _healthy(result: Diagnosis) -> str:
    """What passes, in sentences: one measurement with its rates, few by name, of more the lowest."""
    words = _words(result)
    judged = [health for health in result.series if health.judgeable]
    if len(judged) == 1:
        return f"{words.outcome(judged[0])}. {words.largest(judged[0])}"
    if len(judged) <= _MOST_NAMED:
        return f"{words.outcomes(judged)}. {_expected(result)}"
    lowest = min(judged, key=_of_pass_mark)
    return (
        f"all {len(judged)} measurements pass; nearest to its pass mark, {words.outcome(lowest)}."
        f" {_expected(result)}"
    )


def _of_pass_mark(health: SeriesHealth) -> float:
    """What is reached, by the pass mark."""
    if health.large is not None:
        return health.large / health.bar
    return (health.small or 0.0) / (health.small_bar or 1.0)


def _no_baseline(result: Diagnosis) -> str:
    """The answer where the times are faster than the fabric allows."""
    text = f"Not judged: {_outcome_of_fastest(result)} and {judged_fabric(result)} is no baseline."
    if "pcie" in _fastest(result).wire:
        text += " A PCIe slot carries no more; NVLink bridges would."
    fits = [name for name in result.fits if name != result.assumed.fabric]
    name = "NAME"
    advice = "No bundled machine fits: name yours with"
    if fits:
        name = fits[0]
        advice = f"The times fit {or_text(fits[:_MOST_NAMED])}: compare with"
    return f"{text} {advice} {localize(argument_text('fabric', name))}."


_PARTS = {2: "half", 4: "a quarter", 8: "an eighth"}


def _network_text(assumed: AssumedFabric) -> str:
    """The answer where other NICs than the fabric's own fit the times between hosts."""
    hosts = f"If your hosts have {assumed.network} NICs"
    if assumed.guessed:
        hosts = f"If this is {_guessed(assumed)}"
    reached = ""
    if assumed.network_share is not None:
        reached = f" ({whole_percent(assumed.network_share)} of their line rate)"
    divisor = round(1 / assumed.network_factor)
    part = whole_percent(assumed.network_factor)
    if divisor in _PARTS and abs(divisor * assumed.network_factor - 1) <= 0.01:
        part = _PARTS[divisor]
    name = localize(argument_text("fabric", assumed.fabric))
    return (
        f"{hosts}, this is normal{reached}. If they have {assumed.own}, the network is at {part} of"
        " its rate: NICs at a lower speed or unused, or congested uplinks. The log does not name"
        f" them: for {assumed.own}, add {name}."
    )


def _not_judged(result: Diagnosis) -> str:
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
    who = and_text(tiers)
    return (
        f"Not judged: nothing can be said of {who} by these traces, as a kernel waits for the"
        f" slowest rank. Give the traces of all ranks, or measure {who}."
    )
