"""Numbers beyond the limits of their fields are refused when a value is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from airflow_provider_ckpt.model.errors import DamagedFormError
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.json_form import from_json, reader
from airflow_provider_ckpt.model.limits import Count, Instant, Parallelism, Pid


@dataclass(frozen=True)
class Measured:
    rows: Count
    at: Instant | None = None
    counts: tuple[Count, ...] = ()


def test_numbers_within_the_limits_are_read() -> None:
    assert from_json(Measured, {"rows": 0}) == Measured(0)
    assert from_json(Measured, {"rows": 7, "at": 1.5, "counts": [1, 2]}) == Measured(7, 1.5, (1, 2))
    assert from_json(Measured, {"rows": 2**63 - 1, "at": None}) == Measured(2**63 - 1)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"rows": -1}, "rows: -1 is not from 0 to 9223372036854775807"),
        ({"rows": 2**63}, "rows: 9223372036854775808 is not from 0"),
        ({"rows": True}, "rows: True, a bool"),
        ({"rows": 1.0}, "rows: 1.0, a float"),
        ({"rows": 1, "at": -0.5}, "at: -0.5 is not from 0 to 253402300799"),
        ({"rows": 1, "at": float("nan")}, "at: nan is not from 0"),
        ({"rows": 1, "at": 1e300}, "at: 1e+300 is not from 0"),
        ({"rows": 1, "counts": [1, -2]}, "counts: -2 is not from 0"),
    ],
)
def test_numbers_beyond_the_limits_are_refused_by_field(data: dict[str, Any], problem: str) -> None:
    with pytest.raises(DamagedFormError) as refused:
        from_json(Measured, data)
    assert refused.value.data["what"].startswith(problem)


@pytest.mark.parametrize(("kind", "number"), [(Pid, 2**31), (Pid, -9), (Parallelism, 0), (Parallelism, 10**18)])
def test_a_process_id_and_a_parallelism_have_their_own_limits(kind: Any, number: int) -> None:
    with pytest.raises(DamagedFormError):
        reader(kind)(number)


def test_a_long_value_is_cut_in_the_error() -> None:
    with pytest.raises(DamagedFormError) as refused:
        from_json(Measured, {"rows": "x" * 100_000})
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("text", ["", "v", "/0", "v/", "v/x", "v/-1", "v/\u00b2", "v/" + "9" * 5_000])
def test_a_subtask_has_a_vertex_and_a_number(text: str) -> None:
    with pytest.raises(DamagedFormError, match="is no subtask"):
        reader(SubtaskId)(text)
    assert reader(SubtaskId)("a/b/3") == SubtaskId("a/b/3")
