"""Usage errors of typer's own click in the words of ours: what was found, and what to type instead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from colltool.base.errors import ColltoolError, nearest
from colltool.base.quoting import clipped


def reworded(error: Any) -> ColltoolError:
    """The error that says the same.

    Args:
        error: a usage error of click; what it knows besides its text depends on its class, which typer keeps private.
    """
    context = getattr(error, "ctx", None)
    kind = type(error).__name__
    if kind == "NoSuchOption":
        hint = nearest(error.option_name, list(_options(context)))
        return ColltoolError(f"no option '{clipped(error.option_name)}'", fix=f"{hint} {_help(context)}".strip())
    if kind == "MissingParameter":
        return _missing(error.param, context)
    name = _name(getattr(error, "param", None)) or str(getattr(error, "option_name", ""))
    message = clipped(str(error.message).rstrip("."), 200)
    return ColltoolError(message, where=name, fix=_help(context))


def _missing(parameter: Any, context: Any) -> ColltoolError:
    name = _name(parameter)
    if parameter.name == "fabric":
        from colltool.fabric.load import shipped_fabrics

        shipped = ", ".join(shipped_fabrics())
        add, why = ("add -f with", ": a price needs a fabric") if name.startswith("--") else ("name", "")
        fix = f"{add} a fabric file, or one of {shipped}; colltool fabric list says what they are"
        return ColltoolError(f"{name} is missing{why}", fix=fix)
    means = f"{parameter.help.rstrip('.')}; " if getattr(parameter, "help", None) else ""
    return ColltoolError(f"{name} is missing", fix=f"{means}{_help(context)}")


def _name(parameter: Any) -> str:
    """``--ranks`` of an option, ``PRIM`` of an argument."""
    if parameter is None:
        return ""
    if type(parameter).__name__.endswith("Argument"):
        return str(parameter.metavar or parameter.name.upper())
    return str(next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0]))


def _options(context: Any) -> Iterator[str]:
    for parameter in context.command.get_params(context) if context is not None else ():
        yield from (name for name in parameter.opts if name.startswith("--"))


def _help(context: Any) -> str:
    path = "colltool" if context is None else context.command_path
    return f"{path} -h shows what it takes"
