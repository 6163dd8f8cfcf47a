"""What pydantic finds wrong with a fabric, in plain words: what was found, what is accepted, the nearest valid key."""

from typing import Any, NamedTuple, get_args

from pydantic import BaseModel, ValidationError

from colltool.errors import ColltoolError, nearest
from colltool.fabric.model import (
    MAX_ALPHA_S,
    MAX_BANDWIDTH_BPS,
    MAX_DEPTH,
    MAX_RANKS,
    MIN_ALPHA_S,
    MIN_BANDWIDTH_BPS,
    SCHEMA,
    Fabric,
)
from colltool.fabric.source import KeyPath, shown
from colltool.fabric.topology import TOPOLOGIES
from colltool.units import format_rate, format_time

MOST = 100  # findings worth reading in one go

_TIME = f"a time from {format_time(MIN_ALPHA_S)} to {format_time(MAX_ALPHA_S)}, such as 0.5us"
_COUNT = f"a whole number from 1 to {MAX_RANKS}"
_TEXT = "a text, a list of texts or a mapping of texts"
_NAME = "a name of at most 64 letters, digits, '-' and '_', such as rack-1"
_SHARE = "a number above 0 and at most 1, such as 0.8"
_RATIO = "a number from 1 to 1000, such as 1.2"

# By key, or by "parent.key" where a key means two things; "key[]" is an item of a list.
ACCEPTED = {
    "schema": SCHEMA,
    "name": _NAME,
    "description": "a text",
    "notes": _TEXT,
    "source": _TEXT,
    "launch_overhead": f"a time from 0 s to {format_time(MAX_ALPHA_S)}, such as 2us",
    "tiers": f"a list of 1 to {MAX_DEPTH} tiers, innermost first",
    "tiers[]": "a tier: a mapping with name, topology, bandwidth ...",
    "topology": f"one of {', '.join(TOPOLOGIES)}",
    "size": _COUNT,
    "shape": f"a list of 1 to {MAX_DEPTH} whole numbers, such as [8, 8, 4]",
    "shape[]": _COUNT,
    "alpha": _TIME,
    "bandwidth": f"a rate from {format_rate(MIN_BANDWIDTH_BPS)} to {format_rate(MAX_BANDWIDTH_BPS)}, such as 900GB/s",
    "ports": "a whole number from 1 to 1024",
    "max_size": _COUNT,
    "eta": "a mapping such as {alpha: 1.2, beta: 0.8}",
    "eta.alpha": _RATIO,
    "eta.beta": _SHARE,
    "in_network": "a mapping such as {reduce: true, alpha_switch: 0.2us}",
    "reduce": "true or false",
    "multicast": "true or false",
    "all_to_all": "true or false",
    "alpha_switch": _TIME,
    "in_network.levels": f"a whole number from 1 to {MAX_DEPTH}",
    "eta_beta": _SHARE,
    "protocols": "a list of protocols, such as [{name: LL, alpha: 0.6us, bandwidth: 40GB/s}]",
    "in_network.protocols": "a list of names of the tier's protocols, such as [Simple]",
    "protocols[]": "a protocol: a mapping such as {name: LL, alpha: 0.6us, bandwidth: 40GB/s}",
    "local_copy": f"a rate from {format_rate(MIN_BANDWIDTH_BPS)} to {format_rate(MAX_BANDWIDTH_BPS)}, such as 900GB/s",
    "measured": "a mapping such as {smallest: 1KiB, largest: 8GiB}",
    "smallest": "a size, such as 1KiB",
    "largest": "a size, such as 8GiB",
    "primitives": "a list of primitives, such as [all_reduce, all_gather]",
    "primitives[]": "a primitive, such as all_reduce",
    "algorithms.PRIMITIVE": "a list of algorithms, such as [ring, in-network]",
    "algorithms": "a mapping such as {all_reduce: [ring, in-network]}",
    "levels": f"a list of 1 to {MAX_DEPTH} levels, bottom up, such as [{{name: leaf, group: 4, alpha: 2us}}]",
    "levels[]": "a level: a mapping such as {name: leaf, group: 4, alpha: 2us}",
    "group": _COUNT,
    "oversubscription": "a number from 1 to 1000, such as 2",
    "sizing": "a mapping such as {rails: 8, nics_per_rail: 1, radix: 64}",
    "rails": _COUNT,
    "nics_per_rail": _COUNT,
    "radix": _COUNT,
}


