"""Notices for the user at the beginning of a run. No Spark runs here."""

from __future__ import annotations

from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.spark.notices import not_as_given


def test_a_function_that_the_run_goes_without_is_told_and_one_that_was_read_is_not() -> None:
    given = VertexSettings(pool_weight=2, logic={"a": "v2.py:job", "b": "v2.py:job"})
    read = VertexSettings(pool_weight=2, logic={"a": "v2.py:job"}, digests={"a": "of now"})
    assert [*not_as_given({"v": given}, {"v": read})] == [
        "b was given v2.py:job while it was in v; it is not there now, and goes without"
    ]
    assert [*not_as_given({"v": read}, {"v": read})] == []
