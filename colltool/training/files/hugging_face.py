"""Models from a Hugging Face ``config.json``.

``data/families.toml`` says which keys of which type of model mean what: sizes, the operation of each
layer, and which layers have experts. :class:`ModelConfig` reads a config by it, and
:func:`shape_of` makes the model of a job. Keys that change the size or work of a model are either
used or refused by name (:func:`unmodelled`).
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict

from colltool.base.errors import ColltoolError, ManyErrors, nearest, printable, problems_of
from colltool.base.files import read_text
from colltool.definitions.field_types import Part
from colltool.definitions.reader import read
from colltool.training.files import MAX_DIMENSION, ModelFile
from colltool.training.mixers import KINDS

# fixes of errors
MODEL_FILE = (
    "give the model as a file with --model-file model.yaml: layers, hidden, heads, ffn, vocab,"
    " operations ... (colltool guide jobs shows one, and the types that are known)"
)
KNOWN_TIMES = (
    "parameters and layers of the model as a mapping, with the times of compute:"
    " {forward_per_layer: 7ms, ...}"
)
# keys that change a model, with the values at which they do not
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "word_embed_proj_dim": (),  # the hidden size, which ``unmodelled`` fills in
    "is_encoder_decoder": (None, False),
    "add_cross_attention": (None, False),
    "attention_chunk_size": (None,),
    "chunk_size_feed_forward": (None, 0),
    "use_mup": (None, False),
}
# kinds of attention in ``attn_config``
ATTENTION_TYPES = ("multihead_attention", "multiquery_attention", "grouped_query_attention")
MAX_LAYERS = 100_000

_TABLE = tomllib.loads(
    (Path(__file__).parents[1] / "data" / "families.toml").read_text(encoding="utf-8")
)
_SIZES: dict[str, list[str]] = {**_TABLE["sizes"], **_TABLE["operation_sizes"]}
# keys that change neither size nor work
HARMLESS = frozenset(_TABLE["harmless"])
FAMILIES: dict[str, Mapping[str, Any]] = _TABLE["types"]
# why types of models are refused
REASONS = {kind: why for why, kinds in _TABLE["refused"].items() for kind in kinds}
# parts of keys that sound like a size; names of parts that are no text
_SIZED = re.compile("|".join(_TABLE["sized"]))
_UNSIZED = re.compile("|".join(_TABLE["unsized"]))
_SIDES = re.compile("|".join(_TABLE["sides"]))
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_LAST_WITH_EXPERTS = "moe_layer_end_index"
# words after an operation that say which keys it sees
_WINDOW = " in a window"
_CHUNKS = " in chunks"


def _keys_of(names: Any) -> list[str]:
    """The keys of a list of spellings, or of a rule's key."""
    spellings = names if isinstance(names, list) else [names]
    found = []
    for spelling in spellings:
        if isinstance(spelling, str):
            found += _NAME.findall(spelling)
    return found


def _size_keys(entry: Mapping[str, Any]) -> set[str]:
    """Keys of the sizes of an entry, in whatever case."""
    tables = [entry.get("sizes", {}), entry.get("operation_sizes", {})]
    tables += entry.get("own", {}).values()
    for change in entry.get("when", ()):
        tables.append(change.get("sizes", {}))
    found: set[str] = set()
    for table in tables:
        for names in table.values():
            found.update(_keys_of(names))
    return found


def _own_keys(entry: Mapping[str, Any]) -> set[str]:
    """Keys that models of a type have, whether or not they are looked up."""
    found = _size_keys({"sizes": _TABLE["sizes"]}) | _size_keys(entry)
    for rule in (*entry.get("mixers", _TABLE["mixers"]), *_TABLE["experts"]):
        for form in ("list", "at", "every", "offset", "from", "on"):
            found.update(_keys_of(rule.get(form)))
    found.update(change["key"] for change in entry.get("when", ()))
    for word in (*entry.get("words", {}).values(), *entry.get("also", ())):
        kind = KINDS.get(word.removesuffix(_WINDOW).removesuffix(_CHUNKS))
        for size in kind.needs if kind is not None else ():
            found.update(_keys_of(_SIZES.get(size, [])))
    return {key.partition(".")[0] for key in found} | set(entry.get("harmless", ()))


