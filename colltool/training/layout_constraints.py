"""What a user keeps of a job's layout while the rest is searched: :class:`Constraints`.

:func:`constraints_of` reads ``--keep``, and :func:`with_overrides` adds what the user set of the job
itself. :func:`idle_overrides` finds what was set in vain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, argument_text, nearest, quote
from colltool.base.formatting import parse_count
from colltool.training.files import Recompute, Schedule, ShardMode, written
from colltool.training.job import Job
from colltool.training.parallel_config import ParallelConfig
from colltool.training.strategies import RECOMPUTATIONS, SHARDINGS
from colltool.training.violation import Violation

# constraints that are no whole number: their values, by how they are written
CONSTRAINT_WORDS: dict[str, dict[str, Any]] = {
    "sp": {"true": True, "false": False},
    "shard": {mode: mode for mode in SHARDINGS},
    "recompute": {row.name: row.name for row in RECOMPUTATIONS.values() if row.whole},
}
# the choice of a layout that each of these keys of a job decides; what a user sets, a search keeps
CHOICE_OF_KEY = {
    "layout.tp": "tp",
    "layout.sp": "sp",
    "layout.cp": "cp",
    "layout.ep": "ep",
    "layout.etp": "etp",
    "layout.pp": "pp",
    "layout.virtual": "virtual",
    "schedule": "schedule",
    "layout.dp": "dp",
    "batch.micro": "micro",
    "shard.mode": "shard",
    "recompute": "recompute",
}

Keep = Mapping[str, Any] | Iterable[str]  # KEY=VALUE each, a later one wins; or values by name


class Constraints(NamedTuple):
    """What every layout of a search keeps, by the names of its choices; None is searched."""

    tp: int | None = None
    sp: bool | None = None
    cp: int | None = None
    ep: int | None = None
    etp: int | None = None
    pp: int | None = None
    virtual: int | None = None
    micro: int | None = None  # sequences of a micro-batch
    shard: ShardMode | None = None
    recompute: Recompute | None = None
    # what only the job can say
    dp: int | None = None
    schedule: Schedule | None = None

    @property
    def values(self) -> dict[str, Any]:
        """What is kept, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    @property
    def text(self) -> str:
        """What is kept as a user writes it: ``tp=8, sp=true``."""
        return ", ".join(f"{name}={written(value)}" for name, value in self.values.items())


# what ``--keep`` takes; of the others a job's own keys say what to keep
CONSTRAINT_NAMES = tuple(name for name in Constraints._fields if name not in ("dp", "schedule"))


def constraints_of(keep: Keep | None) -> Constraints:
    """Read what a user keeps.

    Raises:
        ColltoolError: a name or a value is not known.
    """
    if keep is None:
        return Constraints()
    example = f"write {argument_text('keep', {'tp': 8}, text='tp=8')}"
    known = f"constraints: {', '.join(CONSTRAINT_NAMES)}"
    if isinstance(keep, str) or not isinstance(keep, Iterable):
        raise ColltoolError(
            f"expected names with values, got {quote(keep)}", argument="keep", fix=example
        )
    if not isinstance(keep, Mapping):
        keep = dict(_name_and_value(text, f"{example}; {known}") for text in keep)
    values: dict[str, Any] = {}
    for name, value in keep.items():
        if name not in CONSTRAINT_NAMES:
            raise ColltoolError(
                f"no constraint is called {quote(str(name))}",
                argument="keep",
                fix=f"{nearest(str(name), list(CONSTRAINT_NAMES))} {known}".strip(),
            )
        values[name] = _constraint_value(name, value)
    return Constraints(**values)


def overridden(job: Job, key: str) -> bool:
    """Whether a user set a key of a job, by itself, in part, or with the whole section: "layout.tp"
    by ``layout.tp=8`` or ``layout={tp: 8}``."""
    section = key.partition(".")[0]
    names = [name for name, _ in job.overrides]
    return any(name in (key, section) or name.startswith(f"{key}.") for name in names)


def overridden_choices(job: Job) -> Constraints:
    """Return what a user's overrides of a job say of its layout."""
    choices = {
        name: stated_choice(job, key) for key, name in CHOICE_OF_KEY.items() if overridden(job, key)
    }
    # layers of each stage say how many stages there are
    if overridden(job, "layout.stages") and job.draft.layout.stages:
        choices["pp"] = len(job.draft.layout.stages)
    return Constraints(**choices)


def stated_choice(job: Job, key: str) -> Any:
    """Return the value of a key of the layout in a job's file; None where the job leaves it open, or
    recomputes layers or modules, which is no constraint."""
    if key == "batch.micro":
        return job.draft.micro_batch
    value = attrgetter(key)(job.file)
    left_open = value == "auto" or (key == "recompute" and not isinstance(value, str))
    return None if left_open else value


def with_overrides(job: Job, kept: Constraints) -> Constraints:
    """Return constraints together with what the user's overrides of the job say.

    Raises:
        ColltoolError: the two contradict each other.
    """
    overrides = overridden_choices(job).values
    for key, name in CHOICE_OF_KEY.items():
        value = kept.values.get(name)
        if value is not None and name in overrides and overrides[name] != value:
            raise ColltoolError(
                f"{name}={written(value)}, and the job has {key}={written(overrides[name])}",
                argument="keep",
                fix="give one of the two",
            )
    return kept._replace(**overrides)


def _name_and_value(text: Any, fix: str) -> tuple[str, str]:
    """Return the two sides of NAME=VALUE; ColltoolError with this fix where it is none."""
    name, equals, value = str(text).partition("=")
    if not equals or not value.strip():
        raise ColltoolError(f"{quote(text)} is not NAME=VALUE", argument="keep", fix=fix)
    return name.strip(), value.strip()


def _constraint_value(name: str, value: Any) -> Any:
    """Return the value of a constraint, read if it is a text; ColltoolError where it has no such
    value."""
    if name not in CONSTRAINT_WORDS:
        try:
            return parse_count(value, "keep", 1, 10**9)
        except ColltoolError:
            pass
        raise ColltoolError(
            f"{name} is a whole number of at least 1, got {quote(value)}",
            argument="keep",
            fix=f"write {argument_text('keep', {name: 8}, text=f'{name}=8')}",
        )
    known = CONSTRAINT_WORDS[name]
    text = written(value)
    if text not in known:
        raise ColltoolError(
            f"{name} cannot be {quote(value)}",
            argument="keep",
            fix=f"{nearest(str(value), list(known))} one of {', '.join(known)}".strip(),
        )
    return known[text]


def idle_overrides(job: Job, config: ParallelConfig) -> Iterator[Violation]:
    """Yield a violation for each of a user's overrides that changes nothing in a layout."""
    overridden_keys = {key for key, _ in job.overrides}
    layout = config.layout
    for key in ("deduplicate", "dispatcher"):
        is_idle = layout.ep == 1 and getattr(layout, key)
        if is_idle and f"layout.{key}" in overridden_keys:
            yield Violation(
                ("layout", key),
                "ep is 1: no tokens are sent to experts of other ranks",
                "layout.ep of at least 2, or leave it out",
            )
    if "layout.cp_mode" in overridden_keys and layout.cp == 1:
        yield Violation(
            ("layout", "cp_mode"),
            "cp is 1: no part of a sequence is exchanged",
            "layout.cp of at least 2, or leave it out",
        )
