"""``job check``: what was read from a job file, and oddities."""

from __future__ import annotations

from colltool.render.views.checked import checked_subject
from colltool.render.views.job import layout_text, model_text
from colltool.training.job_results import CheckedJob, JobsChecked


def _values(one: CheckedJob) -> tuple[str, ...]:
    draft = one.job.draft
    layout = draft.layout._replace(dp=max(1, draft.layout.dp))
    free = "" if draft.layout.dp else ", dp from the ranks"
    batch = f"{draft.global_batch} sequences of {draft.sequence}, {draft.micro_batch} a micro-batch, {draft.schedule}"
    lines = [model_text(one.job), f"{layout_text(draft._replace(layout=layout))}{free}"]
    return (*lines, f"{batch}, {draft.shard.mode}") if draft.model else tuple(lines)


VIEWS = {JobsChecked: checked_subject("job", "value", _values)}
