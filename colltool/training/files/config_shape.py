"""The model of a config.json as the ``model:`` mapping of a job: :func:`shape_of`.

A :class:`ModelConfig` answers by size and by layer; here its answers become the keys of
:class:`colltool.training.files.ModelFile`: experts, latent attention, and the operations of the layers.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from colltool.training.files.families import IN_A_WINDOW, IN_CHUNKS
from colltool.training.files.model_config import ModelConfig
from colltool.training.mixers import KINDS


def shape_of(config: ModelConfig, name: str) -> dict[str, Any]:
    """Return the ``model:`` mapping of a job for a config, without keys that it does not give. It is
    whole only where :func:`config_problems.unmodelled` finds nothing missing."""
    entry = config.entry
    operations = config.operations()
    moe = _moe(config, operations)
    mla = _mla(config)
    ffn = config.size("ffn")
    if not ffn and moe is not None:
        ffn = moe.get("ffn")
    tied = config.get("tie_word_embeddings")
    if tied is None:
        tied = entry.get("tied", False)
    kv_heads = head_dim = None
    # latent attention has sizes of its own
    if mla is None:
        kv_heads = config.size("kv_heads")
        head_dim = config.size("head_dim") or None
    # an empty name or list, and a size of 0, are as good as not given
    shape = _without_none(
        name=name,
        layers=config.layers or None,
        hidden=config.size("hidden"),
        heads=config.size("heads"),
        vocab=config.size("vocab"),
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn=ffn,
        gated=entry.get("gated", True),
        bias=entry.get("bias", False),
        tied=tied,
        positions=config.get(entry["positions"]) if "positions" in entry else None,
        moe=moe,
        mla=mla,
        left_out=config.not_counted() or None,
    )
    if entry.get("single"):
        shape["ffn_layers"] = operations.count("dense")
    return shape | _mixers(config, operations)


def _without_none(**values: Any) -> dict[str, Any]:
    """Return the values by name, without those that are None."""
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
    """Return the keys that say what mixes tokens: ``operations``; windows alone where all layers have
    the same attention, or nothing where they have no windows either."""
    window = config.size("window")
    if config.get("use_sliding_window") is False:
        window = None
    counts: Counter[str] = Counter()  # layers of each operation
    for operation in operations:
        if operation in ("", "dense", "experts"):
            continue
        # without its size there is no window
        counts[operation if window else operation.removesuffix(IN_A_WINDOW)] += 1
    repeats = config.entry.get("repeats", 1)  # operations of one word in each layer
    also = config.entry.get("also", [])  # operations that every layer has beside
    has_own_sizes = "own" in config.entry
    in_window = "attention" + IN_A_WINDOW
    is_plain = repeats == 1 and not also and not has_own_sizes and not _is_sparse(config)
    if is_plain and counts.keys() <= {"attention", in_window}:
        windowed = counts[in_window]
        return {"window": window, "windowed_layers": windowed} if windowed else {}
    rows = [
        _operation(config, operation, layers * repeats, window)
        for operation, layers in counts.items()
    ]
    rows += [_operation(config, operation, config.layers, window) for operation in also]
    return {"operations": rows}


def _is_sparse(config: ModelConfig) -> bool:
    """Whether it is latent attention that chooses its keys by an indexer."""
    return bool(config.size("kv_rank") and config.size("index_heads"))


def _operation(config: ModelConfig, word: str, layers: int, window: int | None) -> dict[str, Any]:
    """Return an operation of a model file, from its word such as ``attention in a window``.

    ``layers``: how many have it; ``window``: keys of a window, where the operation has no own size.
    """
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
    own_sizes = config.entry.get("own", {}).get(word, {})
    sizes = {}
    for needed in dict.fromkeys((*KINDS[kind].needs, *own_sizes)):
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
    have_experts = config.with_experts()  # of each layer
    # in a list of all parts of a model experts are listed too
    if config.entry.get("single"):
        have_experts = [operation == "experts" for operation in operations]
    if not any(have_experts):
        return None
    dense_layers = have_experts.count(False)
    moe = _without_none(
        experts=experts,
        top_k=config.size("top_k"),
        ffn=config.size("expert_ffn") or config.size("ffn"),
        shared_ffn=config.size("shared_ffn") or 0,
        dense_layers=dense_layers,
        latent=config.size("latent") or None,
    )
    # the dense layers are not the first ones
    if any(have_experts[:dense_layers]):
        moe["spread"] = True
    groups = config.size("groups")
    if groups is not None and groups > 1:
        moe |= _without_none(groups=groups, top_groups=config.size("top_groups"))
    return moe
