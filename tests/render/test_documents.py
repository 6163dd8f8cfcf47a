"""Documents as classes: what is printed and its schema follow from the same keys."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

import pytest
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from colltool.render.documents import LEFT_OUT, Document, derived, optional, plain
from colltool.render.schemas import record_type


class Colour(StrEnum):
    RED = "red"


class Point(NamedTuple):
    x: float
    y: float


class Shape(NamedTuple):
    name: str
    colour: Colour
    points: tuple[Point, ...] = ()
    note: str = ""
    weight: float | None = None


class PointDocument(Document, extends=Point):
    """A named tuple with a key more."""

    far: bool = derived(lambda point: point.x > 1)


class NameOfShape(Document):
    name: str


class ShapeDocument(NameOfShape, of=Shape):
    """Every kind of key."""

    colour: str
    points: list[PointDocument]
    first_x: float | None = derived("first.x")
    note: str = optional("note")
    weight: float | None
    heavy: bool = optional(lambda shape: LEFT_OUT if shape.weight is None else shape.weight > 5)


SHAPE = Shape("line", Colour.RED, (Point(0.5, 2), Point(3, 4)))


def written(shape: Shape) -> dict[str, Any]:
    return ShapeDocument.of(shape, first_x=None)


def fits(document: Any) -> bool:
    schema = TypeAdapter(record_type(ShapeDocument)).json_schema()
    return bool(Draft202012Validator(schema).is_valid(document))


def test_keys_are_in_order_and_optional_ones_are_left_out() -> None:
    assert list(written(SHAPE).items()) == [
        ("name", "line"),
        ("colour", "red"),
        ("points", [{"x": 0.5, "y": 2, "far": False}, {"x": 3, "y": 4, "far": True}]),
        ("first_x", None),
        ("weight", None),
    ]
    told = written(SHAPE._replace(note="long", weight=7.0))
    assert list(told)[4:] == ["note", "weight", "heavy"]
    assert told["heavy"] is True


def test_a_record_is_written_by_its_document_wherever_it_is() -> None:
    assert plain((SHAPE.points[0],)) == [{"x": 0.5, "y": 2, "far": False}]


def test_a_path_stops_at_none_and_fails_at_what_is_not_there() -> None:
    class Nested(NamedTuple):
        first: Point | None

    class NestedDocument(Document):
        x: float | None = derived("first.x")
        z: float = derived("first.z")

    assert NestedDocument.of(Nested(None)) == {"x": None, "z": None}
    with pytest.raises(AttributeError):
        NestedDocument.of(Nested(Point(1, 2)))


def test_a_key_that_the_record_lacks_is_an_error() -> None:
    with pytest.raises(AttributeError, match="first"):
        ShapeDocument.of(SHAPE)


@pytest.mark.parametrize("shape", [SHAPE, SHAPE._replace(note="long", weight=7.0)])
def test_what_is_written_fits_and_nothing_else(shape: Shape) -> None:
    document = written(shape)
    assert fits(document)
    assert not fits({**document, "further": 1})
    assert not fits({**document, "points": [{"x": 1, "y": 2}]})
    assert not fits({**document, "weight": "7"})
    for key in ("name", "colour", "points", "first_x", "weight"):
        assert not fits({name: value for name, value in document.items() if name != key})


def test_an_open_document_takes_further_keys() -> None:
    class OpenDocument(Document, open=True):
        name: str

    schema = TypeAdapter(record_type(OpenDocument)).json_schema()
    assert Draft202012Validator(schema).is_valid({"name": "x", "further": 1})
    assert not Draft202012Validator(schema).is_valid({"further": 1})


def test_a_document_of_several_classes_requires_what_all_have() -> None:
    class OtherDocument(Document):
        name: int
        size: float

    schema = TypeAdapter(record_type(NameOfShape, OtherDocument)).json_schema()
    assert schema["required"] == ["name"]
    check = Draft202012Validator(schema)
    assert check.is_valid({"name": "x"})
    assert check.is_valid({"name": 1, "size": 2.0})
    assert not check.is_valid({"name": 1.5})
