"""What is wrong with a config.json, or not modelled: keys of the wrong type, sizes that no key gives, and
keys that may change the size or work of a model.

:func:`unmodelled` is the entry, for a config whose type is known; :func:`unknown_type` and
:func:`wrong_types` serve the others. Every key is used, known to change nothing, named as not counted,
or refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from colltool.base.errors import argument_text, nearest, printable
from colltool.training.files import MAX_DIMENSION
from colltool.training.files.config_shape import shape_of
from colltool.training.files.families import (
    EITHER,
    FAMILIES,
    FLAGS,
    HARMLESS,
    INDICES,
    LISTS,
    NUMBERS,
    REASONS,
    USED,
    kind_of_word,
    may_size,
    outermost,
)
from colltool.training.files.model_config import ModelConfig, UnknownType, value_at

# fixes of errors
MODEL_FILE = (
    f"give the model as a file, {argument_text('model_file', 'model.yaml')}: layers, hidden, heads, ffn,"
    " vocab, operations ... (colltool guide jobs shows one, and the types that are known)"
)
KNOWN_TIMES = (
    "parameters and layers of the model as a mapping, with the times of compute:"
    " {forward_per_layer: 7ms, ...}"
)
# keys that change a model, with the values at which they do not
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "word_embed_proj_dim": (),  # the hidden size, which ``_unknown_keys`` fills in
    "is_encoder_decoder": (None, False),
    "add_cross_attention": (None, False),
    "attention_chunk_size": (None,),
    "chunk_size_feed_forward": (None, 0),
    "use_mup": (None, False),
}
# kinds of attention in ``attn_config``
ATTENTION_TYPES = ("multihead_attention", "multiquery_attention", "grouped_query_attention")
MAX_LAYERS = 100_000


class ConfigProblem(NamedTuple):
    """What is wrong with a key of a config, and what to write instead."""

    path: tuple[str, ...]  # of the key, such as ("text_config", "hidden_size")
    what: str
    fix: str
    about_key: bool = True  # else it is about the value


def unknown_type(config: UnknownType) -> ConfigProblem:
    """Return why a type of model is not known: none is given, it is refused with a reason, or which
    of its keys no known type has."""
    place = (*config.path, "model_type")
    if not config.kinds:
        fix = f'"model_type": "llama"; or {MODEL_FILE}'
        return ConfigProblem(place, "no model_type: nothing says how its layers are made", fix)
    kind = config.kinds[-1]
    kind_text = printable(str(kind))[:60]
    what = f"model_type '{kind_text}' is not modelled"
    if isinstance(kind, str) and kind in REASONS:
        return ConfigProblem(place, f"{what}: {REASONS[kind]}", f"{MODEL_FILE}; or {KNOWN_TIMES}")
    unread = [key for key in config.given if key not in USED | HARMLESS]
    unread = [printable(key)[:40] for key in unread if may_size(key, config.given[key])]
    if unread:
        what += f", and no known type has {', '.join(unread[:6])}"  # enough for one line
    did_you_mean = nearest(kind_text, list(FAMILIES))  # empty where no name is near
    fix = f"{did_you_mean} {MODEL_FILE}; or the model_type of a known one with the same layers"
    return ConfigProblem(place, what, fix.strip())


def unmodelled(config: ModelConfig) -> Iterator[ConfigProblem]:
    """Yield what is wrong with a config or not modelled: keys of the wrong type, and those that
    change its size or work. A config remembers which keys it was asked for, so the others are judged
    last."""
    problems = list(wrong_types(config))
    if problems:
        yield from problems
        return
    unknown_words = config.unknown_words()
    if unknown_words:
        key = config.layer_list_key()
        yield ConfigProblem(
            (*config.path, key),
            f"{key} has {len(unknown_words)} of {config.layers} layers of"
            f" {_short_text(unknown_words[0])}, which is not modelled",
            MODEL_FILE,
        )
    else:
        yield from _missing_sizes(config)
    attention = config.get("attn_config.attn_type") or ATTENTION_TYPES[0]
    if attention not in ATTENTION_TYPES:
        yield ConfigProblem(
            (*config.path, "attn_config"),
            f"attn_type {_short_text(attention)} is not modelled",
            MODEL_FILE,
        )
    if not unknown_words:
        # only so that the config is asked for every key that a model needs
        shape_of(config, "")
    yield from _unknown_keys(config)


def _unknown_keys(config: ModelConfig) -> Iterator[ConfigProblem]:
    """Yield keys that may change the size or work of a model, and that nothing was asked of; those
    that say something, but no size, go to ``config.passed_over``."""
    for key, value in config.given.items():
        if key in config.asked or key in HARMLESS or key in config.left_out:
            continue
        path = (*config.path, key)
        if key in NEUTRAL:
            neutral = NEUTRAL[key]
            if key == "word_embed_proj_dim":
                neutral = (config.size("hidden"),)
            if value not in neutral:
                yield ConfigProblem(
                    path, f"{key} is {_short_text(value)}, which is not modelled", MODEL_FILE
                )
        elif not may_size(key, value):
            continue
        # a word, a switch or a factor is no size: it is named as not counted
        elif isinstance(value, bool | float) or (isinstance(value, str) and key not in LISTS):
            config.passed_over.append(key)
        # an unknown key that sounds like a size is refused unless it is switched off
        else:
            yield ConfigProblem(
                path,
                f"{key} is {_short_text(value)}: nothing is known of this key of {config.kind}, and"
                " it may change the model",
                MODEL_FILE,
            )


def _missing_sizes(config: ModelConfig) -> Iterator[ConfigProblem]:
    """Yield the sizes of the model, its experts and its operations that no key gives."""
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
        kind = kind_of_word(word)
        if kind is not None:
            # of attention keys and values may have as many heads, as wide as hidden / heads
            needed += [size for size in kind.needs if size not in ("kv_heads", "head_dim")]
    for size in dict.fromkeys(needed):
        if config.size(size) is None:
            key = config.key_of(size)
            what = f"{key} is missing"
            if config.path:
                what += f" in {'.'.join(config.path)}"
            what += f", which a {config.kind} needs"
            yield ConfigProblem(config.path, what, f'add "{key}"; or {MODEL_FILE}')


def wrong_types(config: ModelConfig) -> Iterator[ConfigProblem]:
    """Yield the keys whose values are not what they should be."""
    for key in (*NUMBERS, *EITHER, *LISTS, *FLAGS):
        value = value_at(config.data, key)
        if value is None:
            yield from _wrong_outer(config, key)
        # as good as not given
        elif value == "auto" or (value is False and key not in FLAGS):
            continue
        elif not _has_type(key, value):
            yield _wrong_value(config, key, value, _expected(key))
        elif isinstance(value, list) and key in NUMBERS and len(set(value)) > 1:
            yield ConfigProblem(
                (*config.path, key),
                f"{key} differs from layer to layer, which is not modelled",
                MODEL_FILE,
            )


def _wrong_outer(config: ModelConfig, key: str) -> Iterator[ConfigProblem]:
    """Yield the outer key of one such as ``attn_config.kv_n_heads``, where its value is no mapping."""
    outer = outermost(key)
    value = value_at(config.data, outer)
    if outer != key and not isinstance(value, Mapping | None):
        yield _wrong_value(config, outer, value, "a mapping")


def _has_type(key: str, value: Any) -> bool:
    """Whether the value of a key is what :func:`_expected` says."""
    if key in INDICES:
        return _are_layers(value)
    if key in FLAGS:
        return isinstance(value, bool)
    # lists are also written as a text of letters, or of words with commas
    if key in (*LISTS, *EITHER) and (_is_list(value) or isinstance(value, str)):
        return True
    if key in LISTS:
        return False
    # a number for all layers, or one for each
    numbers = value if isinstance(value, list) and value else [value]
    return all(map(_is_size, numbers))


def _expected(key: str) -> str:
    """What the value of a key should be, in words."""
    if key in INDICES:
        return "a list of numbers of layers"
    if key in FLAGS:
        return "true or false"
    if key in LISTS:
        return "a list of layers"
    return f"a whole number from 0 to {MAX_DIMENSION}"


def _wrong_value(config: ModelConfig, key: str, value: Any, expected: str) -> ConfigProblem:
    """Return the problem of a key that has another value than expected."""
    return ConfigProblem(
        (*config.path, *key.split(".")),
        f"expected {expected}, got {_short_text(value)}",
        f'write "{key}": {expected}',
        about_key=False,
    )


def _are_layers(value: Any) -> bool:
    """Whether a value lists layers by number, as a list or as text with commas."""
    words = value
    if isinstance(value, str):
        words = value.split(",")
    return _is_list(words) and all(str(word).strip().isdecimal() for word in words)


def _is_size(value: Any) -> bool:
    """Whether a value is a whole number, and no larger than any size."""
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
