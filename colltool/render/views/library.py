"""What a library adds on each tier, for ``fabric show``: launch, time a step, share of the wire,
copies, and what it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from colltool.algorithms.libraries import LIBRARIES
from colltool.calibration.old_form import old_numbers
from colltool.fabric.library_numbers import media_of
from colltool.fabric.media import Medium
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.libraries.numbers import ProtocolNumbers
from colltool.render.blocks import Block, Columns, Lines, Table, label, number
from colltool.render.documents import Document, derived


class _Row(NamedTuple):
    """A protocol on a tier: ``step_s`` comes on top of the tier's own eta.alpha x alpha, ``share``
    is of its BW x eta.beta."""

    tier: str
    medium: str | None
    protocol: ProtocolNumbers
    step_s: float
    share: float

    @property
    def only(self) -> str:
        primitives = self.protocol.primitives or ()
        return ", ".join(primitive.label for primitive in primitives) or "all others"


def _step(step_s: float) -> str:
    if step_s:
        return f"{step_s * 1e6:+.3g} us"
    return "0 s"


_ADDED: Columns[_Row] = (
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


def _media(fabric: Fabric) -> Iterator[tuple[Tier, Medium | None]]:
    return zip(fabric.tiers, media_of(fabric), strict=True)


def _protocols(tier: Tier) -> tuple[ProtocolNumbers, ...]:
    return tuple(tier.library.protocols) if tier.library is not None else ()


def _runs(tier: Tier) -> Any:
    """The algorithms that the library runs for each primitive."""
    return tier.library.runs if tier.library is not None else {}


def _rows(fabric: Fabric) -> Iterator[_Row]:
    for tier, medium in _media(fabric):
        for row in _protocols(tier):
            # a file of schema /1 may give a protocol another alpha and bandwidth than its tier's
            stretched_s = (row.stretch - 1) * tier.eta.alpha * capabilities_of(tier).nearest_alpha_s
            step_s = stretched_s + row.step_s
            yield _Row(tier.name, medium and medium.name, row, step_s, row.share * row.line)


def library_blocks(fabric: Fabric) -> Iterator[Block]:
    """The numbers as a table, and the algorithms in lines; nothing where no library is known on any
    tier."""
    rows = tuple(_rows(fabric))
    known = LIBRARIES.get(fabric.library_name)
    name = known.label if known else "the library"
    if rows:
        # a column that says nothing of any row, such as the host's rate, is left out
        empty = [column.key for column in _ADDED if set(map(column.value, rows)) == {None}]
        columns = tuple(column for column in _ADDED if column.key not in empty)
        yield Table(columns, rows, title=f"what {name} adds to the wires")
    runs = []
    for tier in fabric.tiers:
        for primitive, names in _runs(tier).items():
            runs.append(f"{tier.name}: {primitive.label} runs {', '.join(names)}")
    if runs:
        yield Lines(f"what {name} runs", tuple(runs))


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


def library_document(fabric: Fabric) -> list[dict[str, Any]]:
    """Per tier: its medium, the protocols and algorithms of the library, SI units."""
    return [
        TierLibraryDocument.of(tier, medium=medium and medium.name)
        for tier, medium in _media(fabric)
    ]


def with_old_form(tiers: list[dict[str, Any]], fabric: Fabric) -> None:
    """``protocols`` of each tier in numbers of the tier's own, as 0.18 gave them; to be
    removed with schema /1."""
    for given, tier in zip(tiers, fabric.tiers, strict=True):
        # a file of schema /1 lists its own, and these stay as it says them
        if _protocols(tier) and "protocols" not in given:
            given["protocols"] = [old_numbers(row, tier) for row in _protocols(tier)]
