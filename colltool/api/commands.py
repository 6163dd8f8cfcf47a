"""The command line that gives what a public function returns: for a reader who wants to see it again, or change it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from colltool.base.errors import option_of
from colltool.estimate.assumptions import Readings


def command_line(
    command: str,
    *arguments: str,
    fabrics: Sequence[str] = (),
    sets: Sequence[str] = (),
    readings: Readings | None = None,
    options: Mapping[str, Any] | None = None,
) -> str:
    """A command line as a shell takes it.

    Args:
        command: ``price``, ``fabric show``.
        arguments: what stands behind it: a primitive, files.
        fabrics: as they were given.
        sets: ``KEY=VALUE`` each.
        readings: those that are not the usual ones are options.
        options: further ones by their argument in Python; a list repeats its option, None leaves it out.

    >>> command_line("price", "ar", fabrics=["my cluster.yaml"], sets=["ib.size=64"], options={"ranks": 64, "size": None})
    "colltool price ar -f 'my cluster.yaml' -n 64 --set ib.size=64"
    """
    usual = Readings._field_defaults
    unusual = {name: value for name, value in (readings or Readings())._asdict().items() if value != usual[name]}
    every = {"fabric": list(fabrics), **(options or {}), "overrides": list(sets), **unusual}
    files = (f"./{one}" if one.startswith("-") else one for one in arguments)
    return shlex.join(["colltool", *command.split(), *files, *_options(every)])


def _options(values: Mapping[str, Any]) -> Iterator[str]:
    for argument, value in values.items():
        several = value if isinstance(value, list | tuple) else () if value is None else (value,)
        for one in several:
            yield option_of(argument)
            if one is not True:
                yield str(one)
