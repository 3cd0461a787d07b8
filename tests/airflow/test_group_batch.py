"""Subtask of a batch job in a whole Dag run, whose result is lost before its readers have read it.

Airflow maps, defers and resumes in this process. Spark, the JobMaster and the clock are fakes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TaskGroup

from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.operators.group_run import GroupRun
from airflow_provider_ckpt.operators.subtask_task import SubtaskTaskOperator
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.root import open_root
from airflow_provider_ckpt.triggers import finished_subtask
from airflow_provider_ckpt.triggers.finished_subtask import FinishedSubtaskTrigger
from tests.airflow.group_journal import coordinated, ended, finished, prepared, prepared_from_scratch
from tests.airflow.support import FakeSparkSubmit, status

pytestmark = pytest.mark.slow

RETRY = "the retry of coordinate"


@pytest.fixture
def feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """Prepare the job. The Dag run has no id here, so other tests cover whose deployment it is."""
    (tmp_path / "orders.py").write_text("from airflow_provider_ckpt import Job\njob = Job('orders')\n")
    monkeypatch.setattr(GroupRun, "owns", lambda self, state: bool(state.prepared_by))
    monkeypatch.setattr(finished_subtask, "is_held_by_group", lambda mine, state: True)
    return coordinated(prepared(Journal(open_root(open_storage(tmp_path / "ckpt")), "feed"), mode="batch"))


def lose_result(journal: Journal) -> None:
    coordinated(prepared(ended(journal, "RESTARTING"), RETRY, mode="batch", again=["history/0"]), RETRY)


def restart_from_scratch(journal: Journal) -> None:
    coordinated(prepared_from_scratch(ended(journal, "RESTARTING"), RETRY), RETRY)


@pytest.mark.parametrize(
    "again", [lose_result, restart_from_scratch], ids=["a result is lost", "batch_recovery is off"]
)
@pytest.mark.parametrize("form", ["mapped", "listed"])
def test_a_subtask_runs_again_in_its_first_try_and_succeeds_with_the_job(
    run: Callable[..., Any],
    spark_submit: FakeSparkSubmit,
    feed: Journal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    again: Callable[[Journal], None],
) -> None:
    """The task has no retries."""
    slept: list[float] = []

    async def sleep(self: object, seconds: float) -> None:
        """Play the job's next event instead of sleeping."""
        slept.append(seconds)
        steps: dict[int, Callable[[], object]] = {
            1: lambda: finished(feed, "history/0"),
            2: lambda: again(feed),  # after this the worker starts again
            3: lambda: finished(feed, "history/0"),
            4: lambda: ended(feed, "FINISHED"),
        }
        await asyncio.to_thread(steps[len(slept)])

    monkeypatch.setattr(FinishedSubtaskTrigger, "_sleep", sleep)
    monkeypatch.setattr(FinishedSubtaskTrigger, "_clock", staticmethod(lambda: sum(slept)))
    given: dict[str, Any] = {
        "job": f"{tmp_path}/orders.py:job",
        "job_id": "feed",
        "root": str(tmp_path / "ckpt"),
        "spark_binary": spark_submit.path,
        "coordinate": "orders.coordinate",
        "ckpt_group": "orders",
        "poll_interval": 15,
        "retries": 0,
    }
    with DAG(f"shop_batch_{form}_{again.__name__}", schedule=None) as dag, TaskGroup("orders"):
        coordinate = EmptyOperator(task_id="coordinate")
        if form == "mapped":
            SubtaskTaskOperator.partial(task_id="subtask", **given).expand(subtask=["history/0"]) >> coordinate
        else:
            SubtaskTaskOperator(task_id="subtask", subtask="history/0", **given) >> coordinate
    for _ in range(2):
        spark_submit.play(status("finished"))
    dag_run, tasks = run(dag)
    assert dag_run.state == "success"
    assert tasks["orders.subtask"].try_number == 1
    worker = ["--worker", "history/0", "--deployment"]
    assert [call.argv[-4:] for call in spark_submit.calls] == [[*worker, "1"], [*worker, "3"]]
    assert {call.value("--try") for call in spark_submit.calls} == {"1"}
    assert slept == [12.0, 15.0, 12.0, 15.0]
