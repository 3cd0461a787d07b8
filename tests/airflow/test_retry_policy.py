"""Retries of a task as long as its job makes progress."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, RetryAction

from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.journal.events import (
    CheckpointCompleted,
    SourceEnded,
    SubtaskEndOfData,
    SubtaskFinished,
)
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.progress import Snapshot
from airflow_provider_ckpt.operators.pointer import KEY as POINTER_KEY
from airflow_provider_ckpt.operators.pointer import Pointer
from airflow_provider_ckpt.operators.retry_policy import KEY, Failures, ProgressRetryPolicy
from airflow_provider_ckpt.operators.spark_job import CheckpointedSparkJobOperator
from airflow_provider_ckpt.storage.layout import journal_path
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.storage.storage import Storage
from tests.airflow.driver_journal import start_driver
from tests.airflow.support import FakeSparkSubmit, StateStore, context, status


def completed(checkpoint: int, batch_id: int) -> CheckpointCompleted:
    return CheckpointCompleted(
        checkpoint, 1.0, 2.0, "checkpoint", {SubtaskId("v/0"): Snapshot(9, batch_id=batch_id)}, {}
    )


class Task:
    """Task whose job fails repeatedly."""

    def __init__(self, root: Storage, failures_without_progress: int, epoch: int | None = None) -> None:
        self.store = StateStore({POINTER_KEY: Pointer("orders", root.uri, 1, 9, epoch=epoch).to_json()})
        self.context = context(self.store)
        self.context["ti"].task = SimpleNamespace(ckpt_conn_id=None)
        self.policy = ProgressRetryPolicy(failures_without_progress)

    def fails(self) -> RetryAction:
        return self.policy.evaluate(RuntimeError("an executor is lost"), 1, 9, self.context).action


def test_only_failures_without_progress_count(root: Storage, journal: Callable[[str], Journal]) -> None:
    job, task = start_driver(journal("orders")), Task(root, failures_without_progress=1)
    assert task.fails() is RetryAction.RETRY
    job.write(completed(1, batch_id=4))
    assert [task.fails(), task.fails()] == [RetryAction.RETRY, RetryAction.RETRY]
    job.write(completed(2, batch_id=5))
    assert [task.fails(), task.fails(), task.fails()] == [RetryAction.RETRY, RetryAction.RETRY, RetryAction.FAIL]
    assert task.store.values[KEY] == {"job_id": "orders", "progress": [6, 0, 0], "without_progress": 2}


def test_a_checkpoint_without_new_batches_is_not_progress(root: Storage, journal: Callable[[str], Journal]) -> None:
    """A job that always fails at the same row completes checkpoints on its way there."""
    job, task = start_driver(journal("orders")), Task(root, failures_without_progress=1)
    job.write(completed(1, batch_id=4))
    actions = []
    for checkpoint in range(2, 5):
        job.write(completed(checkpoint, batch_id=4))
        actions.append(task.fails())
    assert actions == [RetryAction.RETRY, RetryAction.RETRY, RetryAction.FAIL]


@pytest.mark.parametrize(
    "event",
    [
        SourceEnded("v", "history", 3, 1.0),
        SubtaskEndOfData(SubtaskId("v/0"), "0001-a", 1.0),
        SubtaskFinished(SubtaskId("v/0"), "0001-a", 1.0),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_end_of_data_is_progress_without_a_checkpoint(
    root: Storage, journal: Callable[[str], Journal], event: Any
) -> None:
    """A batch job has only one checkpoint, at its end."""
    job, task = start_driver(journal("orders")), Task(root, failures_without_progress=0)
    job.write(completed(1, batch_id=0))
    assert task.fails() is RetryAction.RETRY
    job.write(event)
    assert [task.fails(), task.fails()] == [RetryAction.RETRY, RetryAction.FAIL]


def test_a_job_with_another_id_has_no_failures() -> None:
    """The option ``on_clear="restart"`` gives the job another id."""
    before = Failures.from_json({"job_id": "orders", "progress": [9, 1, 0], "without_progress": 2})
    assert before.without_progress == 2
    again = before.after("orders~g1", before.progress)
    assert (again.job_id, again.without_progress) == ("orders~g1", 0)


@pytest.mark.parametrize("value", [None, [], {}, {"job_id": "orders"}, {"job_id": 1, "progress": [1], "x": 0}])
def test_an_invalid_stored_count_is_ignored(value: Any) -> None:
    assert Failures.from_json(value) == Failures()


def test_an_unreadable_journal_leaves_the_decision_to_airflow(
    root: Storage, journal: Callable[[str], Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    start_driver(journal("orders"))
    task = Task(root, failures_without_progress=0)

    def broken(*_: Any) -> Any:
        raise OSError("the file server does not answer")

    monkeypatch.setattr("airflow_provider_ckpt.client.job_client.JobClient.read_state", broken)
    assert [task.fails(), task.fails()] == [RetryAction.DEFAULT, RetryAction.DEFAULT]
    assert KEY not in task.store.values


@pytest.mark.parametrize("damage", [b"not a journal", None], ids=["damaged", "missing"])
def test_a_failure_does_not_count_while_the_journal_does_not_show_the_whole_job(
    root: Storage, journal: Callable[[str], Journal], damage: bytes | None
) -> None:
    """A share that is not mounted shows an empty folder, which is not a job without progress."""
    start_driver(journal("orders")).write(completed(1, batch_id=4))
    task = Task(root, failures_without_progress=0, epoch=1)
    folder = journal_path("orders")
    for name, _ in root.files(folder):
        root.delete(f"{folder}/{name}") if damage is None else root.replace(f"{folder}/{name}", damage)
    assert [task.fails(), task.fails()] == [RetryAction.DEFAULT, RetryAction.DEFAULT]
    assert KEY not in task.store.values


def test_a_job_that_no_driver_has_begun_makes_no_progress(root: Storage) -> None:
    task = Task(root, failures_without_progress=1)
    assert [task.fails(), task.fails()] == [RetryAction.RETRY, RetryAction.FAIL]


def test_a_failure_before_the_job_is_known_is_left_to_airflow(root: Storage) -> None:
    task = Task(root, failures_without_progress=0)
    task.store.values.clear()
    assert task.fails() is RetryAction.DEFAULT
    assert ProgressRetryPolicy().evaluate(RuntimeError(), 1, 9, None).action is RetryAction.DEFAULT


@pytest.mark.parametrize("failures_without_progress", [-1, 1.5, True, "2", None])
def test_an_invalid_patience_is_refused_when_the_dag_is_parsed(failures_without_progress: Any) -> None:
    with pytest.raises(InvalidTaskArgumentError, match="failures_without_progress"):
        ProgressRetryPolicy(failures_without_progress)


@pytest.mark.slow
def test_airflow_stops_retrying_when_the_policy_says_fail(
    run: Callable[..., Any], spark_submit: FakeSparkSubmit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten retries are left. Only one try of four made progress."""
    (tmp_path / "orders.py").write_text("")
    root = tmp_path / "root"
    monkeypatch.setenv("AIRFLOW_CONN_CKPT_DEFAULT", json.dumps({"conn_type": "ckpt", "host": str(root)}))
    made = open_root(open_storage(tmp_path / "made"))
    start_driver(Journal(made, "nightly")).write(completed(1, batch_id=4))
    spark_submit.play(exit=1)
    spark_submit.play(status("started", epoch=1), exit=1, copy=(tmp_path / "made", root))
    for _ in range(9):
        spark_submit.play(status("started", epoch=1), exit=1)
    with DAG("shop_progress", schedule=None) as dag:
        CheckpointedSparkJobOperator(
            task_id="orders",
            job=f"{tmp_path}/orders.py:job",
            job_id="nightly",
            spark_binary=spark_submit.path,
            retries=10,
            retry_delay=timedelta(0),
            retry_policy=ProgressRetryPolicy(failures_without_progress=1),
        )
    dag_run, tasks = run(dag)
    assert dag_run.state == "failed"
    assert len(spark_submit.calls) == 4
    assert tasks["orders"].try_number == 4
