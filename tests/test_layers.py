"""The house by its imports: every module builds on lower floors only, heavy packages stay in their
rooms, nothing is too long."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from small import TOPOLOGIES
from swept import swept

import colltool

PACKAGE = Path(colltool.__file__).parent
MOST_BY_POSITION = 6

FLOORS = {
    "colltool": 0,  # the version; its public functions load on first use
    "colltool.base": 0,
    "colltool.guides": 0,
    "colltool.network": 1,
    "colltool.definitions": 1,
    "colltool.libraries": 1,
    "colltool.algorithms": 2,
    "colltool.machines": 2,
    "colltool.libraries.nccl": 3,
    "colltool.fabric": 3,
    "colltool.custom": 3,
    "colltool.estimate": 4,
    "colltool.congestion": 4,
    "colltool.verification": 5,
    "colltool.analysis": 5,
    "colltool.logs": 5,
    "colltool.calibration": 6,
    "colltool.training": 5,
    "colltool.diagnosis": 7,
    "colltool.engines": 6,
    "colltool.serving": 7,
    "colltool.render": 8,
    "colltool.commands": 9,
    "colltool.cli": 10,  # an old name
    "colltool.__main__": 9,
    # above all: the core imports none of them, it loads them by name (colltool.base.extras)
    "colltool.extras": 10,
}
# package -> where it may be imported at all
ROOMS = {
    "typer": ("colltool.commands",),
    "rich": ("colltool.render", "colltool.commands"),
    "yaml": (
        "colltool.definitions.yaml_text",
        "colltool.fabric.templates",
        "colltool.fabric.yaml_writer",
    ),
    "pydantic": (
        "colltool.render.schemas",
        "colltool.definitions",
        "colltool.fabric",
        "colltool.congestion.layout_file",
        "colltool.training.files",
        "colltool.engines.files",
        "colltool.custom.file",
        "colltool.machines.machine_file",
    ),
    "pydantic_core": ("colltool.definitions",),
    "matplotlib": ("colltool.extras.pictures.plot",),
    "markdown_it": ("colltool.render.site",),
    "mcp": ("colltool.commands.mcp",),
    "mcp_types": ("colltool.commands.mcp",),
    "anyio": ("colltool.commands.mcp",),
    "click": (),
}


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of a name and its attributes, without what is called or indexed before them."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
every_module = swept("module", MODULES)


@cache
def trees() -> dict[str, ast.Module]:
    """Parsed by the worker that reads them."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


@cache
def nodes(module: str) -> list[ast.AST]:
    """All of its tree: walked once for all that ask."""
    return list(ast.walk(trees()[module]))


@cache
def import_dumps(module: str) -> list[tuple[str, bool]]:
    return list(imports(trees()[module]))


def floor(module: str) -> int:
    """The floor of a module: its own, or that of the nearest package around it that has one."""
    if module == "colltool":
        return FLOORS[module]
    parts = module.split(".")
    for end in range(len(parts), 1, -1):
        if (known := FLOORS.get(".".join(parts[:end]))) is not None:
            return known
    raise AssertionError(f"{module} stands on no floor: give it one in FLOORS")