def _all_keys() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """(Keys of whole numbers, of lists or texts of layers, and those of either.)"""
    numbers: set[str] = {*_TABLE["ahead"], _LAST_WITH_EXPERTS}
    lists: set[str] = set()
    entries = [_TABLE, *FAMILIES.values()]
    for entry in entries:
        numbers |= _size_keys(entry)
        for rule in (*entry.get("mixers", ()), *entry.get("experts", ())):
            for form in ("every", "offset", "from"):
                numbers.update(_keys_of(rule.get(form)))
            for form in ("list", "at"):
                lists.update(_keys_of(rule.get(form)))
    return frozenset(numbers - lists), frozenset(lists - numbers), frozenset(lists & numbers)


_NUMBERS, _LISTS, _EITHER = _all_keys()
_FLAGS = frozenset(_TABLE["flags"])
_POSITIONS = frozenset(entry["positions"] for entry in FAMILIES.values() if "positions" in entry)
USED = frozenset(
    key.split(".")[0] for key in (*_NUMBERS, *_LISTS, *_EITHER, *_FLAGS, *_POSITIONS)
) | {"model_type"}


class ConfigFile(Part):
    """Any mapping; :func:`unmodelled` judges its keys."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False, defer_build=True)


class Finding(NamedTuple):
    """What is wrong with a key of a config, and what to write instead."""

    path: tuple[str, ...]
    what: str
    fix: str
    about_key: bool = True  # else it is about the value


@cache
def family_of(kind: str) -> Mapping[str, Any]:
    """The entry of a type, with what it has from the type that it is like."""
    row = FAMILIES[kind]
    if "like" not in row:
        return row
    found = _merged(family_of(row["like"]), row)
    # a type with keys of its own has other defaults
    if len(row) > 1 and "inside" not in row:
        found.pop("inside", None)
    return found


def _merged(base: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """An entry over another, some of its tables key by key."""
    found = {**base, **row}
    for key in ("sizes", "words", "defaults"):
        if key in base and key in row:
            found[key] = {**base[key], **row[key]}
    return found


class ModelConfig:
    """A config, read by the entry of its type.

    Args:
        path: where its text is in a config of several parts.
        data: its keys, with those that the type has by default.
        entry: what ``data/families.toml`` says of the type.
        left_out: parts of the config that are no text, by key.
        given: the keys of the text itself; all of them unless given.

    Attributes:
        asked: keys of the type, and those that were looked up.
        passed_over: keys that may say something of the model, but no size.
    """

    def __init__(
        self,
        path: tuple[str, ...],
        data: Mapping[str, Any],
        kind: str,
        left_out: list[str],
        given: Mapping[str, Any] | None = None,
    ) -> None:
        entry = family_of(kind)
        inside = entry.get("inside", {}) if path else {}
        self.path = path
        self.kind = kind
        self.data: dict[str, Any] = {**entry.get("defaults", {}), **inside, **data}
        self.left_out = left_out
        self.given = data if given is None else given
        self.passed_over: list[str] = []
        self.asked = {"model_type", *_FLAGS, *_POSITIONS, *_TABLE["ahead"], *_TABLE["texts"]}
        self.asked |= _own_keys(entry)
        for change in entry.get("when", ()):
            value = self.get(change["key"])
            if value == change["value"] or (change["value"] == "given" and value):
                entry = {**entry, **change}
        self.entry = entry

    def get(self, key: str) -> Any:
        """The value of a key, which is asked for from now on."""
        self.asked.add(key.partition(".")[0])
        return _value_at(self.data, key)

    def number(self, key: str) -> int | None:
        """The whole number of a key or a size; of a list that of all layers."""
        value = self.get(key)
        if isinstance(value, list) and value and len(set(map(str, value))) == 1:
            value = value[0]
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        # a size that no key is called like
        spellings = self.entry.get("sizes", {}).get(key, (key,))
        return None if key in spellings else self.size(key)

    def formula(self, text: str) -> int | None:
        """The value of a sum of products and quotients of keys; None where one is not given."""
        total = 0
        for product in text.split("+"):
            factors, *divisors = product.split("/")
            value = 1
            for name in factors.split("*"):
                factor = int(name) if name.isdecimal() else self.number(name)
                if factor is None:
                    return None
                value *= factor
            for name in divisors:
                divisor = int(name) if name.isdecimal() else self.number(name)
                if not divisor:
                    return None
                value //= divisor
            total += value
        return total

    def size(self, name: str, operation: str = "") -> int | None:
        """A size by its name in colltool; None where no key gives it.

        Args:
            operation: whose own size it is, if it has one; else the model's.
        """
        own = self.entry.get("own", {}).get(operation, {})
        if not operation and name in self.entry.get("fixed", {}):
            fixed: int = self.entry["fixed"][name]
            return fixed
        if operation and name not in own:
            return None
        spellings = own if operation else {**_SIZES, **self.entry.get("sizes", {})}
        self.asked.update(key.partition(".")[0] for key in _keys_of(spellings.get(name, [])))
        for spelling in spellings.get(name, ()):
            found = self.formula(spelling)
            if found is not None:
                return found
        return None

    def key_of(self, name: str) -> str:
        """The key that a size is usually written with."""
        spellings = {**_SIZES, **self.entry.get("sizes", {})}
        return str((spellings.get(name) or [name])[0])

    def first(self, keys: Any) -> Any:
        """The value of the first of several keys that is given; a number stands for itself."""
        if isinstance(keys, int):
            return keys
        values = [self.get(key) for key in (keys if isinstance(keys, list) else [keys])]
        return next((value for value in values if value is not None), None)

    @property
    def layers(self) -> int:
        """Layers; where no key says so as many as are listed."""
        count = self.size("layers")
        if count is None:
            for rule in self._mixer_rules():
                listed = _listed(self.first(rule.get("list", "")))
                if listed:
                    return len(listed)
        return count or 0

    def _mixer_rules(self) -> list[Mapping[str, Any]]:
        rules: list[Mapping[str, Any]] = self.entry.get("mixers", _TABLE["mixers"])
        return rules

    def words(self) -> list[str]:
        """The word of each layer, by the first rule that holds."""
        for rule in self._mixer_rules():
            found = self._by_rule(rule)
            if found is not None:
                return found
        return ["attention"] * self.layers

    def list_of_words(self) -> str:
        """The key that lists the layers, for errors."""
        for rule in self._mixer_rules():
            for key in _keys_of(rule.get("list")):
                if _listed(self.get(key)):
                    return key
        return "layer_types"

    def operations(self) -> list[str]:
        """The operation of each layer, or what follows one: "dense", "experts" or nothing."""
        known = self._known_words()
        return [known.get(word, word) for word in self.words()]

    def _known_words(self) -> dict[str, str]:
        return {**_TABLE["words"], **self.entry.get("words", {})}

    def unknown_words(self) -> list[str]:
        """Words of layers that stand for no operation."""
        found = []
        for word in self.words():
            base = self._known_words().get(word, word)
            for ending in (_WINDOW, _CHUNKS):
                base = base.removesuffix(ending)
            if base not in KINDS and base not in ("", "dense", "experts"):
                found.append(word)
        return found

    def with_experts(self) -> list[bool]:
        """Whether each layer has experts, as far as other keys than its operation say."""
        found = [True] * self.layers
        for rule in _TABLE["experts"]:
            words = self._by_rule({"is": "experts", "other": "dense", **rule})
            if words is None:
                continue
            known = {**_TABLE["words"], **rule.get("words", {})}
            for layer, word in enumerate(words[: self.layers]):
                found[layer] = found[layer] and known.get(word, word) == "experts"
        end = self.number(_LAST_WITH_EXPERTS)
        if end is not None and end >= 0:
            for layer in range(end + 1, self.layers):
                found[layer] = False
        return found

    def _by_rule(self, rule: Mapping[str, Any]) -> list[str] | None:
        """The word of each layer by a rule; None where its key is not given."""
        layers = self.layers
        if "on" in rule and not self.get(rule["on"]):
            return None
        if "all" in rule:
            return [rule["all"]] * layers
        form = next(form for form in ("list", "every", "at", "from") if form in rule)
        value = self.first(rule[form])
        if form == "list":
            return self._from_list(rule, value)
        if value is None or isinstance(value, bool):
            return None
        if form == "at":
            listed = [int(word) - rule.get("base", 0) for word in _listed(value) or ()]
            named = set(listed)
        elif not isinstance(value, int):
            return None
        elif form == "from":
            named = set(range(value, layers))
        else:
            if value == 0:
                return None
            offset = self.first(rule["offset"]) if "offset" in rule else value - 1
            named = {layer for layer in range(layers) if layer % value == (offset or 0)}
        return [rule["is"] if layer in named else rule["other"] for layer in range(layers)]

    def _from_list(self, rule: Mapping[str, Any], value: Any) -> list[str] | None:
        listed = _listed(value)
        if not listed:
            return None
        if rule.get("cyclic"):
            return [listed[layer % len(listed)] for layer in range(self.layers)]
        return listed[: self.layers or None]

    def not_counted(self) -> list[str]:
        """What is not counted of a model, in words."""
        found = []
        for key in _TABLE["ahead"]:
            ahead = self.number(key)
            if ahead:
                layers = "a layer that predicts" if ahead == 1 else f"{ahead} layers that predict"
                found.append(f"{layers} further tokens ({key})")
                break
        found += [f"what is no text ({part})" for part in self.left_out]
        if self.passed_over:
            found.append(f"what these keys say: {', '.join(self.passed_over[:4])}"[:100])
        return found


def _value_at(data: Mapping[str, Any], key: str) -> Any:
    """The value of a key; of one inside a mapping by ``outer.inner``, of all that are inside a
    mapping by ``outer.each.inner``."""
    found: Any = data
    for part in key.split("."):
        if isinstance(found, list):
            found = [_inside(value, part) for value in found]
        elif part == "each" and isinstance(found, Mapping):
            found = list(found.values())
        else:
            found = _inside(found, part)
    return found


def _inside(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def _listed(value: Any) -> list[str] | None:
    """The words of a list of layers: of a list, of letters, or of numbers between commas."""
    if isinstance(value, str):
        return value.split(",") if "," in value else list(value)
    if isinstance(value, list):
        return [str(word) for word in value]
    return None


def config_of(data: Mapping[str, Any]) -> ModelConfig | Finding:
    """The config of a model's text, or why it is not read."""
    path: tuple[str, ...] = ()
    kinds = [data.get("model_type")]
    merged = dict(data)
    part: Mapping[str, Any] = data
    left_out = _no_text(data)
    while True:
        inner = next((key for key in _TABLE["texts"] if isinstance(part.get(key), Mapping)), "")
        if not inner:
            break
        part = part[inner]
        path = (*path, inner)
        kinds.append(part.get("model_type"))
        left_out += _no_text(part)
        # what the text does not say itself is that of the whole, such as a tied head
        whole = {key: value for key, value in merged.items() if key in USED}
        merged = {**whole, **part}
    for kind in reversed(kinds):
        if isinstance(kind, str) and kind in FAMILIES:
            return ModelConfig(path, merged, kind, left_out, part)
    return _unknown_type(part, [kind for kind in kinds if kind is not None], path)


