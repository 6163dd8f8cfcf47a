"""The page of the scoreboard: predictors on published measurements, and the commands that give their
times.

Its parts are blocks of the view of ``score``: the headline, the table, lists, and a legend, which is a title
without lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from colltool.calibration.predictors import PREDICTORS
from colltool.calibration.published import published_sources
from colltool.calibration.score import Score, score
from colltool.guides import read_guide
from colltool.render.blocks import Headline, Lines, Table
from colltool.render.dispatch import blocks
from colltool.render.markup import html, unstyled_html
from colltool.render.site.frame import (
    SCOREBOARD,
    SiteLink,
    anchor,
    commands,
    page,
    paragraph,
    section,
    table,
)
from colltool.render.site.guide import body_of

# of the sections, by what their rows are grouped by: ``ScoreRow.by``
_TITLES = {
    "all": "All rows",
    "size": "By size",
    "scope": "Inside a node and across nodes",
    "vendor": "By vendor",
    "collective": "By collective",
    "machine": "By machine",
}
# the paragraph of the guide on the tool that is asked in its own environment
_ASKED = re.compile(r"^aiconfigurator .*?(?=\n\n)", re.MULTILINE | re.DOTALL)
_COMMANDS = (
    f"colltool score {' '.join(PREDICTORS)} --all",
    "",
    "# aiconfigurator, with pip install aiconfigurator in an environment of its own",
    "colltool score --template -o questions.csv",
    "python tests/benchmarks/aiconfigurator_times.py questions.csv > aiconfigurator.csv",
    "colltool score aiconfigurator.csv --all",
    "",
    "# a tool of your own: fill in time_us of questions.csv",
    "colltool score questions.csv",
)


def scoreboard_page(menu: Sequence[SiteLink]) -> str:
    """The page, whose scores are worked out here."""
    result = score(list(PREDICTORS))
    body = "<h1>Scoreboard of predictors</h1>\n" + "".join(_answer(result))
    for by, title in _TITLES.items():
        body += section(by, title, _rows(result, by))
    body += section("lost", "Where another predictor is nearer", _lost(result))
    body += section("sources", "Sources", _sources())
    return page(SCOREBOARD, "Scoreboard: predicted against published times", body, menu)


def _answer(result: Score) -> Iterator[str]:
    """The medians, what each predictor is, and the commands."""
    all_blocks = blocks(result)
    yield unstyled_html([block for block in all_blocks if isinstance(block, Headline)])
    yield body_of(
        "`colltool`: its prices, each made without the source of its row; `nccl`: what NCCL's own"
        " tuning model estimates for its pick; `datasheet`: colltool without a measured number;"
        " `alpha-beta`: latency and bandwidth of the links alone."
    )
    asked = _ASKED.search(read_guide("accuracy"))
    assert asked is not None  # tests hold the guide to it
    yield body_of(asked[0])
    yield commands(_COMMANDS)
    for block in all_blocks:
        # the legend of the columns is a title without lines
        if isinstance(block, Lines) and not block.lines:
            yield paragraph(f"{block.title}.", "soft")


def _rows(result: Score, by: str) -> Iterator[str]:
    """The table of the score with the rows of one grouping."""
    rows = tuple(scored for scored in result.rows if scored.by == by)
    for block in blocks(result):
        if isinstance(block, Table):
            yield table(block._replace(records=rows))


def _lost(result: Score) -> Iterator[str]:
    """The rows on which colltool loses most, and who is not scored where."""
    lists = [block for block in blocks(result) if isinstance(block, Lines) and block.lines]
    yield unstyled_html(lists)


def _sources() -> Iterator[str]:
    """Where the published rows are from."""
    items = ""
    for source in published_sources().values():
        link = anchor(source.url, source.source)
        facts = ", ".join(filter(None, (source.hardware, source.library, source.machine)))
        items += f"<li>{link}: {html(facts)}</li>\n"
    yield f"<ul>\n{items}</ul>\n"