def is_type_checking(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


def imports(node: ast.AST, inside: bool = False) -> Iterator[tuple[str, bool]]:
    """Every imported module, and whether the import is inside a function; those for type checking
    alone left out."""
    for child in ast.iter_child_nodes(node):
        if is_type_checking(child):
            for other in child.orelse:  # type: ignore[attr-defined]
                yield from imports(ast.Module([other], []), inside)
        elif isinstance(child, ast.Import):
            yield from ((alias.name, inside) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "relative imports hide the floor"
            names = (f"{child.module}.{alias.name}" for alias in child.names)
            yield from ((name if name in MODULES else str(child.module), inside) for name in names)
        else:
            yield from imports(
                child,
                inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda),
            )


def test_the_reader_of_imports_reads_them() -> None:
    tree = ast.parse(
        "import a\nif TYPE_CHECKING:\n    import b\nelse:\n    import e\ndef f():\n    from c"
        " import d\n"
    )
    assert list(imports(tree)) == [("a", False), ("e", False), ("c", True)]


@every_module
def test_imports_only_from_its_own_or_lower_floors(module: str) -> None:
    above = {
        name
        for name, inside in import_dumps(module)
        if (name == "colltool" or name.startswith("colltool."))
        and floor(name) > floor(module)
        and not (module == "colltool" and inside)  # the front door opens on first use
    }
    assert not above, f"{module} on floor {floor(module)} imports from above: {sorted(above)}"


def room_of(module: str) -> str:
    """The package right below colltool that holds the module; nothing for the front door."""
    room = ".".join(module.split(".")[:2])
    return room if room in ROOMS_OF_THE_HOUSE else ""


ROOMS_OF_THE_HOUSE = {
    name for name, path in MODULES.items() if path.name == "__init__.py" and name.count(".") == 1
}


def arrows(imported_by: Mapping[str, Iterable[tuple[str, bool]]]) -> dict[str, set[str]]:
    """The rooms that each room imports from, at the top of a module or in a body."""
    found = defaultdict[str, set[str]](set)
    for module, names in imported_by.items():
        room = room_of(module)
        found[room] |= {room_of(name) for name, _ in names} - {room}
    return {room: others - {""} for room, others in found.items() if room}


def circle(found: Mapping[str, Iterable[str]]) -> list[str]:
    """Rooms of which each imports the one before it, the first of them twice; none is best."""
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_rooms_import_each_other() -> None:
    """Neither two of them nor around a circle, imports in bodies counted."""
    assert not circle(arrows({module: import_dumps(module) for module in MODULES}))


def test_circles_are_seen() -> None:
    found = arrows(
        {
            "colltool.base.units": [("json", False)],
            "colltool.network.links": [("colltool.base.units", False)],
            "colltool.fabric.load": [("colltool.network.links", True), ("colltool", True)],
            "colltool.base.errors": [("colltool.fabric", True), ("colltool.base", False)],
            "colltool": [("colltool.fabric", True)],
        }
    )
    assert found["colltool.fabric"] == {"colltool.network"}
    around = circle(found)
    assert set(around) == {"colltool.base", "colltool.fabric", "colltool.network"}
    assert len(around) == 4


def test_every_room_has_its_tests() -> None:
    """In a folder of its name, so that whoever changes a room knows what to run."""
    folder = Path(__file__).parent
    tested = {
        f"colltool.{path.relative_to(folder).parts[0]}" for path in folder.rglob("*/test_*.py")
    }
    assert tested == ROOMS_OF_THE_HOUSE - {"colltool.cli"}  # an old name


@every_module
def test_the_core_imports_no_extra(module: str) -> None:
    """Not in the body of a function either: colltool.base.extras loads them by name."""
    if not module.startswith("colltool.extras"):
        found = [name for name, _ in import_dumps(module) if name.startswith("colltool.extras")]
        assert not found, f"{module} imports {found}: load it with colltool.base.extras.extra"


@every_module
def test_heavy_packages_stay_in_their_rooms(module: str) -> None:
    for name, _ in import_dumps(module):
        rooms = ROOMS.get(name.partition(".")[0])
        assert rooms is None or any(
            module == room or module.startswith(f"{room}.") for room in rooms
        ), f"{module} imports {name}"


# What lives on arrays imports numpy at the top; a price loads none of it (tests/test_startup.py).
ON_ARRAYS = {
    "colltool.algorithms.executor",
    "colltool.algorithms.trace",
    "colltool.custom.schedule",
    *(
        f"colltool.network.{name}"
        for name in ("dragonfly_router", "lattice_links", "links", "routed_links", "routers")
    ),
    "colltool.network.twisted_links",
    *(
        f"colltool.congestion.{name}"
        for name in ("baseline", "busiest", "contention", "heat", "jobs", "layout_groups", "loads")
    ),
    *(
        f"colltool.congestion.{name}"
        for name in ("patterns", "skew", "tier_positions", "traffic", "traffic_by_formula")
    ),
    "colltool.congestion.traffic_by_schedule",
    "colltool.calibration",
    *(
        f"colltool.analysis.{name}"
        for name in ("cells", "compare", "contest", "grid", "break_even", "sensitivity", "what_if")
    ),
    "colltool.logs.activity",
    "colltool.verification.custom_cost",
    "colltool.estimate.routed_cost",
}


@every_module
def test_numpy_only_where_arrays_are(module: str) -> None:
    if module in ON_ARRAYS or module.rpartition(".")[0] in ON_ARRAYS:
        return
    assert not [
        name
        for name, inside in import_dumps(module)
        if name.partition(".")[0] == "numpy" and not inside
    ]


@every_module
def test_click_is_not_even_imported_for_types(module: str) -> None:
    for node in nodes(module):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
        assert not [name for name in names if name.partition(".")[0] == "click"]


@cache
def own_names() -> set[str]:
    named = (
        node
        for module in MODULES
        for node in nodes(module)
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    )
    return {node.name for node in named if not node.name.startswith("__")}


def long_calls(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Calls of our own classes and functions with so many arguments by position that nobody can
    read which is which."""
    for node in nodes:
        if isinstance(node, ast.Call) and len(node.args) > MOST_BY_POSITION:
            name = dotted(node.func).rpartition(".")[2]
            if name in own_names():
                yield f"{name} in line {node.lineno}"


@every_module
def test_what_has_many_parts_is_built_by_keyword(module: str) -> None:
    found = list(long_calls(nodes(module)))
    assert not found


def test_long_calls_are_seen() -> None:
    assert list(long_calls(ast.walk(ast.parse("x = cost.Terms(1, 2, 3, 4, 5, 6, 7)")))) == [
        "Terms in line 1"
    ]
    assert not list(
        long_calls(ast.walk(ast.parse("Terms(1, 2, 3, 4, 5, 6, x=7); print(1, 2, 3, 4, 5, 6, 7)")))
    )


@every_module
def test_every_module_says_what_it_is_for(module: str) -> None:
    assert ast.get_docstring(trees()[module]), f"{module} says nothing about itself"


def test_every_floor_is_used() -> None:
    assert set(FLOORS) <= set(MODULES)


def test_no_room_has_the_name_of_a_public_function() -> None:
    """Importing the room would put the module in the function's place."""
    assert not {name.split(".")[1] for name in MODULES if "." in name} & set(colltool.__all__)


def test_no_class_name_stands_twice() -> None:
    """Private or public: whoever searches for a name finds one class."""
    found = Counter(
        node.name.lstrip("_")
        for module in MODULES
        for node in nodes(module)
        if isinstance(node, ast.ClassDef)
    )
    assert not [name for name, times in found.items() if times > 1]


def test_streams_belong_to_the_command_line() -> None:
    """Only the commands print and raise SystemExit; nobody, not even they, ends the process."""
    for module in MODULES:
        assert "_exit" not in {
            node.attr for node in nodes(module) if isinstance(node, ast.Attribute)
        }, module
        if module.startswith("colltool.commands"):
            continue
        for node in nodes(module):
            if isinstance(node, ast.Call):
                assert dotted(node.func) not in (
                    "print",
                    "sys.exit",
                    "exit",
                ), f"{module}:{node.lineno}"
            assert not (
                isinstance(node, ast.Attribute) and dotted(node) in ("sys.stdout", "sys.stderr")
            ), module


TIER_CLASSES = {"TierBase", "SizedTier", *(model.__name__ for model in TOPOLOGIES.values())}


def case_classes(pattern: ast.AST) -> set[str]:
    return {
        node.cls.id
        for node in ast.walk(pattern)
        if isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name)
    }


def names_in(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def silent_checks(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Questions about the kind of a tier that mypy does not see through: a new topology would slip
    past them."""
    for node in nodes:
        if (
            isinstance(node, ast.Call)
            and dotted(node.func) == "isinstance"
            and names_in(node) & TIER_CLASSES
        ):
            yield ast.unparse(node)
        if isinstance(node, ast.Call) and dotted(node.func) in ("getattr", "hasattr"):
            subject = ast.unparse(node.args[0]).rpartition(".")[2]
            if subject == "tier" or (subject == "self" and "in_network" in ast.unparse(node)):
                yield ast.unparse(node)
        if isinstance(node, ast.Compare) and any(
            isinstance(one, ast.Attribute)
            and one.attr == "topology"
            and dotted(one.value).rpartition(".")[2] == "tier"
            for one in ast.walk(node)
        ):
            yield ast.unparse(node)
        if (
            isinstance(node, ast.Match)
            and set().union(*(case_classes(case.pattern) for case in node.cases)) & TIER_CLASSES
        ):
            last = node.cases[-1]
            if (
                not any("assert_never" in ast.unparse(line) for line in last.body)
                or last.guard is not None
            ):
                yield f"match {ast.unparse(node.subject)}"


@every_module
def test_nobody_asks_a_tier_for_its_kind_where_mypy_cannot_follow(module: str) -> None:
    assert not list(silent_checks(nodes(module))), (
        f"{module}: ask colltool.fabric.topology.capabilities_of"
    )


def test_silent_checks_are_seen() -> None:
    lines = (
        "isinstance(tier, LatticeTier)",
        "isinstance(span.tier, StarTier | ClosTier)",
        "getattr(tier, 'in_network', None)",
        "hasattr(span.tier, 'levels')",
        "span.tier.topology == 'torus'",
        "tier.topology in ('torus', 'mesh')",
        "match tier:\n    case LatticeTier():\n        a()\n    case _:\n        b()\n",
    )
    for line in lines:
        assert list(silent_checks(ast.walk(ast.parse(line)))), line
    told = (
        "match tier:\n    case LatticeTier():\n        a()\n    case _:\n       "
        " assert_never(tier)\n"
    )
    assert not list(silent_checks(ast.walk(ast.parse(told))))


def test_only_groups_place_ranks() -> None:
    makers = {
        module
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and dotted(node.func) in ("Span", "Placed")
    }
    assert makers == {"colltool.estimate.groups"}
