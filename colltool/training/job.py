"""A job by path, shipped name or mapping: validated with every error in one report, and again for a number of ranks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, given, nearest, printable, shown
from colltool.base.files import read_text
from colltool.base.primitives import Primitive
from colltool.definitions.reader import Overrides, Reading, Shorthand, read
from colltool.definitions.source import KeyPath
from colltool.fabric.load import SUFFIX, exists
from colltool.training.constraint_violations import Violation, constraint_violations
from colltool.training.files.job import JobFile
from colltool.training.invalid_overlap import invalid_overlaps
from colltool.training.layout import RankGroup
from colltool.training.parallel_config import ParallelConfig
from colltool.training.presets import preset_folder, preset_names, stem_of
from colltool.training.resolve import draft, lacking
from colltool.training.traffic import tensor_buckets

SHORT = Shorthand(example="layout.tp=4")
MOST_TRIED = 256  # numbers of replicas, to find one that fits

JobSource = str | os.PathLike[str] | Mapping[str, Any]


class PlainCall(NamedTuple):
    """A collective that a job lists itself; ``bytes`` by nccl-tests' convention."""

    primitive: Primitive
    dimension: str
    group: RankGroup
    bytes: float
    calls: int
    time_s: float | None  # of one, where it is known


@dataclass(frozen=True)
class Job:
    name: str
    description: str
    draft: ParallelConfig  # dp is 0 where it follows from the ranks
    energy: bool
    steps: int | None
    measured_step_s: float | None
    measured_memory_bytes: float | None
    overrides: tuple[tuple[str, str], ...]  # that it was read with
    model_name: str
    device_from: str  # "job", "default" of a shipped job, "fabric", or ""
    file: JobFile = field(repr=False, compare=False)
    reading: Reading[JobFile] = field(repr=False, compare=False)

    def setup(self, ranks: int | None = None) -> ParallelConfig:
        """On ``ranks``, or those of its layout; ManyErrors where something does not fit, at its place in the file."""
        layout = self.draft.layout
        inside = layout.tp * layout.cp * layout.pp
        if ranks is None and not layout.dp:
            raise ColltoolError("dp is auto and follows from the ranks", argument="ranks", fix=f"write {given('ranks', inside)}")
        total = inside * layout.dp if ranks is None else ranks
        if total < 1:
            raise no_ranks(total, inside)
        if wrong := self._unfilled(inside, total):
            self.refuse([wrong])
        config = self.draft._replace(layout=layout._replace(dp=total // inside))
        if found := constraint_violations(config) or invalid_overlaps(config):
            self.refuse(found)
        return config

    def takes(self, values: Overrides) -> bool:
        """Whether the file would be read with these values; one may contradict a key beside it."""
        return read(JobFile, self.reading.data, overrides=values, short=SHORT).model is not None

    def _unfilled(self, inside: int, ranks: int) -> Violation | None:
        dp = self.draft.layout.dp
        if dp and inside * dp != ranks:
            fits = f"dp: {ranks // inside}, dp: auto, or " if ranks % inside == 0 else ""
            what = f"tp x cp x pp x dp = {inside * dp} does not fill {ranks} ranks"
            return Violation(("layout", "dp"), what, f"{fits}{given('ranks', inside * dp)}")
        if ranks % inside:
            near = self._nearest(inside, ranks)
            fix = f"{' or '.join(given('ranks', size) for size in near)}{', or ' if near else ''}a smaller tp, cp or pp"
            return Violation(("layout",), f"tp x cp x pp = {inside} does not divide {ranks} ranks", fix)
        return None

    def _nearest(self, inside: int, ranks: int) -> list[int]:
        below = range(ranks // inside, 0, -1)
        above = range(ranks // inside + 1, ranks // inside + MOST_TRIED)
        found = (next((dp for dp in side if self._sound(dp)), None) for side in (below[:MOST_TRIED], above))
        return [dp * inside for dp in found if dp is not None]

    def _sound(self, dp: int) -> bool:
        return not constraint_violations(self.draft._replace(layout=self.draft.layout._replace(dp=dp)))

    def refuse(self, found: list[Violation]) -> None:
        """Raises ManyErrors, each violation at its place in the file or at its override."""
        again = Reading(JobFile, self.reading.source, self.reading.data, self.reading.applied)
        for one in found:
            again.refuse(one.path, one.what, one.fix)
        again.result()

    def where(self, path: KeyPath) -> str:
        """``file:line:column`` of a key path."""
        return self.reading.source.where(path)

    def plain_calls(self, config: ParallelConfig) -> tuple[PlainCall, ...]:
        """ManyErrors where a group has one rank, or more than there are."""
        out, wrong = [], []
        for index, call in enumerate(self.file.calls):
            name = call.group if isinstance(call.group, str) else "group"
            if not isinstance(call.group, str):
                group = RankGroup(((call.group.ranks, call.group.stride),))
            elif call.group == "all":
                group = RankGroup(((config.layout.ranks, 1),))
            else:
                group = config.layout.group(call.group, experts=call.group == "ep")
            if group.ranks < 2 or (group.ranks - 1) * group.stride >= config.layout.ranks:
                what = f"a group of {group.ranks} with stride {group.stride} among {config.layout.ranks} ranks"
                wrong.append(Violation(("calls", index, "group"), what, "a dimension of at least 2 ranks, or all"))
            fused = tensor_buckets(call.count, call.size, call.bucket) if call.bucket else ((call.size, call.count),)
            out += [PlainCall(call.primitive, name, group, size, count, call.time) for size, count in fused]
        if wrong:
            self.refuse(wrong)
        return tuple(out)


def load_job(job: JobSource, overrides: Overrides = (), *, argument: str = "overrides") -> Job:
    """A validated job.

    Args:
    job: a file, else the name of a shipped job; or a mapping of what a file would hold.
    overrides: ``KEY=VALUE`` as for ``--set``, such as ``layout.tp=4``, a later one wins; or a mapping of values by key.
    argument: that gave them, for errors.

    Raises:
    ManyErrors: everything wrong with the content, in the order of the file, then the overrides.
    ColltoolError: no such job, an unreadable file, not YAML.
    """
    return _finished(*job_reading(job, overrides, SHORT._replace(argument=argument)))


def read_job(text: str, name: str, folder: Path, overrides: Overrides = ()) -> Job:
    """As :func:`load_job`, from text; ``folder`` holds the files that it names."""
    return _finished(read(JobFile, text, name, overrides, SHORT), folder, stem_of(name))


def _finished(reading: Reading[JobFile], folder: Path, stem: str) -> Job:
    found = draft(reading, folder)
    if found is not None and not lacking(reading):
        for one in constraint_violations(found) or invalid_overlaps(found):
            reading.refuse(one.path, one.what, one.fix)
    file = reading.result()
    assert found is not None  # nothing was refused
    measured = file.measured
    return Job(
        name=file.name or stem or "job",
        description=file.description,
        draft=found,
        energy=file.energy,
        steps=file.steps,
        measured_step_s=measured.step if measured else None,
        measured_memory_bytes=measured.memory if measured else None,
        overrides=reading.overrides,
        model_name=found.model.name if found.model else "",
        device_from=_device_from(reading, folder),
        file=file,
        reading=reading,
    )


def _device_from(reading: Reading[JobFile], folder: Path) -> str:
    """A shipped job's device is a default that yields to the fabric's; one that a user wrote is meant."""
    if reading.model is None or reading.model.device is None:
        return ""
    told = folder != preset_folder("jobs") or any(key.split(".")[0] == "device" for key, _ in reading.overrides)
    return "job" if told else "default"


def job_reading(job: JobSource, overrides: Overrides = (), short: Shorthand = SHORT) -> tuple[Reading[JobFile], Path, str]:
    """A job as far as it is read, the folder of the files that it names, and the stem of its own file."""
    if isinstance(job, Mapping):
        return read(JobFile, job, overrides=overrides, short=short), Path(), ""
    if not isinstance(job, str | os.PathLike):
        fix = 'give a path, the name of a shipped job ("llama3-70b"), or a mapping'
        raise ColltoolError(f"expected a job to load, got a {type(job).__name__}", argument="job", fix=fix)
    file, name = find_job(job)
    text = read_text(file, "definition", name)
    return read(JobFile, text, name, overrides, short), Path(file).parent, stem_of(file)


def find_job(path_or_name: str | os.PathLike[str]) -> tuple[str, str]:
    """The file of a job, and its name in errors."""
    typed = os.fsdecode(path_or_name)
    if exists(typed) and not os.path.isdir(typed):
        return typed, typed
    stem, known = typed.removesuffix(SUFFIX), preset_names("jobs")
    if stem in known:
        return str(preset_folder("jobs") / f"{stem}{SUFFIX}"), f"{stem}{SUFFIX}"
    if exists(typed):
        raise ColltoolError("is a directory, expected a job file", where=printable(typed), fix="give a file in it")
    hint = nearest(os.path.basename(stem), known)
    raise ColltoolError(f"no file and no shipped job is called {shown(typed)}", fix=f"{hint} shipped: {', '.join(known)}".strip())


def no_ranks(ranks: int, example: int) -> ColltoolError:
    return ColltoolError(f"a job on {ranks} ranks", argument="ranks", fix=f"write {given('ranks', example)}")
