"""The manual and the machines as a static site: a page for each shipped machine and each guide, the
scoreboard of predictors, and an index for readers and for language models (``llms.txt``).

Pages load no scripts, fonts or anything else from the network, links are relative, and the same
version gives the same text. Addresses are stable: ``machines/NAME.html#all_reduce``,
``guides/NAME.html``, ``scoreboard.html``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from colltool.analysis.machine_curves import machine_curves
from colltool.base.result import with_progress
from colltool.fabric.model import Fabric
from colltool.render.page.lines import chart_style
from colltool.render.site.frame import MENU, PLAYGROUND
from colltool.render.site.guide import guide_files
from colltool.render.site.index import index_page, llms_text
from colltool.render.site.machine import machine_files
from colltool.render.site.scoreboard import scoreboard_page


def site(fabrics: Sequence[Fabric], *, playground: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the path (with ``/``) and text of each file: pages, a style sheet, ``llms.txt``, and of
    each shipped fabric its page, drawing and file.

    Args:
        playground: whether all pages lead to that of :mod:`colltool.render.playground`.
    """
    menu = (*MENU, PLAYGROUND) if playground else MENU
    style = chart_style()
    style += (Path(__file__).parent / "site.css").read_text(encoding="utf-8")
    yield "style.css", style
    machines = []
    for fabric in with_progress(fabrics):
        curves = machine_curves(fabric)
        machines.append(curves)
        yield from machine_files(curves, menu)
    yield from guide_files(menu)
    yield "scoreboard.html", scoreboard_page(menu)
    yield "index.html", index_page(machines, menu)
    yield "llms.txt", llms_text(machines)
