"""What a path takes of its links at a rate: its bill, pairs of a link's number and MB/s.

Links that are none, of a rank to its own GPU, are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from colltool.libraries.nccl.topology.kinds import PHB
from colltool.libraries.nccl.topology.paths import Path
from colltool.libraries.nccl.topology.system import Cpu, GpuDevice, NodeLink, RankedGpu

Bill = tuple[tuple[int, int], ...]

# Through an Intel CPU a GPU's copies take 6/5 of their rate on PCI.
_INTEL_NUMERATOR = 6
_INTEL_DENOMINATOR = 5
# Before Ampere what a GPU receives takes 1/8 of the rate on its way out too.
_ANSWER_SHARE = 8


def bill_of(path: Path, MBps: int) -> Bill:
    """What a path takes at a rate; an empty bill of a path without links."""
    return merge_charges(_charges(path, MBps))


def merge_charges(charges: Iterable[tuple[int, int]]) -> Bill:
    """Add charges up to a bill, with one entry a link."""
    totals: dict[int, int] = defaultdict(int)
    for link, MBps in charges:
        totals[link] += MBps
    return tuple(totals.items())


def _charges(path: Path, MBps: int) -> Iterable[tuple[int, int]]:
    """What a path takes, link by link, in whole MB/s; a link may be there twice, as its own and as another's
    way back."""
    if not path.links:
        return
    from_gpu = isinstance(path.links[0].owner, RankedGpu)
    pci_MBps = MBps
    if from_gpu and path.kind == PHB and any(map(_enters_intel, path.links)):
        pci_MBps = MBps * _INTEL_NUMERATOR // _INTEL_DENOMINATOR
    for link in path.links:
        if link.kind == "PCI":
            yield link.number, pci_MBps
        elif link.kind != "LOC":
            yield link.number, MBps
        back = link.back
        if back is None:
            continue
        if isinstance(link.to, GpuDevice) and link.to.sm < 80 and not from_gpu:
            yield back.number, MBps // _ANSWER_SHARE
        # NVLinks to a Power CPU count both ways at once
        if isinstance(link.to, Cpu) and link.to.is_power and link.kind == "NVL":
            yield back.number, MBps


def _enters_intel(link: NodeLink) -> bool:
    return isinstance(link.to, Cpu) and link.to.is_intel
