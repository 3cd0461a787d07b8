"""The output of ``ckpt show --json``. The output's format does not depend on the journal's format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.cli.result_partitions import partition_view
from airflow_provider_ckpt.cli.status import status_note
from airflow_provider_ckpt.job.error_cause import cause_first
from airflow_provider_ckpt.jobmaster.recovery.persisted_results import persisted_operators
from airflow_provider_ckpt.journal.kinds.reconciliation import JobReconciled
from airflow_provider_ckpt.journal.kinds.reconfiguration import ReconfigurationEnded
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.split import size
from airflow_provider_ckpt.status.event_time_text import event_time_view

if TYPE_CHECKING:
    from airflow_provider_ckpt.jobmaster.retention.partition_metrics import PartitionWithMetrics

FORMAT = "airflow-provider-ckpt/job-view"
VERSION = 1
"""Version of the format. A version may get new keys. If a key is removed or changes its meaning, the version rises."""
_DRIVER = ("host", "pid", "application_id")


def job_view(
    state: JobState,
    driver_alive: bool | None,
    partitions: Sequence[PartitionWithMetrics] | None = None,
) -> dict[str, Any]:
    """Return the job as the JSON object of ``ckpt show --json``. ``partitions`` is None without ``--partitions``.

    Times are epoch seconds of the driver's clock. None means that there is no value, or that this host cannot know it.
    """
    created = state.created
    return {
        "format": FORMAT,
        "version": VERSION,
        "job_id": state.job_id,
        "status": state.status,
        "cause": cause_first(state.cause) if state.cause else None,
        "status_note": status_note(state),
        "created_at": created.at if created else None,
        "mode": created.mode if created else None,
        "first_params": dict(created.options.params) if created else {},
        "epoch": state.epoch,
        "attempt": state.attempt,
        "driver": {name: getattr(state.worker, name) for name in _DRIVER},
        "driver_alive": driver_alive,
        "deployment": state.deployment or None,
        "unfinished_subtasks": [subtask for subtask in state.graph().subtasks if subtask not in state.finished],
        "last_triggered": state.last_triggered or None,
        "last_completed": state.last_completed or None,
        "last_released": state.last_released or None,
        "in_progress": state.pending or None,
        "completed_count": state.completed_count,
        "aborted_count": state.aborted_count,
        "checkpoints": [view.to_json() for view in state.checkpoint_views()],
        "finished_operators": state.finished_operators(),
        "late_rows": state.late_rows(),
        "changed_files": {
            "counts": dict(sorted(state.changed_counts.items())),
            "last": [
                {
                    "operator": event.uid,
                    "path": file.path,
                    "bytes_read": file.read,
                    "bytes_now": file.size,
                    "at": event.at,
                }
                for event in state.changed_files
                for file in event.files
            ],
        },
        "forgotten_files": list(state.forgotten_files),
        "event_time": event_time_view(state),
        "malformed_rows": state.malformed_rows(),
        "splits": [
            {
                "source": progress.source,
                "total": progress.total,
                "done": progress.done,
                "assigned": progress.assigned,
                "left": progress.left,
            }
            for progress in state.split_progress()
        ],
        "persisted": list(persisted_operators(state)),
        "rescaled": {} if state.plan is None else dict(state.plan.rescaled),
        "settings": {uid: settings.changed_values() for uid, settings in sorted(state.settings.items())},
        "reconfigurations": [_reconfiguration(reconfiguration) for reconfiguration in state.reconfigurations],
        "restarts": dict(sorted(state.restarts.items())),
        "reconciled": None if state.reconciled is None else _reconciled(state.reconciled),
        **({} if partitions is None else {"partitions": [partition_view(partition) for partition in partitions]}),
        "draining": state.draining,
        "restored_from": state.restored or None,
        "requests": [{"request": name, "outcome": _outcome(state, name)} for name in sorted(state.answered)],
        "late_files": [
            {"operator": late.uid, "read": late.read, "paths": list(late.paths), "count": late.total}
            for late in state.late_files
        ],
        "deletion": None if state.deletion is None else {"at": state.deletion.at, "was": state.deletion.was},
        "damage": list(state.damage),
    }


def _reconfiguration(event: ReconfigurationEnded) -> dict[str, Any]:
    return {
        "number": event.number,
        "at": event.at,
        "outcome": str(event.outcome),
        "request": event.request,
        "by": event.by,
        "why": event.why,
        "took": {uid: asdict(times) for uid, times in event.took.items()},
    }


def _reconciled(event: JobReconciled) -> dict[str, Any]:
    return {
        "epoch": event.epoch,
        "at": event.at,
        "kept": list(event.kept),
        "splits_kept": dict(event.splits_kept),
        "restarted": [
            {
                "subtask": subtask.subtask,
                "splits": None if subtask.splits is None else size(subtask.splits),
                "for": subtask.consumer,
            }
            for subtask in event.reset
        ],
    }


def _outcome(state: JobState, request: str) -> str:
    """Return the outcome of a request, or "accepted" if the outcome is pending or no longer in the journal."""
    outcome = state.outcomes.get(request)
    return "accepted" if outcome is None else str(outcome)
