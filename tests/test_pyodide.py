"""In a browser's Python: colltool is imported and prices under Pyodide, in Node, as it does here.

npm and pip fetch Pyodide and pydantic's wheel for it once; where one of them cannot, the test says
so. numpy is on Pyodide's own servers alone, and is not given here: prices of tiers that formulas
cover do without it, while routed tiers, schedules that are executed and contention need it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from pyodide_folder import fetched

import colltool

ASKED = [
    ("nvl72", "ar"),
    ("dgx-h100", "a2a"),
    ("tpu-v6e", "ag"),
    ("clos-4to1", "rs"),
    ("kd-mesh", "bc"),
]

PROGRAM = f"""
import sys
sys.path += ["/checkout", "/packages"]
import json
import colltool
found = [colltool.price(fabric, primitive, size="16MB") for fabric, primitive in {ASKED}]
try:
    colltool.price("no-such-fabric", "ar")
except colltool.ColltoolError as error:
    refused = str(error)
answer = {{"python": sys.platform, "seconds": [float(one.best.total_s) for one in found], "refused": refused}}
json.dumps(answer)
"""

SCRIPT = """
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
const [pyodide, core, packages, checkout, program] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(pyodide));
const python = await loadPyodide();
python.unpackArchive(new Uint8Array(readFileSync(core)), "whl");
python.mountNodeFS("/packages", packages);
python.mountNodeFS("/checkout", checkout);
console.log(python.runPython(program));
"""


@pytest.mark.thorough
def test_it_is_imported_and_prices_as_here(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("there is no node")
    folder = fetched(pytestconfig)
    module, core = folder / "pyodide.mjs", next(folder.glob("pydantic_core-*.whl"))
    script = tmp_path / "run.mjs"
    script.write_text(SCRIPT)
    places = [
        str(one)
        for one in (
            module,
            core,
            sysconfig.get_path("purelib"),
            Path(colltool.__file__).parent.parent,
        )
    ]
    done = subprocess.run(
        ["node", str(script), *places, PROGRAM], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert answer["python"] == "emscripten"
    here = [float(colltool.price(*one, size="16MB").best.total_s) for one in ASKED]
    # whose logarithms may end in another digit
    assert answer["seconds"] == pytest.approx(here, rel=1e-12)
    with pytest.raises(colltool.ColltoolError) as refused:
        colltool.price("no-such-fabric", "ar")
    assert answer["refused"] == str(refused.value)
