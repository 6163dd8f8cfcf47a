"""The page that runs colltool: in a real browser it prints what the command line prints, to the last
digit; it loads nothing from elsewhere and fits a phone."""

from __future__ import annotations

import json
import re
import shutil
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from pyodide_folder import fetched

from colltool.commands.in_page import answer
from colltool.fabric.load import load_fabric
from colltool.fabric.shipped import shipped_fabrics
from colltool.fabric.topology import routed
from colltool.render import playground
from colltool.render.playground import _PYODIDE
from tests.commands.conftest import run

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]\d+)?")
LOGS = sorted((Path(__file__).parent / "logs" / "logs").iterdir())
FIRST = "price ar -f dgx-h100 -n 16 -M 16MB --format json"
REFUSED = ("price ar -f frontier -M 1MB", "sweep ar -f nvl72 -M 1KB,1MB")
# asks for each in turn, and keeps what the page shows
ASK_ALL = """lines => {
    window.shown = [];
    const next = () => {
        const line = lines[window.shown.length];
        if (line === undefined) return;
        addEventListener("answered", () => {
            const [out, err, code] = ["out", "err", "code"].map(id => at(id).textContent);
            window.shown.push({ line, out, err, code });
            next();
        }, { once: true });
        ask(line);
    };
    next();
}"""


def followed_link_by_link(name: str) -> bool:
    fabric = load_fabric(name)
    return bool(routed(fabric.tiers)) or bool(fabric.domains)


def questions() -> Iterator[str]:
    """Four for every shipped fabric that the page prices, and some of every other kind."""
    for name in shipped_fabrics():
        if followed_link_by_link(name):
            continue
        yield f"price ar -f {name} -M 16MB --format json"
        yield f"crossover ag -f {name} --format json"
        yield f"breakdown a2a -f {name} -M 1MB --format json"
        yield f"expect -f {name} --test all_reduce -b 1M -e 64M --format json"
    yield from (
        "compare ar -f dgx-h100 -f dgx-b200 -f mi300x-cluster -n 16 -M 16MB --format json",
        "compare a2a -f nvl72 -f gb300-nvl72 -M 1KB,16MB,1GB --format json",
        "compare rs -f dgx-a100 --vary ib.bandwidth=25GB/s,50GB/s -n 64 -M 1MB --format json",
        "crossover ar -f hgx-h200 -n 64 --format json",
        "price ar -f dgx-h100 -n 32 -M 8,1KB,1MB,1GB --all",
        "price ar -f dgx-h100 -n 32 -M 8,1KB,1MB,1GB --format csv",
        "price ar -f nvl72",
        "breakdown ar -f dgx-h100:nodes=64 -n 512 -M 1GB",
        "expect -f hgx-h200 -n 16 --test all_reduce --against nccl.log",
        "doctor nccl.log --format json",
        "doctor nccl.log -f dgx-h100",
        "doctor nccl_old.log -f dgx-h100 --format json",
        "doctor rccl_in_place_only.log -f mi300x --format json",
        "doctor osu.log -n 16 -f mpi-cluster --format json",
        "doctor no-such.log",
        "explain ring",
        "explain ring -f nvl72 -M 16MB",
        "fabric show mi300x",
        "price ar -f no-such-fabric",
        "price 'ar",
        "nonsense",
        "",
        "guide model",
        "price -h",
    )


