"""What other repositories take from this one: the GitHub action's steps and the pre-commit hooks,
run as they are written."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / ".github" / "action.yml").read_text(encoding="utf-8"))
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
LADDER = """\
schema: colltool.ladder-file/1
name: ours
size: 16MB
rungs:
  - {primitive: ar, fabric: star512}
"""


def step(name: str) -> dict[str, Any]:
    return next(one for one in ACTION["runs"]["steps"] if one["name"] == name)


def ran(name: str, folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """A step's command by bash as GitHub's runners start it, with what it is given."""
    given = {key: one["default"] for key, one in ACTION["inputs"].items()} | inputs
    own = {
        key: given[text.removeprefix("${{ inputs.").removesuffix(" }}")]
        for key, text in step(name).get("env", {}).items()
    }
    where = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
    }
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step(name)["run"]]
    return subprocess.run(
        shell,
        cwd=folder,
        env={**os.environ, **where, **own},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_input_is_taken_by_a_step() -> None:
    taken = {text for one in ACTION["runs"]["steps"] for text in one.get("env", {}).values()}
    assert taken == {f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"]}
    assert all("${{" not in one["run"] for one in ACTION["runs"]["steps"]), (
        "an input in a command line would be run by the shell"
    )
    assert step("install")["run"].endswith('"$GITHUB_ACTION_PATH/.."'), (
        "of the checkout that the action came with"
    )


def test_it_checks_files_and_fails_with_a_bad_one(tmp_path: Path) -> None:
    good = (ROOT / "fabrics" / "star512.yaml").read_text(encoding="utf-8")
    (tmp_path / "good.yaml").write_text(good, encoding="utf-8")
    assert ran("check", tmp_path, fabrics="*.yaml").returncode == 0
    (tmp_path / "bad.yaml").write_text(good.replace("bandwidth", "bandwith"), encoding="utf-8")
    done = ran("check", tmp_path, fabrics="*.yaml")
    assert done.returncode == 2
    assert "bad.yaml:" in done.stderr


def test_it_compares_prices_and_fails_where_one_moved(tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text(LADDER, encoding="utf-8")
    colltool = Path(sys.executable).parent / "colltool"
    subprocess.run(
        [colltool, "ladder", "ours.yaml", "--format", "json", "-o", "kept.json"],
        cwd=tmp_path,
        check=True,
    )
    done = ran("compare", tmp_path, ladder="ours.yaml", kept="kept.json")
    assert done.returncode == 0, done.stderr
    (tmp_path / "ours.yaml").write_text(LADDER.replace("16MB", "32MB"), encoding="utf-8")
    done = ran("compare", tmp_path, ladder="ours.yaml", kept="kept.json")
    assert done.returncode == 1
    assert (tmp_path / "summary.md").read_text(encoding="utf-8")


@pytest.mark.ci
@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: str(hook["id"]))
def test_a_hook_checks_what_it_is_given(hook: dict[str, Any], tmp_path: Path) -> None:
    kind = "fabric" if "fabric" in hook["id"] else "job"
    command, *more = shlex.split(hook["entry"])
    name = {"fabric": "nvl72", "job": "llama3-70b"}[kind]
    program = [str(Path(sys.executable).parent / command), *more]
    assert subprocess.run([*program, name], capture_output=True, check=False).returncode == 0
    broken = tmp_path / "broken.yaml"
    broken.write_text(f"schema: colltool.{kind}/1\nname: 1\n", encoding="utf-8")
    assert subprocess.run([*program, str(broken)], capture_output=True, check=False).returncode == 2


def test_our_own_workflow_runs_both() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))[
        "jobs"
    ]
    steps = [one for job in jobs.values() for one in job["steps"]]
    assert {".ci/run"} <= {one.get("run") for one in steps}
    assert {"./.github"} <= {one.get("uses") for one in steps}
