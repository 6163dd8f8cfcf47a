"""The table of model types, ``data/families.toml``: the entry of each type, and the keys of a
config.json that it speaks of.
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
SIZES: dict[str, list[str]] = {**TABLE["sizes"], **TABLE["operation_sizes"]}
# keys that change neither size nor work
HARMLESS = frozenset(TABLE["harmless"])
FAMILIES: dict[str, Mapping[str, Any]] = TABLE["types"]
# why types of models are refused
REASONS: dict[str, str] = {}
for _why, _kinds in TABLE["refused"].items():
    REASONS.update(dict.fromkeys(_kinds, _why))
# parts of keys that sound like a size; names of parts that are no text
_SIZED = re.compile("|".join(TABLE["sized"]))
_UNSIZED = re.compile("|".join(TABLE["unsized"]))
SIDES = re.compile("|".join(TABLE["sides"]))
# the keys of a spelling such as "hidden_size/attn_config.n_heads"
_NAME = re.compile(r"[A-Za-z_][\w.]*")
LAST_WITH_EXPERTS = "moe_layer_end_index"
# what of a rule names a key
_FORMS = ("list", "at", "every", "offset", "from", "on")
# words after an operation that say which keys it sees
IN_A_WINDOW = " in a window"
IN_CHUNKS = " in chunks"


def keys_of(names: Any) -> list[str]:
    """The keys of a list of spellings, or of a rule's key."""
    if isinstance(names, list):
        names = " ".join(names)
    if not isinstance(names, str):
        return []
    return _NAME.findall(names)


def outermost(key: str) -> str:
    """The key of a config itself that a key is in.

    >>> outermost("attn_config.kv_n_heads")
    'attn_config'
    """
    return key.partition(".")[0]


def _keys_in(table: Mapping[str, Any]) -> set[str]:
    """The keys of all spellings in a table of sizes."""
    found: set[str] = set()
    for spellings in table.values():
        found.update(keys_of(spellings))
    return found


def _size_keys(entry: Mapping[str, Any]) -> set[str]:
    """Keys of the sizes of an entry, in whatever case."""
    found = _keys_in(entry.get("sizes", {}))
    for table in entry.get("own", {}).values():
        found |= _keys_in(table)
    for change in entry.get("when", ()):
        found |= _keys_in(change.get("sizes", {}))
    return found


def _rule_keys(rules: Iterable[Mapping[str, Any]], *forms: str) -> set[str]:
    """Keys that rules look up, in some of their forms."""
    found: set[str] = set()
    for rule in rules:
        for form in forms:
            found.update(keys_of(rule.get(form)))
    return found


def kind_of_word(word: str) -> MixerKind | None:
    """The operation that a word of a list of layers stands for, whatever keys it sees."""
    return KINDS.get(word.removesuffix(IN_A_WINDOW).removesuffix(IN_CHUNKS))


def own_keys(entry: Mapping[str, Any]) -> set[str]:
    """Keys that models of a type have, whether or not they are looked up."""
    found = _keys_in(TABLE["sizes"])
    found |= _size_keys(entry)
    found |= _rule_keys(TABLE["experts"], *_FORMS)
    rules = entry.get("mixers", TABLE["mixers"])
    found |= _rule_keys(rules, *_FORMS)
    words = [*entry.get("also", ())]
    words += entry.get("words", {}).values()
    for word in words:
        kind = kind_of_word(word)
        if kind is not None:
            for size in kind.needs:
                found.update(keys_of(SIZES.get(size, [])))
    for change in entry.get("when", ()):
        found.add(change["key"])
    found.update(entry.get("harmless", ()))
    return set(map(outermost, found))


def _number_keys() -> set[str]:
    """Keys of whole numbers in any type."""
    found = {*TABLE["ahead"], LAST_WITH_EXPERTS}
    found |= _keys_in(SIZES)
    found |= _rule_keys(TABLE["experts"], "every", "offset", "from")
    for entry in FAMILIES.values():
        found |= _size_keys(entry)
        found |= _rule_keys(entry.get("mixers", ()), "every", "offset", "from")
    return found


def _list_keys(*forms: str) -> set[str]:
    """Keys of lists or texts of layers in any type, in some forms of rules."""
    found = _rule_keys(TABLE["experts"], *forms)
    found |= _rule_keys(TABLE["mixers"], *forms)
    for entry in FAMILIES.values():
        found |= _rule_keys(entry.get("mixers", ()), *forms)
    return found


INDICES = _list_keys("at")  # lists of the numbers of layers
# numbers, lists or texts of layers, and what is either
NUMBERS = _number_keys()
LISTS = _list_keys("list", "at")
EITHER = NUMBERS & LISTS
NUMBERS -= EITHER
LISTS -= EITHER
FLAGS = frozenset(TABLE["flags"])
POSITIONS = frozenset(entry.get("positions", "n_positions") for entry in FAMILIES.values())


# keys that any type reads
USED = {"model_type", *map(outermost, NUMBERS | LISTS | EITHER | FLAGS | POSITIONS)}


@cache
def family_of(kind: str) -> Mapping[str, Any]:
    """The entry of a type, with what it has from the type that it is like."""
    entry = FAMILIES[kind]
    if "like" not in entry:
        return entry
    found = _merged(family_of(entry["like"]), entry)
    # a type with keys of its own has other defaults
    if len(entry) > 1 and "inside" not in entry:
        found.pop("inside", None)
    return found


def _merged(base: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry over another, some of its tables key by key."""
    found = {**base, **entry}
    for key in ("sizes", "words", "defaults"):
        if key in base and key in entry:
            found[key] = {**base[key], **entry[key]}
    return found


def may_size(key: str, value: Any) -> bool:
    """Whether a key that is not known sounds like a size or a structure that is switched on."""
    # zeros and nothing switch off; a comparison with True would take 1 for it
    if value is None or value is False or value in (0, "", [], {}):
        return False
    lowered = key.lower()
    if _UNSIZED.search(lowered):
        return False
    return _SIZED.search(lowered) is not None
