"""The table of model types, ``data/families.toml``: the entry of each type (:func:`family_of`), and the
keys of a config.json that it speaks of.

The comment before each part of that file says what its rows mean. A type is the ``model_type`` of a
config. A spelling is how a key or a product of keys gives a size: "hidden_size", "4*n_embd",
"attn_config.kv_n_heads". A rule is a mapping that says which operation each layer has, or which layers
have experts. The sets of keys below are of all types together; only :func:`own_keys` are of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from colltool.base.cache import packaged_toml
from colltool.training.mixers import KINDS, MixerKind

TABLE = packaged_toml(Path(__file__).parents[1] / "data" / "families.toml")
# spellings of each size by its name in colltool, the usual one first
SIZES: dict[str, list[str]] = {**TABLE["sizes"], **TABLE["operation_sizes"]}
# keys that change neither size nor work
HARMLESS = frozenset(TABLE["harmless"])
# the entry of each type as the file has it; :func:`family_of` fills it up
FAMILIES: dict[str, Mapping[str, Any]] = TABLE["types"]
# why a type is refused, by type
REASONS: dict[str, str] = {}
for _why, _kinds in TABLE["refused"].items():
    REASONS.update(dict.fromkeys(_kinds, _why))
# What the name of a key may have in it: a sound of a size ("layer"), of none after all ("_eps"), or of
# a part that is no text ("vision").
_SIZED = re.compile("|".join(TABLE["sized"]))
_UNSIZED = re.compile("|".join(TABLE["unsized"]))
NO_TEXT = re.compile("|".join(TABLE["sides"]))
# the keys of a spelling such as "hidden_size/attn_config.n_heads": hidden_size, attn_config.n_heads
_KEY = re.compile(r"[A-Za-z_][\w.]*")
LAST_WITH_EXPERTS = "moe_layer_end_index"  # key of the last layer with experts
# keys of a rule whose values are keys of a config
_FORMS = ("list", "at", "every", "offset", "from", "on")
# what an operation's name ends with where its queries see some keys only: "attention in a window"
IN_A_WINDOW = " in a window"
IN_CHUNKS = " in chunks"


def keys_of(spellings: Any) -> list[str]:
    """The keys in a list of spellings, or in one; none where it is no text, such as a rule's number.

    >>> keys_of(["n_inner", "4*n_embd"]), keys_of(0)
    (['n_inner', 'n_embd'], [])
    """
    if isinstance(spellings, list):
        spellings = " ".join(spellings)
    if not isinstance(spellings, str):
        return []
    return _KEY.findall(spellings)


def outermost(key: str) -> str:
    """The key of a config itself that a key is in.

    >>> outermost("attn_config.kv_n_heads")
    'attn_config'
    """
    return key.partition(".")[0]


def _keys_in(table: Mapping[str, Any]) -> set[str]:
    """The keys of all spellings in a table of sizes."""
    keys: set[str] = set()
    for spellings in table.values():
        keys.update(keys_of(spellings))
    return keys


def _size_keys(entry: Mapping[str, Any]) -> set[str]:
    """Keys of the sizes of an entry: the model's, those of single operations, and those that hold
    where another key has a value."""
    keys = _keys_in(entry.get("sizes", {}))
    for table in entry.get("own", {}).values():
        keys |= _keys_in(table)
    for change in entry.get("when", ()):
        keys |= _keys_in(change.get("sizes", {}))
    return keys


def _rule_keys(rules: Iterable[Mapping[str, Any]], *forms: str) -> set[str]:
    """Keys of a config that rules name under some of :data:`_FORMS`."""
    keys: set[str] = set()
    for rule in rules:
        for form in forms:
            keys.update(keys_of(rule.get(form)))
    return keys


def kind_of_word(word: str) -> MixerKind | None:
    """The kind of an operation by its name, with "in a window" or "in chunks" or without; None where
    there is none of that name, such as "dense"."""
    return KINDS.get(word.removesuffix(IN_A_WINDOW).removesuffix(IN_CHUNKS))


def own_keys(entry: Mapping[str, Any]) -> set[str]:
    """Outermost keys that models of a type have, from its entry, whether or not they are looked
    up."""
    keys = _keys_in(TABLE["sizes"])
    keys |= _size_keys(entry)
    keys |= _rule_keys(TABLE["experts"], *_FORMS)
    rules = entry.get("mixers", TABLE["mixers"])
    keys |= _rule_keys(rules, *_FORMS)
    words = [*entry.get("also", ())]
    words += entry.get("words", {}).values()
    for word in words:
        kind = kind_of_word(word)
        if kind is not None:
            for size in kind.needs:
                keys.update(keys_of(SIZES.get(size, [])))
    for change in entry.get("when", ()):
        keys.add(change["key"])
    keys.update(entry.get("harmless", ()))
    return set(map(outermost, keys))


def _number_keys() -> set[str]:
    """Keys of whole numbers in any type."""
    keys = {*TABLE["ahead"], LAST_WITH_EXPERTS}
    keys |= _keys_in(SIZES)
    keys |= _rule_keys(TABLE["experts"], "every", "offset", "from")
    for entry in FAMILIES.values():
        keys |= _size_keys(entry)
        keys |= _rule_keys(entry.get("mixers", ()), "every", "offset", "from")
    return keys


def _list_keys(*forms: str) -> set[str]:
    """Keys of lists or texts of layers in any type, in some forms of rules."""
    keys = _rule_keys(TABLE["experts"], *forms)
    keys |= _rule_keys(TABLE["mixers"], *forms)
    for entry in FAMILIES.values():
        keys |= _rule_keys(entry.get("mixers", ()), *forms)
    return keys


# Keys by the value that they may have in any type: NUMBERS a whole number, LISTS a list or text with an
# entry for each layer or the numbers of some layers, EITHER one of the two, INDICES (some of LISTS and
# EITHER) the numbers of some layers.
INDICES = _list_keys("at")
NUMBERS = _number_keys()
LISTS = _list_keys("list", "at")
EITHER = NUMBERS & LISTS
NUMBERS -= EITHER
LISTS -= EITHER
FLAGS = frozenset(TABLE["flags"])  # keys of true or false
# keys of the number of learned positions
POSITIONS = frozenset(entry.get("positions", "n_positions") for entry in FAMILIES.values())
# outermost keys that some type reads
USED = {"model_type", *map(outermost, NUMBERS | LISTS | EITHER | FLAGS | POSITIONS)}


@cache
def family_of(kind: str) -> Mapping[str, Any]:
    """The entry of a type, with what it has from the type that it is ``like``.

    Raises:
        KeyError: the type has no entry.
    """
    entry = FAMILIES[kind]
    if "like" not in entry:
        return entry
    merged = _merged(family_of(entry["like"]), entry)
    # ``inside`` are the defaults of one class of models, so they hold only for a type that is another
    # name of it: whose entry is ``like`` alone
    if len(entry) > 1 and "inside" not in entry:
        merged.pop("inside", None)
    return merged


def _merged(base: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of an entry over those of ``base``; sizes, words and defaults one by one."""
    merged = {**base, **entry}
    for key in ("sizes", "words", "defaults"):
        if key in base and key in entry:
            merged[key] = {**base[key], **entry[key]}
    return merged


def may_size(key: str, value: Any) -> bool:
    """Whether a key that is not known sounds like a size or a structure that is switched on."""
    # what switches a structure off; 0 covers 0.0 and False
    if value is None or value in (0, "", [], {}):
        return False
    lowered = key.lower()
    if _UNSIZED.search(lowered):
        return False
    return _SIZED.search(lowered) is not None
