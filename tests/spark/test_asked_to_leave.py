"""Leave requests to a standby worker, at any moment of its life."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ckpt import Job
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.journal.events import DeploymentPrepared
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.remote.errors import SubtaskTakenError
from airflow_provider_ckpt.remote.standby import Standby, Stoppable
from airflow_provider_ckpt.remote.timing import Timing
from airflow_provider_ckpt.remote.worker import WorkerEnd
from airflow_provider_ckpt.spark import worker_run
from airflow_provider_ckpt.spark.preparation.loaded_run import LoadedRun, RunRequest
from airflow_provider_ckpt.spark.worker_run import WorkerRun
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.memory import MemoryStorage

A = SubtaskId("a/0")


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_leave_request_between_standby_and_work_is_kept(monkeypatch: pytest.MonkeyPatch, is_taken: bool) -> None:
    """The request arrives while the worker reads the logs, which takes seconds on an object store.

    At that moment the standby has returned and the worker does not exist. The request holds for the worker. If the
    worker does not get the subtask, the request holds for the next standby.
    """
    state = JobState("job")
    DeploymentPrepared(1, 1.0).apply(state)
    journal: Any = SimpleNamespace(state=state, refresh=lambda: state)
    options = RunOptions("orders.py:job", "memory://leave", "job")
    request = RunRequest(options, Location(options.root), lambda line: None)
    prepared: Any = SimpleNamespace(
        run=LoadedRun(request, Job("orders"), MemoryStorage(""), journal),
        options=options,
        spark=None,
        application="x",
        plan=SimpleNamespace(stateful=list),
    )
    handlers: list[Stoppable] = []
    left: list[str] = []

    class Worker:
        def leave(self) -> None:
            left.append("the worker")

    def wait(standby: Standby) -> object:
        return WorkerEnd.ASKED if standby._is_asked_to_leave else (A,)

    def run(self: WorkerRun, *given: Any) -> ExitCode:
        handlers[-1].leave()
        if is_taken:
            raise SubtaskTakenError(job_id="job", deployment=1, why="another one was faster")
        given[-1](Worker())
        return ExitCode.FAILED

    monkeypatch.setattr(Standby, "wait", wait)
    monkeypatch.setattr(WorkerRun, "_run", run)
    monkeypatch.setattr(worker_run, "begin_warm_up", lambda spark, on_warm, stateful: None)
    work = WorkerRun(("a/0",), Timing(0.1), handlers.append, standby=True)
    work._stand_by(prepared, (A,))
    assert left == ([] if is_taken else ["the worker"])
    assert len(handlers) == 1
