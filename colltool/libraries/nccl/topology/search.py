"""The search for a graph: trials in NCCL's order, each with other demands, within its budgets.

:func:`search` is the entry. A first pass goes from the strictest demand to looser ones
(:meth:`_Search.looser_request`), then the channels may be doubled, and a second pass tries higher rates for
as many channels. The better of two trials' channels is :mod:`~colltool.libraries.nccl.topology.channels`'
matter.

Source: NCCL 2.30, src/graph/search.cc, ncclTopoCompute.
"""

from __future__ import annotations

from typing import NamedTuple

from colltool.libraries.nccl.graphs import SAME_ORDER_STEPS
from colltool.libraries.nccl.topology.channels import ChannelBuilder
from colltool.libraries.nccl.topology.domains import Totals
from colltool.libraries.nccl.topology.kinds import (
    BALANCED_TREE,
    DIRECT,
    DIS,
    NVLS,
    PXN,
    RING,
    SYS,
    TREE,
)
from colltool.libraries.nccl.topology.requests import (
    CROSS_NIC,
    Bounds,
    Channel,
    FoundChannels,
    GraphRequest,
    may_cross_nics,
)

# Steps (visits of a GPU) that a trial may take, by whether all channels have one order; and that the
# trials of a first pass may take together
_STEPS = {True: SAME_ORDER_STEPS, False: 16_384}
_ALL_STEPS = 1 << 19
# of the rate found so far: a lower one is not tried
_LEAST_SHARE = 0.49
# channels are doubled from this rate on; from Hopper on if they are few or fast
_DOUBLED_MBps = 25_000
_FAST_MBps = 50_000
_FEW_CHANNELS = 4
EMERGENCY_MBps = 100
"""The rate of the one channel that NCCL takes where it finds none."""


class Attempt(NamedTuple):
    """A trial that found better channels than those before.

    Args:
        trial: its number, from 1 on.
        pass_number: 1 or 2, of the pass that it was made in.
        channels: how many it found.
    """

    trial: int
    pass_number: int
    request: GraphRequest
    channels: int


class Searched(NamedTuple):
    """What a search found.

    Args:
        best: the channels.
        inside_MBps, across_MBps: of each channel, between GPUs and to NICs.
        inside, across: the farthest types of path, between GPUs and to NICs.
        trials: how many were made.
        log: the trials that found something.
        is_emergency: nothing was found, and NCCL takes one channel of hardly any bandwidth.
    """

    best: FoundChannels
    inside_MBps: float
    across_MBps: float
    inside: int
    across: int
    trials: int
    log: tuple[Attempt, ...] = ()
    is_emergency: bool = False


