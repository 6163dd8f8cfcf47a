"""What is shipped: a wheel with the fabrics in it and nothing that is ours alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import colltool

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    pytest.importorskip("hatchling", reason="the build backend; pip install -e '.[dev]'")
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        str(ROOT),
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        str(folder),
    ]
    done = subprocess.run(
        [*build, "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    (file,) = folder.glob("*.whl")
    return zipfile.ZipFile(file)


def test_ci_has_the_build_backend() -> None:
    """So that the tests below are skipped nowhere that matters."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert any(
        requirement.startswith("hatchling")
        for requirement in project["optional-dependencies"]["dev"]
    )


@pytest.mark.ci
def test_every_fabric_and_ladder_travels(wheel: zipfile.ZipFile) -> None:
    shipped = {path.relative_to(ROOT / "fabrics") for path in (ROOT / "fabrics").rglob("*.yaml")}
    inside = [name for name in wheel.namelist() if re.match(r"colltool/_fabrics/.*\.yaml$", name)]
    packed = {Path(name).relative_to("colltool/_fabrics") for name in inside}
    assert packed == shipped
    assert Path("ladders/n512.yaml") in packed
    assert "colltool/_fabrics/fabric.schema.json" in wheel.namelist()


@pytest.mark.ci
def test_every_module_travels_and_it_is_typed(wheel: zipfile.ZipFile) -> None:
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "colltool").rglob("*.py")}
    assert modules <= set(wheel.namelist())
    assert "colltool/py.typed" in wheel.namelist()


@pytest.mark.ci
def test_every_job_model_device_and_stack_travels(wheel: zipfile.ZipFile) -> None:
    data = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "colltool" / "training" / "data").rglob("*.yaml")
    }
    assert {path.split("/")[3] for path in data} == {"jobs", "models", "devices", "stacks"}
    assert data <= set(wheel.namelist())


@pytest.mark.ci
def test_every_guide_travels(wheel: zipfile.ZipFile) -> None:
    guides = {str(path.relative_to(ROOT)) for path in (ROOT / "colltool" / "guides").glob("*.md")}
    assert guides
    assert guides <= set(wheel.namelist())


@pytest.mark.ci
def test_nothing_else_travels(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {"colltool", f"colltool-{colltool.__version__}.dist-info"}
    assert not [
        name for name in wheel.namelist() if re.search(r"(^|/)(tests/|test_)|\.(pyc|orig)$", name)
    ]


@pytest.mark.ci
def test_the_metadata(wheel: zipfile.ZipFile) -> None:
    metadata = wheel.read(f"colltool-{colltool.__version__}.dist-info/METADATA").decode()
    lines = re.findall(r"^Requires-Dist: ([a-z]+)(.*)$", metadata, re.MULTILINE)
    required = {name for name, rest in lines if "extra ==" not in rest}
    assert required == {"typer", "rich", "pyyaml", "numpy", "pydantic"}


@pytest.mark.ci
@pytest.mark.ci
def test_the_wheel_finds_its_fabrics(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    code = (
        "import colltool.fabric.load as l; print(l.__file__); print(l.shipped_folder());"
        " print(*l.shipped_fabrics())"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        timeout=60,
        check=True,
    )
    module, folder, names = done.stdout.splitlines()
    assert module.startswith(str(tmp_path))
    assert folder == str(tmp_path / "site" / "colltool" / "_fabrics")
    assert names.split() == sorted(path.stem for path in (ROOT / "fabrics").glob("*.yaml"))
    ladder = [sys.executable, "-m", "colltool", "ladder", "--format", "csv"]
    subprocess.run(
        ladder, capture_output=True, env=environment, cwd=tmp_path, timeout=60, check=True
    )


def test_the_changelog_has_an_entry_for_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    match = re.search(
        rf"^## \[?{re.escape(colltool.__version__)}\b[^\n]*\n(.*?)(?=^## |\Z)",
        changelog,
        re.MULTILINE | re.DOTALL,
    )
    assert match, "no heading"
    assert match[1].strip(), "an empty entry"
    newest = re.search(r"^## \[([^\]]+)\]", changelog, re.MULTILINE)
    assert newest, "no entry"
    assert newest[1] == colltool.__version__, "the version follows the newest entry"


def test_what_tools_leave_behind_is_ignored() -> None:
    ignored = set((ROOT / ".gitignore").read_text(encoding="utf-8").split())
    assert {"__pycache__/", "dist/", "build/", "*.egg-info/", ".venv*/"} <= ignored
    assert {".hypothesis/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/"} <= ignored
