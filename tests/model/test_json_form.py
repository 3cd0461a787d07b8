"""JSON form of values, which follows from their fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

import pytest

from airflow_provider_ckpt.model.errors import DamagedFormError, UnknownFormError
from airflow_provider_ckpt.model.json_form import OMIT_EMPTY, UNRECORDED, from_json, own_form, to_json
from airflow_provider_ckpt.model.tagged import Tagged


@dataclass(frozen=True)
class Point:
    x: int
    y: float | None = None


class Style(Enum):
    SOLID = "solid"
    DOTTED = "dotted"


class Label(str):
    """Subclass of str."""


@dataclass(frozen=True)
class Line:
    points: tuple[Point, ...]
    named: Mapping[str, Point]
    ends: tuple[int, str]
    counts: dict[int, str]
    tags: frozenset[str]
    kind: Literal["straight", "curved"] = "straight"
    style: Style | None = None
    colour: str | None = field(default=None, metadata=OMIT_EMPTY)
    drawn: bool = field(default=False, compare=False, metadata=UNRECORDED)
    size: int = field(default=0, metadata=own_form(lambda size: f"{size} pt", lambda text: int(text.split()[0])))


LINE = Line(
    (Point(1), Point(2, 0.5)),
    {"a": Point(3)},
    (1, "b"),
    {4: "d"},
    frozenset({"z", "a"}),
    style=Style.DOTTED,
    drawn=True,
    size=7,
)
FORM: dict[str, Any] = {
    "points": [{"x": 1, "y": None}, {"x": 2, "y": 0.5}],
    "named": {"a": {"x": 3, "y": None}},
    "ends": [1, "b"],
    "counts": {"4": "d"},
    "tags": ["a", "z"],
    "kind": "straight",
    "style": "dotted",
    "size": "7 pt",
}


def test_a_value_survives_its_json() -> None:
    assert json.dumps(to_json(LINE)) == json.dumps(FORM)
    read = from_json(Line, json.loads(json.dumps(FORM)))
    assert read == LINE
    assert not read.drawn
    assert (type(read.counts), type(read.tags), type(read.points[1])) == (dict, frozenset, Point)


def test_subclasses_of_str_are_read_back() -> None:
    @dataclass(frozen=True)
    class Plot:
        label: Label
        other: Label | None
        labels: set[Label]
        by_label: Mapping[Label, int]

    plot = Plot(Label("a"), Label("b"), {Label("c")}, {Label("d"): 1})
    form = {"label": "a", "other": "b", "labels": ["c"], "by_label": {"d": 1}}
    assert json.dumps(to_json(plot)) == json.dumps(form)
    read = from_json(Plot, form)
    assert read == plot
    texts = [read.label, read.other, *read.labels, *read.by_label]
    assert [type(text) for text in texts] == [Label] * 4
    with pytest.raises(DamagedFormError, match=r"label: 1, a int"):
        from_json(Plot, {**form, "label": 1})


def test_an_optional_field_is_written_only_if_it_has_a_value() -> None:
    painted = from_json(Line, {**FORM, "colour": "red"})
    assert painted.colour == "red"
    assert to_json(painted) == {**FORM, "colour": "red"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"width": 1}, r"Line with the unknown fields \['width'\] and without \[\]"),
        ({"drawn": True}, r"Line with the unknown fields \['drawn'\]"),
        ({"named": {"a": {"y": 1.0}}}, r"Point with the unknown fields \[\] and without \['x'\]"),
        ({"points": [{"x": 1, "z": 2}]}, r"Point with the unknown fields \['z'\]"),
        ({"kind": "dotted"}, r"'dotted' is none of 'straight', 'curved'"),
        ({"style": "wavy"}, "'wavy' is no Style"),
        ({"style": ["dotted"]}, r"\['dotted'\] is no Style"),
        ({"points": "ab"}, "'ab'"),
        ({"named": ["a"]}, r"\['a'\]"),
        ({"ends": [1]}, r"\[1\]"),
    ],
)
def test_fields_and_values_of_another_release_are_refused_by_name(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(UnknownFormError, match=rf"{problem}.*upgrade airflow_provider_ckpt"):
        from_json(Line, {**FORM, **change})


def test_a_value_without_a_json_form_is_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        to_json({"a": object()})


def test_a_tagged_value_has_the_name_of_its_type() -> None:
    shapes: Tagged[Point | Line] = Tagged((Point, Line))
    form = shapes.to_json(Point(1))
    assert form == {"type": "Point", "x": 1, "y": None}
    assert shapes.from_json(form) == Point(1)
    for kind in ("Circle", None, ["Point"]):
        with pytest.raises(UnknownFormError, match="of type"):
            shapes.from_json({"type": kind, "x": 1})
