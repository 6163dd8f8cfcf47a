"""JSON Schemas of the documents: real documents fit them, changed ones do not, and the table names
nothing that is not printed.

The documents of all commands in all formats are held to them in tests/commands/test_contract.py; here
are the rarer ones.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest
from jsonschema import Draft202012Validator
from msccl_texts import all_reduce_ring
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.commands.app import COMMANDS
from colltool.estimate.interval import Interval
from colltool.estimate.segments import BestSegments
from colltool.libraries.nccl.model import NcclEstimate
from colltool.render import estimates, schemas, views
from colltool.render.blocks import Column
from colltool.render.documents import WRITTEN_AS, Document
from colltool.render.schemas import FILE_KINDS, command_for, document_schema, documents, schema_of
from tests.commands.conftest import run
from tests.logs.test_chakra_traces import STEP
from tests.logs.test_chakra_traces import write as chakra_file

# any document in a report; a cell of a sweep, which has its axes as keys
OPEN = ("ExhibitResult", "Cell")
RARE = (
    (
        "price ar -f dgx-h100 -n 64 -M 1GB --slow-rank 0.8 --ports one --order inner-first --set"
        " ib.bandwidth=25GB/s"
    ),
    "price ar -f dgx-h100 -n 64 -M 1MB --library all",
    "price ar -f hgx-h200 -n 4 -M 64KB,64MB --library sglang",
    "price ar -f torus512 -M 1MB --ideal --shape 4x4x4",
    "breakdown ar -f dgx-h100 -n 64 -M 1GB --slow-rank 0.8",
    "explain tree ar -f dgx-h100 -n 64 -M 1MB",
    "crossover ar -f dgx-h100 -n 64",
    "verify ar -f star512 -n 4 --algorithm ring --trace --values",
    (
        "plan llama3-8b -f dgx-h100 -n 64 --target step=5% --mtbf 50000h --storage 200GB/s"
        " --job-set steps=1000 --job-set compression.scheme=int8 --job-set compression.on=dp"
    ),
    "plan llama3-8b -f dgx-h100 -f dgx-b200 -n 64",
    "serve llama3-70b -f hgx-h200 --tp 8 --batch 64 --tpot 18ms --prefill-tp 8",
    "sensitivity ar -f star512 -f torus512 -n 64 -M 1MB --samples 100",
    "sweep ar -f torus512 -M 16MB --vary torus.shape=8x8x8,16x8x4 --vary ideal=true,false",
    "contention -f torus512 --pattern block --group 6 --as-eta",
    "contention -f clos-4to1 --pattern cyclic --group 8 --count 2 -p a2a -M 16MB --per-link",
    (
        "fabric size --endpoints 2048 --radix 64 --price currency=USD --price switch=30000 --price"
        " power=0.1/kWh"
    ),
    (
        "fabric size --endpoints 4096 --radix 64 --topology dragonfly --price currency=USD --price"
        " switch=30000"
    ),
    "fabric size --endpoints 100000 --radix 64 --topology dragonfly",
    "fabric draw tpu-v4-512",
    "library show nccl",
    "report -f star512 --against torus512 -p ar -M 16MB",
)


@cache
def validator(name: str) -> Draft202012Validator:
    """Of documents of this name, made when one is first checked."""
    return Draft202012Validator(document_schema(name))


def printed(line: str) -> Any:
    done = run(*line.split(), "--format", "json")
    assert done.out, done.err
    return json.loads(done.out)


def name_of(document: Any) -> str:
    return str(document["schema"]).removeprefix("colltool.").removesuffix("/1")


def inner(document: Any) -> Iterator[Any]:
    """A document, and those that a report holds."""
    yield document
    for section in document.get("sections", ()):
        yield from (exhibit["result"] for exhibit in section["exhibits"])


@pytest.mark.alike(3)
@pytest.mark.parametrize("line", RARE)
def test_what_is_printed_fits_its_schema(line: str) -> None:
    for document in inner(printed(line)):
        found = [
            f"{list(one.absolute_path)}: {one.message[:200]}"
            for one in validator(name_of(document)).iter_errors(document)
        ]
        assert not found


def test_documents_of_files_fit_too(tmp_path: Path) -> None:
    """A schedule of one's own has no formula; a Chakra trace is walked with the fabric's prices."""
    (tmp_path / "own.xml").write_text(all_reduce_ring(4))
    trace = chakra_file(tmp_path / "a.0.et", *STEP)
    for line in (
        f"verify -f star512 --algorithm-file {tmp_path}/own.xml",
        f"trace {trace} -f dgx-h100",
    ):
        document = printed(line)
        assert [one.message for one in validator(name_of(document)).iter_errors(document)] == [], (
            line
        )


def test_every_view_has_a_schema_and_the_table_no_other() -> None:
    modules = [
        import_module(f"{views.__name__}.{one.name}") for one in iter_modules(views.__path__)
    ]
    # tables of laws are an export, which has no view
    shown = {view.schema for one in modules for view in getattr(one, "VIEWS", {}).values()}
    assert shown | {"table"} == set(documents())


def test_every_table_says_what_its_records_are() -> None:
    """Else nothing would follow the paths of its columns, nor look for their keys."""
    for found in iter_modules(views.__path__):
        module = module_of(found.name)
        hints = vars(module).get("__annotations__", {})
        for name, value in vars(module).items():
            if type(value) is tuple and any(isinstance(part, Column) for part in value):
                assert hints.get(name, "").startswith("Columns["), f"{found.name}.{name}"


@swept("name", documents(), most=30)
def test_a_schema_is_one_and_says_who_prints_it(name: str) -> None:
    schema = validator(name).schema
    Draft202012Validator.check_schema(schema)
    assert schema["$id"].startswith("urn:colltool:output:")
    assert command_for(name).split()[0] in COMMANDS
    assert len(schema["required"]) > 2
    for one in (
        schema,
        *(
            shape
            for key, shape in schema["$defs"].items()
            if "properties" in shape and key not in OPEN
        ),
    ):
        assert one["additionalProperties"] is False
        assert set(one["required"]) <= set(one["properties"])


def broken(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Each object of a document with a key more, a key less and a list or number that is another
    type, the rest as it is."""
    if isinstance(value, dict):
        yield path, {**value, "never": 1}
        for key, one in value.items():
            if isinstance(one, list | float | bool):
                yield (*path, key), {**value, key: "text"}
            yield from broken(one, (*path, key))
    elif isinstance(value, list) and value:
        yield from broken(value[0], (*path, 0))


