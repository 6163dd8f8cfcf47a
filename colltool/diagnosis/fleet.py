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
# share of the hosts that may be named while many runs of others are slow, too
MOST_SLOW_HOSTS = 1 / 3
# runs of a host with others, or of a kind, that allow a comparison
FEWEST_RUNS = 2
# slow runs without a slow host that get a statement each
MOST_ODD = 5


class _FleetRun(NamedTuple):
    """One series of one file, which is a run on some hosts, or a run that failed."""

    file: str
    hosts: tuple[str, ...]  # ascending, each once
    share: float | None  # of the expected rate; None where it failed
    relative: float | None  # that share over the median of its kind; None where it failed

    @property
    def is_slow(self) -> bool:
        """Whether it is clearly below the median of its kind."""
        return self.relative is not None and self.relative < SLOW

    @property
    def has_failed(self) -> bool:
        """Whether it has no rate."""
        return self.relative is None


Runs = Sequence[_FleetRun]
_is_slow = attrgetter("is_slow")
_has_failed = attrgetter("has_failed")


def fleet_of(seen: Evidence, series: Sequence[SeriesHealth]) -> Fleet | None:
    """Compare the runs of different hosts; None for fewer than three hosts or sets of hosts.

    Args:
        seen: for the hosts of each file and the failed runs.
        series: every measured series with what it reaches of its price.
    """
    runs = list(_runs(seen, series))
    names = sorted(_hosts_of(runs), key=_natural_key)
    if len(names) < FEWEST_HOSTS or len({run.hosts for run in runs}) < FEWEST_HOSTS:
        return None
    # failed runs say nothing of speed
    slow_hosts = _slow_hosts(list(filterfalse(_has_failed, runs)))
    failing_hosts = _in_all_failures(runs)
    hosts = []
    for name in names:
        state: HostState = "as the others"
        if name in slow_hosts:
            state = "slow"
        elif name in failing_hosts:
            state = "in failed runs"
        hosts.append(_host(name, state, [run for run in runs if name in run.hosts]))
    statements = [
        *_named_hosts(hosts),
        *_failures(runs, failing_hosts),
        *_odd_runs(runs, {*slow_hosts, *failing_hosts}),
        *_groups(runs),
        *_all_equally_slow(runs, series),
    ]
    return Fleet(
        tuple(hosts),
        tuple(_pairs(runs)),
        tuple(statements),
        files=len({run.file for run in runs}),
    )


def _runs(seen: Evidence, series: Sequence[SeriesHealth]) -> Iterator[_FleetRun]:
    """The runs of single files with known hosts, by their large messages, and failed runs."""
    by_kind: dict[object, list[float]] = defaultdict(list)
    measured = []
    # what a run measured before it failed says nothing of its hosts
    failed_files = {failed.file for failed in seen.failed}
    for health in series:
        judged = health.judged.series
        if failed_files.intersection(judged.files):
            continue
        if health.large is not None and len(judged.files) == 1 and judged.files[0] in seen.hosts:
            kind = (judged.primitive, judged.ranks, judged.nodes)
            by_kind[kind].append(health.large)
            measured.append((judged.files[0], kind, health.large))
    # rates are compared with runs of the same collective on as many ranks and hosts
    median_of_kind = {kind: median(shares) for kind, shares in by_kind.items()}
    for file, kind, share in measured:
        yield _FleetRun(file, _distinct(seen.hosts[file]), share, share / median_of_kind[kind])
    for failed in seen.failed:
        if failed.hosts:
            yield _FleetRun(failed.file, _distinct(failed.hosts), share=None, relative=None)


