"""What a command writes, kept until it is done: what fails on the way changes no file and prints nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from colltool.base.errors import ColltoolError
from colltool.base.inputs import Inputs, remembering
from colltool.cli.streams import encoded, put


@dataclass(frozen=True)
class Outputs:
    """Files with their content and the argument that names each, and the text for stdout."""

    inputs: Inputs
    files: dict[Path, tuple[bytes, str]] = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def leave(self) -> None:
        """Write all of it, files before stdout.

        Raises:
            ColltoolError: a file is read by this command, two outputs are one file, or one cannot be written; none was.
        """
        from colltool.base.writing import making, same_place, write_files

        for index, (path, (_, argument)) in enumerate(self.files.items()):
            if self.inputs.hold(path):
                raise read_here(path, argument)
            if any(same_place(path, other) for other in list(self.files)[:index]):
                raise written_twice(path, argument)
        with making(self.folders):
            write_files({path: content for path, (content, _) in self.files.items()})
        for text in self.texts:
            put(text)


_OUTPUTS: ContextVar[Outputs | None] = ContextVar("outputs", default=None)


@contextmanager
def kept() -> Iterator[Outputs]:
    """Within it nothing is written until :meth:`Outputs.leave`."""
    with remembering() as inputs:
        token = _OUTPUTS.set(outputs := Outputs(inputs))
        try:
            yield outputs
        finally:
            _OUTPUTS.reset(token)


def write(text: str, output: Path | None) -> None:
    """Write text to a file, whole or not at all, or to stdout, at the end of the command that this is part of.

    Raises:
        ColltoolError: it cannot be written, where no command is under way.
    """
    if output is None or str(output) == "-":
        outputs = _OUTPUTS.get()
        put(text) if outputs is None else outputs.texts.append(text)
    else:
        write_bytes(output, encoded(text), "output")


def write_bytes(path: Path, content: bytes, argument: str) -> None:
    """As :func:`write`, for any content; ``argument`` is what names the file."""
    outputs = _OUTPUTS.get()
    if outputs is None:
        from colltool.base.writing import write_file

        write_file(path, content)
        return
    if path in outputs.files:
        raise written_twice(path, argument)
    outputs.files[path] = content, argument


def keep_apart(path: Path | None, argument: str) -> None:
    """Refuse an output that was read so far, before anything is rendered for it."""
    outputs = _OUTPUTS.get()
    if outputs is not None and path is not None and outputs.inputs.hold(path):
        raise read_here(path, argument)


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """As :func:`write`, files of one folder, which is made where there is none; only within a command."""
    outputs = _OUTPUTS.get()
    assert outputs is not None
    outputs.folders.append(folder)
    for name, text in files.items():
        write(text, folder / name)


def read_here(path: Path, argument: str) -> ColltoolError:
    """The error for an output that is also an input."""
    fix = "name another file: what is read stays as it is"
    return ColltoolError(f"{path} is read by this command", argument=argument, fix=fix)


def written_twice(path: Path, argument: str) -> ColltoolError:
    """The error for two outputs into one file."""
    return ColltoolError(f"{path} is written twice", argument=argument, fix="name two files")
