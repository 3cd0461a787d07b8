"""The sinks of a job, from the job's definition or from its journal."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.sinks.binding import bind_sinks
from airflow_provider_ckpt.sinks.file.journaled_sinks import recorded_sinks
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.storage.location import Location


def sinks_of_job(job: Job | None, root: Location) -> Callable[[JobState], dict[str, BoundSink]]:
    """Return a function that returns uid → sink for a job's state.

    The sinks of ``job`` take precedence over the sinks that the journal records completely. A state without a plan has
    no sinks, because the job has staged nothing or is deleted.
    """

    def of_state(state: JobState) -> dict[str, BoundSink]:
        if state.plan is None:
            return {}
        recorded = recorded_sinks(state.plan.definition, state.job_id, root)
        return recorded if job is None else {**recorded, **bind_sinks(job, state.job_id, root)}

    return of_state
