"""A config.json as its type's entry in ``data/families.toml`` reads it: sizes, the operation of each
layer, and which layers have experts.

:func:`config_of` finds the text in a config of several parts, and its type. A :class:`ModelConfig`
then answers questions of a model, and remembers the keys that it was asked for, so that the others
can be judged (:mod:`config_problems`).

What it reads by is ``data/families.toml``, whose comments say what each key of an entry and of a rule
means. In short:

- a *type* is a config's ``model_type``; its *entry* says where it differs from other types
- a *spelling* is a key of a config, or a sum of products and quotients of keys, that gives a size
- a *rule* gives each layer a word: those of a list (``list``); or ``is`` for the layers that it
  names by number (``every``, ``from``, ``at``) and ``other`` for the rest; or one for ``all``
- a *word* stands for an operation of a layer, or for what follows it: "dense", "experts", ""
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from colltool.training.files.families import (
    FAMILIES,
    FLAGS,
    LAST_WITH_EXPERTS,
    NO_TEXT,
    POSITIONS,
    SIZES,
    TABLE,
    USED,
    family_of,
    keys_of,
    kind_of_word,
    outermost,
    own_keys,
)


class ModelConfig:
    """A config, read by the entry of its type.

    Args:
        path: where its text is in a config of several parts; empty where it is all text.
        data: its keys, also those of the parts around the text.
        kind: its type, a key of :data:`FAMILIES`.
        left_out: keys of parts that are no text.
        given: the keys of the text itself; all of ``data`` unless given.

    Attributes:
        data: the same, with keys that the type has by default.
        entry: what ``data/families.toml`` says of the type, for the values of this config.
        asked: keys that need no judging: those of the type, and all that were looked up; outermost
            ones, ``attn_config`` for ``attn_config.n_heads``.
        passed_over: keys that may say something of the model, but no size; :mod:`config_problems`
            fills it.
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
        # what the class of such models has by default, where their config is a part of another
        inside: Mapping[str, Any] = {}
        if path:
            inside = entry.get("inside", {})
        self.path = path
        self.kind = kind
        self.data: dict[str, Any] = {**entry.get("defaults", {}), **inside, **data}
        self.left_out = left_out
        self.given = data if given is None else given
        self.passed_over: list[str] = []
        self.asked = {"model_type", *FLAGS, *POSITIONS, *TABLE["ahead"], *TABLE["texts"]}
        self.asked |= own_keys(entry)
        # changes of the entry that hold where a key has a value; "given" is any but null, 0 and ""
        for change in entry.get("when", ()):
            value = self.get(change["key"])
            if value == change["value"] or (change["value"] == "given" and value):
                entry = {**entry, **change}
        self.entry = entry

    def get(self, key: str) -> Any:
        """The value of a key, None where it is not given; from now on the key counts as asked."""
        self.asked.add(outermost(key))
        return value_at(self.data, key)

    def number(self, key: str) -> int | None:
        """The whole number of a key, or else of the size of that name; of a list, the number that
        all layers have. None where there is none.

        The key may be one that a spelling names, so the name of a size gives that size.
        """
        value = self.get(key)
        if isinstance(value, list) and value and len(set(map(str, value))) == 1:
            value = value[0]
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        # a size that is spelled by its own name would be looked up without end
        spellings = self.entry.get("sizes", {}).get(key, (key,))
        return None if key in spellings else self.size(key)

    def formula(self, text: str) -> int | None:
        """The value of a spelling, a sum of products and quotients of keys such as
        ``hidden_size/n_heads``, rounded down; None where one is not given or divides by 0."""
        total = 0
        for product in text.split("+"):
            factors, *divisors = product.split("/")
            value = 1
            for key in factors.split("*"):
                factor = self._factor(key)
                if factor is None:
                    return None
                value *= factor
            for key in divisors:
                divisor = self._factor(key)
                if not divisor:
                    return None
                value //= divisor
            total += value
        return total

    def _factor(self, name: str) -> int | None:
        """The value of a number or a key in a spelling."""
        if name.isdecimal():
            return int(name)
        return self.number(name)

    def size(self, name: str, operation: str = "") -> int | None:
        """A size by its name in colltool; None where no key gives it.

        Args:
            name: one of :data:`SIZES`, such as "heads".
            operation: the operation whose own size is meant, None where it has none of that name;
                empty: the model's.
        """
        if operation:
            spellings = self.entry.get("own", {}).get(operation, {}).get(name, ())
        elif name in self.entry.get("fixed", {}):
            fixed: int = self.entry["fixed"][name]
            return fixed
        else:
            spellings = self._spellings(name)
        self.asked.update(map(outermost, keys_of(spellings)))
        for spelling in spellings:
            value = self.formula(spelling)
            if value is not None:
                return value
        return None

    def _spellings(self, name: str) -> list[str]:
        """The spellings of a size of the model, the first that is given holds; none of a size that
        is not known."""
        spellings: list[str] = {**SIZES, **self.entry.get("sizes", {})}.get(name, [])
        return spellings

    def key_of(self, name: str) -> str:
        """The key that a size is usually written with, for errors; else its name in colltool."""
        return next(iter(self._spellings(name)), name)

    def first_given(self, keys: Any) -> Any:
        """The value of the first of several keys that is given, None where none is.

        ``keys`` is as a rule has it: a list of keys, one key, or a number in place of a key's.
        """
        if isinstance(keys, int):
            return keys
        if isinstance(keys, str):
            return self.get(keys)
        values = [self.get(key) for key in keys]
        return next((value for value in values if value is not None), None)

    @property
    def layers(self) -> int:
        """How many layers there are: as a key says, else as many as a list names; 0 without
        either."""
        count = self.size("layers")
        if count is None:
            for rule in self._mixer_rules():
                listed = _listed(self.first_given(rule.get("list", "")))
                if listed:
                    return len(listed)
        return count or 0

    def _mixer_rules(self) -> list[Mapping[str, Any]]:
        """The rules for the operation of each layer, of the type or of all types."""
        rules: list[Mapping[str, Any]] = self.entry.get("mixers", TABLE["mixers"])
        return rules

    def words(self) -> list[str]:
        """The word of each layer as the config writes it, by the first rule that holds."""
        for rule in self._mixer_rules():
            words = self._by_rule(rule)
            if words is not None:
                return words
        return ["attention"] * self.layers

    def layer_list_key(self) -> str:
        """The key whose list has the words of layers, for errors; ``layer_types`` where none has."""
        for rule in self._mixer_rules():
            for key in keys_of(rule.get("list")):
                if _listed(self.get(key)):
                    return key
        return "layer_types"

    def operations(self) -> list[str]:
        """The operation of each layer, such as "attention in a window"; or what follows one: "dense",
        "experts" or "". Words that are not known come back as they are."""
        known = self._known_words()
        return [known.get(word, word) for word in self.words()]

    def _known_words(self) -> dict[str, str]:
        """The operation of each word that configs of the type have."""
        return {**TABLE["words"], **self.entry.get("words", {})}

    def unknown_words(self) -> list[str]:
        """Words of layers that stand for no operation."""
        known = self._known_words()
        unknown = []
        for word in self.words():
            operation = known.get(word, word)
            if kind_of_word(operation) is None and operation not in ("", "dense", "experts"):
                unknown.append(word)
        return unknown

    def with_experts(self) -> list[bool]:
        """Return for each layer whether it has experts: all rules that hold have to say so, and
        without any rule all layers have.

        Not for types with ``single``, whose :meth:`operations` say it.
        """
        have_experts = [True] * self.layers
        for rule in TABLE["experts"]:
            # rules that name layers by number name those with experts, unless they say otherwise
            words = self._by_rule({"is": "experts", "other": "dense", **rule})
            if words is None:
                continue
            known = {**TABLE["words"], **rule.get("words", {})}
            # a list may be longer than the layers
            for layer, word in enumerate(words[: self.layers]):
                have_experts[layer] &= known.get(word, word) == "experts"
        end = self.number(LAST_WITH_EXPERTS)
        if end is not None and end >= 0:
            for layer in range(end + 1, self.layers):
                have_experts[layer] = False
        return have_experts

    def _by_rule(self, rule: Mapping[str, Any]) -> list[str] | None:
        """The word of each layer by a rule; None where its key is not given, or the rule is switched
        off by another key."""
        if "on" in rule and not self.get(rule["on"]):
            return None
        layers = self.layers
        if "all" in rule:
            return [rule["all"]] * layers
        if "list" in rule:
            return self._listed_words(rule)
        named = self._named_layers(rule)
        if named is None:
            return None
        words = [rule["other"]] * layers
        for layer in named:
            if 0 <= layer < layers:
                words[layer] = rule["is"]
        return words

    def _listed_words(self, rule: Mapping[str, Any]) -> list[str] | None:
        """The words of a list of layers, from the beginning again where it is cyclic; None where it
        is not given."""
        listed = _listed(self.first_given(rule["list"]))
        if not listed:
            return None
        if rule.get("cyclic"):
            return [listed[layer % len(listed)] for layer in range(self.layers)]
        return listed[: self.layers or None]  # all of them where no key gives a number of layers

    def _named_layers(self, rule: Mapping[str, Any]) -> Iterable[int] | None:
        """The layers that a rule names by number, from 0: every n-th (``every``), all from one on
        (``from``), or those of a list (``at``). None where its key has no such value."""
        form = next(form for form in ("every", "from", "at") if form in rule)
        value = self.first_given(rule[form])
        if value is None or isinstance(value, bool):
            return None
        if form == "at":
            numbers = value.split(",") if isinstance(value, str) else value
            return [int(number) - rule.get("base", 0) for number in numbers]
        if not isinstance(value, int):
            return None
        if form == "from":
            return range(value, self.layers)
        if value == 0:
            return None
        # the last of each n, unless a key says which
        offset = value - 1
        if "offset" in rule:
            offset = self.first_given(rule["offset"]) or 0
        return [layer for layer in range(self.layers) if layer % value == offset]

    def not_counted(self) -> list[str]:
        """What is not counted of a model, in words; a part for each kind of it."""
        parts = []
        for key in TABLE["ahead"]:
            ahead = self.number(key)
            if ahead:
                layers = f"{ahead} layers that predict"
                if ahead == 1:
                    layers = "a layer that predicts"
                parts.append(f"{layers} further tokens ({key})")
                break
        parts += [f"what is no text ({part})" for part in self.left_out]
        if self.passed_over:
            # a few names are enough for one line
            parts.append(f"what these keys say: {', '.join(self.passed_over[:4])}"[:100])
        return parts


