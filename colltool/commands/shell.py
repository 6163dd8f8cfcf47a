"""A call of a command as text for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import colltool.commands.arguments  # noqa: F401 - fills the table of options
from colltool.base.errors import options_of
from colltool.estimate.assumptions import ModelOptions


def command_line(
    command: str,
    *arguments: str,
    fabrics: Sequence[str] = (),
    sets: Sequence[str] = (),
    readings: ModelOptions | None = None,
    options: Mapping[str, Any] | None = None,
) -> str:
    """The call of a command, quoted for a shell.

    Args:
        command: ``price``, ``fabric show``.
        arguments: positional arguments: a primitive, files.
        fabrics: files or names, as the user wrote them.
        sets: ``KEY=VALUE`` of the fabric.
        readings: model options; only those that differ from the defaults are written.
        options: further options by the argument's name in Python; a list repeats the option, True is
            a flag alone, None leaves it out. Callers leave out flags that are off.

    >>> command_line("price", "ar", fabrics=["my cluster.yaml"], options={"ranks": 64, "size": None})
    "colltool price ar -f 'my cluster.yaml' -n 64"
    """
    changed = (readings or ModelOptions()).unlike(ModelOptions())
    # unlike() leaves out options that outputs do not echo, of which a command line needs ideal
    if readings is not None and readings.ideal:
        changed["ideal"] = True
    all_options = {"fabric": list(fabrics), **(options or {}), "overrides": list(sets), **changed}
    words = ["colltool", *command.split()]
    for word in arguments:
        if word.startswith("-"):  # a file, which would be read as an option
            word = f"./{word}"
        words.append(word)
    for argument, value in all_options.items():
        # the last spelling is the one that is written before a value: -n of --ranks -n
        flag = options_of(argument)[-1]
        if value is None:
            continue
        for item in value if isinstance(value, list | tuple) else [value]:
            words.append(flag)
            if item is not True:
                words.append(str(item))
    return shlex.join(words)
