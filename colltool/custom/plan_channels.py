"""What each GPU of an MSCCL++ plan can reach, by the channels and buffers that the file gives it
(:func:`reach_of`): threadblocks name them by number.

A channel leads to a peer; of several to one peer it matters which, as signals are counted for each. A switch
channel joins a group of ranks at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from colltool.custom.execution_plan import SWITCH
from colltool.custom.plan_mapping import PlanMapping


def reach_of(gpus: Sequence[PlanMapping]) -> list[GpuReach]:
    """What each of the GPUs can reach, in the order of ranks; ColltoolError for a rank that is not in
    its place, or a switch channel that cannot be set up."""
    reaches = []
    for rank, gpu in enumerate(gpus):
        if gpu.number("id") != rank:
            raise gpu.error(f"expected id {rank}")
        reaches.append(GpuReach(gpu, len(gpus)))
    for rank, reach in enumerate(reaches):
        for members, _ in reach.switch_channels:
            _check_switch_channel(rank, members, reaches, gpus)
    return reaches


class GpuReach:
    """What a GPU can reach; each list is in the order of the file, whose numbers are its indices."""

    def __init__(self, gpu: PlanMapping, ranks: int) -> None:
        # by type, each as (peer, which of the channels of this type to that peer it is, from 0)
        self.channels: dict[str, list[tuple[int, int]]] = {}
        # each as its ranks and this GPU's buffer in it
        self.switch_channels: list[tuple[tuple[int, ...], str]] = []
        # each as its rank and buffer
        self.peer_buffers: list[tuple[int, str]] = []
        for entry in gpu.listed("channels"):
            # Plans of 2025 say "type" and "buff".
            kind = entry.text("channel_type", "type")
            if kind == SWITCH:
                buffer = entry.buffer("buffer_type", "buff")
                for group in entry.listed("rank_groups"):
                    members = tuple(entry.peer(peer, ranks) for peer in group.items("ranks"))
                    self.switch_channels.append((members, buffer))
                continue
            channels_to = Counter[int]()
            channels = self.channels.setdefault(kind, [])
            for item in entry.items("connected_to"):
                peer = entry.peer(item, ranks)
                channels.append((peer, channels_to[peer]))
                channels_to[peer] += 1
        for entry in gpu.listed("remote_buffers"):
            self.peer_buffers.append((entry.number("rank", ranks - 1), entry.buffer("type")))

    def switch_numbers(self, members: tuple[int, ...]) -> list[int]:
        """Return the numbers of the switch channels of these ranks."""
        channels = enumerate(self.switch_channels)
        return [number for number, (ranks, _) in channels if ranks == members]


def _check_switch_channel(
    rank: int, members: tuple[int, ...], reaches: Sequence[GpuReach], gpus: Sequence[PlanMapping]
) -> None:
    """Raise an error if a rank of a switch channel does not take part in it: its set-up is a
    collective call."""
    ranks_text = f"of ranks {', '.join(map(str, members))}"
    if rank not in members:
        raise gpus[rank].error(f"its switch channel {ranks_text} is without itself")
    for member in members:
        if len(reaches[member].switch_numbers(members)) != len(
            reaches[rank].switch_numbers(members)
        ):
            raise gpus[rank].error(
                f"its switch channel {ranks_text} waits for rank {member}, which has none like it",
                "the same rank_groups at every rank of a group",
            )
