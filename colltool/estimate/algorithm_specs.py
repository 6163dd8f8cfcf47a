"""What a name means on a group, as ``--algorithm`` takes it: :func:`spec_of`.

A name may be ours (``ring``), the own name of the library that runs here (``NVLSTree``), or that of
documents (``butterfly``).
"""

from __future__ import annotations

from collections.abc import Callable

from colltool.algorithms.aliases import normal_form
from colltool.algorithms.composed import composition_names
from colltool.algorithms.names import specs_called
from colltool.algorithms.registry import Choice, parse_choice, row_of
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import Primitive
from colltool.estimate.groups import PlacedGroup
from colltool.estimate.library_names import spec_of_library_name
from colltool.estimate.running import running_on
from colltool.libraries.nccl.names import nccl_algorithm

# why NCCL has no such algorithm where it has none
_WHY_NCCL_HAS_NONE = {
    "tree": "inside a node it is a chain up and down, which is not priced",
    "pat": "it runs with one rank per node",
}


class CannotRun(ColltoolError):
    """An algorithm that is known, and that this group cannot run; ``reason`` says why."""

    def __init__(self, name: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"{name} cannot run here: {reason}",
            argument="algorithms",
            fix=f"price without {argument_text('algorithms')} lists all",
        )


def spec_of(
    name: str, placed: PlacedGroup, primitive: Primitive, can_run: Callable[[Choice], bool]
) -> str:
    """Return the spec that a name means: our own, a library's, or a textbook's where it is not the
    library's; the name itself where nothing is called so.

    ``can_run``: whether the group runs an algorithm; of several that a name may mean, such comes
    first.

    Raises:
        CannotRun: the group's library has an algorithm of this name, but not on such a group.
    """
    choice = parse_choice(name)
    composed = composition_names(primitive)
    is_ours = choice.base in composed or row_of(primitive, name)
    # the algorithms of its tiers may still have other names
    if is_ours and not choice.tiers:
        return name
    if not is_ours:
        spec = spec_of_library_name(placed, primitive, name)
        if spec:
            return spec
        running = running_on(placed.fabric)
        algorithm = nccl_algorithm(name)
        textbook = row_of(primitive, normal_form(name))
        if running is not None and running.like_nccl and algorithm and textbook:
            # a textbook's tree must not stand in for NCCL's
            reason = _WHY_NCCL_HAS_NONE.get(algorithm, "it has none for these ranks")
            raise CannotRun(
                f"{running.label}'s {name}", f"{reason}; '{textbook.name}' is the textbook's"
            )
    specs = specs_called(name, primitive, composed)
    for spec in specs:
        if can_run(parse_choice(spec)):
            return spec
    return specs[0] if specs else name