class Finding(NamedTuple):
    """One thing wrong: its key path in the file, the words, and whether it is about the key rather than its value."""

    path: KeyPath
    what: str
    fix: str
    about_key: bool = False


def findings(error: ValidationError, data: dict[str, Any]) -> list[Finding]:
    """Each thing that pydantic found wrong with ``data``, once, without those that only follow from another.

    At most ``MOST`` + 1: the last is there to tell that there are more.
    """
    raw = [(item, _file_path(item["loc"])) for item in error.errors(include_url=False) if not _is_echo(item)]
    unknown = {path for item, path in raw if item["type"] == "extra_forbidden"}
    inside_text = {_text_key(path) for _, path in raw if _text_key(path) != path}
    found: dict[KeyPath, Finding] = {}
    for item, path in raw:
        if len(found) > MOST:
            break
        if item["type"] == "missing" and _counterpart(path) in unknown:
            continue  # reported at the key that stands in its place
        if path in inside_text:
            continue  # reported at the item that is no text
        if path not in found:
            found[path] = _finding(item, path, data)
    return list(found.values())


def keys_at(path: KeyPath, data: Any) -> list[str]:
    """The keys that the mapping at ``path`` may have, in the order of the model, those that are never priced last."""
    model = _model_at(path, data)
    keys = [field.alias or name for name, field in model.model_fields.items()] if model else []
    return sorted(keys, key=lambda key: key in ("notes", "source"))


def _finding(item: Any, path: KeyPath, data: dict[str, Any]) -> Finding:
    kind = item["type"]
    if kind == "missing":
        return _missing(path)
    if kind == "extra_forbidden":
        return _unknown_key(path, data)
    if kind.startswith("union_tag"):
        return _bad_topology(path, data)
    value = value_at(path, data)
    if kind == "value_error" and (own := _own_words(item, path, value)):
        return own
    accepted = ACCEPTED.get(_topic(path), "another value")
    return Finding(path, f"expected {accepted}, got {shown(value)}", _repair(kind, path, value))


def _missing(path: KeyPath) -> Finding:
    return Finding(path[:-1], f"key '{path[-1]}' is missing", f"give {ACCEPTED.get(_topic(path), 'it')}", about_key=True)


def _unknown_key(path: KeyPath, data: dict[str, Any]) -> Finding:
    key, known = str(path[-1]), keys_at(path[:-1], data)
    tier = _topology(path[:-1], data)
    if tier and (other := _counterpart(path)):
        accepted = ACCEPTED[str(other[-1])]
        return Finding(path, f"a {tier} gives '{other[-1]}', not '{key}'", f"{other[-1]} is {accepted}", about_key=True)
    owners = [name for name, model in TOPOLOGIES.items() if key in model.model_fields] if tier else []
    if owners:
        return Finding(path, f"a {tier} has no '{key}'", f"only {' and '.join(owners)} have one", about_key=True)
    hint = nearest(key, known)
    return Finding(path, f"unknown key {shown(key)}", f"{hint} known: {', '.join(known)}".strip(), about_key=True)


def _bad_topology(path: KeyPath, data: dict[str, Any]) -> Finding:
    tier = value_at(path, data)
    if "topology" not in tier:
        return _missing((*path, "topology"))
    value = tier["topology"]
    hint = nearest(value, list(TOPOLOGIES)) if isinstance(value, str) else ""
    return Finding((*path, "topology"), f"{shown(value)} is not a topology", f"{hint} known: {', '.join(TOPOLOGIES)}".strip())


