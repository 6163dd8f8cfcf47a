"""The process as a whole: exit codes, closed pipes, bugs, encodings, help and completion."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import effort
import pytest
from swept import swept

import colltool
from colltool.commands.app import COMMANDS

COLLTOOL = (sys.executable, "-m", "colltool")
PRICE = ("price", "ar", "-f", "star512", "-M", "1MB")
HELPS = (
    (),
    *((name,) for name in COMMANDS),
    ("library", "list"),
    ("library", "show"),
    ("library", "check"),
    ("library", "init"),
    ("fabric", "list"),
    ("fabric", "show"),
    ("fabric", "check"),
    ("fabric", "schema"),
    ("job", "list"),
    ("job", "show"),
    ("job", "check"),
    ("job", "schema"),
    ("export", "nccl-tuner"),
    ("export", "astra-sim"),
    ("export", "goal"),
    ("export", "chakra"),
    ("export", "msccl"),
    ("export", "algorithm"),
)
GROUPS = ((), ("fabric",), ("job",), ("library",), ("export",))
WITH_FILES = (
    "contention",
    "calibrate",
    "validate",
    "doctor",
    "trace",
    "report",
    "mcp",
)  # their examples need files or a client: each has a test of its own
NOT_HERE = ("all_reduce.log", "mine.csv", "node_modules", "prices.json")
"""What other examples name and these tests do not have."""


# --- exit codes
# -----------------------------------------------------------------------------------------------------------


@swept(
    ("args", "code"),
    [
        (PRICE, 0),
        (("diff", "old.json", "old.json"), 0),
        (("--version",), 0),
        (("diff", "old.json", "new.json"), 1),
        (("ladder", "--check", "new.json"), 1),
        (("price", "ar", "-f", "zzz"), 2),
        (("price", "ar"), 2),
        (("bogus",), 2),
        ((), 2),
    ],
)
def test_exit_code(args: tuple[str, ...], code: int, run: Any, folder: Path) -> None:
    done = run(*args)
    assert done.code == code
    assert bool(done.out) == (code < 2)
    assert bool(done.err) == (code == 2)


def test_in_process_and_whole_process_say_the_same(run: Any, spawn: Any, folder: Path) -> None:
    """What the rest of this folder relies on."""
    for args in (
        PRICE,
        ("diff", "old.json", "new.json"),
        ("bogus",),
        (*PRICE, "--format", "json"),
        ("fabric", "check", "zzz"),
        ("price", "ar", "-f", "nvl72", "-n", "100"),
    ):
        assert spawn(*args) == run(*args)


def test_the_installed_script_is_the_module() -> None:
    from importlib.metadata import distribution

    (script,) = (
        entry for entry in distribution("colltool").entry_points if entry.group == "console_scripts"
    )
    assert (script.name, script.value) == ("colltool", "colltool.commands.app:main")


# --- streams that go away
# --------------------------------------------------------------------------------------------------


@pytest.mark.alike(3)
@pytest.mark.parametrize(
    "args",
    [
        PRICE,
        (*PRICE, "--format", "json"),
        ("ladder",),
        ("fabric", "schema"),
        ("--help",),
        ("price", "--help"),
        ("--version",),
    ],
    ids=" ".join,
)
def test_a_closed_pipe_is_no_error(args: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*COLLTOOL, *args], stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False
        )
    finally:
        os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 0


def test_head(folder: Path) -> None:
    line = f"{sys.executable} -m colltool ladder | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False
    )
    first, code = done.stdout.splitlines()
    assert first.startswith("In-network on star512 is the fastest for 6 of 7")
    assert code == "0"
    assert done.stderr == ""


def test_a_check_that_fails_still_fails_into_a_closed_pipe(folder: Path) -> None:
    line = f"{sys.executable} -m colltool diff old.json new.json | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.alike(3)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "args",
    [
        PRICE,
        (*PRICE, "-o", "/dev/full"),
        ("--help",),
        ("--version",),
        ("price", "-h"),
        ("fabric", "schema"),
        ("ladder",),
    ],
    ids=" ".join,
)
def test_a_full_disk_is_no_bug_of_ours(args: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COLLTOOL, *args], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert done.returncode == 2
    error, *cure = done.stderr.splitlines()
    assert error.startswith(b"error: ")
    assert b"No space left" in error
    assert len(cure) == 1


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_do_not_crash(closed: str) -> None:
    line = f"{sys.executable} -m colltool {' '.join(PRICE)} {closed}; echo $? >&3"
    reader, writer = os.pipe()
    done = subprocess.run(
        ["bash", "-c", line.replace(">&3", f">&{writer}")],
        capture_output=True,
        pass_fds=[writer],
        timeout=60,
        check=False,
    )
    os.close(writer)
    code = os.read(reader, 10)
    os.close(reader)
    assert b"Traceback" not in done.stderr
    assert code in (b"0\n", b"2\n")


# --- a bug of ours
# ----------------------------------------------------------------------------------------------------------

BROKEN = """
import sys
import colltool.commands.price
def broken(*args, **options):
    raise {error}
