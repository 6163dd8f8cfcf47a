"""Many runs of many hosts compared: which host, pair or group is slow or fails, and which runs were
slow only once.

:func:`fleet_of` is the entry. A run is compared with the median of runs of its kind; a host is
named where most of its runs are slow and few of the others are.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import filterfalse
from operator import attrgetter
from statistics import median
from typing import NamedTuple

from colltool.base.statements import Statement
from colltool.diagnosis.evidence import Evidence
from colltool.diagnosis.results import Fleet, FleetHost, FleetPair, HostState, SeriesHealth
from colltool.diagnosis.sentences import statement

# hosts that make a fleet; two are a pair
FEWEST_HOSTS = 3
# share of the median of runs like it, below which a run is slow
SLOW = 0.85
# share of a host's runs that must be slow to name it, and of the runs without it that may be
MOSTLY_SLOW = 0.6
SELDOM_SLOW = 0.3
# runs of a host with others, or of a kind, that allow a comparison
FEWEST_RUNS = 2
# slow runs without a slow host that get a statement each
MOST_ODD = 5


class _FleetRun(NamedTuple):
    """One series of one file; ``relative`` to the median of its kind, None where it failed."""

    file: str
    hosts: tuple[str, ...]
    share: float | None
    relative: float | None

    @property
    def slow(self) -> bool:
        return self.relative is not None and self.relative < SLOW

    @property
    def failed(self) -> bool:
        return self.relative is None

    @property
    def fine(self) -> bool:
        return not self.slow and not self.failed


Runs = Sequence[_FleetRun]
_is_slow = attrgetter("slow")
_is_failed = attrgetter("failed")


def fleet_of(seen: Evidence, series: Sequence[SeriesHealth]) -> Fleet | None:
    """Compare the runs of different hosts. None for fewer than three hosts or sets of hosts."""
    runs = list(_runs(seen, series))
    names = sorted(_hosts_of(runs), key=_natural_key)
    if len(names) < FEWEST_HOSTS or len({run.hosts for run in runs}) < FEWEST_HOSTS:
        return None
    # failed runs say nothing of speed
    slow = _slow_hosts(list(filterfalse(_is_failed, runs)))
    failing = _in_all_failures(runs)
    hosts = []
    for name in names:
        state: HostState = "as the others"
        if name in slow:
            state = "slow"
        elif name in failing:
            state = "in failed runs"
        hosts.append(_host(name, state, [run for run in runs if name in run.hosts]))
    said = [
        *_named_hosts(hosts),
        *_failures(runs, failing),
        *_odd_runs(runs, {*slow, *failing}),
        *_groups(runs),
        *_all_equally_slow(runs, series),
    ]
    return Fleet(
        tuple(hosts),
        tuple(_pairs(runs)),
        tuple(said),
        files=len({run.file for run in runs}),
    )


def _runs(seen: Evidence, series: Sequence[SeriesHealth]) -> Iterator[_FleetRun]:
    """The runs of single files with known hosts, and failed runs."""
    by_kind: dict[object, list[float]] = defaultdict(list)
    measured = []
    # what a run measured before it failed says nothing of its hosts
    ended = {failed.file for failed in seen.failed}
    for health in series:
        judged = health.judged.series
        if ended.intersection(judged.files):
            continue
        if health.large is not None and len(judged.files) == 1 and judged.files[0] in seen.hosts:
            kind = (judged.primitive, judged.ranks, judged.nodes)
            by_kind[kind].append(health.large)
            measured.append((judged.files[0], kind, health.large))
    # rates are compared with runs of the same collective on as many ranks and hosts
    usual = {kind: median(shares) for kind, shares in by_kind.items()}
    for file, kind, share in measured:
        yield _FleetRun(file, _distinct(seen.hosts[file]), share, share / usual[kind])
    for failed in seen.failed:
        if failed.hosts:
            yield _FleetRun(failed.file, _distinct(failed.hosts), share=None, relative=None)


def _distinct(hosts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(hosts)))


def _natural_key(name: str) -> tuple[object, ...]:
    """Sort key that puts node9 before node10."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name))


def _hosts_of(runs: Iterable[_FleetRun]) -> Counter[str]:
    """How many runs each host is in."""
    counts: Counter[str] = Counter()
    for run in runs:
        counts.update(run.hosts)
    return counts


def _slow_hosts(runs: Runs) -> list[str]:
    """Hosts most of whose runs are slow while those without them are not, worst first.

    Of the pairs ab, ac, bc, cd and bd, ab and bc are slow: 2 of the 3 runs of b, 1 of the 2 of a. So
    b is worst; without it no run is slow.
    """
    left = list(runs)
    found: list[str] = []
    while True:
        slow_runs = _hosts_of(filter(_is_slow, left))
        if not slow_runs:
            break
        all_runs = _hosts_of(left)
        # a run on one host alone is that host's; a run with others may be theirs
        alone = {run.hosts[0] for run in left if run.slow and len(run.hosts) == 1}
        told = [host for host in slow_runs if host in alone or all_runs[host] >= FEWEST_RUNS]
        if not told:
            break
        worst = max(told, key=lambda host: (slow_runs[host] / all_runs[host], slow_runs[host]))
        if slow_runs[worst] / all_runs[worst] < MOSTLY_SLOW:
            break
        left = [run for run in left if worst not in run.hosts]
        # where nearly all runs are slow, no few hosts are the cause
        slow_without = sum(map(_is_slow, left))
        if slow_without > SELDOM_SLOW * len(left) and len(found) >= len(all_runs) / 3:
            break
        found.append(worst)
    return found


