"""The key ``device`` of a fabric: what stands at its ends, by the names that jobs have for devices."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from colltool.base.errors import nearest
from colltool.definitions.schema_hints import Accepted, Slip, Slips

DEVICES = (
    "a100-40gb", "a100-80gb", "b200", "b300", "gb200", "gb300", "h100", "h200", "mi300x", "tpu-v4", "tpu-v5e", "tpu-v5p",
    "tpu-v6e", "trainium2",
)  # fmt: skip
"""Those that a fabric may name. Of all but trainium2 colltool knows what they compute."""


def _known(name: str) -> str:
    if name not in DEVICES:
        fix = f"{nearest(name, list(DEVICES))} one of {', '.join(DEVICES)}; or leave device out, and the job says it".strip()
        raise Slips(Slip(f"no device is called '{name}'", fix))
    return name


DeviceName = Annotated[
    str, AfterValidator(_known), WithJsonSchema({"enum": list(DEVICES)}), Accepted("the name of a device, such as h100", "text")
]
