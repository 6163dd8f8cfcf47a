"""The playground: a page that runs colltool in the browser, by Pyodide, from files beside it.

The packages are those of this environment, as they are installed, so that the page answers as the
command line here does. Only pydantic's compiled core and Python itself come from elsewhere: from a
folder with Pyodide's npm package and the core's wheel for it.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from colltool import __version__
from colltool.base.errors import ColltoolError

_PAGE = Path(__file__).parent / "page" / "playground"
_PACKAGE = Path(__file__).parent.parent
# the parts of Pyodide that a page loads
_PYODIDE = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
    "pyodide-lock.json",
)
# compiled, or only for the colours of a terminal
_LEFT_OUT = ("numpy", "pydantic-core", "pygments")
_CORE = "pydantic-core"


def playground(pyodide: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the path (with ``/``) within the site and the content of each file.

    Args:
        pyodide: a folder with the files of Pyodide's npm package and a wheel of pydantic_core.
    """
    core = _core_wheel(pyodide)
    yield "playground/index.html", _filled("index.html")
    files = {f"playground/pyodide/{part}": _read(pyodide / part) for part in _PYODIDE}
    files["playground/colltool.zip"] = _packages()
    yield from _compiled(files, pyodide).items()
    yield "playground/pydantic_core.whl", _read(core)
    for part in ("playground.css", "playground.js", "worker.mjs"):
        yield f"playground/{part}", _filled(part)


def _filled(name: str) -> bytes:
    """A file of the page, with the version and the Python that writes it filled in."""
    text = _read(_PAGE / name).decode().replace("VERSION", __version__)
    return text.replace("WRITTEN_BY", "{}.{}".format(*sys.version_info)).encode()


def _core_wheel(pyodide: Path) -> Path:
    """The wheel of pydantic's core, of the version that pydantic wants here, for this Pyodide."""
    missing = [part for part in _PYODIDE if not (pyodide / part).is_file()]
    if missing:
        raise ColltoolError(
            f"{pyodide} has no {missing[0]}",
            argument="playground",
            fix="npm install pyodide, and name node_modules/pyodide",
        )
    made_for = json.loads(_read(pyodide / "pyodide-lock.json"))["info"]
    python = "cp" + "".join(made_for["python"].split(".")[:2])
    platform = f"pyemscripten_{made_for['abi_version']}_{made_for['arch']}"
    version = distribution(_CORE).version
    wheel = pyodide / f"pydantic_core-{version}-{python}-{python}-{platform}.whl"
    if not wheel.is_file():
        wanted = f"--platform {platform} --python-version {python[2:]} --abi {python}"
        raise ColltoolError(
            f"{pyodide} has no {wheel.name}",
            argument="playground",
            fix=f"pip download --no-deps --only-binary :all: {wanted} -d {pyodide}"
            f" {_CORE}=={version}",
        )
    return wheel


def _packages() -> bytes:
    """colltool, the shipped fabrics and all that colltool requires, as a zip archive."""
    from colltool.fabric.shipped import shipped_folder

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in _files_in(_PACKAGE):
            archive.write(file, Path("colltool") / file.relative_to(_PACKAGE))
        fabrics = shipped_folder()
        if not fabrics.is_relative_to(_PACKAGE):  # in a checkout
            for file in _files_in(fabrics):
                archive.write(file, Path("colltool", "_fabrics") / file.relative_to(fabrics))
        for package in _required("colltool", {}).values():
            for part in package.files or ():
                if part.suffix == ".py" and ".." not in part.parts:
                    archive.write(str(package.locate_file(part)), part)
    return packed.getvalue()


def _compiled(files: dict[str, bytes], pyodide: Path) -> dict[str, bytes]:
    """The files with the modules in archives compiled, which saves a page a part of the time to its first
    answer. As they are where there is no Node, or one that does not run Pyodide."""
    node = shutil.which("node")
    archives = [path for path in files if path.endswith(".zip")]
    if node is None:
        return files
    with tempfile.TemporaryDirectory() as folder:
        copies = [Path(folder, path.rpartition("/")[2]) for path in archives]
        for path, copy in zip(archives, copies, strict=True):
            copy.write_bytes(files[path])
        command: list[str | Path] = [node, _PAGE / "compile.mjs", pyodide.resolve() / "pyodide.mjs"]
        done = subprocess.run([*command, *copies], capture_output=True, check=False)
        if done.returncode != 0:
            return files
        made = [copy.read_bytes() for copy in copies]
    return files | dict(zip(archives, made, strict=True))


def _files_in(folder: Path) -> Iterator[Path]:
    for file in sorted(folder.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file


def _required(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """The distributions that one requires, directly or not, without itself, added to ``found``."""
    try:
        requirements = distribution(name).requires or ()
    except PackageNotFoundError:  # of another system, such as colorama
        return found
    for requirement in requirements:
        wanted = re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")
        if wanted in found or wanted in _LEFT_OUT or "extra ==" in requirement:
            continue
        try:
            found[wanted] = distribution(wanted)
        except PackageNotFoundError:
            continue
        _required(wanted, found)
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ColltoolError(
            f"{path} cannot be read: {error.strerror}", argument="playground"
        ) from error