def _distinct(hosts: Iterable[str]) -> tuple[str, ...]:
    """Hosts ascending, each once."""
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
    runs_left = list(runs)  # without the hosts that were found
    slow_hosts: list[str] = []
    while True:
        slow_runs = _hosts_of(filter(_is_slow, runs_left))
        if not slow_runs:
            break
        all_runs = _hosts_of(runs_left)
        # a run on one host alone is that host's; a run with others may be theirs
        alone = {run.hosts[0] for run in runs_left if run.is_slow and len(run.hosts) == 1}
        suspects = [host for host in slow_runs if host in alone or all_runs[host] >= FEWEST_RUNS]
        if not suspects:
            break
        worst = max(suspects, key=lambda host: (slow_runs[host] / all_runs[host], slow_runs[host]))
        if slow_runs[worst] / all_runs[worst] < MOSTLY_SLOW:
            break
        runs_left = [run for run in runs_left if worst not in run.hosts]
        # where many runs without it are slow, and a third of the hosts was named, hosts are not
        # the cause
        is_seldom_slow = sum(map(_is_slow, runs_left)) <= SELDOM_SLOW * len(runs_left)
        if not is_seldom_slow and len(slow_hosts) >= MOST_SLOW_HOSTS * len(all_runs):
            break
        slow_hosts.append(worst)
    return slow_hosts


def _in_all_failures(runs: Runs) -> list[str]:
    """Few hosts of which one is in every failed run, all of a tie: each step takes those that are in
    most of the failed runs that are left."""
    failures = list(filter(_has_failed, runs))  # without those of hosts that were found
    failing_hosts: list[str] = []
    all_runs = _hosts_of(runs)
    while failures:
        failed_runs = _hosts_of(failures)
        most = max(failed_runs.values())
        tied = [host for host, count in failed_runs.items() if count == most]
        if most > 1:
            # of these the hosts that succeed least
            fewest = min(all_runs[host] for host in tied)
            tied = [host for host in tied if all_runs[host] == fewest]
        failing_hosts += tied
        failures = [run for run in failures if not set(tied) & set(run.hosts)]
    return failing_hosts


def _host(name: str, state: HostState, runs: Runs) -> FleetHost:
    """A host with counts of its ``runs`` and their median rate."""
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
        pair_runs = by_pair[pair]
        rates = _relative_rates(pair_runs)
        # a run without a rate failed
        failed = len(pair_runs) - len(rates)
        yield FleetPair(first, second, min(rates, default=None), failed, len(pair_runs))


def _relative_rates(runs: Runs) -> list[float]:
    """The rates of runs that did not fail, relative to the median of their kind."""
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
    failed = {run.file for run in filter(_has_failed, runs)}
    if failed:
        code = "runs-failed" if len(failed) > 1 else "run-failed"
        yield statement(code, runs=len(failed), hosts=tuple(sorted(failing, key=_natural_key)))


def _odd_runs(runs: Runs, known: set[str]) -> Iterator[Statement]:
    """Slow runs that no host explains, since each is fast at another time or with others; ``known``:
    hosts that are slow or failing."""
    fast: set[str] = set()
    fast_together: set[tuple[str, ...]] = set()
    for run in runs:
        if not run.is_slow and not run.has_failed:
            fast.update(run.hosts)
            fast_together.add(run.hosts)
    fast -= known
    odd = [run for run in runs if run.is_slow and fast.issuperset(run.hosts)]
    for run in odd[:MOST_ODD]:
        code = "odd-run-again" if run.hosts in fast_together else "odd-run-path"
        yield statement(code, hosts=run.hosts, share=run.relative, file=run.file)
    if len(odd) > MOST_ODD:
        yield statement("more-odd-runs", count=len(odd) - MOST_ODD)


# the number at the end of a host's name; what is left names its group, such as a rack
_RACK = re.compile(r"\d+\D*\Z")


def _groups(runs: Runs) -> Iterator[Statement]:
    """That pairs of hosts between groups, such as racks, are slower than those inside one."""
    inside: list[float] = []  # relative rates
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
    """That all runs are equally slow: then what the hosts share is slow, and no single host."""
    shares = [run.share for run in runs if run.share is not None]
    bar = min((health.bar for health in series), default=0.0)
    if shares and median(shares) < bar and not any(map(_is_slow, runs)):
        yield statement("all-slow", least=min(shares), most=max(shares))
