"""Words of what a plan says: assumptions, changes of a job, warnings, proposals and targets.

The cost model yields a :class:`Remark`, a code with fields; ``sentences.toml`` has the sentence of
each code, and :func:`sentence` fills in the fields. Errors keep their words where they are raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from colltool.base.errors import localize
from colltool.base.statements import sentences

PACKAGE = "colltool.training"


class Remark(NamedTuple):
    """Something to tell a user: a code of ``sentences.toml`` and the fields of its sentence."""

    code: str
    fields: Mapping[str, object]

    @property
    def cost(self) -> str:
        """What a warning costs, a sentence of its own; only warnings have one."""
        return sentences(PACKAGE)[f"{self.code}_costs"]


def remark(code: str, **fields: object) -> Remark:
    """Return the remark of a code, with the fields that its sentence names."""
    return Remark(code, fields)


# how the MFU of a step and of a search is counted
MFU_CONVENTION = (
    "model FLOPs with the causal half of attention, over the device's dense peak in the precision"
    " of its GEMMs"
)


# usual names of tiers as their vendors write them
SPELLED = {
    "nvlink": "NVLink",
    "ib": "InfiniBand",
    "roce": "RoCE",
    "ethernet": "Ethernet",
    "pcie": "PCIe",
    "efa": "EFA",
}


def spelled(tier: str) -> str:
    """Return the name of a tier as its vendor writes it."""
    return SPELLED.get(tier, tier)


def tokens_text(count: float) -> str:
    """Return a number of tokens: ``4.2M``, ``12,288``."""
    if count < 100_000:
        return f"{count:,.0f}"
    return f"{count / 1e6:.1f}M"


def sentence(remark: Remark) -> str:
    """Return a remark in words, with options as the current audience writes them."""
    return localize(sentences(PACKAGE)[remark.code].format(**remark.fields))
