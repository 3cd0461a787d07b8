"""The choice where the JobMaster of a group runs: in the coordinating task, or in the triggerer without job files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_ckpt.status.exit_code import ExitCode

if TYPE_CHECKING:
    from airflow_provider_ckpt.job.options.run_options import RunOptions
    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.remote.master import OnMaster
    from airflow_provider_ckpt.remote.timing import Timing
    from airflow_provider_ckpt.status.status_reporter import OnStatus
    from airflow_provider_ckpt.storage.location import Location


def master_runner(
    options: RunOptions, location: Location, on_status: OnStatus, timing: Timing
) -> Callable[[OnMaster], ExitCode]:
    """Return a function that loads the job of ``options.job`` in this process and runs its JobMaster."""

    def run(on_master: OnMaster) -> ExitCode:
        from airflow_provider_ckpt.job.loading.loading import load_job
        from airflow_provider_ckpt.remote.master import RemoteJob, run_master
        from airflow_provider_ckpt.status.status_line import StatusLine

        try:
            job = load_job(options.job, options.params)
            job.validate()
        except Exception as error:
            code = ExitCode.of_error(error)
            on_status(StatusLine(code.line_kind, str(error)))
            return code
        return run_master(RemoteJob(job, options, location, timing), on_status, on_master)

    return run


_NOT_DESCRIBED = (
    "the journal does not say how to reach {}: it has options, is in another store than the checkpoint root, was "
    "changed since the job was prepared, has a gate, or is a class of your own"
)


@dataclass(frozen=True)
class TriggererSupport:
    """Support of the triggerer for a group's JobMaster.

    ``problem`` is why the triggerer cannot run the JobMaster, or None if it can. ``outputs`` is sink -> its folder, for
    the sinks whose folder is known.
    """

    problem: str | None
    outputs: Mapping[str, str] = field(default_factory=dict)


def find_triggerer_support(options: RunOptions, location: Location, state: JobState) -> TriggererSupport:
    """Return whether the triggerer can run the JobMaster of a prepared job. Loads the job in this process."""
    from airflow_provider_ckpt.job.loading.loading import load_job
    from airflow_provider_ckpt.sinks.binding import output_folders
    from airflow_provider_ckpt.sinks.file.journaled_sinks import not_recorded, recorded_job

    try:
        job = load_job(options.job, options.params)
        outputs = output_folders(job, location)
        declared = {sink.uid: (sink.release, dict(sink.sink.definition())) for sink in job.sinks}
        unknown = set(not_recorded(job.sinks))
    except Exception as error:
        # The JobMaster in this task loads the job again, and reports the error in full.
        return TriggererSupport(f"the job cannot be loaded here ({type(error).__name__})")
    if job.controllers:
        names = ", ".join(controller.name for controller in job.controllers)
        return TriggererSupport(f"the JobMaster runs its controllers ({names}), which are in the job's file", outputs)
    journaled = () if state.definition is None else recorded_job(state.definition, location).sinks
    described = {sink.uid for sink in journaled if declared.get(sink.uid) == (sink.release, sink.sink.definition())}
    unknown |= {uid for vertex in state.graph().vertices for uid in vertex.sinks} - described
    if not unknown:
        return TriggererSupport(None, outputs)
    return TriggererSupport(_NOT_DESCRIBED.format(", ".join(sorted(unknown))), outputs)
