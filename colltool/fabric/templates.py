"""Fabric files as text: one to start from, with comments, and any fabric as YAML that loads again.

:func:`fabric_start` begins with a template, tiers typed on a line (``_tier`` parses one), or another
fabric; ``_commented`` puts a comment at the first key of each kind. :func:`fabric_text` writes data
without them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import yaml

from colltool.base.cache import packaged_toml
from colltool.base.errors import ColltoolError, argument_text, clipped, nearest
from colltool.base.files import BOUNDS
from colltool.base.formatting import parse_rate, parse_time
from colltool.definitions.reader import Overrides
from colltool.fabric.load import FabricSource, fabric_data, load_fabric
from colltool.fabric.media import medium_of
from colltool.network.sizing.size_clos import LEVELS

# As the shipped dgx-h100, whose file has the sources.
TEMPLATE = "nvlink:star:8:450GB/s:0.5us,ib:clos:32/64:400Gbps:2us/8us:s=1"
EXAMPLE = "nvlink:star:8:450GB/s:0.8us,ib:clos:8/32:400Gbps:5us/11us"
# Default contention (α, β) of the topologies that a line can describe, which take no more than a
# size. Source: Collectives Explainer Series part 05 §4.1 and §4.2.
ETAS = {
    "star": (1.0, 0.8),
    "full_mesh": (1.0, 0.8),
    "torus": (1.2, 0.6),
    "mesh": (1.2, 0.6),
    "clos": (1.2, 0.8),
}

_FIELDS = ("NAME", "TOPOLOGY", "SIZE", "BANDWIDTH", "ALPHA")
_WHOLE = re.compile(r"\d{1,8}")
_RATIO = re.compile(r"\d{1,6}(\.\d{1,6})?")

_DATA = packaged_toml(Path(__file__).parent / "data" / "comments.toml")
COMMENTS: dict[str, str] = _DATA["comments"]
# Keys that a started file lacks, with an example of each; written as comments.
OPTIONAL_KEYS: dict[str, str] = _DATA["more"]
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
# Characters up to which a mapping or list is written on one line.
_LONGEST_FLOW = 110
# Column where comments begin.
_COMMENT_COLUMN = 36
# Bytes to keep free for the line that says how many comments are left out.
_CUT_LINE = 100


def schema_line(kind: str) -> str:
    """Return the first line of a file, by which editors find its schema: ``fabric.schema.json`` in
    the same folder."""
    return f"yaml-language-server: $schema={kind}.schema.json"


def start_lines(kind: str) -> tuple[str, ...]:
    """Return the comments on top of a file to start from."""
    editors = f"in an editor: colltool schema {kind} -o {kind}.schema.json, beside the file"
    next_step = f"Put your own numbers in, then: colltool {kind} check FILE"
    return (schema_line(kind), next_step, f"All keys: colltool guide {kind}s; {editors}")


def fabric_start(
    source: FabricSource | None = None,
    tiers: str | None = None,
    overrides: Overrides = (),
    name: str = "",
    failed: Sequence[str] = (),
) -> str:
    """Return the text of a commented fabric file, from another fabric, tiers on one line, or a
    template.

    ``name``: of the new fabric; default: the source's, or ``my-cluster``. ``failed``: ranks and
    links that it is left without.
    """
    if source is not None and tiers is not None:
        raise ColltoolError(
            "a file starts from a fabric or from tiers, not from both",
            argument="tiers",
            fix=f"leave out {argument_text('source')} or {argument_text('tiers')}",
        )
    if source is None:
        source = _new_fabric(tiers)
    if failed:
        from colltool.fabric.degraded import without_parts

        source = without_parts(fabric_data(source, overrides), failed)
        overrides = ()
    data = {"schema": "colltool.fabric/2", **fabric_data(source, overrides)}
    if valid_name(name):
        data["name"] = valid_name(name)
    load_fabric(data)
    missing = {key: example for key, example in OPTIONAL_KEYS.items() if key not in data}
    return _commented(data, start_lines("fabric"), missing)


def _new_fabric(tiers: str | None) -> dict[str, Any]:
    """The data of a fabric of tiers on one line, or of the template."""
    found = [_tier(text.strip()) for text in (tiers or TEMPLATE).split(",")]
    fabric: dict[str, Any] = {"name": "my-cluster", "tiers": found}
    if tiers is not None:
        # tiers alone have no library whose launch is known
        return fabric | {"launch_overhead": "5us"}
    found[-1]["sizing"] = {"rails": 8, "nics_per_rail": 1, "radix": 64}
    return fabric | {"device": "h100", "library": "nccl"}


def valid_name(text: str) -> str:
    """Return a text as the name of a fabric. Empty if it has no character that a name may have."""
    return _NOT_IN_NAMES.sub("-", text).strip("-_")[:64]


def yaml_of(source: FabricSource, overrides: Overrides = ()) -> str:
    """Return a fabric with its overrides as the text of a file that loads to the same."""
    comments = []
    if overrides:
        pairs = load_fabric(source, overrides).overrides
        comments.append(f"with {', '.join(f'{key}={value}' for key, value in pairs)}")
    return fabric_text({"schema": "colltool.fabric/2", **fabric_data(source, overrides)}, comments)


def _tier(text: str) -> dict[str, Any]:
    """A tier of a line such as :data:`EXAMPLE`, as data of a fabric file; the file's own checks
    come later."""
    fields = [field.strip() for field in text.split(":")]
    if len(fields) < len(_FIELDS) or not all(fields):
        empty = fields.index("") if "" in fields else len(fields)
        missing = _FIELDS[empty] if empty < len(_FIELDS) else "value behind a colon"
        what = f"'{clipped(text)}' has no {missing}"
        raise _refused(what, f"a tier is {':'.join(_FIELDS)}, such as {EXAMPLE.split(',')[0]}")
    name, topology, size, rate, alpha = fields[: len(_FIELDS)]
    if topology not in ETAS:
        fix = f"{nearest(topology, list(ETAS))} one of {', '.join(ETAS)}".strip()
        raise _refused(f"'{clipped(topology)}' is not a topology in '{clipped(text)}'", fix)
    alphas = [part.strip() for part in alpha.split("/")]
    _check(parse_rate, rate, text)
    further = fields[len(_FIELDS) :]
    options = dict(_option(field, text) for field in further)
    for part in alphas:
        _check(parse_time, part, text)
    tier: dict[str, Any] = {"name": name, "topology": topology}
    medium = medium_of(None, name, parse_rate(rate), device=None)
    if medium is not None:
        tier["medium"] = medium.name
    groups = _sizes(tier, size, text)
    has_levels = topology == "clos" and (len(groups) > 1 or len(alphas) > 1)
    if not has_levels:
        if len(alphas) > 1:
            fix = "one, such as 0.8us; a clos with levels has one for each"
            raise _refused(f"'{clipped(alpha)}' gives several alphas", fix)
        tier["alpha"] = alpha
    eta_alpha, eta_beta = ETAS[topology]
    ratios = options.pop("s", [])
    tier |= {"bandwidth": rate, "eta": {"alpha": eta_alpha, "beta": eta_beta}, **options}
    if has_levels:
        tier["levels"] = _levels(groups, alphas, ratios, text)
    elif ratios:
        what = f"'{clipped(text)}' has no levels to be oversubscribed"
        raise _refused(what, "a clos with groups: ib:clos:8/32:400Gbps:5us/11us:s=2")
    return tier


def _sizes(tier: dict[str, Any], text: str, line: str) -> list[int]:
    """Put the ``size`` or ``shape`` into a tier; return the groups of its levels, bottom up."""
    topology = tier["topology"]
    if topology in ("torus", "mesh"):
        tier["shape"] = _counts(text, "x", "a shape such as 8x8x4", line)
        return []
    expected = "8, or groups of levels 8/32" if topology == "clos" else "a whole number such as 8"
    groups = _counts(text, "/", expected, line)
    if topology != "clos" and len(groups) > 1:
        raise _no_size(text, expected, line)
    tier["size"] = groups[-1]
    return groups


def _levels(
    groups: list[int], alphas: list[str], ratios: list[float], text: str
) -> list[dict[str, Any]]:
    """The levels of a Clos as data, bottom up; ``ratios``: oversubscription of all but the first."""
    if len(groups) != len(alphas):
        what = f"'{clipped(text)}' has {len(groups)} groups and {len(alphas)} alphas"
        raise _refused(what, "one alpha for each level, bottom up: 8/32 with 5us/11us")
    if len(ratios) > len(groups) - 1:
        what = (
            f"'{clipped(text)}' has {len(ratios)} ratios for {len(groups) - 1} boundaries of levels"
        )
        raise _refused(what, "one for each level above the first: s=2, s=2/1.5")
    levels = []
    for index, (group, alpha) in enumerate(zip(groups, alphas, strict=True)):
        name = LEVELS[index] if index < len(LEVELS) else f"level{index + 1}"
        level: dict[str, Any] = {"name": name, "group": group, "alpha": alpha}
        if index:
            ratio = ratios[index - 1] if index <= len(ratios) else 1.0
            plain = int(ratio) if ratio.is_integer() else ratio
            # with two levels both forms mean the same
            level["oversubscription"] = plain if len(groups) == 2 else {"uplinks": plain}
        levels.append(level)
    return levels


def _option(field: str, text: str) -> tuple[str, Any]:
    """Key and value of an option of a tier: ``s=2/1.5``, ``eta=1.2/0.8`` or ``ports=4``."""
    key, _, value = (part.strip() for part in field.partition("="))
    if key == "ports" and _WHOLE.fullmatch(value):
        return key, int(value)
    parts = [part.strip() for part in value.split("/")]
    if all(map(_RATIO.fullmatch, parts)):
        numbers = list(map(float, parts))
        if key == "s":
            return key, numbers
        if key == "eta" and len(numbers) == 2:
            return key, dict(zip(("alpha", "beta"), numbers, strict=True))
    what = f"'{clipped(field)}' is not understood in '{clipped(text)}'"
    raise _refused(what, "s=2, eta=1.2/0.8 or ports=4 may follow")


def _counts(text: str, separator: str, expected: str, tier: str) -> list[int]:
    parts = [part.strip() for part in text.split(separator)]
    if not all(map(_WHOLE.fullmatch, parts)):
        raise _no_size(text, expected, tier)
    return list(map(int, parts))


def _no_size(text: str, expected: str, tier: str) -> ColltoolError:
    what = f"'{clipped(text)}' is not a size in '{clipped(tier)}'"
    return _refused(what, f"expected {expected}")


def _check(parse: Callable[[str], float], value: str, tier: str) -> None:
    """Raise an error if a value of a tier cannot be parsed, or a rate has no unit."""
    try:
        parse(value)
    except ColltoolError as error:
        raise _refused(f"{error.what}, in '{clipped(tier)}'", error.fix) from error
    if parse is parse_rate and not value[-1].isalpha():
        what = f"'{clipped(value)}' has no unit, in '{clipped(tier)}'"
        raise _refused(what, "write 450GB/s (bytes) or 400Gbps (bits)")


def _refused(what: str, fix: str) -> ColltoolError:
    return ColltoolError(
        what, argument="tiers", fix=fix or f"write {argument_text('tiers', EXAMPLE)}"
    )


class OneLine(dict[str, Any]):
    """A mapping that is always written on one line."""


class _Dumper(yaml.SafeDumper):
    """Lists indented under their key; no anchors, which the reader refuses."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


