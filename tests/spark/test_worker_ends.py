"""Reports of an exiting worker, for the process that starts the next worker."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.coordinator.protocol.reports import SubtaskFailed
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.remote.worker import WorkerEnd
from airflow_provider_ckpt.spark.worker_run import report_end, report_failed_subtask
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.status.status_line import StatusLine, format_line, parse_line
from airflow_provider_ckpt.status.status_reporter import StatusReporter


@pytest.mark.parametrize("end", [WorkerEnd.NO_MASTER, WorkerEnd.ASKED, WorkerEnd.SPARK_LOST])
def test_w7_a_worker_without_a_jobmaster_sets_lacks_master(end: WorkerEnd) -> None:
    lines: list[StatusLine] = []
    state = JobState("orders", epoch=2)
    code = report_end(StatusReporter(lines.append, "orders", None, "/r"), state, "orders", end, None)
    assert code is ExitCode.FAILED
    (line,) = lines
    read = parse_line(format_line(line))
    assert read is not None
    assert read.lacks_master is (end is WorkerEnd.NO_MASTER)
    assert read.data["epoch"] == 2, "the epoch that the worker knew"
    assert end.value in read.message


@pytest.mark.parametrize("status", [JobStatus.RESTARTING, JobStatus.FAILED, JobStatus.STOPPED])
def test_a_worker_of_a_restarting_run_sets_run_is_over(status: JobStatus) -> None:
    lines: list[StatusLine] = []
    report_end(
        StatusReporter(lines.append, "orders", None, "/r"), JobState("orders"), "orders", WorkerEnd.JOB_OVER, status
    )
    read = parse_line(format_line(lines[0]))
    assert read is not None
    assert read.run_is_over is (status is JobStatus.RESTARTING)


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_worker_that_misses_a_result_sets_run_is_over(is_lost: bool) -> None:
    """The run ends with this failure, and the next run produces the result again.

    In Airflow this costs the reader no try.
    """
    lines: list[StatusLine] = []
    attempt = AttemptId.parse("0002-01-deadbeef")
    failure = SubtaskFailed(2, SubtaskId("report/0"), attempt, "0.parquet is gone", result_is_lost=is_lost)
    code = report_failed_subtask(StatusReporter(lines.append, "orders", None, "/r"), JobState("orders"), failure)
    assert code is ExitCode.FAILED
    read = parse_line(format_line(lines[0]))
    assert read is not None
    assert read.run_is_over is is_lost