def _no_text(data: Mapping[str, Any]) -> list[str]:
    """Keys of parts that are no text: towers of images or sound."""
    found = []
    for key, value in data.items():
        if isinstance(value, Mapping) and value and _SIDES.search(key):
            found.append(key)
    return found


def _unknown_type(data: Mapping[str, Any], kinds: list[Any], path: tuple[str, ...]) -> Finding:
    """What is said of a type of model that is not known."""
    place = (*path, "model_type")
    if not kinds:
        fix = f'"model_type": "llama"; or {MODEL_FILE}'
        return Finding(place, "no model_type: nothing says how its layers are made", fix)
    kind = kinds[-1]
    typed = printable(str(kind))[:60]
    what = f"model_type '{typed}' is not modelled"
    if isinstance(kind, str) and kind in REASONS:
        return Finding(place, f"{what}: {REASONS[kind]}", f"{MODEL_FILE}; or {KNOWN_TIMES}")
    unread = []
    for key, value in data.items():
        if key not in USED | HARMLESS and _may_size(key, value):
            unread.append(printable(key)[:40])
    if unread:
        what += f", and no known type has {', '.join(unread[:6])}"
    near = nearest(typed, list(FAMILIES))
    fix = f"{near} {MODEL_FILE}; or the model_type of a known one with the same layers"
    return Finding(place, what, fix.strip())


