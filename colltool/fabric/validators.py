"""Validators that several parts of a fabric share; each raises ``Slips`` with every mistake at its own key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from colltool.base.errors import ColltoolError, nearest
from colltool.base.primitives import SHORT, Primitive
from colltool.definitions.schema_hints import Slip, Slips


def known_algorithm(primitive: Primitive, name: str) -> str:
    """A name that ``--algorithm`` takes for a primitive; a composition may carry its choices."""
    import colltool.algorithms  # noqa: F401 - fills the registry
    from colltool.algorithms.composed import compositions
    from colltool.algorithms.registry import every_algorithm, find, on_request

    composed = [row.name for row in compositions(primitive)]
    base, colon, choice = name.partition(":")
    if base not in composed:
        row = find(primitive, base if base in {one.name for one in on_request()} else name, composed)
        if colon and not (choice.isascii() and choice.isdecimal() and int(choice[:9])):
            raise ColltoolError(f"'{name}' has no number of {row.counts} behind its name", fix=f"such as {base}:8")
        return name
    known = sorted({row.name for row in every_algorithm()})
    unknown = [part for part in choice.split("/") if part not in known] if colon else []
    if unknown:
        fix = nearest(unknown[0], known) or f"known: {', '.join(known)}"
        raise ColltoolError(f"no algorithm '{unknown[0]}' in '{name}'", fix=fix)
    return name


def check_algorithms(listed: Mapping[Primitive, Sequence[str]], keys: Sequence[str]) -> None:
    """Every algorithm exists for its primitive and is listed once; ``keys`` are the primitives as the file spells them."""
    slips = []
    for key, (primitive, names) in zip(keys, listed.items(), strict=True):
        for index, name in enumerate(names):
            at = (key, index)
            if name in names[:index]:
                slips.append(Slip(f"'{name}' is named twice", "list it once", at))
                continue
            try:
                known_algorithm(primitive, name)
            except ColltoolError as error:
                slips.append(Slip(error.what, error.fix, at))
    refuse(slips)


def check_named_once(keys: Sequence[str]) -> None:
    """A mapping by primitive names each once, whatever the spelling."""
    words = [key.lower().replace("-", "_") for key in keys]
    names = [primitive for word in words for primitive, short in SHORT.items() if word in (short, primitive)]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise Slips(Slip(f"gives {twice[0]} twice, under two of its names", "keep one of the two"))


def first_repeated(names: Sequence[str]) -> int | None:
    """Index of the first name that has already occurred."""
    return next((index for index, name in enumerate(names) if name in names[:index]), None)


def refuse(slips: Sequence[Slip]) -> None:
    if slips:
        raise Slips(*slips)