colltool.commands.price.price_list = broken
sys.argv = ["colltool", "price", "ar", "-f", "star512", "-M", "1MB"]
__file__ = "bin/colltool"  # as the console script
from colltool.commands.app import main
main()
"""


def broken(error: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "COLLTOOL_DEBUG"}
    return subprocess.run(
        [sys.executable, "-c", BROKEN.format(error=error)],
        capture_output=True,
        text=True,
        env=clean | env,
        timeout=60,
        check=False,
    )


@pytest.mark.alike(2)
@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("ZeroDivisionError('of our own')", "ZeroDivisionError: of our own"),
        ("RuntimeError('two\\nlines')", "RuntimeError: two"),
        ("StopIteration", "StopIteration"),
        ("KeyError('x')", "KeyError: 'x'"),
    ],
)
def test_a_bug_is_one_line_and_exit_70(error: str, said: str) -> None:
    done = broken(error)
    assert done.returncode == 70
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert said in line
    assert "bug" in line
    assert "COLLTOOL_DEBUG=1" in line


def test_a_bug_with_debug_shows_the_traceback_and_is_still_exit_70() -> None:
    done = broken("ZeroDivisionError('of our own')", COLLTOOL_DEBUG="1")
    assert done.stdout == ""
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-1] == "ZeroDivisionError: of our own"
    assert done.returncode == 70


def test_an_interrupt_is_neither_a_bug_nor_a_traceback() -> None:
    done = broken("KeyboardInterrupt")
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr
    assert done.returncode == 130


def test_an_interrupt_while_modules_load_is_silent() -> None:
    """From the first line of ours on; before it the interpreter itself is loading."""
    code = (
        "import sys, os, signal\nsys.argv = ['colltool', 'price', 'ar', '-f', 'star512']\n__file__"
        " = 'bin/colltool'\n"
        # these tests may run where it is ignored
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Finder:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name == {module!r}:\n            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from colltool.commands.app import main\nmain()"
    )
    for module in (
        "colltool.base.errors",
        "colltool.commands.root",
        "typer",
        "pydantic",
        "colltool.fabric.load",
        "colltool.estimate.price",
    ):
        done = subprocess.run(
            [sys.executable, "-c", code.format(module=module)],
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (130, b"", b""), module


def test_an_ignored_interrupt_stays_ignored() -> None:
    """As in the background of a shell without job control."""
    code = (
        "import sys, os, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nsys.argv ="
        " ['colltool', '--version']\n__file__ = 'bin/colltool'\nfrom colltool.commands.app import"
        " main\nos.kill(os.getpid(), signal.SIGINT)\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


HOST = """
import gc, signal, sys
before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
sys.argv = {argv!r}
from colltool.commands import app
try:
    app.main()
except SystemExit as left:
    print("left with", left.code)
