"""What a batch fails with while its query is being stopped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.spark.task.attempt_context import AttemptContext
from airflow_provider_ckpt.spark.task.publisher import Publisher


class Interrupted:
    """Outputs whose stage is interrupted, with a message as long as those of Spark's JVM."""

    def stage(self, frame: object, batch_id: int) -> None:
        raise ValueError("org.apache.spark.SparkException: Job aborted " + "at somewhere " * 5000)


def publisher(*, is_stopping: bool) -> Publisher:
    anything: Any = None
    outputs: Any = Interrupted()
    run: Any = SimpleNamespace(epoch=1, check_fenced=lambda: None, post=lambda report: None)
    log: Any = SimpleNamespace(check_fenced=lambda: None)
    one = Publisher(
        AttemptContext(run, SubtaskId("v/0"), AttemptId(1, 0, "a"), log),
        anything,
        folder=anything,
        inputs=anything,
        outputs=outputs,
        prepared=anything,
        plan=VertexPlan(0, ()),
        stateful=False,
    )
    one._check_planned = lambda batch_id: None  # type: ignore[method-assign]
    one.is_stopping = is_stopping
    return one


def test_a_batch_that_our_own_stop_interrupts_says_so_in_few_words() -> None:
    """Spark searches the message for an interruption with a pattern that overflows the stack on long ones."""
    with pytest.raises(RuntimeError, match=r"^java\.lang\.InterruptedException: .{1,60}$"):
        publisher(is_stopping=True).foreach_batch(None, 1)  # type: ignore[arg-type]


def test_any_other_failure_is_passed_on_as_it_is() -> None:
    with pytest.raises(ValueError, match="Job aborted"):
        publisher(is_stopping=False).foreach_batch(None, 1)  # type: ignore[arg-type]
