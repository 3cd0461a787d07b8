"""Functions of another version that replace functions of the job; the rest of the operator's declaration must be the
same."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.job.errors import UnfitLogicError
from airflow_provider_ckpt.job.reconfigured import reconfigured
from airflow_provider_ckpt.model.graph import JobVertex
from airflow_provider_ckpt.model.vertex_settings import VertexSettings

VERTICES = (JobVertex("marked", ("live", "clean", "marked"), ("live",), (), ("lake",), bounded=False),)
GIVEN = {"marked": VertexSettings(logic={"marked": "two.py:job"})}


def job(first: str = "clean", **options: Any) -> Job:
    made = Job("orders")

    @made.source
    def live(read: Any) -> Any:
        raise AssertionError

    clean = made.transform(inputs=[live], uid=first)(lambda rows: rows)
    marked = made.transform(inputs=[clean], uid="marked", **options)(lambda rows: rows)
    made.sink("lake", marked, FileSink("out"))
    return made


def replaced(mine: Job, theirs: Job) -> Any:
    logic: Any = lambda reference, digest: theirs.operators  # noqa: E731
    return reconfigured(mine.operators, VERTICES, GIVEN, logic)


def test_only_the_assigned_function_is_replaced() -> None:
    mine, theirs = job(), job()
    operators = replaced(mine, theirs)
    assert operators["marked"].function is theirs.operators["marked"].function
    assert operators["clean"].function is mine.operators["clean"].function


def test_a_renamed_input_is_named_in_the_refusal() -> None:
    """The assigned function is right, so the user need not restore anything in its file."""
    with pytest.raises(
        UnfitLogicError, match=r"declares another inputs.*renamed keeps its name in both by uid="
    ) as refusal:
        replaced(job("clean2"), job("clean"))
    assert refusal.value.data["uid"] == "marked"


def test_the_refusal_of_another_output_mode_suggests_no_rename() -> None:
    with pytest.raises(UnfitLogicError, match="declares another output mode") as refusal:
        replaced(job(), job(output_mode="update"))
    assert "renamed" not in str(refusal.value)


def test_a_function_assigned_in_another_query_is_not_used() -> None:
    """The operator was chained into that query, was left out, and is now a new query."""
    mine, theirs = job(), job()
    logic: Any = lambda reference, digest: theirs.operators  # noqa: E731
    before = {"elsewhere": VertexSettings(logic={"marked": "two.py:job"})}
    elsewhere = JobVertex("elsewhere", ("elsewhere",), (), (), (), bounded=False)
    operators = reconfigured(mine.operators, (*VERTICES, elsewhere), before, logic)
    assert operators["marked"].function is mine.operators["marked"].function