print("returned", app.run(["price", "ar", "-f", "nowhere"]), app.run(["--version"]))
assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
assert gc.isenabled()
"""


@pytest.mark.alike(2)
@pytest.mark.parametrize(
    ("args", "code"),
    [(("--version",), 0), (("price", "ar"), 2), (("diff", "old.json", "new.json"), 1)],
)
def test_a_host_survives_the_command_line(args: tuple[str, ...], code: int, folder: Path) -> None:
    """A server, a notebook or a test that calls main() goes on, with its signals and its garbage
    collector as they were."""
    host = HOST.format(argv=["colltool", *args])
    done = subprocess.run(
        [sys.executable, "-c", host], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-3:] == [
        f"left with {code}",
        "colltool " + colltool.__version__,
        "returned 2 0",
    ]


OWN = """
import atexit, sys
__file__ = "bin/colltool"  # as the console script
sys.argv = {argv!r}
atexit.register(print, "at exit")
from colltool.commands.app import main
try:
    main()
finally:
    print("main is left")
"""


@pytest.mark.parametrize(
    ("args", "code"),
    [(("--version",), 0), (("price", "ar"), 2), (("diff", "old.json", "new.json"), 1)],
)
def test_even_its_own_process_is_left_and_not_ended(
    args: tuple[str, ...], code: int, folder: Path
) -> None:
    """Coverage, profilers and whatever else waits for the end of a process have their turn."""
    own = OWN.format(argv=["colltool", *args])
    done = subprocess.run(
        [sys.executable, "-c", own], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.splitlines()[-2:]) == (code, ["main is left", "at exit"])


def test_an_interrupt_leaves_too(folder: Path) -> None:
    """Also from within a command, past everything that catches errors there."""
    own = OWN.format(
        argv=["colltool", "price", "ar", "-f", "star512", "-M", "1MB", "-o", "out.json"]
    )
    kill = (
        "import os, signal, colltool.commands.price\n"
        "signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        "colltool.commands.price.price_list = lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", kill + own], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (143, "main is left\nat exit\n", "")
    assert not Path("out.json").exists()


def test_without_docstrings_explain_says_so() -> None:
    plain = subprocess.run(
        [sys.executable, "-OO", "-m", "colltool", "explain", "ring", "ar"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert plain.returncode == 0
    assert "PYTHONOPTIMIZE=2" in plain.stdout
    assert "source: Patarasuk" in plain.stdout


# --- encodings
# --------------------------------------------------------------------------------------------------------------

EXPLAIN = ("explain", "ring", "ar")


@pytest.mark.alike(2)
@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
    ids=str,
)
@pytest.mark.parametrize("form", ["table", "json"])
def test_another_encoding_does_not_crash(form: str, env: dict[str, str], spawn: Any) -> None:
    done = spawn(*EXPLAIN, "--format", form, env=env)
    assert (done.code, done.err) == (0, "")
    assert done.out == spawn(*EXPLAIN, "--format", form).out, (
        "machine and pipe output are UTF-8 everywhere"
    )


def test_errors_in_ascii(spawn: Any) -> None:
    done = spawn("price", "ar", "-f", "fäbric", env={"PYTHONIOENCODING": "ascii"})
    assert done.code == 2
    assert "no file and no shipped fabric" in done.err


NOT_UTF8 = os.fsdecode(b"\xff\x9b.yaml")


@swept(
    "args",
    [
        ("fabric", "check", NOT_UTF8),
        ("fabric", "check", NOT_UTF8, "--format", "json"),
        ("price", "ar", "-f", NOT_UTF8, "-M", "1MB"),
        ("price", "ar", "-f", f"{NOT_UTF8}x"),
        ("price", NOT_UTF8, "-f", "star512"),
        ("price", "ar", "-f", "star512", "-n", NOT_UTF8),
        ("price", "ar", "-f", "star512", "--set", NOT_UTF8),
        ("price", "ar", "-f", "star512", "--format", NOT_UTF8),
        ("price", "ar", "-f", "star512", "-M", "1MB", "-o", f"{NOT_UTF8}.json"),
        ("validate", NOT_UTF8, "-f", "star512"),
        ("diff", NOT_UTF8, "old.json"),
        ("ladder", NOT_UTF8),
        (NOT_UTF8,),
        (f"--{NOT_UTF8}",),
    ],
)
def test_names_that_are_not_utf8_do_not_crash(
    args: tuple[str, ...], run: Any, folder: Path
) -> None:
    from colltool.fabric.load import shipped_folder

    Path(NOT_UTF8).write_bytes((shipped_folder() / "star512.yaml").read_bytes())
    done = run(*args)
    assert done.code in (0, 2)
    for text in (done.out, done.err):
        assert text.replace("\n", "").isprintable()


def test_a_process_takes_names_that_are_not_utf8(run: Any, spawn: Any, folder: Path) -> None:
    for args in (("fabric", "check", NOT_UTF8), ("price", NOT_UTF8, "-f", "star512")):
        assert spawn(*args) == run(*args)


@pytest.mark.parametrize(
    "name", ["a\x1b[31mb", "a\x9bb", "a\u202eb", "a\nb", "a\rb", "a\x7fb", "a\u2028b"]
)
def test_control_characters_reach_no_terminal(name: str, run: Any, folder: Path) -> None:
    from colltool.fabric.load import shipped_folder

    Path(name).write_bytes((shipped_folder() / "star512.yaml").read_bytes())
    for args in (
        ("price", "ar", "-f", f"{name}x"),
        ("price", name, "-f", "star512"),
        ("price", "ar", "-f", "star512", "-M", name),
        ("price", "ar", "-f", "star512", "--placement", name),
        ("price", "ar", "-f", "star512", f"--{name}"),
        (name,),
        ("diff", name, "old.json"),
        ("price", "ar", "-f", "star512", "-M", "1MB", "-o", f"missing/{name}"),
    ):
        done = run(*args)
        assert (done.code, done.out) == (2, "")
        assert all(line.isprintable() for line in done.err.split("\n")), done.err
        assert len(done.err.splitlines()) <= 2


def test_a_written_file_is_utf8_everywhere(spawn: Any, folder: Path) -> None:
    spawn(*EXPLAIN, "-o", "out", env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})
    assert "α" in Path("out").read_text(encoding="utf-8")


@pytest.mark.alike(1)
@pytest.mark.parametrize(
    "env", [{"NO_COLOR": "1"}, {"FORCE_COLOR": "1"}, {"TERM": "dumb"}], ids=str
)
def test_a_pipe_ignores_the_terminal(env: dict[str, str], spawn: Any) -> None:
    done = spawn(*PRICE, env=env)
    assert done == spawn(*PRICE)
    assert "\x1b" not in done.out


# --- help
# --------------------------------------------------------------------------------------------------------------------


@swept("command", HELPS)
def test_help_fits_and_is_ascii(command: tuple[str, ...], run: Any) -> None:
    done = run(*command, "--help")
    assert done.code == 0
    assert done.out.isascii()
    described, _, _ = done.out.partition("Example")
    assert all(len(line) <= 80 for line in described.splitlines())
    assert not re.search(r"[a-z]\.\.\.$", described, re.MULTILINE), (
        "a description that is cut says nothing"
    )
    assert "[[" not in done.out


@swept("command", [command for command in HELPS if command not in GROUPS])
def test_help_ends_with_examples_that_name_the_command(command: tuple[str, ...], run: Any) -> None:
    examples = list(example_lines(run(*command, "--help").out))
    assert examples
    assert all(line.startswith(f"colltool {' '.join(command)}") for line in examples)


@pytest.mark.alike(8)
@pytest.mark.parametrize(
    "command",
    [one for one in HELPS if one not in GROUPS and one[0] not in WITH_FILES],
    ids=" ".join,
)
def test_the_examples_run(command: tuple[str, ...], run: Any, folder: Path) -> None:
    import shlex

    from colltool.fabric.load import shipped_folder

    for name in ("my-cluster.yaml", "other.yaml"):
        Path(name).write_text((shipped_folder() / "nvl72.yaml").read_text())
    from colltool.training.files.presets import preset_folder as shipped_workloads

    job = (shipped_workloads("jobs") / "llama3-70b.yaml").read_text()
    import json

    from msccl_texts import all_reduce_ring
    from small import HF_LLAMA

    from tests.logs.test_chakra_traces import STEP
    from tests.logs.test_chakra_traces import write as chakra_file

    Path("step").mkdir()
    Path("config.json").write_text(json.dumps(HF_LLAMA))
    Path("mine.toml").write_text(run("library", "init").out)
    Path("my.xml").write_text(all_reduce_ring(8))
    Path("my-gemms.csv").write_text("M,N,K,dtype,us\n8192,8192,8192,bf16,1700\n")
    # computes on what the cluster has
    Path("my-job.yaml").write_text(job.replace("device: h100\n", ""))
    Path("my-ladder.yaml").write_text((shipped_folder() / "ladders" / "n512.yaml").read_text())
    Path("ladder.json").write_text(Path("old.json").read_text())
    chakra_file(Path("step") / "step.0.et", *STEP)
    lines = list(example_lines(run(*command, "--help").out))
    for line in lines if effort.thorough else lines[:1]:
        if any(name in line for name in NOT_HERE):
            continue
        done = run(*shlex.split(line)[1:])
        assert done.err == "" or done.err.startswith("note: ")
        assert done.code == (
            1
            if command == ("diff",) and "--rtol" not in line
            else done.code
            if command == ("diff",)
            else 0
        )


def example_lines(text: str) -> Iterator[str]:
    _, found, examples = text.partition("Example")
    assert found, "no Examples section"
    yield from (line.strip() for line in examples.splitlines()[1:] if line.strip())


# --- completion
# --------------------------------------------------------------------------------------------------------------


def test_completion_callbacks() -> None:
    from colltool.commands.completion import complete_fabric, complete_primitive
    from colltool.fabric.load import shipped_fabrics

    assert complete_fabric("") == shipped_fabrics()
    assert complete_fabric("nvl") == ["nvl72"]
    assert complete_fabric("zzz") == []
    assert complete_primitive("all-") == ["all-reduce", "all-gather", "all-to-all"]
    assert {"ar", "ag", "rs", "a2a", "bc", "reduce", "p2p"} <= set(complete_primitive(""))


TRTLLM = ("1.0.0", "1.2.0rc5", "1.3.0rc10", "1.3.0rc20")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("colltool pr", {"price"}),
        ("colltool price all-t", {"all-to-all"}),
        ("colltool price ar -f nvl", {"nvl72"}),
        (
            "colltool price ar --algorithm rab",
            {"rabenseifner", "rabenseifner-fold", "rabenseifner-padded"},
        ),
        ("colltool explain doub", {"double-binary-tree"}),
        ("colltool price ar --format c", {"csv"}),
        ("colltool price ar --placement s", {"scattered"}),
        ("colltool price p2p --algorithm ", {"send", "cross-rail"}),
        ("colltool price a2a --algorithm b", {"bruck"}),
        (
            "colltool price ar --algorithm ring,rab",
            {"ring,rabenseifner", "ring,rabenseifner-fold", "ring,rabenseifner-padded"},
        ),
        ("colltool price ar -f nvl72 --set ib.levels.leaf.a", {"ib.levels.leaf.alpha="}),
        ("colltool price ar -f nvl72 -n 7", {"72"}),
        ("colltool price ar -n many -f nvl", {"nvl72"}),
        ("colltool verify --segments x ar --format c", {"csv"}),
        ("colltool price ar -n x", {"x"}),
        ("colltool fabric sh", {"show"}),
        ("colltool fabric show nvl", {"nvl72"}),
        # engines, with versions once the name is typed
        (
            "colltool serve llama3-70b --engine t",
            {"trtllm", *(f"trtllm@{version}" for version in TRTLLM)},
        ),
        ("colltool serve llama3-70b --engine vllm@0.24", {"vllm@0.24.0"}),
        ("colltool serve llama3-70b --experts-library dee", {"deepep", "deepep@1", "deepep@2"}),
        ("colltool serve llama3-70b --kv m", {"mooncake", "mori-io"}),
        ("colltool serve llama3-70b --weights mx", {"mxfp4"}),
        ("colltool price ar --library ncc", {"nccl", "nccl-ep", "nccl-window"}),
        ("colltool price ar --library sglang@0.5.14", {"sglang@0.5.14"}),
        ("colltool library show pp", {"pplx", "pplx@1"}),
        ("colltool library check pp", {"pplx", "pplx@1"}),
        # jobs, and models that are drafted as jobs
        ("colltool plan llama3", {"llama3-70b", "llama3-405b", "llama3-8b"}),
        ("colltool serve gpt3", {"gpt3-175b"}),
        ("colltool job init llama3-8", {"llama3-8b"}),
        # NCCL's own names, in the case that was typed
        ("colltool price ar -a NV", {"NVLS", "NVLSTree"}),
        ("colltool price ar -a nv", {"nvls", "nvlstree"}),
        ("colltool price ag -a PA", {"PAT"}),
        ("colltool price bc -a NV", set()),
        # keys of a fabric and of a job
        ("colltool price ar -f nvl72:ra", {"nvl72:racks="}),
        (
            "colltool price ar -f nvl72:racks=4,ib.levels.leaf.a",
            {"nvl72:racks=4,ib.levels.leaf.alpha="},
        ),
        ("colltool price ar -f nosuch:ra", set()),
        ("colltool plan llama3-70b --job-set layout.t", {"layout.tp="}),
        ("colltool job show llama3-70b --set batch.", {"batch.global=", "batch.micro="}),
    ],
)
def test_bash_completion(
    words: str, offered: set[str], run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {
        "_COLLTOOL_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    done = run()
    assert done.err == ""
    assert set(done.out.split()) == offered


def test_a_shell_completes_as_this_process_does() -> None:
    done = completing(
        {
            "_COLLTOOL_COMPLETE": "complete_bash",
            "COMP_WORDS": "colltool price ar -f nvl",
            "COMP_CWORD": "4",
        }
    )
    assert (done.stdout.split(), done.stderr) == (["nvl72"], "")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("colltool price ar -f dgx-h100 : no", "nodes="),
        ("colltool price ar -f nvl72 : racks = 4,ib.levels.leaf.a", "4,ib.levels.leaf.alpha="),
        ("colltool price ar -f nvl72 : racks = 4 -a NVLST", "NVLSTree"),
    ],
)
def test_words_that_bash_breaks(words: str, offered: str) -> None:
    """Bash takes ``:`` and ``=`` for words of their own, and completes what follows them."""
    typed = words.split()
    done = completing(
        {
            "_COLLTOOL_COMPLETE": "complete_bash",
            "COMP_WORDS": "\n".join(typed),
            "COMP_CWORD": str(len(typed) - 1),
        }
    )
    assert (done.stdout.split(), done.stderr) == ([offered], "")


def test_completion_after_an_unknown_command_is_quiet() -> None:
    done = completing(
        {"_COLLTOOL_COMPLETE": "complete_bash", "COMP_WORDS": "colltool bogus x", "COMP_CWORD": "2"}
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script(shell: str) -> None:
    done = completing({"_COLLTOOL_COMPLETE": f"source_{shell}"})
    assert done.returncode == 0
    assert re.search(r"complete .*colltool|compdef .*colltool", done.stdout)


def completing(env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """As a shell calls it: by the name of the script, which names the variable."""
    code = "import sys; sys.argv = ['colltool']; from colltool.commands.app import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | env,
        timeout=60,
        check=False,
    )
