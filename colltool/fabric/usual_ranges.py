"""The usual ranges of the numbers of a fabric, and the warning about one (:class:`LintWarning`) that is
outside of its own: :func:`unusual`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from colltool.definitions.source import KeyPath, value_at


class UsualRange(NamedTuple):
    """The usual range of a number in SI units, and the reason that a warning gives."""

    least: float
    most: float
    why: str


# Bytes/s of one link or port, one way; the reasons name what the bounds come from.
INSIDE_BPS = UsualRange(
    8e9,
    6e12,
    "links inside a node or rack run from PCIe's 16 GB/s to the 5.2 TB/s announced of NVLink 7",
)
NETWORK_BPS = UsualRange(1e9, 4e11, "network ports run from 10 Gb/s to 1.6 Tb/s")
ALPHA_S = UsualRange(2e-8, 2e-4, "one message takes 0.1 to 50 us inside a data centre")
SWITCH_ALPHA_S = UsualRange(1e-8, 1e-4, "a switch passes a message on in 0.1 to 1 us")
OVERHEAD_S = UsualRange(0.0, 1e-3, "a call costs 1 to 50 us to launch")
ETA_ALPHA = UsualRange(1.0, 10.0, "queues make a message a few times slower, not tens of times")
ETA_BETA = UsualRange(0.1, 1.0, "transports keep 0.5 to 0.98 of the line rate")
OVERSUBSCRIPTION = UsualRange(1.0, 16.0, "networks for collectives are built 1:1 to 8:1")

# Rates at which network ports are sold, in Gb/s.
PORT_GBPS = (1, 10, 25, 40, 50, 56, 100, 200, 400, 800, 1600)


class LintWarning(NamedTuple):
    """A warning about the value at a key path: what is odd, and why. ``where`` is the place in the file, as
    in errors; empty until it is known."""

    path: KeyPath
    what: str
    why: str
    where: str = ""


def unusual(
    data: dict[str, Any], path: KeyPath, usual: UsualRange, words: Callable[[float], str]
) -> Iterator[LintWarning]:
    """Yield a warning if there is a number at a path and it is outside of its usual range; ``words``:
    how a number is written."""
    value = value_at(path, data)
    if value is None or usual.least <= value <= usual.most:
        return
    side = f"above {words(usual.most)}"
    if value < usual.least:
        side = f"below {words(usual.least)}"
    yield LintWarning(path, f"{words(value)} is {side}", usual.why)
