"""Jobs: loaded by path, shipped name or mapping, or drafted from a model alone.

:func:`load_job` reads and checks a file, with all errors in one report; what may stand for a job is in
:mod:`colltool.training.job_sources`. A :class:`Job` holds the configuration of its file;
:meth:`Job.setup` resolves and checks it for a number of ranks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.files import read_text
from colltool.base.primitives import Primitive
from colltool.definitions.overrides import Overrides, Shorthand
from colltool.definitions.reader import Reading, read, read_source, sourced
from colltool.definitions.source import KeyPath
from colltool.training.calls import tensor_buckets
from colltool.training.constraint_violations import constraint_violations
from colltool.training.files.job import JobFile, RanksFile
from colltool.training.files.presets import (
    longest_sequence,
    mapping_of,
    preset_folder,
    preset_names,
    stem_of,
)
from colltool.training.job_configuration import configuration, refuse_incomplete_job
from colltool.training.job_sources import JobSource, find_job, is_model, is_model_text, with_model
from colltool.training.overlap_violations import invalid_overlaps
from colltool.training.parallel_config import ParallelConfig, RankGroup
from colltool.training.stack_words import WORDS, chosen_stack
from colltool.training.violation import Violation

SHORTHAND = Shorthand(example="layout.tp=4")
# numbers of replicas, above and below, among which a fix looks for one that fits
MAX_REPLICAS_TRIED = 256


class PlainCall(NamedTuple):
    """A collective that a job lists itself; ``bytes`` by nccl-tests' convention."""

    primitive: Primitive
    dimension: str  # such as "dp"; "all", or "group" of ranks that are no dimension
    group: RankGroup
    bytes: float  # of one call
    calls: int  # in a step
    time_s: float | None  # of one call, where the job gives it


