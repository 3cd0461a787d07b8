"""A check that given sinks are those of a job, for a release from outside a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_provider_ckpt.job.changes import check_changes
from airflow_provider_ckpt.job.definition import sink_definitions
from airflow_provider_ckpt.job.sink_operator import HasSinks
from airflow_provider_ckpt.jobmaster.errors import SinksMissingError
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.definition import JobDefinition
from airflow_provider_ckpt.sinks.lost_output import refuse_lost_output
from airflow_provider_ckpt.sinks.sink import BoundSink


def check_sinks(job: HasSinks, state: JobState, definition: JobDefinition, sinks: Mapping[str, BoundSink]) -> None:
    """Refuse sinks that are not those with which the job ran.

    Args:
        definition: Definition with which the job ran.
        sinks: Bound sinks of ``job``.

    Raises SinksMissingError, DefinitionChangedError, OutputLostError or OutputAheadError.
    """
    missing = {uid for vertex in state.graph().vertices for uid in vertex.sinks} - sinks.keys()
    if missing:
        raise SinksMissingError(job_id=state.job_id, missing=", ".join(sorted(missing)))
    given = replace(definition, sinks=sink_definitions(job.sinks))
    check_changes(definition, given, {one.uid: one.sink.changeable for one in job.sinks})
    refuse_lost_output(state, sinks)
