"""A job's step under the other stacks of its family."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.files.presets import read_stack
from colltool.training.job import PlainCall
from colltool.training.model import Stack, stack_of
from colltool.training.parallel_config import ParallelConfig
from colltool.training.stack_words import FAMILIES, family_of
from colltool.training.step_time import TrainingStep, step_time

TURNS = 0.02  # of a step: what other stacks differ by, where they are worth a line


class StackStep(NamedTuple):
    """The same job under another stack of its family."""

    name: str
    step_s: float
    asked_by: str  # the words of a job that choose it


def other_stacks(
    config: ParallelConfig,
    costs: CollectiveCostCache,
    plain: tuple[PlainCall, ...],
    step: TrainingStep,
) -> tuple[StackStep, ...]:
    """The step under each other stack of the family of a shipped one, where one of them differs.

    Words of a job that a stack sets by default, such as what runs again, stay as they are.
    """
    stack = config.stack
    if stack is None or config.compute is not None or config.slower != 1:
        return ()
    name = family_of(stack.name)
    family = FAMILIES.get(name)
    if family is None or stack != _shipped(stack.name)._replace(measured=stack.measured):
        return ()
    asked = {family.off: f"{family.word}: false", family.on: f"{family.word}: true"}
    found = []
    for other, words in asked.items():
        if other == stack.name:
            continue
        changed = _shipped(other)._replace(measured=stack.measured)
        seconds = step_time(config._replace(stack=changed), costs, plain).step_s
        found.append(StackStep(other, seconds, words))
    if all(abs(other.step_s / step.step_s - 1) < TURNS for other in found):
        return ()
    return tuple(found)


def _shipped(name: str) -> Stack:
    return stack_of(read_stack(name, Path()), name)