def _may_size(key: str, value: Any) -> bool:
    """Whether a key that is not known sounds like a size or a structure that is switched on."""
    # zeros and nothing switch off; a comparison with True would take 1 for it
    if value is None or value is False or value in (0, "", [], {}):
        return False
    return _SIZED.search(key.lower()) is not None and _UNSIZED.search(key.lower()) is None


def unmodelled(config: ModelConfig) -> Iterator[Finding]:
    """Yield what is wrong with a config or not modelled: keys of the wrong type, and those that
    change its size or work."""
    wrong = list(_wrong_types(config))
    yield from wrong
    if wrong:
        return
    words = config.unknown_words()
    if words:
        key = next(
            (key for key in _LISTS if isinstance(config.get(key), list | str)), "layer_types"
        )
        what = (
            f"{key} has {len(words)} of {config.layers} layers of {_short_text(words[0])}, which is"
            " not modelled"
        )
        yield Finding((*config.path, key), what, MODEL_FILE)
    else:
        yield from _missing(config)
    attention = config.get("attn_config.attn_type") or ATTENTION_TYPES[0]
    if attention not in ATTENTION_TYPES:
        what = f"attn_type {_short_text(attention)} is not modelled"
        yield Finding((*config.path, "attn_config"), what, MODEL_FILE)
    if not words:
        # it asks for every key that it needs
        shape_of(config, "")
    yield from _unknown_keys(config)


