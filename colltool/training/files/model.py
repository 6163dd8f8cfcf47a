"""What a model file, or the key ``model`` of a job, may say."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from colltool.base.errors import ColltoolError, nearest
from colltool.definitions.field_types import Flag, Label, Part, Words
from colltool.definitions.schema_hints import Accepted, Slip, Slips
from colltool.training.files.values import Dimension, Imbalance, Parameters

_MOE = Accepted("a mapping such as {experts: 8, top_k: 2, ffn: 14336}")
_MLA = Accepted("a mapping such as {q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128}")
_NONE = Annotated[int, Field(ge=0, le=1_000_000, strict=True), Accepted("a whole number from 0")]
NEEDED = ("layers", "hidden", "heads", "ffn", "vocab")
"""What every model with a shape gives."""


class MoeFile(Part):
    """Experts: ``ffn`` the width of one, ``shared_ffn`` of what every token passes, ``dense_layers`` the first ones without."""

    experts: Dimension
    top_k: Dimension
    ffn: Dimension
    shared_ffn: _NONE = 0
    dense_layers: _NONE = 0
    imbalance: Imbalance = 1.0

    @model_validator(mode="after")
    def _top_fits(self) -> MoeFile:
        if self.top_k > self.experts:
            what = f"a token goes to {self.top_k} of {self.experts} experts"
            raise Slips(Slip(what, f"top_k is at most {self.experts}", ("top_k",)))
        return self


class MlaFile(Part):
    """Latent attention: ranks of the two bottlenecks (``q_rank`` 0: queries have none), and what a head has with and without
    position, and as a value.
    """  # fmt: skip

    q_rank: _NONE
    kv_rank: Dimension
    nope: Dimension
    rope: Dimension
    value: Dimension


class ModelFile(Part):
    """A model: its shape, or only its size (``parameters`` and ``layers``), with which all that needs no shape can be planned.

    ``kv_heads`` are the heads unless given, ``head_dim`` hidden / heads. ``gated``: three matrices of the FFN instead of two.
    ``tied``: the head is the embedding. ``bias``: linear layers and norms have one; ``dropout``: trained with it, as models with
    biases are unless told. ``positions``: learned ones. ``window``: a query meets so many keys in ``windowed_layers`` of the
    layers, all of them unless given, spread evenly. ``left_out``: what of the model is not counted, for people.
    """

    schema_: Annotated[Literal["colltool.model/1"], Field(alias="schema")] = "colltool.model/1"
    name: Label = ""
    description: Words = ""
    layers: Dimension
    hidden: Dimension | None = None
    heads: Dimension | None = None
    kv_heads: Dimension | None = None
    head_dim: Dimension | None = None
    ffn: Dimension | None = None
    gated: Flag = True
    vocab: Dimension | None = None
    tied: Flag = False
    bias: Flag = False
    dropout: Annotated[Flag | None, Accepted("true or false")] = None
    positions: _NONE = 0
    window: Dimension | None = None
    windowed_layers: _NONE | None = None
    moe: Annotated[MoeFile | None, _MOE] = None
    mla: Annotated[MlaFile | None, _MLA] = None
    parameters: Parameters | None = None
    left_out: Annotated[tuple[Label, ...], Field(max_length=16), Accepted("a list of what is not counted, in words")] = ()

    @model_validator(mode="after")
    def _is_whole(self) -> ModelFile:
        given = [key for key in NEEDED[1:] if getattr(self, key) is not None]
        if not given and self.parameters is not None and self.moe is None and self.mla is None:
            return self
        missing = [key for key in NEEDED if getattr(self, key) is None]
        if missing:
            what = f"the model gives no {' and no '.join(missing)}"
            raise Slips(Slip(what, "give a whole shape, or only parameters and layers"))
        self._heads_fit()
        return self

    def _heads_fit(self) -> None:
        assert self.heads
        assert self.hidden
        if self.heads % (self.kv_heads or self.heads):
            fits = [str(n) for n in range(1, self.heads + 1) if self.heads % n == 0]
            what = f"{self.heads} heads do not share {self.kv_heads} kv heads evenly"
            raise Slips(Slip(what, f"kv_heads may be {', '.join(fits)}", ("kv_heads",)))
        if self.head_dim is None and self.mla is None and self.hidden % self.heads:
            what = f"hidden {self.hidden} is no multiple of {self.heads} heads"
            raise Slips(Slip(what, "give head_dim, or other heads", ("heads",)))
        if self.windowed_layers is not None and (self.window is None or self.windowed_layers > self.layers):
            what = "no window" if self.window is None else f"{self.windowed_layers} windowed layers of {self.layers}"
            raise Slips(Slip(what, f"window: 4096, and at most {self.layers} layers", ("windowed_layers",)))
        if self.moe and self.moe.dense_layers >= self.layers:
            what = f"{self.moe.dense_layers} dense layers of {self.layers} leave none with experts"
            raise Slips(Slip(what, f"at most {self.layers - 1}, or leave moe out", ("moe", "dense_layers")))


def unknown(kind: str, name: str, known: list[str]) -> ColltoolError:
    """The error of a name that is neither shipped nor a file."""
    fix = f"{nearest(name, known)} shipped: {', '.join(known)}; or a mapping".strip()
    return ColltoolError(f"no file and no shipped {kind} is called '{name}'", fix=fix)
