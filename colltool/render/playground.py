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
_NOT_PACKED = ("numpy", "pydantic-core", "pygments")
_CORE = "pydantic-core"


def playground(pyodide: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the path (with ``/``) within the site and the content of each file; ColltoolError where a file of
    Pyodide or the wheel is missing.

    Args:
        pyodide: a folder with the files of Pyodide's npm package and a wheel of pydantic_core.
    """
    # first, so that a folder that lacks something is found before anything is written
    core = _core_wheel(pyodide)
    yield "playground/index.html", _page_file("index.html")
    files = {f"playground/pyodide/{part}": _read(pyodide / part) for part in _PYODIDE}
    files["playground/colltool.zip"] = _packages()
    yield from _with_compiled_archives(files, pyodide).items()
    yield "playground/pydantic_core.whl", _read(core)
    for part in ("playground.css", "playground.js", "worker.mjs"):
        yield f"playground/{part}", _page_file(part)


def _page_file(name: str) -> bytes:
    """A file of the page, with the version and the Python that writes it filled in."""
    text = _read(_PAGE / name).decode().replace("VERSION", __version__)
    return text.replace("WRITTEN_BY", "{}.{}".format(*sys.version_info)).encode()


def _core_wheel(pyodide: Path) -> Path:
    """The path of the wheel of pydantic's core, of the version installed here, for this Pyodide; ColltoolError
    where it, or a file of Pyodide, is missing."""
    missing = [part for part in _PYODIDE if not (pyodide / part).is_file()]
    if missing:
        raise ColltoolError(
            f"{pyodide} has no {missing[0]}",
            argument="playground",
            fix="npm install pyodide, and name node_modules/pyodide",
        )
    pyodide_info = json.loads(_read(pyodide / "pyodide-lock.json"))["info"]
    python = "cp" + "".join(pyodide_info["python"].split(".")[:2])
    platform = f"pyemscripten_{pyodide_info['abi_version']}_{pyodide_info['arch']}"
    version = distribution(_CORE).version
    wheel = pyodide / f"pydantic_core-{version}-{python}-{python}-{platform}.whl"
    if not wheel.is_file():
        platform_options = f"--platform {platform} --python-version {python[2:]} --abi {python}"
        raise ColltoolError(
            f"{pyodide} has no {wheel.name}",
            argument="playground",
            fix=f"pip download --no-deps --only-binary :all: {platform_options} -d {pyodide}"
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
        # in a checkout they are beside the package
        if not fabrics.is_relative_to(_PACKAGE):
            for file in _files_in(fabrics):
                path = Path("colltool", "_fabrics") / file.relative_to(fabrics)
                archive.write(file, path)
        distributions: dict[str, Distribution] = {}
        _add_required("colltool", distributions)
        for package in distributions.values():
            for part in package.files or ():
                # scripts are installed outside, by a path with ".."
                if part.suffix == ".py" and ".." not in part.parts:
                    archive.write(str(package.locate_file(part)), part)
    return packed.getvalue()


def _with_compiled_archives(files: dict[str, bytes], pyodide: Path) -> dict[str, bytes]:
    """The files with the modules in their zip archives compiled, so that a page answers sooner; as they are
    where there is no Node, or one that does not run Pyodide."""
    node = shutil.which("node")
    if node is None:
        return files
    archives = [path for path in files if path.endswith(".zip")]
    with tempfile.TemporaryDirectory() as folder:
        copies = [Path(folder, path.rpartition("/")[2]) for path in archives]
        for path, copy in zip(archives, copies, strict=True):
            copy.write_bytes(files[path])
        command: list[str | Path] = [node, _PAGE / "compile.mjs", pyodide.resolve() / "pyodide.mjs"]
        # it compiles the copies in place
        process = subprocess.run([*command, *copies], capture_output=True, check=False)
        if process.returncode != 0:
            return files
        compiled = [copy.read_bytes() for copy in copies]
    return files | dict(zip(archives, compiled, strict=True))


def _files_in(folder: Path) -> Iterator[Path]:
    """All files below a folder, sorted, without caches of Python."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file


def _add_required(name: str, distributions: dict[str, Distribution]) -> None:
    """Add the distributions that one requires, directly or not, by their names; not those of extras,
    nor those that are not installed because they are for another system, such as colorama."""
    for requirement in distribution(name).requires or ():
        # "pydantic" of "pydantic>=2.11; python_version < '4'"
        required = re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")
        if required in distributions or required in _NOT_PACKED or "extra ==" in requirement:
            continue
        try:
            distributions[required] = distribution(required)
        except PackageNotFoundError:
            continue
        _add_required(required, distributions)


def _read(path: Path) -> bytes:
    """The content of a file; ColltoolError where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ColltoolError(
            f"{path} cannot be read: {error.strerror}", argument="playground"
        ) from error
