"""One table of the values of settings, for clients, requests and the driver."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from airflow_provider_ckpt.job.errors import BadOptionError, NotReconfigurableError
from airflow_provider_ckpt.job.reconfiguration import RESOURCES, TAKEN_BACK, WORKLOAD, Reconfiguration
from airflow_provider_ckpt.model.setting_ranges import (
    LARGEST_NUMBER,
    LARGEST_SIZE,
    LONGEST,
    RANGES,
    problem_of,
    problem_of_settings,
)
from airflow_provider_ckpt.model.vertex_settings import VertexSettings

COUNTS = ("max_files_per_batch", "state_partitions", "pool_weight", "parallelism", "executors")


def test_every_setting_has_a_range() -> None:
    assert {field.name for field in fields(VertexSettings)} == {*RANGES, "logic", "digests"}
    assert {*WORKLOAD, *RESOURCES} == {*RANGES}
    assert {*TAKEN_BACK} < {*RANGES}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_whole_and_above_zero(name: str) -> None:
    assert [problem_of(name, value) for value in (1, LARGEST_NUMBER)] == [None, None]
    assert problem_of(name, LARGEST_NUMBER + 1) == f"{name} is 2147483647 at the most"
    for value in (0, -1, 1.0, True, "2", None, float("nan")):
        assert problem_of(name, value) == f"{name} is a whole number above 0, not {value!r}"


def test_sizes_are_bytes_that_spark_can_count() -> None:
    assert [problem_of("max_bytes_per_batch", value) for value in (1, LARGEST_SIZE)] == [None, None]
    assert problem_of("max_bytes_per_batch", 0)
    assert problem_of("max_bytes_per_batch", LARGEST_SIZE + 1)


def test_an_interval_is_a_number_of_seconds() -> None:
    assert [problem_of("trigger_interval", value) for value in (0, 0.5, 2, LONGEST)] == [None] * 4
    for value in (-0.1, LONGEST * 2, 10**400, float("nan"), float("inf"), True, "2s", None):
        assert str(problem_of("trigger_interval", value)).startswith(
            "trigger_interval is a number of seconds from 0 to"
        )


def test_the_first_problem_of_settings_is_returned() -> None:
    assert problem_of_settings(VertexSettings()) is None
    assert problem_of_settings(VertexSettings(pool_weight=2, trigger_interval=0.0)) is None
    assert problem_of_settings(VertexSettings(executors=-1)) == "executors is a whole number above 0, not -1"


@pytest.mark.parametrize("name", sorted(RANGES))
@pytest.mark.parametrize("value", [0, -1, 2**64, True, float("nan")])
def test_a_client_refuses_what_the_table_refuses(name: str, value: Any) -> None:
    change = Reconfiguration()
    assign = change.assign_resources if name in RESOURCES else change.assign_workload
    if problem_of(name, value) is None:
        assign("daily", **{name: value})
        assert change.changes["daily"].changed_values() == {name: value}
        return
    with pytest.raises((NotReconfigurableError, BadOptionError)):
        assign("daily", **{name: value})
    assert change.changes == {}