def _own_words(item: Any, path: KeyPath, value: Any) -> Finding | None:
    """The words of units.py or of a validator of the model; None for what is no short text where a quantity is due."""
    raised = item["ctx"]["error"]
    if not ACCEPTED.get(_topic(path), "").startswith(("a time", "a rate")):
        return Finding(path or ("tiers",), str(raised), "")  # what the model says of a whole file is about its tiers
    if isinstance(value, str) and len(value) <= 60 and isinstance(raised.__cause__, ColltoolError):
        return Finding(path, raised.__cause__.what, raised.__cause__.fix)
    return None


def _repair(kind: str, path: KeyPath, value: Any) -> str:
    """What to write instead, where the slip is plain."""
    topic = _topic(path)
    if isinstance(value, str) and kind in ("int_type", "float_type") and _is_number(value):
        return f"write {value} without quotes"
    if kind == "bool_type" and isinstance(value, str) and value.lower() in ("yes", "on", "no", "off"):
        return f"write {'true' if value.lower() in ('yes', 'on') else 'false'}"
    if kind in ("int_type", "int_from_float") and isinstance(value, float) and value.is_integer():
        return f"write {int(value)}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"write {topic}: {SCHEMA}" if topic == "schema" else ""
    if topic == "bandwidth" and value < MIN_BANDWIDTH_BPS:
        return f"is the unit missing? {value:g} is read as bytes/s: write {value:g}GB/s"
    if ACCEPTED.get(topic, "").startswith("a time"):
        return f"is the unit missing? write {value:g}us or {value:g}ns"
    if "text" in ACCEPTED.get(topic, "") or kind.startswith("string"):
        return "put it in quotes"
    return ""


def _is_echo(item: Any) -> bool:
    """A list counted as too short only because pydantic dropped the items it found wrong."""
    return bool(item["type"] == "too_short" and len(item["input"]) >= item["ctx"]["min_length"])


def _file_path(loc: KeyPath) -> KeyPath:
    """The key path of pydantic's ``loc`` without what is not in the file: tag of a tier, branch of ``notes``, mark of a key."""
    if loc[:1] == ("tiers",):
        loc = (*loc[:2], *loc[3:])
    loc = tuple(step for step in loc if step != "[key]")  # a mapping's own key is wrong
    branch = len(_text_key(loc))
    return (*loc[:branch], *loc[branch + 1 :])


def _text_key(path: KeyPath) -> KeyPath:
    """``path`` up to the first ``notes`` or ``source``, all of it when there is none."""
    return next((path[: end + 1] for end, step in enumerate(path) if step in ("notes", "source")), path)


def value_at(path: KeyPath, data: Any) -> Any:
    """The value at ``path``, None when there is none."""
    for step in path:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _topic(path: KeyPath) -> str:
    """The row of ``ACCEPTED`` for a path."""
    if _text_key(path) != path:
        return "description"
    names = [step for step in path if isinstance(step, str)]
    if not names:
        return ""
    if isinstance(path[-1], int):
        return f"{names[-1]}[]"
    if "algorithms" in names[:-1]:
        return "algorithms.PRIMITIVE"
    pair = ".".join(names[-2:])
    return pair if pair in ACCEPTED else names[-1]


def _topology(path: KeyPath, data: Any) -> str:
    """The topology of the tier that ``path`` is, the empty string when it is none."""
    is_tier = len(path) == 2 and path[0] == "tiers"
    return str(value_at((*path, "topology"), data)) if is_tier else ""


def _counterpart(path: KeyPath) -> KeyPath | None:
    """``shape`` for ``size`` and the other way round."""
    swap = {"size": "shape", "shape": "size"}
    return (*path[:-1], swap[str(path[-1])]) if path and path[-1] in swap else None


def _model_at(path: KeyPath, data: Any) -> type[BaseModel] | None:
    """The model of the mapping at ``path``."""
    model: type[BaseModel] | None = Fabric
    for end, step in enumerate(path):
        if isinstance(step, int) or model is None:
            continue
        if path[: end + 1] == ("tiers",):
            model = TOPOLOGIES.get(_topology(path[:2], data))
            continue
        field = next((field for name, field in model.model_fields.items() if (field.alias or name) == step), None)
        model = _model_in(field.annotation) if field else None
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The first model within an annotation such as ``tuple[Level, ...] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part))), None)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