_Dumper.add_representer(
    OneLine,
    lambda dumper, line: dumper.represent_mapping("tag:yaml.org,2002:map", line, flow_style=True),
)

# Text that only the reader takes for a number, such as 1e9 or 0o17, is quoted.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+.0-9][-+.0-9eExXoa-fA-F]*\Z"), list("-+.0123456789")
)


class _CompactDumper(_Dumper):
    """Writes short mappings and lists of plain values on one line, as people do."""

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> Any:
        short = len(str(mapping)) <= _LONGEST_FLOW and "source" not in mapping
        return super().represent_mapping(tag, mapping, flow_style=flow_style or short)

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> Any:  # noqa: ARG002
        short = len(str(sequence)) <= _LONGEST_FLOW and not any(
            isinstance(item, dict) for item in sequence
        )
        return super().represent_sequence(tag, sequence, flow_style=short)


def _commented(data: dict[str, Any], head: Sequence[str], missing: Mapping[str, str]) -> str:
    """A fabric file with a comment at the first key of each kind; without comments if it would be
    beyond the reader's size limit.

    ``head``: comment lines on top. ``missing``: keys that the file lacks, with examples, as comments
    at its end.
    """
    body = _yaml(data, _CompactDumper)
    lines = body.splitlines()
    explained: set[str] = set()
    commented: set[int] = set()
    for path, number in _keys(yaml.compose(body), ()):
        name = ".".join(map(str, path))
        if name not in COMMENTS:
            name = ".".join(step for step in path if isinstance(step, str))
        if name in COMMENTS and name not in explained and number not in commented:
            explained.add(name)
            commented.add(number)
            lines[number] = _with_comment(lines[number], COMMENTS[name])
    below = ["", "# More that a file may say:"] if missing else []
    for key, example in missing.items():
        below += [f"#   {COMMENTS[key]}:", f"# {key}: {example}"]
    text = "\n".join([*(f"# {line}" for line in head), *lines, *below, ""])
    return text if len(text.encode()) <= BOUNDS["definition"].limit else fabric_text(data, head)