def _in_all_failures(runs: Runs) -> list[str]:
    """The fewest hosts of which one is in every failed run; all of a tie."""
    left = list(filter(_is_failed, runs))
    found: list[str] = []
    totals = _hosts_of(runs)
    while left:
        failed = _hosts_of(left)
        most = max(failed.values())
        tied = [host for host, count in failed.items() if count == most]
        if most > 1:
            # of these the hosts that succeed least
            fewest = min(totals[host] for host in tied)
            tied = [host for host in tied if totals[host] == fewest]
        found += tied
        left = [run for run in left if not set(tied) & set(run.hosts)]
    return found


def _host(name: str, state: HostState, runs: Runs) -> FleetHost:
    """A host with counts of its runs and their median rate."""
    rates = _relative_rates(runs)
    return FleetHost(
        host=name,
        runs=len(runs),
        slow=sum(map(_is_slow, runs)),
        failed=len(runs) - len(rates),
        of_fleet=median(rates) if rates else None,
        state=state,
    )


def _pairs(runs: Runs) -> Iterator[FleetPair]:
    """The runs of each two hosts that ran together, by name."""
    by_pair: dict[tuple[str, ...], list[_FleetRun]] = defaultdict(list)
    for run in runs:
        if len(run.hosts) == 2:
            by_pair[run.hosts].append(run)
    for pair in sorted(by_pair, key=lambda pair: tuple(map(_natural_key, pair))):
        first, second = pair
        both = by_pair[pair]
        rates = _relative_rates(both)
        # a run without a rate failed
        failed = len(both) - len(rates)
        yield FleetPair(first, second, min(rates, default=None), failed, len(both))


def _relative_rates(runs: Runs) -> list[float]:
    return [run.relative for run in runs if run.relative is not None]


def _named_hosts(hosts: Iterable[FleetHost]) -> Iterator[Statement]:
    """A statement for each slow host."""
    for host in hosts:
        if host.state == "slow" and host.of_fleet is not None:
            code = "slow-host" if host.runs > 1 else "slow-host-once"
            yield statement(
                code,
                host=host.host,
                slow=host.slow,
                runs=host.runs,
                share=host.of_fleet,
            )


def _failures(runs: Runs, failing: Iterable[str]) -> Iterator[Statement]:
    """How many runs failed, and the hosts that may be the cause."""
    # a file may hold several series, and fails as a whole
    failed = {run.file for run in filter(_is_failed, runs)}
    if failed:
        code = "runs-failed" if len(failed) > 1 else "run-failed"
        yield statement(code, runs=len(failed), hosts=tuple(sorted(failing, key=_natural_key)))


def _odd_runs(runs: Runs, known: set[str]) -> Iterator[Statement]:
    """Slow runs that no host explains, since each is fast at another time or with others."""
    fast: set[str] = set()
    fast_together: set[tuple[str, ...]] = set()
    for run in runs:
        if run.fine:
            fast.update(run.hosts)
            fast_together.add(run.hosts)
    fast -= known
    odd = [run for run in runs if run.slow and fast.issuperset(run.hosts)]
    for run in odd[:MOST_ODD]:
        code = "odd-run-again" if run.hosts in fast_together else "odd-run-path"
        yield statement(code, hosts=run.hosts, share=run.relative, file=run.file)
    if len(odd) > MOST_ODD:
        yield statement("more-odd-runs", count=len(odd) - MOST_ODD)


# the number at the end of a host's name; what is left names its group, such as a rack
_RACK = re.compile(r"\d+\D*\Z")


def _groups(runs: Runs) -> Iterator[Statement]:
    """Where pairs within a group of hosts of one name are fast and those between groups are not."""
    inside: list[float] = []
    between: list[float] = []
    names: set[str] = set()
    for run in runs:
        if len(run.hosts) != 2 or run.relative is None:
            continue
        groups = {_RACK.sub("", host) for host in run.hosts}
        names |= groups
        if len(groups) == 1:
            inside.append(run.relative)
        else:
            between.append(run.relative)
    if len(inside) < FEWEST_RUNS or len(between) < FEWEST_RUNS:
        return
    share = median(between) / median(inside)
    if share < SLOW:
        yield statement("slow-between", groups=tuple(sorted(names)), share=share)


def _all_equally_slow(runs: Runs, series: Sequence[SeriesHealth]) -> Iterator[Statement]:
    """Whether all runs are equally slow: then what the hosts share is slow, and no single host."""
    shares = [run.share for run in runs if run.share is not None]
    bar = min((health.bar for health in series), default=0.0)
    if shares and median(shares) < bar and not any(map(_is_slow, runs)):
        yield statement("all-slow", least=min(shares), most=max(shares))
