"""What a library adds on each tier, for ``fabric show``: launch, time a step, share of the wire,
copies, and what it runs.

:func:`library_blocks` is for the screen, :func:`library_document` and :func:`with_protocols` for JSON.
A protocol is one of the library's, such as NCCL's LL, with the numbers that were fitted to it, None where a tier's
own hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from colltool.algorithms.libraries import LIBRARIES
from colltool.base.primitives import Primitive
from colltool.calibration.old_form import old_numbers
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.tier_media import media_of
from colltool.fabric.topology import capabilities_of
from colltool.libraries.numbers import ProtocolNumbers
from colltool.render.blocks import Block, Columns, Table, label, number
from colltool.render.dispatch import listed
from colltool.render.documents import Document, derived


class _TierProtocol(NamedTuple):
    """What a library adds on a tier under a protocol.

    ``step_s`` and ``share`` also have what a file of schema /1 says with an alpha and a bandwidth of the
    protocol's own.
    """

    tier: str
    medium: str | None
    protocol: ProtocolNumbers
    step_s: float  # a step, on top of the tier's own eta.alpha x alpha
    share: float  # of the tier's BW x eta.beta

    @property
    def only(self) -> str:
        """The primitives that it is for."""
        primitives = self.protocol.primitives or ()
        return ", ".join(primitive.label for primitive in primitives) or "all others"


def _step_text(step_s: float) -> str:
    """``+1.2 us``: with its sign, as it may be below 0."""
    if step_s:
        return f"{step_s * 1e6:+.3g} us"
    return "0 s"


_COLUMNS: Columns[_TierProtocol] = (
    label("tier"),
    label("medium", drop=3),
    label("protocol", path="protocol.name"),
    label("only", "for", drop=1),
    number("launch_s", "launch", path="protocol.launch_s"),
    number("step_s", "a step", _step_text),
    number("share", "of BW x eta.beta", "{:.3g}".format),
    number("host_Bps", "or the host's", drop=2, path="protocol.host_Bps"),
    number("copy_Bps", "own share copied at", drop=2, path="protocol.copy_Bps"),
)


def _media(fabric: Fabric) -> Iterator[tuple[Tier, str | None]]:
    """Each tier with the name of its medium, where that is known."""
    for tier, medium in zip(fabric.tiers, media_of(fabric), strict=True):
        yield tier, medium and medium.name


def _protocols(tier: Tier) -> tuple[ProtocolNumbers, ...]:
    """The library's protocols on a tier; empty where none is known."""
    if tier.library is None:
        return ()
    return tuple(tier.library.protocols)


def _runs(tier: Tier) -> dict[Primitive, Sequence[str]]:
    """The names of the algorithms that the library runs for each primitive."""
    return dict(tier.library.runs) if tier.library is not None else {}


def _tier_protocols(fabric: Fabric) -> Iterator[_TierProtocol]:
    """A row for each tier and protocol, where the library is known."""
    for tier, medium in _media(fabric):
        tier_step_s = tier.eta.alpha * capabilities_of(tier).nearest_alpha_s
        for protocol in _protocols(tier):
            # stretch and line: the protocol's own alpha and bandwidth over the tier's; 1 without
            step_s = (protocol.stretch - 1) * tier_step_s + protocol.step_s
            yield _TierProtocol(tier.name, medium, protocol, step_s, protocol.share * protocol.line)


def library_blocks(fabric: Fabric) -> Iterator[Block]:
    """The numbers as a table, and the algorithms in lines; nothing where no library is known on any
    tier."""
    library = LIBRARIES.get(fabric.library_name)
    name = library.label if library else "the library"
    rows = list(_tier_protocols(fabric))
    if rows:
        yield Table(_COLUMNS, rows, title=f"what {name} adds to the wires").without_empty()
    runs = []
    for tier in fabric.tiers:
        for primitive, names in _runs(tier).items():
            runs.append(f"{tier.name}: {primitive.label} runs {', '.join(names)}")
    yield from listed(f"what {name} runs", runs)


class ProtocolDocument(Document, of=ProtocolNumbers):
    """What a library adds under a protocol."""

    name: str
    launch_s: float | None
    step_s: float
    share: float
    host_Bps: float | None
    copy_Bps: float | None
    primitives: list[str] | None


class TierLibraryDocument(Document):
    """What a library adds on a tier, and what it runs there."""

    tier: str = derived("name")
    medium: str | None
    protocols: list[ProtocolDocument] = derived(_protocols)
    runs: dict[str, list[str]] = derived(
        lambda tier: {str(primitive): list(names) for primitive, names in _runs(tier).items()}
    )


def library_document(fabric: Fabric) -> Iterator[dict[str, Any]]:
    """Per tier: its medium, the protocols and algorithms of the library, SI units."""
    for tier, medium in _media(fabric):
        yield TierLibraryDocument.of(tier, medium=medium)


def with_protocols(tiers: Sequence[dict[str, Any]], fabric: Fabric) -> Iterator[dict[str, Any]]:
    """The values of a file's tiers, each with ``protocols`` in numbers of its own, as 0.18 gave them;
    to be removed with schema /1."""
    for values, tier in zip(tiers, fabric.tiers, strict=True):
        protocols = [old_numbers(protocol, tier) for protocol in _protocols(tier)]
        # a file of schema /1 lists its own, and these stay as it says them
        if protocols and "protocols" not in values:
            yield values | {"protocols": protocols}
        else:
            yield values
