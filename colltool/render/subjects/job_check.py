"""``job check``: what was read, and what is odd about it."""

from __future__ import annotations

from typing import NamedTuple

from colltool.render.parts import Block, Lines, Table, label
from colltool.render.subject import Document, Subject
from colltool.render.subjects.job import layout_text, model_text
from colltool.words import counted
from colltool.workload.results import Checked, JobsChecked


class _Said(NamedTuple):
    """What is said of a file: its values, or a warning with its place and reason."""

    file: str
    kind: str
    what: str
    where: str = ""
    why: str = ""


_COLUMNS = (label("file", "file"), label("kind", "kind"), label("where", "where"), label("what", "what"), label("why", "why"))


def _values(one: Checked) -> tuple[str, ...]:
    draft = one.job.draft
    layout = draft.layout._replace(dp=max(1, draft.layout.dp))
    free = "" if draft.layout.dp else ", dp from the ranks"
    batch = f"{draft.global_batch} sequences of {draft.sequence}, {draft.micro_batch} a micro-batch, {draft.schedule}"
    lines = [model_text(one.job), f"{layout_text(draft._replace(layout=layout))}{free}"]
    return (*lines, f"{batch}, {draft.shard.mode}") if draft.model else tuple(lines)


def _table(result: JobsChecked) -> Table:
    said = []
    for one in result.checks:
        said += [_Said(one.file, "value", line) for line in _values(one)]
        said += [_Said(one.file, "warning", odd.what, odd.where, odd.why) for odd in one.warnings]
    return Table(_COLUMNS, tuple(said))


def _blocks(result: JobsChecked) -> list[Block]:
    return [Lines(f"{one.file}: ok", (*_values(one), *_warnings(one))) for one in result.checks]


def _warnings(one: Checked) -> list[str]:
    return [f"warning: {odd.where}: {odd.what} ({odd.why})" for odd in one.warnings]


def _document(result: JobsChecked) -> Document:
    odd = [
        {"file": one.file, "where": odd.where, "what": odd.what, "why": odd.why} for one in result.checks for odd in one.warnings
    ]
    return {"valid": [one.file for one in result.checks], "warnings": odd}


def _summary(result: JobsChecked) -> str:
    odd = sum(len(one.warnings) for one in result.checks)
    warned = f", {counted(odd, 'warning')}" if odd else ""
    return f"{counted(len(result.checks), 'job')} ok{warned}: {', '.join(one.file for one in result.checks)}"


SUBJECTS = {JobsChecked: Subject("job-check", _blocks, _document, _table, _summary)}
