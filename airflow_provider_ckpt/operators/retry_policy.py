"""The retry policy for checkpointed jobs, which retries a task as long as its job makes progress."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from airflow.sdk import RetryDecision, RetryPolicy

from airflow_provider_ckpt.client.job_facts import is_journaled
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.operators.pointer import KEY as POINTER_KEY
from airflow_provider_ckpt.operators.pointer import Pointer

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_ckpt.journal.state import JobState

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JobProgress:
    """Progress of a job. The counts only rise, unless the job restarts from scratch or is restored to a checkpoint."""

    batches: int
    """Number of micro-batches up to the last completed checkpoint. Checkpoints are not counted, because a job
    that fails at the same row again and again still completes checkpoints."""
    finished: int
    """Number of finished sources and subtasks, the only progress of a job in batch mode before its end."""
    splits: int
    """Number of completed splits of all sources."""

    @classmethod
    def of(cls, state: JobState) -> JobProgress:
        covered = sum(
            0 if progress.batch_id is None else progress.batch_id + 1 for progress in state.valid_snapshots().values()
        )
        ended = sum(map(len, state.ended.values())) + len(state.end_of_data) + len(state.finished)
        return cls(covered, ended, sum(progress.done for progress in state.split_progress()))

    @classmethod
    def from_json(cls, value: Any) -> JobProgress | None:
        """Return the progress. None if ``value`` has another form (users can edit the task state store)."""
        if not isinstance(value, list) or len(value) != len(fields(cls)):
            return None
        return cls(*value) if all(isinstance(number, int) for number in value) else None

    def to_json(self) -> list[int]:
        return [self.batches, self.finished, self.splits]

    def is_beyond(self, before: JobProgress) -> bool:
        return any(now > then for now, then in zip(self.to_json(), before.to_json(), strict=True))


KEY = "ckpt_retries"
"""Key in the task state store, next to the pointer."""


class ProgressRetryPolicy(RetryPolicy):
    """Retry a :class:`CheckpointedSparkJobOperator` while its job makes progress, and fail the task soon if not.

    Airflow itself counts all tries, also after progress. So a feed that runs for months uses up its ``retries`` with
    one lost executor a week. A row that no function can read uses up all ``retries``, too.

    With this policy a failure counts only if there was no progress since the previous failure. Progress is a further
    micro-batch in a completed checkpoint, a finished source or subtask, or a finished split. The policy cannot exceed
    ``retries``, so set a high number::

        CheckpointedSparkJobOperator(task_id="orders", job=…, retries=1000, retry_policy=ProgressRetryPolicy())

    If a retry is pointless (a job that FAILED for good, a refused definition), the task fails at once. If the journal
    cannot be read, Airflow's own rule applies and the failure does not count.

    :param failures_without_progress: maximum number of failures in a row without progress that are retried. A further
        failure without progress fails the task.

    Raises InvalidTaskArgumentError if ``failures_without_progress`` is no number, or below 0.
    """

    def __init__(self, failures_without_progress: int = 2) -> None:
        if (
            not isinstance(failures_without_progress, int)
            or isinstance(failures_without_progress, bool)
            or failures_without_progress < 0
        ):
            raise InvalidTaskArgumentError(
                argument="failures_without_progress",
                value=failures_without_progress,
                problem="write a number, 0 or above",
            )
        self.failures_without_progress = failures_without_progress

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """Return whether Airflow retries the task. Airflow calls this in the worker, after each retryable failure."""
        if context is None:
            return RetryDecision.default()
        try:
            return self._decide(context)
        except Exception as error:  # the storage or Airflow's API failed, which is no reason to end the job
            log.warning("The job's progress is not known, so Airflow's own rule applies: %s", error)
            return RetryDecision.default()

    def _decide(self, context: Context) -> RetryDecision:
        values: Mapping[str, Any] = context
        store, task = values["task_state_store"], values["ti"].task
        pointer = Pointer.from_json(store.get(POINTER_KEY))
        if pointer is None:
            return RetryDecision.default()  # the task failed before it found its job
        state = CheckpointHook(task.ckpt_conn_id, root=pointer.root).client(pointer.job_id).read_state()
        if state.damage or (pointer.epoch is not None and not is_journaled(state)):
            problem = "; ".join(state.damage) or "its journal is missing"
            log.warning(
                "The progress of job %s is not known, so Airflow's own rule applies: %s", pointer.job_id, problem
            )
            return RetryDecision.default()
        failures = Failures.from_json(store.get(KEY)).after(pointer.job_id, JobProgress.of(state))
        store.set(KEY, failures.to_json())
        where = f"checkpoint {state.last_completed}" if state.last_completed else "its beginning"
        if failures.without_progress > self.failures_without_progress:
            times = f"{failures.without_progress} failures in a row"
            return RetryDecision.fail(f"job {pointer.job_id} got no further than {where}, {times}")
        return RetryDecision.retry(reason=f"job {pointer.job_id} resumes from {where}")


@dataclass(frozen=True)
class Failures:
    """Record of a task's failures in the task state store.

    ``without_progress`` is the number of last failures in a row with no progress since the failure before.
    """

    job_id: str = ""
    progress: JobProgress = JobProgress(0, 0, 0)
    without_progress: int = 0

    def after(self, job_id: str, progress: JobProgress) -> Failures:
        """Return the record after a further failure. If the job made progress before it, ``without_progress`` is 0.

        For another job (``on_clear="restart"``) the record begins empty.
        """
        before = self if self.job_id == job_id else Failures(job_id)
        if progress.is_beyond(before.progress):
            return Failures(job_id, progress, 0)
        return Failures(job_id, progress, before.without_progress + 1)

    def to_json(self) -> dict[str, Any]:
        return {
            "job_id": self.job_id,
            "progress": self.progress.to_json(),
            "without_progress": self.without_progress,
        }

    @classmethod
    def from_json(cls, value: Any) -> Failures:
        """Return the record, or an empty one if the value is not a record."""
        if not isinstance(value, Mapping):
            return cls()
        progress, count = JobProgress.from_json(value.get("progress")), value.get("without_progress")
        if progress is None or not isinstance(count, int) or not isinstance(value.get("job_id"), str):
            return cls()
        return cls(value["job_id"], progress, count)