def _with_comment(line: str, comment: str) -> str:
    """A line with a comment behind it, or above it where it is long."""
    if len(line) <= _COMMENT_COLUMN:
        return f"{line:<{_COMMENT_COLUMN}}  # {comment}"
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}# {comment}\n{line}"


def _yaml(data: dict[str, Any], dumper: type[yaml.SafeDumper]) -> str:
    text: str = yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def _keys(node: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """The path and the line of each key below a node of YAML."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, key.value)
            # a text over several lines has no room for a comment
            one_line = value.start_mark.line == value.end_mark.line
            if one_line or not isinstance(value, yaml.ScalarNode):
                yield inner, key.start_mark.line
            yield from _keys(value, inner)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _keys(value, (*path, index))


def fabric_text(
    data: dict[str, Any], comments: Sequence[str] = (), *, compact: bool = False
) -> str:
    """Return a fabric file under as many comment lines as the reader's size limit allows;
    ``compact``: short mappings on one line."""
    limit = BOUNDS["definition"].limit
    body = _yaml(data, _CompactDumper if compact else _Dumper)
    room = limit - len(body.encode()) - _CUT_LINE
    if room < 0:
        raise ColltoolError(
            f"a fabric file of more than {limit // 2**20} MiB cannot be read back",
            fix="use fewer logs, protocols or texts",
        )
    lines = [f"# {line}".rstrip() + "\n" for line in comments]
    kept = bisect_right(list(accumulate(len(line.encode()) for line in lines)), room)
    text = "".join(lines[:kept])
    if kept < len(lines):
        left = len(lines) - kept
        text += f"# ({left} more lines are left out: a file holds at most {limit // 2**20} MiB)\n"
    return text + body
