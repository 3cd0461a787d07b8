"""Row counts of releases, which match the released rows even if an answer of a sink was lost (R9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.journal import events as ev
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.sinks.file.manifests import read_manifests
from airflow_provider_ckpt.sinks.lost_output import refuse_lost_output
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext
from airflow_provider_ckpt.subtasklog.records import Batch
from airflow_provider_ckpt.triggers.release import release_events
from tests.client.ended_job import EndedJob


def handle_of(job: EndedJob, checkpoint: int) -> Handle:
    """Return the handle of the only batch that the checkpoint adds to its predecessor."""
    handles = [dict(record.handles["lake"]) for _, record in job._log("v").records(0) if isinstance(record, Batch)]
    return handles[checkpoint - 1]


def definition(job: EndedJob) -> Job:
    """Return the job as it ran."""
    declared = Job("orders")

    @declared.source(uid="v")
    def live(read: Any) -> Any:
        raise AssertionError("a release calls none of the job's functions")

    declared.sink("lake", live, job.sink)
    return declared


def test_r9_a_release_counts_rows_whose_sink_answer_was_lost(tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path, JobStatus.STOPPED, released=0)
    job.sink.bind(SinkContext("orders", "lake")).release([handle_of(job, 1)], 1)  # and then it was killed
    (event,) = job.client.release(definition(job))
    assert {name: event.sinks["lake"][name] for name in ("rows", "earlier_rows")} == {"rows": 2, "earlier_rows": 1}
    (release,) = release_events(job.client.state(), after=0)
    assert release.rows == sum(manifest.rows for manifest in read_manifests(str(job.lake))) == 2


def test_r9_an_empty_checkpoint_counts_rows_whose_sink_answer_was_lost(tmp_path: Path) -> None:
    job = EndedJob.run(tmp_path, JobStatus.STOPPED, released=1)
    bound = job.sink.bind(SinkContext("orders", "lake"))
    bound.release([handle_of(job, 2)], 2)  # and then it was killed
    journal = job.claimed("shop~t2")
    done = journal.state.checkpoints[2]
    journal.write(ev.CheckpointCompleted(3, 1.0, 2.0, "checkpoint", done.subtasks, {}))
    journal.write(ev.StatusChanged(JobStatus.STOPPED, 5.0))
    job.client.release(definition(job))
    state = job.client.state()
    assert [(release.checkpoint, release.rows) for release in release_events(state, after=0)] == [(1, 1), (3, 1)]
    refuse_lost_output(state, {"lake": bound})  # as the next start does: its folder knows checkpoint 2 only


def test_r9_a_sink_that_has_released_the_checkpoint_keeps_its_counts(tmp_path: Path) -> None:
    """Only another sink lacked the checkpoint, so `ckpt release` calls that sink alone."""
    job = EndedJob.run(tmp_path, JobStatus.STOPPED, released=1)
    counts = job.sink.bind(SinkContext("orders", "lake")).release([handle_of(job, 2)], 2)
    journal = job.claimed("shop~t2")
    journal.write(ev.SinkReleased("lake", 2, 2.0, counts))
    journal.write(ev.StatusChanged(JobStatus.STOPPED, 5.0))
    (event,) = job.client.release(definition(job))
    assert event.sinks == {}
    assert [release.rows for release in release_events(job.client.state(), after=0)] == [1, 1]
