"""What a library adds on each tier, for ``fabric show``: launch, time a step, share of the wire,
copies, and what it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from colltool.algorithms.libraries import LIBRARIES
from colltool.base.formatting import format_rate, format_time
from colltool.calibration.old_form import old_numbers
from colltool.fabric.ground import media_of
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.libraries.numbers import ProtocolNumbers
from colltool.render.blocks import Block, Lines, Table, label, number
from colltool.render.dispatch import Document, fields


class _Row(NamedTuple):
    """A protocol on a tier: ``step_s`` beside the tier's own eta.alpha x alpha, ``share`` of its BW
    x eta.beta."""

    tier: str
    medium: str | None
    protocol: ProtocolNumbers
    step_s: float
    share: float


def _only(row: _Row) -> str:
    return (
        ", ".join(primitive.spoken for primitive in row.protocol.primitives or ()) or "all others"
    )


def _step(step_s: float) -> str:
    return f"{step_s * 1e6:+.3g} us" if step_s else "0 s"


_ADDED = (
    label("tier", "tier"),
    label("medium", "medium", drop=3),
    label("protocol", "protocol", get=lambda row: row.protocol.name),
    label("only", "for", drop=1, get=_only),
    number("launch_s", "launch", format_time, get=lambda row: row.protocol.launch_s),
    number("step_s", "a step", _step),
    number("share", "of BW x eta.beta", "{:.3g}".format),
    number("host_Bps", "or the host's", format_rate, drop=2, get=lambda row: row.protocol.host_Bps),
    number(
        "copy_Bps",
        "own share copied at",
        format_rate,
        drop=2,
        get=lambda row: row.protocol.copy_Bps,
    ),
)


def _rows(fabric: Fabric) -> Iterator[_Row]:
    for tier, medium in zip(fabric.tiers, media_of(fabric), strict=True):
        numbers = tier.library
        for row in numbers.protocols if numbers is not None else ():
            # a file of schema /1 may give a protocol another alpha and bandwidth than its tier's
            stretched_s = (row.stretch - 1) * tier.eta.alpha * capabilities_of(tier).nearest_alpha_s
            yield _Row(
                tier.name,
                medium and medium.name,
                row,
                stretched_s + row.step_s,
                row.share * row.line,
            )


def library_blocks(fabric: Fabric) -> Iterator[Block]:
    """The numbers as a table, and the algorithms in lines; nothing where no library is known on any
    tier."""
    rows = tuple(_rows(fabric))
    name = (
        LIBRARIES[fabric.library_name].spoken if fabric.library_name in LIBRARIES else "the library"
    )
    if rows:
        # a column that says nothing of any row, such as the host's rate, is left out
        columns = tuple(
            column for column in _ADDED if any(column.value(row) is not None for row in rows)
        )
        yield Table(columns, rows, None, f"what {name} adds to the wires")
    runs = []
    for tier in fabric.tiers:
        for primitive, names in (tier.library.runs if tier.library is not None else {}).items():
            runs.append(f"{tier.name}: {primitive.spoken} runs {', '.join(names)}")
    if runs:
        yield Lines(f"what {name} runs", tuple(runs))


def library_document(fabric: Fabric) -> list[Document]:
    """Per tier: its medium, the protocols and algorithms of the library, SI units."""
    tiers = []
    for tier, medium in zip(fabric.tiers, media_of(fabric), strict=True):
        numbers = tier.library
        protocols = []
        for row in numbers.protocols if numbers is not None else ():
            only = (
                None if row.primitives is None else [str(primitive) for primitive in row.primitives]
            )
            protocols.append(
                fields(row, "name launch_s step_s share host_Bps copy_Bps") | {"primitives": only}
            )
        runs = {
            str(primitive): list(names)
            for primitive, names in (numbers.runs if numbers else {}).items()
        }
        tiers.append(
            {
                "tier": tier.name,
                "medium": medium and medium.name,
                "protocols": protocols,
                "runs": runs,
            }
        )
    return tiers


def with_old_form(tiers: list[Document], fabric: Fabric) -> None:
    """``protocols`` of each tier in numbers of the tier's own, as 0.18 gave them; goes with schema
    /1."""
    for given, tier in zip(tiers, fabric.tiers, strict=True):
        numbers = tier.library
        # a file of schema /1 lists its own, and these stay as it says them
        if numbers is not None and numbers.protocols and "protocols" not in given:
            given["protocols"] = [old_numbers(row, tier) for row in numbers.protocols]