def value_at(data: Mapping[str, Any], key: str) -> Any:
    """The value of a key, None where it is not there.

    ``outer.inner`` is a key inside a mapping, ``outer.each.inner`` a list of the values of that key in
    all mappings that ``outer`` holds, by key or in a list.
    """
    value: Any = data
    for part in key.split("."):
        if isinstance(value, list):
            value = [_inside(inner, part) for inner in value]
        elif part == "each" and isinstance(value, Mapping):
            value = list(value.values())
        else:
            value = _inside(value, part)
    return value


def _inside(value: Any, key: str) -> Any:
    """The value of a key in a mapping; None in anything else."""
    return value.get(key) if isinstance(value, Mapping) else None


def _listed(value: Any) -> list[str] | None:
    """The words of a list of layers, as a list, as letters or with commas between; None where it is
    none of these.

    >>> _listed("MDM"), _listed("0,1"), _listed(3)
    (['M', 'D', 'M'], ['0', '1'], None)
    """
    if isinstance(value, str):
        return value.split(",") if "," in value else list(value)
    if isinstance(value, list):
        return [str(word) for word in value]
    return None


class UnknownType(NamedTuple):
    """A config whose type has no entry.

    Args:
        path: where its text is in a config of several parts.
        kinds: the values of ``model_type`` that it names, the innermost last; of any type.
        given: the keys of the text.
    """

    path: tuple[str, ...]
    kinds: tuple[Any, ...]
    given: Mapping[str, Any]


