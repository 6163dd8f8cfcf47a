"""The command line that gives what a public function returns: for a reader who wants to see it again, or change it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from colltool.pricing.readings import Readings


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
        fabrics: as they were given, for ``-f``.
        sets: ``KEY=VALUE`` each.
        readings: those that are not the usual ones are options.
        options: further ones by name, ``{"-n": 64}``; a list repeats its option, None leaves it out.

    >>> command_line("price", "ar", fabrics=["my cluster.yaml"], sets=["ib.size=64"], options={"-n": 64, "-M": None})
    "colltool price ar -f 'my cluster.yaml' -n 64 --set ib.size=64"
    """
    words = ["colltool", *command.split(), *arguments]
    words += [part for name in fabrics for part in ("-f", name)]
    words += _options(options or {})
    words += [part for pair in sets for part in ("--set", pair)]
    return shlex.join([*words, *_readings(readings or Readings())])


def _options(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        several = value if isinstance(value, list | tuple) else () if value is None else (value,)
        for one in several:
            yield from (name, str(one))


def _readings(readings: Readings) -> Iterator[str]:
    """Readings that are not the usual ones, as options."""
    for name, usual in Readings._field_defaults.items():
        value = getattr(readings, name)
        if value != usual:
            yield f"--{name.replace('_', '-')}"
            if value is not True:
                yield str(value)