def _unknown_keys(config: ModelConfig) -> Iterator[Finding]:
    """Yield keys that may change the size or work of a model, and that nothing was asked of."""
    for key, value in config.given.items():
        if key in config.asked or key in HARMLESS or key in config.left_out:
            continue
        path = (*config.path, key)
        if key in NEUTRAL:
            neutral = NEUTRAL[key]
            if key == "word_embed_proj_dim":
                neutral = (config.size("hidden"),)
            if value not in neutral:
                what = f"{key} is {_short_text(value)}, which is not modelled"
                yield Finding(path, what, MODEL_FILE)
        elif not _may_size(key, value):
            continue
        # a word, a switch or a factor is no size: it is named as not counted
        elif isinstance(value, bool | float) or (isinstance(value, str) and key not in _LISTS):
            config.passed_over.append(key)
        # an unknown key that sounds like a size is refused unless it is switched off
        else:
            what = (
                f"{key} is {_short_text(value)}: nothing is known of this key of {config.kind}, and"
                " it may change the model"
            )
            yield Finding(path, what, MODEL_FILE)


def _missing(config: ModelConfig) -> Iterator[Finding]:
    """Sizes of the model, its experts and its operations that no key gives."""
    needed = ["hidden", "heads", "vocab"]
    if not config.layers:
        needed.insert(1, "layers")
    if config.size("kv_rank"):
        needed += ["nope", "rope", "value"]
    if config.size("experts"):
        needed.append("top_k")
    elif config.size("ffn") is None:
        needed.append("ffn")
    for word in dict.fromkeys((*config.operations(), *config.entry.get("also", []))):
        kind = KINDS.get(word.removesuffix(_WINDOW).removesuffix(_CHUNKS))
        if kind is not None:
            # of attention keys and values may have as many heads, as wide as hidden / heads
            needed += [size for size in kind.needs if size not in ("kv_heads", "head_dim")]
    for size in dict.fromkeys(needed):
        if config.size(size) is None:
            key = config.key_of(size)
            where = f" in {'.'.join(config.path)}" if config.path else ""
            what = f"{key} is missing{where}, which a {config.kind} needs"
            yield Finding(config.path, what, f'add "{key}"; or {MODEL_FILE}')


