"""How fabrics were changed so that they hold the ranks of a comparison or sweep, and which rank counts
would fit them, in sentences. Of a ``Fitted`` change, ``nodes`` and ``per_rack`` are None where they were not changed, and
``noun`` is what holds the innermost ranks: node or rack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from colltool.analysis.compare import RanksOffer
from colltool.analysis.fitted import Fitted
from colltool.base.errors import argument_text, localize
from colltool.base.formatting import and_text, counted


def fitted_sentences(columns: Iterable[tuple[str, Fitted]]) -> list[str]:
    """Such as ``dgx-b200 was grown to 144 nodes``, once for all fabrics that were.

    Args:
        columns: the name of each fabric, and how it was changed if it was.
    """
    names_by_change: dict[Fitted, dict[str, None]] = {}
    for name, change in columns:
        if change.overrides:
            # the same change has other keys in each fabric
            same_change = change._replace(overrides=())
            names_by_change.setdefault(same_change, {})[name] = None
    sentences = []
    for change, names in names_by_change.items():
        sentences.append(_fitted_sentence(list(names), change))
    return sentences


def _fitted_sentence(names: Sequence[str], change: Fitted) -> str:
    """``a and b were grown to 144 nodes and run 4 of the 8 ranks per node``."""
    was = "was"
    runs = "runs"
    if len(names) > 1:
        was = "were"
        runs = "run"
    parts = []
    if change.nodes is not None:
        nodes = counted(change.nodes, change.noun)
        parts.append(f"{was} grown to {nodes}")
    if change.per_rack is not None:
        parts.append(f"{runs} {change.per_rack} of the {change.rack} ranks per {change.noun}")
    return f"{and_text(names)} {and_text(parts)}"


def offer_sentence(offer: RanksOffer) -> str:
    """``256 ranks do not fill whole racks on nvl72; compare at -n 216 or 288``."""
    text = f"{offer.ranks} ranks do not fill whole {offer.noun}s"
    if offer.too_many:
        text = f"{offer.ranks} ranks do not fit"
    text += f" on {and_text(offer.missing)}"
    if not offer.nearest:
        return text
    nearest, *further = offer.nearest
    argument = localize(argument_text("ranks", nearest))
    counts = " or ".join([argument, *map(str, further)])
    return f"{text}; compare at {counts}"
