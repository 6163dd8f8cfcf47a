"""Words of a job that choose a variant of a shipped stack: ``cuda_graphs`` and ``compile``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Family(NamedTuple):
    """Shipped stacks that differ in how kernels are launched, by the word that chooses one."""

    word: str  # a key of a job, true or false
    on: str  # the stack where it is true
    off: str


# by the name of a stack that a job file may give and that leaves the choice open
FAMILIES = {
    "megatron": Family("cuda_graphs", on="megatron-graphs", off="megatron-eager"),
    "fsdp": Family("compile", on="fsdp-compiled", off="fsdp-eager"),
}
WORDS = tuple(family.word for family in FAMILIES.values())


# Megatron-Bridge's recipes (scripts/performance/configs, 2026-04) capture CUDA graphs on these, and
# launch kernels one by one for most models on others
GRAPHS_BY_DEFAULT = ("gb200", "gb300")


def stack_on(stack: str, device: str) -> str:
    """The stack that ``megatron`` means on a device where a job does not say."""
    if stack != "megatron":
        return stack
    if device in GRAPHS_BY_DEFAULT:
        return FAMILIES[stack].on
    return FAMILIES[stack].off


def family_of(stack: str) -> str:
    """The name that leaves open which stack of a family it is; of another stack its own."""
    for left_open, family in FAMILIES.items():
        if stack in (family.on, family.off):
            return left_open
    return stack


def chosen_stack(stack: str, words: Mapping[str, Any]) -> str:
    """The stack that a job's name of one means with its words, by word; the name itself where it
    leaves the choice open, or is of no family."""
    family = FAMILIES.get(stack)
    if family is None:
        return stack
    match words.get(family.word):
        case True:
            return family.on
        case False:
            return family.off
    return stack


def idle_word(stack: object, words: Mapping[str, Any]) -> tuple[str, str] | None:
    """A word of a job that does not go with its stack, and what to write instead; None where all
    do. ``stack``: its name, or what is written out."""
    for left_open, family in FAMILIES.items():
        is_on = words.get(family.word)
        if is_on is None or stack in (left_open, chosen_stack(left_open, words)):
            continue
        return family.word, f"stack: {left_open}, or leave {family.word} out"
    return None