def config_of(data: Mapping[str, Any]) -> ModelConfig | UnknownType:
    """Return the config of a model's text: the innermost part of ``data`` that is one, read by the
    innermost type that has an entry."""
    path: tuple[str, ...] = ()
    kinds = [data.get("model_type")]
    merged = dict(data)  # keys of the text, over those of the parts around it
    part: Mapping[str, Any] = data  # the text as far as it is found
    left_out = _no_text(data)
    while True:
        inner = next((key for key in TABLE["texts"] if isinstance(part.get(key), Mapping)), "")
        if not inner:
            break
        part = part[inner]
        path = (*path, inner)
        kinds.append(part.get("model_type"))
        left_out += _no_text(part)
        # what the text does not say itself, such as a tied head, holds as the part around it says
        outer = {key: value for key, value in merged.items() if key in USED}
        merged = {**outer, **part}
    for kind in reversed(kinds):
        if isinstance(kind, str) and kind in FAMILIES:
            return ModelConfig(path, merged, kind, left_out, part)
    return UnknownType(path, tuple(kind for kind in kinds if kind is not None), part)


def _no_text(data: Mapping[str, Any]) -> list[str]:
    """Keys of parts that are no text: towers of images or sound."""
    parts = [key for key, value in data.items() if isinstance(value, Mapping) and value]
    return [key for key in parts if NO_TEXT.search(key)]
