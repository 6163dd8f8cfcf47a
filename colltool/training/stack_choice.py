"""A job's step under the other stacks of its family, such as with CUDA graphs and without."""

from __future__ import annotations

from typing import NamedTuple

from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.job import PlainCall
from colltool.training.parallel_config import ParallelConfig
from colltool.training.stack import Stack, shipped_stack
from colltool.training.stack_words import FAMILIES, family_of
from colltool.training.step_time import TrainingStep, step_time

LEAST_DIFFERENCE = 0.02  # share of a step below which another stack is not worth a line


class StackStep(NamedTuple):
    """The same job under another stack of its family."""

    name: str  # of the stack
    step_s: float
    asked_by: str  # what a job says to have it, as users read it: "cuda_graphs: true"


def other_stacks(
    config: ParallelConfig,
    costs: CollectiveCostCache,
    plain: tuple[PlainCall, ...],
    step: TrainingStep,
) -> tuple[StackStep, ...]:
    """Return the step under each other stack of its family, if the job's stack is a shipped one;
    nothing where all of them take about as long. One that differs brings them all.

    What a job leaves to its stack, such as what is recomputed, stays as the job's own stack has it.
    """
    stack = config.stack
    # given times hold for the stack that they were measured under, and so does a factor on them
    if stack is None or config.compute is not None or config.slower != 1:
        return ()
    family = FAMILIES.get(family_of(stack.name))
    # a stack that a user changed has no other of its kind, whatever its name
    if family is None or stack != _shipped_like(stack, stack.name):
        return ()
    words_of_stack = {family.off: f"{family.word}: false", family.on: f"{family.word}: true"}
    others = []
    for name, words in words_of_stack.items():
        if name == stack.name:
            continue
        other = config._replace(stack=_shipped_like(stack, name))
        others.append(StackStep(name, step_time(other, costs, plain).step_s, words))
    if all(abs(other.step_s / step.step_s - 1) < LEAST_DIFFERENCE for other in others):
        return ()
    return tuple(others)


def _shipped_like(stack: Stack, name: str) -> Stack:
    """Return the shipped stack of a name, with the user's measured GEMMs of this one."""
    return shipped_stack(name)._replace(measured=stack.measured)
