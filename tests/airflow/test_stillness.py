from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt.journal.events import CheckpointCompleted, JobCreated
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.job_status import JobStatus, RuntimeMode
from airflow_provider_ckpt.model.submitted_options import SubmittedOptions
from airflow_provider_ckpt.triggers.stall_detector import SHORTEST, LastProgress, stall_limit


def state(
    *,
    triggered: tuple[float, ...] = (),
    mode: RuntimeMode = "streaming",
    status: JobStatus = JobStatus.RUNNING,
    **options: Any,
) -> JobState:
    created = JobCreated("orders", JobGraph((), ()), mode, SubmittedOptions(options), 0.0)
    done = {n: CheckpointCompleted(n, at, at + 1, "checkpoint", {}, {}) for n, at in enumerate(triggered, 1)}
    return JobState("orders", created=created, epoch=1, status=status, checkpoints=done)


def after(seen: LastProgress, *states: JobState, released: bool = True) -> LastProgress:
    for job_state in states:
        seen = seen.after(job_state, released=released)
    return seen


def test_polls_are_counted_until_the_journal_grows() -> None:
    job = state()
    seen = after(LastProgress(), job)
    assert seen.journal.polls == 0
    assert after(seen, job, job).journal.polls == 2
    job.position = 7  # next checkpoint of an idle job
    assert after(seen, job, job).journal.polls == 1


def test_polls_are_counted_until_a_checkpoint_completes_or_is_released() -> None:
    job = state()
    job.last_completed, job.last_released = 2, 1
    seen = after(LastProgress(), job)
    job.position = 7  # entry of an aborted checkpoint
    assert after(seen, job).checkpoint.polls == 1
    job.last_completed = 3
    assert after(seen, job, released=True).checkpoint.polls == 1
    seen = after(LastProgress(), job, released=False)
    job.last_completed = 4
    assert after(seen, job, released=False).checkpoint.polls == 0


@pytest.mark.parametrize(
    ("job", "alive", "expected"),
    [
        (state(), True, None),
        (state(), None, SHORTEST),
        (state(), False, SHORTEST),
        (state(checkpoint_interval=3600.0, checkpoint_timeout=60.0), None, 10860.0),
        (state(checkpoint_interval=3600.0), False, SHORTEST),
        (state(triggered=(0.0, 3600.0, 7200.0), checkpoint_interval=30.0), None, 11400.0),
        (state(triggered=(0.0, 30.0, 86400.0, 86430.0), checkpoint_interval=30.0), None, SHORTEST),
        (state(mode="batch"), None, None),
        (state(mode="batch"), False, SHORTEST),
        (state(mode="batch", status=JobStatus.FINISHED), None, SHORTEST),
    ],
)
def test_the_stall_limit_follows_the_interval_and_the_mode(
    job: JobState, alive: bool | None, expected: float | None
) -> None:
    assert stall_limit(job, alive) == expected
