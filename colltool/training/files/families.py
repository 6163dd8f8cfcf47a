"""The table of model types, ``data/families.toml``: the entry of each type, and the keys of a
config.json that it speaks of.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from colltool.training.mixers import KINDS, MixerKind

TABLE = tomllib.loads(
    (Path(__file__).parents[1] / "data" / "families.toml").read_text(encoding="utf-8")
)
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
_NAME = re.compile(r"[A-Za-z_][\w.]*")
LAST_WITH_EXPERTS = "moe_layer_end_index"
# what of a rule names a key
_FORMS = ("list", "at", "every", "offset", "from", "on")
# words after an operation that say which keys it sees
IN_A_WINDOW = " in a window"
IN_CHUNKS = " in chunks"


def keys_of(names: Any) -> list[str]:
    """The keys of a list of spellings, or of a rule's key."""
    if isinstance(names, str):
        return _NAME.findall(names)
    found: list[str] = []
    if isinstance(names, list):
        for spelling in names:
            found += _NAME.findall(spelling)
    return found


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
    return {key.partition(".")[0] for key in found}


def _all_keys() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """(Keys of whole numbers, of lists or texts of layers, and those of either.)"""
    numbers = {*TABLE["ahead"], LAST_WITH_EXPERTS}
    numbers |= _keys_in(SIZES)
    numbers |= _rule_keys(TABLE["experts"], "every", "offset", "from")
    lists = _rule_keys(TABLE["experts"], "list", "at")
    lists |= _rule_keys(TABLE["mixers"], "list", "at")
    for entry in FAMILIES.values():
        numbers |= _size_keys(entry)
        rules = entry.get("mixers", ())
        numbers |= _rule_keys(rules, "every", "offset", "from")
        lists |= _rule_keys(rules, "list", "at")
    either = numbers & lists
    return frozenset(numbers - lists), frozenset(lists - numbers), frozenset(either)


NUMBERS, LISTS, EITHER = _all_keys()
# lists of the numbers of layers
INDICES = _rule_keys(TABLE["experts"], "at")
for _entry in FAMILIES.values():
    INDICES |= _rule_keys(_entry.get("mixers", ()), "at")
FLAGS = frozenset(TABLE["flags"])
POSITIONS = frozenset(entry.get("positions", "n_positions") for entry in FAMILIES.values())


def _used() -> frozenset[str]:
    """Keys that any type reads."""
    found = {"model_type"}
    for keys in (NUMBERS, LISTS, EITHER, FLAGS, POSITIONS):
        for key in keys:
            found.add(key.partition(".")[0])
    return frozenset(found)


USED = _used()


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