def _wrong_types(config: ModelConfig) -> Iterator[Finding]:
    """Keys whose values are not what they should be."""
    for key in (*_NUMBERS, *_EITHER, *_LISTS, *_FLAGS):
        value = _value_at(config.data, key)
        if value is None:
            # a key of a mapping that is none
            outer = key.partition(".")[0]
            if outer != key and not isinstance(_value_at(config.data, outer), Mapping | None):
                expected = "a mapping"
                value = _value_at(config.data, outer)
                key = outer
            else:
                continue
        elif value == "auto" or (value is False and key not in _FLAGS):
            # as good as not given
            continue
        elif key in _FLAGS:
            expected = "" if isinstance(value, bool) else "true or false"
        elif key in _LISTS:
            expected = "" if _is_list(value) or isinstance(value, str) else "a list of layers"
        elif key in _EITHER and (_is_list(value) or isinstance(value, str)):
            expected = ""
        else:
            numbers = value if isinstance(value, list) and value else [value]
            expected = ""
            if not all(map(_is_size, numbers)):
                expected = f"a whole number from 0 to {MAX_DIMENSION}"
            elif len(set(numbers)) > 1:
                what = f"{key} differs from layer to layer, which is not modelled"
                yield Finding((*config.path, key), what, MODEL_FILE)
        if expected:
            what = f"expected {expected}, got {_short_text(value)}"
            path = (*config.path, *key.split("."))
            yield Finding(path, what, f'write "{key}": {expected}', about_key=False)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_DIMENSION


def _is_list(value: Any) -> bool:
    """Whether a value is a list of words or numbers, a layer each."""
    if not isinstance(value, list) or len(value) > MAX_LAYERS:
        return False
    return all(isinstance(word, str | int) for word in value)