def put(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copied = list(document) if isinstance(document, list) else dict(document)
    copied[path[0]] = put(document[path[0]], path[1:], value)
    return copied


def test_a_document_that_is_changed_does_not_fit() -> None:
    """Else a schema would say nothing."""
    document = printed("price ar -f star512 -n 8 -M 1MB --top 1")
    check = validator("price")
    assert check.is_valid(document)
    tried = 0
    for path, changed in broken(document):
        at = path if "never" in changed else path[:-1]
        if (
            at
            and isinstance(at[-1], str)
            and isinstance(document.get(at[0]), dict)
            and at[0] == "set"
        ):
            continue
        assert not check.is_valid(put(document, at, changed)), path
        tried += 1
    assert tried > 50
    for key in ("sizes", "schema", "colltool"):
        assert not check.is_valid({name: one for name, one in document.items() if name != key})
    row = document["sizes"][0]["results"][0]
    for key in ("total_s", "algorithm", "busbw_Bps", "leads", "bound"):
        less = {name: one for name, one in row.items() if name != key}
        assert not check.is_valid(put(document, ("sizes", 0, "results", 0), less)), key
    assert not check.is_valid({**document, "schema": "colltool.plan/1"})


def test_units_are_told() -> None:
    row = document_schema("price")["$defs"]["Row"]["properties"]
    assert row["total_s"] == {"type": "number", "description": "seconds"}
    assert row["busbw_Bps"]["description"] == "bytes a second"
    model = document_schema("price")["$defs"]["Model"]
    assert model["properties"]["placement"]["enum"] == ["packed", "scattered"]
    assert set(model["properties"]) == set(colltool.ModelOptions._fields) - {"ideal"}


def test_the_command_lists_and_prints_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = run("schema").out
    assert [line.split()[0] for line in listed.splitlines() if line.startswith("  ")] == [
        *documents(),
        *FILE_KINDS,
    ]
    for name in ("price", "colltool.price/1"):
        assert json.loads(run("schema", name).out) == document_schema("price")
    assert json.loads(run("schema", "fabric show").out) == document_schema("fabric-show")
    assert run("schema", "fabric").out == run("fabric", "schema").out
    assert run("schema", "job").out == run("job", "schema").out
    assert run("schema", "ladder-file").out == run("ladder", "--schema").out
    monkeypatch.chdir(tmp_path)
    assert run("schema", "layout", "-o", "layout.json").code == 0
    assert json.loads((tmp_path / "layout.json").read_text())["$id"] == "urn:colltool:layout:1"


ELSEWHERE = {
    "calibrate": {
        "alpha_ci95": "ci95",
        "bandwidth_ci95": "ci95",
        "launch_overhead_ci95": "ci95",
        "left_out": "skipped",
        # of each row of a machine file; the document names the file
        "forced": "machine_file",
        "off": "machine_file",
    },
    # of a log's channels beside those of its topology: the same keys in two records
    "doctor_topology": {
        "allowed_across_Bps": "allowed",
        "allowed_channels": "allowed",
        "allowed_inside_Bps": "allowed",
        "allowed_types": "allowed",
        "types": "found",
    },
    "estimates": {
        "how": "detail",
        "slow_total_s": "slow_rank",
        # parts of a time as the answer names them; the document has layers
        "steps_s": "layers",
        "moved_s": "layers",
        "rest_s": "layers",
    },
    "crossover": {
        "N*alpha*BW": "approximations",
        "N*alpha*BW/(log2N-1)": "approximations",
        "N*alpha*BW/log2N": "approximations",
        "balance_a": "balance",
        "balance_b": "balance",
        "kind": "dominates",
    },
    "fabric_drawn": {"level": "levels", "tier": "tiers"},
    "fabric_bill": {"cable": "count", "nic": "count", "optic": "count", "switch": "count"},
    "checked_files": {"kind": "warnings"},
    "kernels": {
        "apart_s": "costs_s",
        "change": "thresholds",
        "latency_s": "alpha_s",
        "picked": "leads",
        "sent_bytes": "bytes",
        "within": "interval",
    },
    "diff": {
        "field": "where",
        "from": "old",
        "kind": "added",
        "largest": "where",
        "range": "relative",
        "rows": "changed",
        "to": "new",
    },
    "ladder": {
        "ideal_s": "ideal",
        "ideal_alpha_s": "ideal",
        "ideal_bandwidth_s": "ideal",
        "realistic_s": "realistic",
    },
    "library_files": {"collective": "primitive"},
    "library": {"only": "primitives", "protocol": "protocols"},
    "plan": {"calls": "count", "within": "interval"},
    "plan_traces": {"stride": "axes"},
    "price": {
        "fastest": "results",
        "fastest_s": "results",
        "pick_protocol": "pick",
        "priced_as": "runs",
        "runs_s": "runs",
    },
    "price_sizes": {"fastest": "results", "runner_up": "results", "runner_up_s": "results"},
    "sensitivity": {"range": "low"},
    "serve": {
        "phase": "name",
        "within": "interval",
    },
    "serve_list": {"prefill_limit_s": "limit_s", "prefill_network_s": "network_s"},
    "sweep": {"how": "spec"},
    "trace": {"change_s": "now_s", "stride": "axes"},
    "validate": {"sizes": "points"},
    "verify": {
        "executed_s": "time_s",
        "n_alpha_executed": "n_alpha",
        "n_alpha_formula": "n_alpha",
        "n_beta_executed": "n_beta",
        "n_beta_formula": "n_beta",
        "price_s": "time_s",
    },
    "verify_trace": {"step_n_alpha": "n_alpha", "step_n_beta": "n_beta"},
}
"""Columns of a module that are called otherwise than the key that says it in the document."""


def property_names(schema: Any) -> set[str]:
    """The keys of all objects of a schema."""
    names = set(schema.get("properties", ()))
    for shape in schema.get("$defs", {}).values():
        names |= property_names(shape)
    return names


def module_of(place: str) -> Any:
    return import_module(f"{views.__name__}.{place.partition(':')[0]}")


def columns_of(module: Any) -> Iterator[Column]:
    """The columns that a module declares, alone or in a table."""
    for value in vars(module).values():
        if isinstance(value, Column):
            yield value
        elif isinstance(value, tuple) and not hasattr(value, "_fields"):
            yield from (column for column in value if isinstance(column, Column))


MODULES = sorted(found.name for found in iter_modules(views.__path__))
WITHIN = {
    "doctor_fleet": "doctor",
    "doctor_topology": "doctor",
    "fabric_diagram": "fabric",
    "fabric_bill": "fabric",
    "library": "fabric",
    "plan": "plan_document",
    "price_sizes": "price",
    "report_costs": "report",
    "trace_graphs": "trace",
    "verify_trace": "verify",
}
"""Modules whose tables are parts of a result of another module, and of its document."""


def schema_keys(module: str) -> set[str]:
    """The keys of all documents that have a class in a module."""
    names = (
        name
        for name, row in schemas.DOCUMENTS.items()
        if any(place.startswith(f"{module}:") for place in row["classes"])
    )
    return {key for name in names for key in property_names(document_schema(name))}


def check_columns(module: Any, name: str, known: set[str]) -> None:
    keys = {column.key for column in columns_of(module)}
    elsewhere = ELSEWHERE.get(name, {})
    assert keys - known == set(elsewhere)
    assert set(elsewhere.values()) <= known


@swept("module", MODULES)
def test_a_column_has_a_key_in_the_document(module: str) -> None:
    """A new column without a key in JSON and schema fails."""
    check_columns(module_of(module), module, schema_keys(WITHIN.get(module, module)))


def test_a_column_of_prices_has_a_key_in_the_document() -> None:
    check_columns(estimates, "estimates", schema_keys("price"))


GIVEN = (
    "KernelPriceDocument.sizes",
    "PickingLibraryDocument.pick",
    "PickingLibraryDocument.ways",
    "PriceDocument.sizes",
    "PricesDocument.sizes",
)
"""Keys whose values are given to the document when it is written."""


def document_kinds(hint: Any) -> Iterator[type[Document]]:
    """The document classes that an annotation names."""
    if isinstance(hint, type) and issubclass(hint, Document):
        yield hint
    for part in get_args(hint):
        yield from document_kinds(part)


@swept("name", documents())
def test_a_record_at_a_path_is_written_by_the_document_that_its_annotation_names(name: str) -> None:
    """Else the keys would be those of the record, whatever the schema says."""
    waiting = list(schemas.document_classes(name))
    seen = set(waiting)
    while waiting:
        kind = waiting.pop()
        hints = get_type_hints(kind)
        for key, declared in kind.keys.items():
            for inner_kind in document_kinds(hints.get(key)):
                where = f"{kind.__name__}.{key}"
                if isinstance(declared.source, str) and where not in GIVEN:
                    assert inner_kind in WRITTEN_AS.values(), where
                if inner_kind not in seen:
                    seen.add(inner_kind)
                    waiting.append(inner_kind)


# classes that modules import for type checking alone
LATE = {"Interval": Interval, "NcclEstimate": NcclEstimate, "BestSegments": BestSegments}


def attribute_hint(kind: Any, name: str) -> Any:
    """The type of an attribute or property; Any where no annotation says it."""
    found = inspect.getattr_static(kind, name, None)
    if isinstance(found, property | cached_property):
        getter = found.fget if isinstance(found, property) else found.func
        return get_type_hints(getter, localns=LATE).get("return", Any)
    hints = get_type_hints(kind, localns=LATE)
    assert name in hints, f"{kind.__name__} has no {name}"
    return hints[name]


def follow(kind: Any, path: str) -> None:
    """Follow a dotted path from a class through its annotations."""
    for name in path.split("."):
        options = [one for one in get_args(kind) if one is not NoneType] or [kind]
        if options == [Any]:
            return
        kind = attribute_hint(options[0], name)


def tables_of(module: Any) -> Iterator[tuple[Any, Column]]:
    """The columns of annotated tables, each with the class of its records."""
    for name, hint in vars(module).get("__annotations__", {}).items():
        if hint.startswith("Columns["):
            record = eval(hint, vars(module)).__args__[0].__args__[0]
            yield from ((record, column) for column in vars(module)[name])


@swept("module", MODULES)
def test_the_path_of_a_column_is_in_its_records(module: str) -> None:
    """What mypy checks of a function: a path that leads nowhere fails here, not in a terminal."""
    for record, column in tables_of(module_of(module)):
        if column.get is None:
            follow(record, column.path or column.key)


def test_a_name_that_none_has() -> None:
    done = run("schema", "prise")
    assert (done.code, done.out) == (2, "")
    assert "nothing with a schema is called 'prise'\n  did you mean 'price'?" in done.err
    with pytest.raises(ColltoolError, match="known: "):
        schema_of("x\n" * 100)
