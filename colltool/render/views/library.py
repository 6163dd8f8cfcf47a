"""What a library adds on each tier, for ``fabric show``: launch, time a step, share of the wire,
copies, and what it runs."""

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


class _Added(NamedTuple):
    """What a library adds on a tier under a protocol."""

    tier: str
    medium: str | None
    protocol: ProtocolNumbers
    # a step, on top of the tier's own eta.alpha x alpha; share: of its BW x eta.beta. Both also have
    # what a file of schema /1 says with an alpha and bandwidth of the protocol's own
    step_s: float
    share: float

    @property
    def only(self) -> str:
        """The primitives that it is for."""
        primitives = self.protocol.primitives or ()
        return ", ".join(primitive.label for primitive in primitives) or "all others"


def _step(step_s: float) -> str:
    if step_s:
        return f"{step_s * 1e6:+.3g} us"
    return "0 s"


_COLUMNS: Columns[_Added] = (
    label("tier"),
    label("medium", drop=3),
    label("protocol", path="protocol.name"),
    label("only", "for", drop=1),
    number("launch_s", "launch", path="protocol.launch_s"),
    number("step_s", "a step", _step),
    number("share", "of BW x eta.beta", "{:.3g}".format),
    number("host_Bps", "or the host's", drop=2, path="protocol.host_Bps"),
    number("copy_Bps", "own share copied at", drop=2, path="protocol.copy_Bps"),
)


def _media(fabric: Fabric) -> Iterator[tuple[Tier, str | None]]:
    """Each tier with the name of its medium, where that is known."""
    for tier, medium in zip(fabric.tiers, media_of(fabric), strict=True):
        yield tier, medium and medium.name


def _protocols(tier: Tier) -> tuple[ProtocolNumbers, ...]:
    if tier.library is None:
        return ()
    return tuple(tier.library.protocols)


def _runs(tier: Tier) -> dict[Primitive, Sequence[str]]:
    """The algorithms that the library runs for each primitive."""
    return dict(tier.library.runs) if tier.library is not None else {}


def _added(fabric: Fabric) -> Iterator[_Added]:
    for tier, medium in _media(fabric):
        tier_step_s = tier.eta.alpha * capabilities_of(tier).nearest_alpha_s
        for protocol in _protocols(tier):
            # stretch and line: a protocol's own alpha and bandwidth, over the tier's
            step_s = (protocol.stretch - 1) * tier_step_s + protocol.step_s
            yield _Added(tier.name, medium, protocol, step_s, protocol.share * protocol.line)


def library_blocks(fabric: Fabric) -> Iterator[Block]:
    """The numbers as a table, and the algorithms in lines; nothing where no library is known on any
    tier."""
    added = list(_added(fabric))
    known = LIBRARIES.get(fabric.library_name)
    name = known.label if known else "the library"
    if added:
        yield Table(_COLUMNS, added, title=f"what {name} adds to the wires").without_empty()
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
    """The tiers of a file, each with ``protocols`` in numbers of its own, as 0.18 gave them; to be
    removed with schema /1."""
    for written, tier in zip(tiers, fabric.tiers, strict=True):
        protocols = [old_numbers(protocol, tier) for protocol in _protocols(tier)]
        # a file of schema /1 lists its own, and these stay as it says them
        if protocols and "protocols" not in written:
            yield written | {"protocols": protocols}
        else:
            yield written