def _short_text(value: Any) -> str:
    """Return a value as text for an error, at most 60 characters."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return printable(str(value))[:60]


def shape_of(config: ModelConfig, name: str) -> dict[str, Any]:
    """Return the ``model:`` mapping of a job for a config, without keys that it does not give."""
    entry = config.entry
    operations = config.operations()
    moe = _moe(config, operations)
    mla = _mla(config)
    ffn = config.size("ffn")
    if not ffn and moe is not None:
        ffn = moe.get("ffn")
    tied = config.get("tie_word_embeddings")
    head_dim = config.size("head_dim") or None
    kv_heads = config.size("kv_heads")
    found = _without_none(
        name=name,
        layers=config.layers or None,
        hidden=config.size("hidden"),
        heads=config.size("heads"),
        vocab=config.size("vocab"),
        kv_heads=None if mla else kv_heads,
        head_dim=None if mla else head_dim,
        ffn=ffn,
        gated=entry.get("gated", True),
        bias=entry.get("bias", False),
        tied=entry.get("tied", False) if tied is None else tied,
        positions=config.get(entry["positions"]) if "positions" in entry else None,
        moe=moe,
        mla=mla,
        left_out=config.not_counted() or None,
    )
    if "dense" in operations or "experts" in operations:
        found["ffn_layers"] = operations.count("dense")
    return found | _mixers(config, operations)


def _without_none(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _mla(config: ModelConfig) -> dict[str, Any] | None:
    """Return latent attention; None where keys and values have no bottleneck."""
    if not config.size("kv_rank"):
        return None
    return _without_none(
        q_rank=config.size("q_rank") or 0,
        kv_rank=config.size("kv_rank"),
        nope=config.size("nope"),
        rope=config.size("rope"),
        value=config.size("value"),
    )


def _mixers(config: ModelConfig, operations: list[str]) -> dict[str, Any]:
    """Return the operations of the layers; windows alone where all have the same attention."""
    window = config.size("window")
    if config.get("use_sliding_window") is False:
        window = None
    counts: Counter[str] = Counter()
    for operation in operations:
        if operation in ("", "dense", "experts"):
            continue
        # without its size there is no window
        counts[operation if window else operation.removesuffix(_WINDOW)] += 1
    repeats = config.entry.get("repeats", 1)
    also = config.entry.get("also", [])
    own = config.entry.get("own", {})
    plain = {"attention", "attention" + _WINDOW}
    if counts.keys() <= plain and repeats == 1 and not (also or own) and not _is_sparse(config):
        windowed = counts["attention" + _WINDOW]
        return {"window": window, "windowed_layers": windowed} if windowed else {}
    rows = []
    for operation, layers in counts.items():
        rows.append(_operation(config, operation, layers * repeats, window))
    for operation in also:
        rows.append(_operation(config, operation, config.layers, window))
    return {"operations": rows}


def _is_sparse(config: ModelConfig) -> bool:
    """Whether latent attention chooses its keys by an indexer."""
    return bool(config.size("kv_rank") and config.size("index_heads"))


def _operation(config: ModelConfig, word: str, layers: int, window: int | None) -> dict[str, Any]:
    """Return an operation of a model file."""
    kind = word.removesuffix(_WINDOW).removesuffix(_CHUNKS)
    seen = config.size("window", word) or window if kind != word else None
    if kind == "attention" and config.size("kv_rank"):
        kind = "latent attention"
        if _is_sparse(config):
            kind = "sparse attention"
            # the keys that it chooses are its window
            seen = config.size("index_top_k")
    sizes = {}
    for size in dict.fromkeys((*KINDS[kind].needs, *config.entry.get("own", {}).get(word, {}))):
        found = config.size(size, word)
        if found is None and size not in ("heads", "kv_heads", "head_dim"):
            found = config.size(size)
        if found is not None and size != "window":
            sizes[size] = found
    row = _without_none(operation=kind, layers=layers, window=seen or None)
    if word.endswith(_CHUNKS):
        row["chunked"] = True
    if sizes:
        row["sizes"] = sizes
    return row


def _moe(config: ModelConfig, operations: list[str]) -> dict[str, Any] | None:
    """Return the experts of a model; None where it has none."""
    experts = config.size("experts")
    if not experts:
        return None
    # in a list of all parts of a model experts are listed too
    listed = "experts" in operations or "dense" in operations
    sparse = [operation == "experts" for operation in operations]
    if not listed:
        sparse = config.with_experts()
    if not any(sparse):
        return None
    dense = sparse.count(False)
    width = config.size("expert_ffn") or config.size("ffn")
    found = _without_none(
        experts=experts,
        top_k=config.size("top_k"),
        ffn=width,
        shared_ffn=config.size("shared_ffn") or 0,
        dense_layers=dense,
        latent=config.size("latent") or None,
    )
    if any(sparse[:dense]):
        found["spread"] = True
    groups = config.size("groups")
    if groups is not None and groups > 1:
        found |= _without_none(groups=groups, top_groups=config.size("top_groups"))
    return found


def read_config(path: str) -> ModelFile:
    """Read the model of a config.json.

    Raises:
        ManyErrors: all that is not modelled.
    """
    reading = read(ConfigFile, read_text(path, "config", path), path)
    config = config_of(reading.data)
    if isinstance(config, Finding):
        for finding in (config, *_wrong_types(ModelConfig((), reading.data, "llama", []))):
            reading.refuse(finding.path, finding.what, finding.fix, about_key=finding.about_key)
        reading.result()
    assert isinstance(config, ModelConfig)  # nothing was refused
    for finding in unmodelled(config):
        reading.refuse(finding.path, finding.what, finding.fix, about_key=finding.about_key)
    reading.result()
    name = Path(path).parent.name if Path(path).name == "config.json" else Path(path).stem
    try:
        return read(ModelFile, shape_of(config, name[:100])).result()
    except ManyErrors as error:
        where = f"{printable(path)}:1:1"
        errors = [
            ColltoolError(problem.what, where=where, fix=problem.fix or MODEL_FILE)
            for problem in problems_of(error)
        ]
        raise ManyErrors(errors) from error
