"""Models from a Hugging Face ``config.json``.

``data/families.toml`` says which keys of which type of model mean what: sizes, the operation of each
layer, and which layers have experts. :class:`ModelConfig` reads a config by it, and
:func:`shape_of` makes the model of a job. Keys that change the size or work of a model are either
used or refused by name (:func:`unmodelled`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict

from colltool.base.errors import (
    ColltoolError,
    ManyErrors,
    argument_text,
    nearest,
    printable,
    problems_of,
)
from colltool.base.files import read_text
from colltool.definitions.field_types import Part
from colltool.definitions.reader import read
from colltool.training.files import MAX_DIMENSION, ModelFile
from colltool.training.files.families import (
    EITHER,
    FAMILIES,
    FLAGS,
    HARMLESS,
    IN_A_WINDOW,
    IN_CHUNKS,
    INDICES,
    LISTS,
    NUMBERS,
    REASONS,
    USED,
    kind_of_word,
    may_size,
    outermost,
)
from colltool.training.files.model_config import ModelConfig, UnknownType, config_of, value_at
from colltool.training.mixers import KINDS

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


class ConfigFile(Part):
    """Any mapping; :func:`unmodelled` judges its keys."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False, defer_build=True)


class ConfigProblem(NamedTuple):
    """What is wrong with a key of a config, and what to write instead."""

    path: tuple[str, ...]
    what: str
    fix: str
    about_key: bool = True  # else it is about the value


def _unknown_type(config: UnknownType) -> ConfigProblem:
    """What is said of a type of model that is not known."""
    place = (*config.path, "model_type")
    if not config.kinds:
        fix = f'"model_type": "llama"; or {MODEL_FILE}'
        return ConfigProblem(place, "no model_type: nothing says how its layers are made", fix)
    kind = config.kinds[-1]
    typed = printable(str(kind))[:60]
    what = f"model_type '{typed}' is not modelled"
    if isinstance(kind, str) and kind in REASONS:
        return ConfigProblem(place, f"{what}: {REASONS[kind]}", f"{MODEL_FILE}; or {KNOWN_TIMES}")
    unread = []
    for key, value in config.given.items():
        if key not in USED | HARMLESS and may_size(key, value):
            unread.append(printable(key)[:40])
    if unread:
        what += f", and no known type has {', '.join(unread[:6])}"
    near = nearest(typed, list(FAMILIES))
    fix = f"{near} {MODEL_FILE}; or the model_type of a known one with the same layers"
    return ConfigProblem(place, what, fix.strip())


def unmodelled(config: ModelConfig) -> Iterator[ConfigProblem]:
    """Yield what is wrong with a config or not modelled: keys of the wrong type, and those that
    change its size or work."""
    wrong = list(_wrong_types(config))
    yield from wrong
    if wrong:
        return
    words = config.unknown_words()
    if words:
        key = config.list_of_words()
        yield ConfigProblem(
            (*config.path, key),
            f"{key} has {len(words)} of {config.layers} layers of {_short_text(words[0])}, which is"
            " not modelled",
            MODEL_FILE,
        )
    else:
        yield from _missing(config)
    attention = config.get("attn_config.attn_type") or ATTENTION_TYPES[0]
    if attention not in ATTENTION_TYPES:
        yield ConfigProblem(
            (*config.path, "attn_config"),
            f"attn_type {_short_text(attention)} is not modelled",
            MODEL_FILE,
        )
    if not words:
        # it asks for every key that it needs
        shape_of(config, "")
    yield from _unknown_keys(config)


def _unknown_keys(config: ModelConfig) -> Iterator[ConfigProblem]:
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


def _missing(config: ModelConfig) -> Iterator[ConfigProblem]:
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


def _wrong_types(config: ModelConfig) -> Iterator[ConfigProblem]:
    """Keys whose values are not what they should be."""
    for key in (*NUMBERS, *EITHER, *LISTS, *FLAGS):
        value = value_at(config.data, key)
        if value is None:
            yield from _outer_is_no_mapping(config, key)
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


def _outer_is_no_mapping(config: ModelConfig, key: str) -> Iterator[ConfigProblem]:
    """The mapping that a key such as ``attn_config.kv_n_heads`` is in, where it is something else."""
    outer = outermost(key)
    value = value_at(config.data, outer)
    if outer != key and not isinstance(value, Mapping | None):
        yield _wrong_value(config, outer, value, "a mapping")


def _has_type(key: str, value: Any) -> bool:
    """Whether the value of a key is what it should be."""
    if key in INDICES:
        return _are_layers(value)
    if key in FLAGS:
        return isinstance(value, bool)
    if key in (*LISTS, *EITHER) and (_is_list(value) or isinstance(value, str)):
        return True
    if key in LISTS:
        return False
    # of all layers, or of each
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
    if entry.get("single"):
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
        counts[operation if window else operation.removesuffix(IN_A_WINDOW)] += 1
    repeats = config.entry.get("repeats", 1)
    also = config.entry.get("also", [])
    own = config.entry.get("own", {})
    plain = {"attention", "attention" + IN_A_WINDOW}
    if counts.keys() <= plain and repeats == 1 and not (also or own) and not _is_sparse(config):
        windowed = counts["attention" + IN_A_WINDOW]
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
    """Return an operation of a model file, from its word such as ``attention in a window``."""
    kind = word.removesuffix(IN_A_WINDOW).removesuffix(IN_CHUNKS)
    if kind == word:
        window = None
    else:
        window = config.size("window", word) or window
    if kind == "attention" and config.size("kv_rank"):
        kind = "latent attention"
        if _is_sparse(config):
            kind = "sparse attention"
            # the keys that it chooses are its window
            window = config.size("index_top_k")
    entry = _without_none(operation=kind, layers=layers, window=window or None)
    if word.endswith(IN_CHUNKS):
        entry["chunked"] = True
    own = config.entry.get("own", {}).get(word, {})
    sizes = {}
    for needed in dict.fromkeys((*KINDS[kind].needs, *own)):
        size = config.size(needed, word)
        # those of attention are the model's unless given
        if size is None and needed not in ("heads", "kv_heads", "head_dim"):
            size = config.size(needed)
        if size is not None and needed != "window":
            sizes[needed] = size
    if sizes:
        entry["sizes"] = sizes
    return entry


def _moe(config: ModelConfig, operations: list[str]) -> dict[str, Any] | None:
    """Return the experts of a model; None where it has none."""
    experts = config.size("experts")
    if not experts:
        return None
    sparse = config.with_experts()
    # in a list of all parts of a model experts are listed too
    if config.entry.get("single"):
        sparse = [operation == "experts" for operation in operations]
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
    if isinstance(config, UnknownType):
        for problem in (
            _unknown_type(config),
            *_wrong_types(ModelConfig((), reading.data, "llama", [])),
        ):
            reading.refuse(problem.path, problem.what, problem.fix, about_key=problem.about_key)
        reading.result()
    assert isinstance(config, ModelConfig)  # nothing was refused
    for problem in unmodelled(config):
        reading.refuse(problem.path, problem.what, problem.fix, about_key=problem.about_key)
    reading.result()
    name = Path(path).parent.name if Path(path).name == "config.json" else Path(path).stem
    try:
        return read(ModelFile, shape_of(config, name[:100])).result()
    except ManyErrors as error:
        where = f"{printable(path)}:1:1"
        errors = [
            ColltoolError(wrong.what, where=where, fix=wrong.fix or MODEL_FILE)
            for wrong in problems_of(error)
        ]
        raise ManyErrors(errors) from error