class _Search:
    """One search: the channels that are best so far go from trial to trial.

    Args:
        bounds: how far demands may be loosened.
        most_MBps: what all channels carry in a ring that is looked for; None where any will do.

    Attributes:
        trials: how many were made.
        log: those that found something.
    """

    def __init__(
        self,
        builder: ChannelBuilder,
        totals: Totals,
        bounds: Bounds,
        most_MBps: float | None,
    ) -> None:
        self.builder = builder
        self.totals = totals
        self.bounds = bounds
        self.most_MBps = most_MBps
        self.trials = 0
        self.log: list[Attempt] = []
        self._steps_left: dict[GraphRequest, int] = {}

    def attempt(
        self, request: GraphRequest, best: FoundChannels, pass_number: int
    ) -> tuple[FoundChannels, int]:
        """Make a trial; the best channels then, and the steps that it left, -1 if it found the most.

        It is not made where one with the same effect was: that finds nothing new.
        """
        self.trials += 1
        key = request._replace(
            inside=_effective_kind(request.inside, self.builder.reach.kinds_between),
            across=_effective_kind(request.across, self.builder.reach.kinds_out),
        )
        if key in self._steps_left:
            return best, self._steps_left[key]
        budget = _STEPS[request.same]
        found, steps_left = self.builder.attempt(request, best, budget, self.trials)
        # CollNet direct counts links anew each time
        if request.pattern != DIRECT:
            self._steps_left[key] = steps_left
        if found is not best:
            self.log.append(Attempt(self.trials, pass_number, found.request, found.channel_count))
        return found, steps_left

    def is_beyond(self, best: FoundChannels) -> bool:
        """Whether channels carry more than what is looked for: further trials only find more."""
        if self.most_MBps is None:
            return False
        return best.channel_count * best.request.inside_MBps > self.most_MBps

    def is_enough(self, best: FoundChannels, steps_left: int) -> bool:
        """Whether no further trial is needed: the last one found the most channels (``steps_left`` is -1), or
        they carry all that a GPU moves."""
        if steps_left < 0 or self.is_beyond(best):
            return True
        return best.channel_count * best.request.across_MBps >= self.totals.total_MBps

    def first_pass(self, request: GraphRequest) -> FoundChannels:
        """Try looser and looser demands, until channels are enough or the steps are used up. Steps that a
        trial leaves go to those that follow; without any channels the search goes on all the same."""
        best = FoundChannels(request)
        trial: GraphRequest | None = request
        allowance = _ALL_STEPS
        while trial is not None:
            allowance -= _STEPS[trial.same]
            best, steps_left = self.attempt(trial, best, 1)
            if self.is_enough(best, steps_left):
                break
            # on AMD's hosts orders of their own are not tried for paths between CPUs
            keeps_one_order = self.builder.paths.system.is_amd and trial.inside == SYS
            if trial.same and not keeps_one_order:
                trial = trial._replace(same=False)
                continue
            allowance += steps_left
            if allowance < 0 and best.channels:
                break
            trial = self.looser_request(trial, best, request)
        return best

    def looser_request(
        self, trial: GraphRequest, best: FoundChannels, request: GraphRequest
    ) -> GraphRequest | None:
        """The next trial after one with orders of its own for each channel; None if it was the last.

        One demand is loosened at a time, all before it are those of the first request again: the
        pattern (a tree for a balanced one), the types of path inside, those to NICs, the NICs that
        channels leave by, and the rate.
        """
        bounds = self.bounds
        empty = not best.channels
        across = self.builder.across
        trial = trial._replace(same=request.same)
        if self.builder.paths.system.least_sm >= 90 and trial.pattern == BALANCED_TREE:
            return trial._replace(pattern=TREE)
        trial = trial._replace(pattern=best.request.pattern)
        farthest = trial.across if across else bounds.inside_farthest
        farther = empty or trial.inside < best.request.inside
        if trial.inside < min(farthest, DIS) and farther:
            return trial._replace(inside=trial.inside + 1)
        trial = trial._replace(inside=request.inside)
        farther = empty or trial.across < best.request.across or trial.across < PXN
        if across and trial.across < min(bounds.across_farthest, DIS) and farther:
            return trial._replace(across=trial.across + 1)
        trial = trial._replace(across=request.across)
        crossing = may_cross_nics(self.builder.paths, best.request.pattern)
        if crossing and trial.cross_nic == 0:
            return trial._replace(cross_nic=CROSS_NIC)
        trial = trial._replace(cross_nic=request.cross_nic)
        for MBps in bounds.speeds:
            if MBps < trial.inside_MBps:
                if empty or MBps > _LEAST_SHARE * best.request.across_MBps:
                    return trial._replace(inside_MBps=MBps, across_MBps=MBps)
                break
        return None

    def second_pass(self, best: FoundChannels) -> FoundChannels:
        """Higher rates for as many channels, each the next of the list, until a trial takes all its steps or
        there is none higher to try."""
        speeds = self.bounds.speeds
        # of the highest rate up to the one found, else of the lowest
        reached = (place for place, MBps in enumerate(speeds) if MBps <= best.request.across_MBps)
        index = next(reached, len(speeds) - 1)
        request = best.request._replace(
            inside_MBps=speeds[index], across_MBps=speeds[index], least=best.channel_count
        )
        steps_left = 1
        while steps_left and index > 0:
            faster = _faster_request(request, best, speeds[index - 1])
            if faster is None:
                break
            request = faster
            index -= 1
            best, steps_left = self.attempt(request, best, 2)
        return best