@pytest.fixture(scope="module")
def address(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the site is served, by nothing but a static server."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    pyodide = fetched(pytestconfig)
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        # its other pages take half a minute
        patch.setattr("colltool.render.site.scoreboard_page", str)
        patch.setattr("colltool.fabric.load.shipped_fabrics", lambda: [])
        done = run("guide", "--html", str(folder), "--playground", str(pyodide))
    assert done.code == 0, done.err
    assert 'href="playground/index.html"' in (folder / "index.html").read_text()
    assert 'href="../playground/index.html"' in (folder / "guides" / "model.html").read_text()
    for packed in ("colltool.zip", "pyodide/python_stdlib.zip"):
        names = zipfile.ZipFile(folder / "playground" / packed).namelist()
        assert {name[-4:] for name in names if ".py" in name} == {".pyc"}

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/playground/"
    server.shutdown()


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = started.chromium.launch(executable_path=CHROMIUM, args=options)
        page = browser.new_page(viewport={"width": 390, "height": 800})
        page.set_default_timeout(90_000)
        page.said = []
        page.asked = []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        yield page
        browser.close()


def alike(there: str, here: str) -> bool:
    """Equal, but for the last bit of a double: the browser's exp rounds the other way once in some
    thousand numbers, as C libraries with and without fused multiply-add do."""
    numbers = [[float(text) for text in NUMBER.findall(out)] for out in (there, here)]
    rests = [NUMBER.sub("", out) for out in (there, here)]
    return rests[0] == rests[1] and numbers[0] == pytest.approx(numbers[1], rel=3e-16, abs=0)


def it_is_read_without_a_script(page: Any, address: str) -> None:
    size = {"width": 1280, "height": 800}
    context = page.context.browser.new_context(java_script_enabled=False, viewport=size)
    still = context.new_page()
    still.goto(address)
    assert "Answers need JavaScript" in still.inner_text("main")
    assert "price ar -f dgx-h100" in still.inner_text("#examples")
    context.close()


@pytest.mark.thorough
def test_it_answers_as_the_command_line(
    page: Any, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One test, as the page takes seconds to load."""
    it_is_read_without_a_script(page, address)
    page.goto(f"{address}#q={FIRST.replace(' ', '+')}")
    page.wait_for_selector("#answer:not([hidden])")
    assert page.input_value("#line") == FIRST
    assert page.inner_text("#out") == json.loads(answer(FIRST))["out"]
    page.set_input_files("#files", [str(log) for log in LOGS])
    page.set_input_files("#files", [str(LOGS[0])])  # one alone is looked at
    page.wait_for_function("at('line').value.startsWith('doctor')")
    lines = list(questions())
    assert len(lines) >= 200
    page.evaluate(ASK_ALL, [*lines, *REFUSED])
    # meanwhile, here
    monkeypatch.chdir(tmp_path)
    for log in LOGS:
        shutil.copy(log, tmp_path)
    expected = [json.loads(answer(line)) for line in lines]
    count = len(lines) + len(REFUSED)
    page.wait_for_function("count => window.shown.length === count", arg=count)
    answers = page.evaluate("window.shown")
    for line, here, there in zip(lines, expected, answers, strict=False):
        assert there["line"] == line
        assert alike(there["out"], here["out"]), line
        assert there["err"] == here["err"], line
        assert there["code"] == f"exit code {here['code']}", line
    for line, there in zip(REFUSED, answers[len(lines) :], strict=True):
        said = (
            f"error: needs numpy, which this page does without\n  in a terminal: colltool {line}\n"
        )
        assert there == {"line": line, "out": "", "err": said, "code": "exit code 2"}
    assert page.said == []
    assert all(url.startswith(address.removesuffix("playground/")) for url in page.asked)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_without_node_modules_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"playground/colltool.zip": b"zip"}
    for program in (None, shutil.which("false")):
        monkeypatch.setattr(playground.shutil, "which", lambda _, found=program: found)
        assert playground._with_compiled_archives(files, Path("pyodide")) == files


def test_a_folder_without_pyodide_says_what_makes_it_one(tmp_path: Path) -> None:
    done = run("guide", "--html", str(tmp_path / "site"), "--playground", str(tmp_path))
    assert done.code == 2
    assert done.err.startswith(f"error: --playground: {tmp_path} has no pyodide.mjs\n  npm install")
    for name in _PYODIDE:
        (tmp_path / name).write_text(
            '{"info": {"python": "3.14.2", "abi_version": "2026_0", "arch": "wasm32"}}'
        )
    done = run("guide", "--html", str(tmp_path / "site"), "--playground", str(tmp_path))
    wanted = f"pydantic-core=={version('pydantic-core')}"
    platform = "--platform pyemscripten_2026_0_wasm32 --python-version 314 --abi cp314"
    assert done.code == 2
    assert (
        f"pip download --no-deps --only-binary :all: {platform} -d {tmp_path} {wanted}" in done.err
    )
    assert not (tmp_path / "site").exists()
    done = run("guide", "--playground", str(tmp_path))
    assert done.code == 2
    assert "--html" in done.err