@dataclass(frozen=True)
class Job:
    """A validated job file, with the configuration that it asks for."""

    name: str
    description: str
    draft: ParallelConfig  # as the file says: dp is 0 where it follows from the ranks
    energy: bool  # whether a plan counts the energy of communication
    steps: int | None  # of the whole run
    measured_step_s: float | None  # None where nothing was measured
    measured_memory_bytes: float | None  # of a rank
    overrides: tuple[tuple[str, str], ...]  # (key, value) that it was read with
    model_name: str  # empty without a model
    # who names the device: "job" (its author), "default" (a shipped job's file, so that a fabric's comes
    # first), "fabric"; "" where none does
    device_from: str
    shipped: bool = False
    drafted: bool = False  # made from a model alone: its layout is searched
    folder: Path = field(default=Path(), repr=False, compare=False)  # for files that it names
    file: JobFile = field(kw_only=True, repr=False, compare=False)
    # the file with its source, so that it can be read again with other values
    reading: Reading[JobFile] = field(kw_only=True, repr=False, compare=False)

    @property
    def adaptable(self) -> bool:
        """Whether its layout, stack and precision may be changed where they do not fit a fabric."""
        return self.shipped or self.drafted

    def with_values(self, values: Overrides) -> Job:
        """Return the job with other values by key; a text is read as YAML. ``overrides`` stay those
        of the user.

        Raises:
            ManyErrors: the file is not valid with them.
        """
        if not values:
            return self
        changed = _job_of(
            read(JobFile, self.reading.data, overrides=values, short=SHORTHAND),
            self.folder,
            self.name,
        )
        # a user's GEMM times are in no file: they go from the stack of before to that of now
        draft = changed.draft
        stack = self.draft.stack
        if stack is not None and stack.measured and draft.stack is not None:
            draft = draft._replace(stack=draft.stack._replace(measured=stack.measured))
        job = replace(self, draft=draft, file=changed.file, reading=changed.reading)
        if "device" in values:
            job = replace(job, device_from=changed.device_from)
        return job

    def setup(self, ranks: int | None = None) -> ParallelConfig:
        """Return the configuration on ``ranks``, or on those of its layout.

        Raises:
            ColltoolError: no ranks, or dp is auto and ``ranks`` is not given.
            ManyErrors: what does not fit together, each at its place in the file.
        """
        layout = self.draft.layout
        replica_ranks = layout.tp * layout.cp * layout.pp
        if ranks is None and not layout.dp:
            raise ColltoolError(
                "dp is auto and follows from the ranks",
                argument="ranks",
                fix=f"write {argument_text('ranks', replica_ranks)}",
            )
        total = replica_ranks * layout.dp if ranks is None else ranks
        if total < 1:
            raise no_ranks(total, replica_ranks)
        config = self.draft._replace(layout=layout._replace(dp=total // replica_ranks))
        # the first kind of violations that there is: later ones may follow from it
        violations = (
            self._unfilled_ranks(replica_ranks, total)
            or constraint_violations(config)
            or invalid_overlaps(config)
        )
        if violations:
            self.refuse(violations)
        return config

    def accepts(self, values: Overrides) -> bool:
        """Whether the file is valid with these values, which may contradict its other keys."""
        return read(JobFile, self.reading.data, overrides=values, short=SHORTHAND).model is not None

    def _unfilled_ranks(self, replica_ranks: int, ranks: int) -> list[Violation]:
        """Return why replicas of ``replica_ranks`` do not fill the ranks, with a fix; empty where
        they do."""
        dp = self.draft.layout.dp
        if dp and replica_ranks * dp != ranks:
            fix = argument_text("ranks", replica_ranks * dp)
            if ranks % replica_ranks == 0:
                fix = f"dp: {ranks // replica_ranks}, dp: auto, or {fix}"
            what = f"tp x cp x pp x dp = {replica_ranks * dp} does not fill {ranks} ranks"
            return [Violation(("layout", "dp"), what, fix)]
        if ranks % replica_ranks == 0:
            return []
        whole_replicas = ranks // replica_ranks
        fewer = self._first_valid(
            range(whole_replicas, max(0, whole_replicas - MAX_REPLICAS_TRIED), -1)
        )
        more = self._first_valid(range(whole_replicas + 1, whole_replicas + MAX_REPLICAS_TRIED))
        other_ranks = [argument_text("ranks", dp * replica_ranks) for dp in (fewer, more) if dp]
        fix = "a smaller tp, cp or pp"
        if other_ranks:
            fix = f"{' or '.join(other_ranks)}, or {fix}"
        what = f"tp x cp x pp = {replica_ranks} does not divide {ranks} ranks"
        return [Violation(("layout",), what, fix)]

    def _first_valid(self, replicas: Iterable[int]) -> int:
        """The first number of replicas without a violation; 0 where all have one."""
        for dp in replicas:
            layout = self.draft.layout._replace(dp=dp)
            if not constraint_violations(self.draft._replace(layout=layout)):
                return dp
        return 0

    def refuse(self, violations: list[Violation]) -> None:
        """Raise ManyErrors, with each violation at its place in the file or at its override."""
        # a reading keeps its errors, so these go to a new one of the same source
        reading = Reading(JobFile, self.reading.source, self.reading.data, self.reading.applied)
        for violation in violations:
            reading.refuse(violation.path, violation.what, violation.fix)
        reading.result()

    def where(self, path: KeyPath) -> str:
        """Place of a key in the file, for errors and warnings."""
        return self.reading.source.where(path)

    def plain_calls(self, config: ParallelConfig) -> tuple[PlainCall, ...]:
        """Return the calls that the job lists itself.

        Raises:
            ManyErrors: a group has a single rank, or does not fit in the ranks.
        """
        ranks = config.layout.ranks
        calls: list[PlainCall] = []
        violations: list[Violation] = []
        for index, call in enumerate(self.file.calls):
            name, group = _plain_group(call.group, config)
            if group.ranks < 2 or (group.ranks - 1) * group.stride >= ranks:
                violations.append(
                    Violation(
                        ("calls", index, "group"),
                        f"a group of {group.ranks} with stride {group.stride} among {ranks} ranks",
                        "a dimension of at least 2 ranks, or all",
                    )
                )
            buckets: tuple[tuple[float, int], ...] = ((call.size, call.count),)
            if call.bucket:
                buckets = tensor_buckets(call.count, call.size, call.bucket)
            for size, count in buckets:
                calls.append(PlainCall(call.primitive, name, group, size, count, call.time))
        if violations:
            self.refuse(violations)
        return tuple(calls)


def _plain_group(group: str | RanksFile, config: ParallelConfig) -> tuple[str, RankGroup]:
    """Return the dimension's name, "all" or "group", and the ranks of a group that a job names or
    writes out."""
    if not isinstance(group, str):
        return "group", RankGroup(((group.ranks, group.stride),))
    if group == "all":
        return group, RankGroup(((config.layout.ranks, 1),))
    return group, config.layout.group(group, experts=group == "ep")


def load_job(
    job: JobSource,
    overrides: Overrides = (),
    *,
    argument: str = "overrides",
    model_file: str | os.PathLike[str] | None = None,
) -> Job:
    """A validated job: a file, else the name of a shipped job; or a mapping of what a file would
    hold.

    Args:
        job: as above, or a model, for which a job is drafted.
        overrides: ``KEY=VALUE`` as for ``--set``, such as ``layout.tp=4``, a later one wins; or a
            mapping of values by key.
        argument: the argument that gave the overrides, for errors.
        model_file: the model in place of the job's, a path or a shipped name.

    Raises:
        ColltoolError: there is no such file, or ``job`` is nothing of that kind.
        ManyErrors: everything wrong with the content, in the order of the file.
    """
    short = SHORTHAND._replace(argument=argument)
    if model_file is not None:
        job = with_model(job, os.fsdecode(model_file))
    if isinstance(job, Mapping):
        return _job_of(_job_reading(job, "", Path(), overrides, short), Path(), "")
    if not isinstance(job, str | os.PathLike):
        raise ColltoolError(
            f"expected a job to load, got a {type(job).__name__}",
            argument="job",
            fix='give a path, the name of a shipped job ("llama3-70b"), or a mapping',
        )
    if is_model(str(job)):
        return drafted_job(str(job), overrides, short)
    file, name = find_job(job)
    text = read_text(file, "definition", name)
    folder = Path(file).parent
    if is_model_text(text, name):
        return drafted_job(file, overrides, short)
    return _job_of(_job_reading(text, name, folder, overrides, short), folder, stem_of(file))


# tokens of a step of a drafted job: the first batch of Llama 3 (arXiv:2407.21783, section 3.4.1)
DEFAULT_TOKENS = 4 * 2**20
# longest sequence of a drafted job: Llama 3 trained with it before longer ones (section 3.4.2)
MAX_DEFAULT_SEQUENCE = 8192


def drafted_job(model: str, overrides: Overrides, short: Shorthand = SHORTHAND) -> Job:
    """Draft a job for a model, a path or a shipped name, with a usual sequence and batch unless
    overridden; its layout is left to a search."""
    # a name without a suffix is not a file either: it is refused as an unknown model
    is_name = model in preset_names("models") or not os.path.splitext(model)[1]
    path = Path(model if is_name else os.path.abspath(model))
    name = path.parent.name if path.name == "config.json" else path.stem
    sequence = min(MAX_DEFAULT_SEQUENCE, longest_sequence(str(path)) or MAX_DEFAULT_SEQUENCE)
    content = {
        "schema": "colltool.job/1",
        "name": name or "model",
        "model": str(path),
        "sequence": sequence,
        "batch": {"global": max(1, DEFAULT_TOKENS // sequence), "micro": 1},
        "shard": {"mode": "zero1"},
        "stack": "megatron",
    }
    job = _job_of(_job_reading(content, "", Path(), overrides, short), Path(), "")
    return replace(job, drafted=True)


def _job_reading(
    content: str | Mapping[str, Any],
    name: str,
    folder: Path,
    overrides: Overrides,
    short: Shorthand,
) -> Reading[JobFile]:
    """Return the reading of a job, valid or not; a model, device or stack that it names is written
    out where an override sets a key of it, such as ``model.moe.imbalance=1``.

    ``name`` stands for the file in errors, ``folder`` holds the files that it names.
    """
    source, problems = sourced(content, name)
    if isinstance(source.data, dict):
        overridden_parts = _overridden_parts(overrides)
        for part in ("model", "device", "stack"):
            named = source.data.get(part)
            if not isinstance(named, str) or part not in overridden_parts:
                continue
            if part == "stack":
                # the words have chosen: they would be idle beside a stack that is written out
                named = chosen_stack(named, {word: source.data.pop(word, None) for word in WORDS})
            with suppress(ColltoolError):  # a name that is not there is refused where it is read
                source.data[part] = mapping_of(part, named, folder)
    return read_source(JobFile, source, problems, overrides, short)


def _overridden_parts(overrides: Overrides) -> set[str]:
    """Return the parts of a job of which overrides set a key: "model" of ``model.moe.imbalance=1``,
    none of ``model=llama3-8b``."""
    parts: set[str] = set()
    # other types are refused where overrides are read
    if isinstance(overrides, Iterable) and not isinstance(overrides, str):
        for override in overrides:
            part, dot, _ = str(override).partition("=")[0].strip().partition(".")
            if dot:
                parts.add(part)
    return parts


def read_job(text: str, name: str, folder: Path, overrides: Overrides) -> Job:
    """Read a job from text; ``folder`` holds the files that it names."""
    return _job_of(read(JobFile, text, name, overrides, SHORTHAND), folder, stem_of(name))


def _job_of(reading: Reading[JobFile], folder: Path, stem: str) -> Job:
    """Return the job of a reading, called ``stem`` where its file has no name.

    Raises:
        ManyErrors: it is not valid, or its parts do not fit together.
    """
    shipped = folder == preset_folder("jobs")
    config = None
    device_from = ""
    if reading.model is not None:
        config = configuration(reading, reading.model, folder)
        # the device of a shipped job yields to the fabric's; one that a user wrote is meant
        if reading.model.device is not None:
            overridden = any(key.split(".")[0] == "device" for key, _ in reading.overrides)
            device_from = "default" if shipped and not overridden else "job"
        if config is not None and not refuse_incomplete_job(reading, reading.model):
            # a device that may yet be another is not checked
            checked = config if device_from == "job" else config._replace(device=None)
            for violation in constraint_violations(checked) or invalid_overlaps(checked):
                reading.refuse(violation.path, violation.what, violation.fix)
    file = reading.result()
    assert config is not None  # nothing was refused
    return Job(
        name=file.name or stem or "job",
        description=file.description,
        draft=config,
        energy=file.energy,
        steps=file.steps,
        measured_step_s=file.measured.step if file.measured else None,
        measured_memory_bytes=file.measured.memory if file.measured else None,
        overrides=reading.overrides,
        model_name=config.model.name if config.model else "",
        device_from=device_from,
        shipped=shipped,
        folder=folder,
        file=file,
        reading=reading,
    )


def no_ranks(ranks: int, example: int) -> ColltoolError:
    """Return the error of a job on fewer than one rank."""
    return ColltoolError(
        f"a job on {ranks} ranks", argument="ranks", fix=f"write {argument_text('ranks', example)}"
    )