def _faster_request(request: GraphRequest, best: FoundChannels, MBps: int) -> GraphRequest | None:
    """The next trial of the second pass, at the next higher rate; None if there is none to make."""
    if request.pattern == RING:
        return request._replace(inside_MBps=MBps, across_MBps=MBps)
    if request.pattern == NVLS:
        if request.across_MBps != best.request.across_MBps:
            return None
        if request.across_MBps >= 2 * request.inside_MBps:
            return None
        count = best.channel_count
        return request._replace(across_MBps=MBps, least=count, most=count)
    if request.inside_MBps != best.request.inside_MBps:
        return None
    if request.inside_MBps >= 2 * request.across_MBps:
        return None
    return request._replace(inside_MBps=MBps)


def _effective_kind(kind: int, existing: set[int]) -> int:
    """What a demand for paths up to type ``kind`` comes to: the farthest of the ``existing`` types up to
    it, -1 if none."""
    return max((known for known in existing if known <= kind), default=-1)


def double_channels(found: FoundChannels, sm: int) -> FoundChannels:
    """Twice the channels at half the rate where NCCL rather has more of them, up to the request's most;
    else the same. ``sm``: the least compute capability of the GPUs."""
    request = found.request
    MBps = request.inside_MBps
    if not found.channels or request.pattern == NVLS or MBps < _DOUBLED_MBps:
        return found
    if sm > 80 and MBps < _FAST_MBps and found.channel_count > _FEW_CHANNELS:
        return found
    count = min(2 * found.channel_count, request.most)
    # into so many parts each channel is split: 2, or 1 where there may be no more, rounded up
    parts = -(-count // found.channel_count)
    halved = request._replace(inside_MBps=MBps // parts, across_MBps=request.across_MBps // parts)
    channels = (found.channels + found.channels)[:count]
    return found._replace(request=halved, channels=channels)


def search(
    builder: ChannelBuilder,
    totals: Totals,
    request: GraphRequest,
    bounds: Bounds,
    most_MBps: float | None = None,
) -> Searched:
    """The channels that NCCL finds for a request.

    Args:
        totals: what a GPU moves at most; channels that carry it are enough.
        most_MBps: what all channels carry in a ring that is looked for: the search ends where it finds
            more. None where any will do.
    """
    builder.taken_hops = 0
    run = _Search(builder, totals, bounds, most_MBps)
    best = run.first_pass(request)
    if best.channels and not run.is_beyond(best):
        best = double_channels(best, builder.paths.system.least_sm)
        best = run.second_pass(best)
    elif not best.channels and not request.collnet and request.pattern != NVLS:
        return _emergency_channel(builder, request, run.trials)
    request = best.request
    return Searched(
        best=best,
        inside_MBps=request.inside_MBps,
        across_MBps=request.across_MBps,
        inside=request.inside,
        across=request.across,
        trials=run.trials,
        log=tuple(run.log),
    )


def _emergency_channel(builder: ChannelBuilder, request: GraphRequest, trials: int) -> Searched:
    """What NCCL takes where nothing was found, so that the job runs: one channel of hardly any bandwidth,
    the GPUs as numbered."""
    nets: tuple[int, ...] = ()
    across = DIS
    across_MBps = 0
    if builder.reach.nets:
        across = SYS
        across_MBps = EMERGENCY_MBps
        nets = (builder.reach.preferred_nets[0][0], builder.reach.preferred_nets[-1][0])
    channel = Channel(tuple(range(builder.reach.count)), nets if builder.across else ())
    return Searched(
        best=FoundChannels(request, (channel,)),
        inside_MBps=EMERGENCY_MBps,
        across_MBps=across_MBps,
        inside=SYS,
        across=across,
        trials=trials,
        is_emergency=True,
    )
