"""Many runs of many hosts as one question: which host, pair or group is slow or fails, and which
runs were slow only once."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from statistics import median
from typing import Literal, NamedTuple

from colltool.base.formatting import counted, whole_percent
from colltool.diagnosis.evidence import Evidence
from colltool.diagnosis.results import Fleet, FleetHost, FleetPair, SeriesHealth

FEWEST_HOSTS = 3  # that make a fleet; two are a pair
SLOW = 0.85  # of the median of runs like it, below which a run is slow
MOSTLY, SELDOM = 0.6, 0.3  # share of the slow runs with a host, and without it, that name it
FEWEST_RUNS = 2  # of a host that say something


class _FleetRun(NamedTuple):
    """One series of one file; ``relative`` to the median of runs of its kind, None where it
    failed."""

    file: str
    hosts: tuple[str, ...]
    kind: tuple[object, ...]
    share: float | None
    relative: float | None

    @property
    def slow(self) -> bool:
        return self.relative is not None and self.relative < SLOW

    @property
    def failed(self) -> bool:
        return self.relative is None


def fleet_of(seen: Evidence, series: Sequence[SeriesHealth]) -> Fleet | None:
    """What the runs of different hosts say beside each other; None for fewer than three hosts or
    sets of hosts."""
    runs = list(_runs(seen, series))
    names = sorted({host for run in runs for host in run.hosts}, key=_natural)
    if len(names) < FEWEST_HOSTS or len({run.hosts for run in runs}) < FEWEST_HOSTS:
        return None
    slow = _slow_hosts([run for run in runs if not run.failed])
    failing = _in_all_failures(runs)
    hosts = tuple(_host(name, runs, slow, failing) for name in names)
    said = [
        *_said_of(hosts, runs, failing),
        *_single_pairs(runs, {*slow, *failing}),
        *_groups(runs),
        *_alike(runs, series),
    ]
    return Fleet(hosts, tuple(_pairs(runs)), tuple(said), len({run.file for run in runs}))


def _runs(seen: Evidence, series: Sequence[SeriesHealth]) -> Iterator[_FleetRun]:
    like: dict[tuple[object, ...], list[float]] = defaultdict(list)
    found: list[tuple[str, tuple[object, ...], float]] = []
    for one in series:
        judged = one.judged.series
        if one.large is not None and len(judged.files) == 1 and judged.files[0] in seen.hosts:
            kind: tuple[object, ...] = (judged.primitive, judged.ranks, judged.nodes)
            like[kind].append(one.large)
            found.append((judged.files[0], kind, one.large))
    usual = {kind: median(shares) for kind, shares in like.items()}
    for file, kind, share in found:
        yield _FleetRun(
            file, tuple(sorted(set(seen.hosts[file]))), kind, share, share / usual[kind]
        )
    for failed in seen.failed:
        if failed.hosts:
            yield _FleetRun(failed.file, tuple(sorted(set(failed.hosts))), (), None, None)


def _natural(name: str) -> tuple[object, ...]:
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name))


def _slow_hosts(runs: Sequence[_FleetRun]) -> tuple[str, ...]:
    """Hosts most of whose runs are slow while those without them are not, worst first."""
    left, out = list(runs), list[str]()
    while any(run.slow for run in left):
        counts = Counter(host for run in left if run.slow for host in run.hosts)
        totals = Counter(host for run in left for host in run.hosts)
        worst, slow = max(counts.items(), key=lambda one: (one[1] / totals[one[0]], one[1]))
        rest = [run for run in left if worst not in run.hosts]
        enough = totals[worst] >= FEWEST_RUNS and slow / totals[worst] >= MOSTLY
        if not enough or (
            rest
            and sum(run.slow for run in rest) / len(rest) > SELDOM
            and len(out) >= len(totals) / 3
        ):
            break
        out.append(worst)
        left = rest
    return tuple(out)


def _in_all_failures(runs: Sequence[_FleetRun]) -> tuple[str, ...]:
    """The fewest hosts of which one is in every failed run; all of a tie."""
    left, out = [run for run in runs if run.failed], list[str]()
    totals = Counter(host for run in runs for host in run.hosts)
    while left:
        counts = Counter(host for run in left for host in run.hosts)
        most = max(counts.values())
        tied = [host for host, count in counts.items() if count == most]
        share = max(counts[host] / totals[host] for host in tied)
        chosen = [host for host in tied if most == 1 or counts[host] / totals[host] == share]
        out += chosen
        left = [run for run in left if not set(chosen) & set(run.hosts)]
    return tuple(out)


def _host(
    name: str, runs: Sequence[_FleetRun], slow: Sequence[str], failing: Sequence[str]
) -> FleetHost:
    mine = [run for run in runs if name in run.hosts]
    shares = [run.relative for run in mine if run.relative is not None]
    state: Literal["slow", "in failed runs", "as the others"]
    state = "slow" if name in slow else "in failed runs" if name in failing else "as the others"
    return FleetHost(
        host=name,
        runs=len(mine),
        slow=sum(run.slow for run in mine),
        failed=sum(run.failed for run in mine),
        of_fleet=median(shares) if shares else None,
        state=state,
    )


def _pairs(runs: Iterable[_FleetRun]) -> Iterator[FleetPair]:
    by_pair: dict[tuple[str, str], list[_FleetRun]] = defaultdict(list)
    for run in runs:
        for pair in combinations(run.hosts, 2) if len(run.hosts) == 2 else ():
            by_pair[pair].append(run)
    for (one, other), both in sorted(
        by_pair.items(), key=lambda item: (_natural(item[0][0]), _natural(item[0][1]))
    ):
        shares = [run.relative for run in both if run.relative is not None]
        yield FleetPair(
            one, other, min(shares, default=None), sum(run.failed for run in both), len(both)
        )


def _said_of(
    hosts: Sequence[FleetHost], runs: Sequence[_FleetRun], failing: Sequence[str]
) -> Iterator[str]:
    for one in hosts:
        if one.state == "slow" and one.of_fleet is not None:
            reach = f"at {whole_percent(one.of_fleet)} of the median"
            yield f"{one.host} is slow: {one.slow} of its {counted(one.runs, 'run')}, {reach}"
    failed = {run.file for run in runs if run.failed}
    if failed:
        who = " or ".join(sorted(failing, key=_natural))
        yield (
            f"{counted(len(failed), 'run')} failed, {'all' if len(failed) > 1 else 'it is'} with"
            f" {who}"
        )


def _single_pairs(runs: Sequence[_FleetRun], known: set[str]) -> Iterator[str]:
    """Slow runs that no host explains: of hosts that are fast elsewhere, at another time or with
    others."""
    fast = Counter(host for run in runs if not run.slow and not run.failed for host in run.hosts)
    odd = [
        run
        for run in runs
        if run.slow and not known & set(run.hosts) and all(fast[host] for host in run.hosts)
    ]
    for run in odd[:5]:
        again = [
            other
            for other in runs
            if other.hosts == run.hosts and not other.slow and not other.failed
        ]
        what = (
            "the same hosts are fast in other runs"
            if again
            else "each is fast with others: their path"
        )
        reach = f"{' and '.join(run.hosts)} at {whole_percent(run.relative or 0.0)} of the median"
        yield f"{reach} in {run.file}: {what}, or transient"
    if len(odd) > 5:
        yield f"{len(odd) - 5} more such runs"


_RACK = re.compile(r"\d+\D*\Z")


def _groups(runs: Sequence[_FleetRun]) -> Iterator[str]:
    """Where pairs within a group of hosts of one name are fast and those between groups are not."""
    pairs = [run for run in runs if len(run.hosts) == 2 and not run.failed]
    group = {host: _RACK.sub("", host) for run in pairs for host in run.hosts}
    inside = [run for run in pairs if group[run.hosts[0]] == group[run.hosts[1]]]
    between = [run for run in pairs if group[run.hosts[0]] != group[run.hosts[1]]]
    if len(inside) < FEWEST_RUNS or len(between) < FEWEST_RUNS:
        return
    low = median(run.relative or 0.0 for run in between) / median(
        run.relative or 1.0 for run in inside
    )
    if low < SLOW:
        names = ", ".join(sorted(set(group.values())))
        yield (
            f"runs between {names} reach {whole_percent(low)} of those inside: what joins the"
            " groups is slow"
        )


def _alike(runs: Sequence[_FleetRun], series: Sequence[SeriesHealth]) -> Iterator[str]:
    """All slow alike: no host, but what they share."""
    shares = [run.share for run in runs if run.share is not None]
    bar = min((one.bar for one in series), default=0.0)
    if shares and median(shares) < bar and not any(run.slow for run in runs):
        reach = f"{whole_percent(min(shares))} to {whole_percent(max(shares))}"
        yield f"all hosts are alike, {reach} of expected: what they share is slow, not one of them"
