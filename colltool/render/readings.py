"""The readings of the model that an answer rests on: a line for people where any is unusual, all of them for machines."""

from __future__ import annotations

from collections.abc import Collection

from colltool.estimate.assumptions import USUAL, Readings
from colltool.render.blocks import Block, Lines
from colltool.render.view import Document


def readings_block(readings: Readings, varied: Collection[str] = ()) -> list[Block]:
    """``readings: ring_alpha=worst``, of those that are not the usual ones; ``varied`` have an axis of their own."""
    told = [f"{name}={value}" for name, value in readings.unlike(USUAL).items() if name not in varied]
    return [Lines(f"readings: {', '.join(told)}", ())] if told else []


def model_field(readings: Readings, varied: Collection[str] = ()) -> Document:
    """All of them, as ``price`` echoes them."""
    return {"model": {name: value for name, value in readings.echo().items() if name not in varied}}
