"""What device and stack files, or the keys ``device`` and ``stack`` of a job, may say."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from colltool.definitions.field_types import Bandwidth, Flag, Label, Part, Size, Words
from colltool.definitions.schema_hints import Accepted
from colltool.training.files.values import Duration, Factor, FlopRate, Precision, Share

_PEAK = Accepted("a mapping by precision, such as {bf16: 989TFLOP/s, fp8: 1979TFLOP/s}")
_BY_GENERATION = Accepted("a mapping by generation of the device, such as {hopper: 0.78}")
_BY_PRECISION = Accepted("a mapping by precision and generation, such as {bf16: {hopper: 0.78}}")
_LAUNCH = Accepted("a mapping by precision, such as {bf16: 4us}")
Generation = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,32}$"), Accepted("a generation, such as hopper", "text")]
ByGeneration = Annotated[dict[Generation, Share], Field(min_length=1, max_length=32), _BY_GENERATION]


class DeviceFile(Part):
    """A device: dense peak by precision, memory, and its bandwidth. ``generation`` is what stacks give efficiencies for."""

    schema_: Annotated[Literal["colltool.device/1"], Field(alias="schema")] = "colltool.device/1"
    name: Label = ""
    description: Words = ""
    generation: Generation
    peak: Annotated[dict[Precision, FlopRate], Field(min_length=1), _PEAK]
    memory: Size
    bandwidth: Bandwidth


class AttentionFile(Part):
    """Fused (flash) attention: its share of the peak; without, the scores are written out and read back."""

    flash: Flag = True
    efficiency: ByGeneration


class StackFile(Part):
    """Software: what its kernels reach of the device, and what it costs beside them.

    ``gemm``: the share of peak by precision and generation; ``fp8_half``: the inner dimension at which fp8 reaches half of its
    share; ``grouped``: of a GEMM over several experts, by generation, and ``grouped_half``: the tokens of an expert at which it
    reaches half of that. ``elementwise``: bytes moved a token and layer forward, in units of hidden x bytes of an activation,
    ``inside``: the part of it in tensor parallel regions; ``backward_elementwise`` times that backward. ``memory_*``: the share
    of memory bandwidth that a GEMM, an elementwise kernel and the optimizer reach. ``fixed``: what a step takes beside
    everything; ``jitter``: its growth a doubling of devices beyond 8. ``runtime``: memory that is no tensor of the model;
    ``loss_bytes``: of a logit for the loss, beside what the head wrote. ``slowed``: by how much compute slows while communication
    runs beside it. ``assumed``: generations whose shares no measured kernel stands behind.
    """

    schema_: Annotated[Literal["colltool.stack/1"], Field(alias="schema")] = "colltool.stack/1"
    name: Label = ""
    description: Words = ""
    date: Words = ""
    gemm: Annotated[dict[Precision, ByGeneration], Field(min_length=1), _BY_PRECISION]
    grouped: Annotated[dict[Generation, Share], _BY_GENERATION] = Field(default_factory=dict)
    grouped_half: Factor = 100.0
    fp8_half: Factor = 512.0
    attention: Annotated[AttentionFile, Accepted("a mapping such as {flash: true, efficiency: {hopper: 0.5}}")]
    elementwise: Factor
    inside: Share = 0.4
    backward_elementwise: Factor = 2.0
    launch: Annotated[dict[Precision, Duration], Field(min_length=1), _LAUNCH]
    memory_gemm: Share = 0.85
    memory_elementwise: Share = 0.8
    memory_optimizer: Share = 0.7
    optimizer_bytes: Factor = 18.0
    fixed: Duration = 0.0075
    jitter: Annotated[float, Field(ge=0, le=1, strict=True), Accepted("a share such as 0.007")] = 0.007
    runtime: Size
    assumed: Annotated[tuple[Generation, ...], Field(max_length=32), Accepted("a list of generations, such as [tpu-v4]")] = ()
    loss_bytes: Factor = 4.0
    slowed: Annotated[float, Field(ge=0, lt=1, strict=True), Accepted("a share such as 0.1")] = 0.0
