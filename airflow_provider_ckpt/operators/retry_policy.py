"""When a task of a checkpointed job is tried again: as long as its job gets further."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import RetryDecision, RetryPolicy

from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.operators.pointer import KEY as POINTER_KEY
from airflow_provider_ckpt.operators.pointer import Pointer
from airflow_provider_ckpt.operators.progress import JobProgress

if TYPE_CHECKING:
    from airflow.sdk import Context

KEY = "ckpt_retries"
"""In the task state store, beside the pointer."""
_LOG = logging.getLogger(__name__)


class ProgressRetryPolicy(RetryPolicy):
    """Try a :class:`CheckpointedSparkJobOperator` again while its job gets further, and give up soon when it does not.

    Airflow counts tries, whatever was reached between them: a feed that runs for months uses up its ``retries`` by one
    lost executor a week, and a row that no function can read uses up all of them as well, one after the other. With
    this policy a failure counts only if since the one before no checkpoint covered another micro-batch, no source or
    subtask ended and no split was done, in any vertex of the job. It cannot exceed ``retries``: give many::

        CheckpointedSparkJobOperator(task_id="orders", job=…, retries=1000, retry_policy=ProgressRetryPolicy())

    What cannot be tried again (a job that FAILED for good, a refused definition) fails the task at once, without this
    policy being asked. Where the journal cannot be read, Airflow's own rule holds, and nothing is counted.

    :param patience: failures in a row without progress after which the task is still tried again; one more fails it.
        Raises InvalidTaskArgumentError for a number below 0.
    """

    def __init__(self, patience: int = 2) -> None:
        if not isinstance(patience, int) or isinstance(patience, bool) or patience < 0:
            raise InvalidTaskArgumentError(argument="patience", value=patience, problem="write a number, 0 or above")
        self.patience = patience

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """Called by Airflow in the worker, behind each failure that may be tried again."""
        if context is None:
            return RetryDecision.default()
        try:
            return self._decided(context)
        except Exception as error:  # of the storage, of Airflow's API: no reason to end a job that goes on
            _LOG.warning("Whether the job has got further is not known, so Airflow's own rule holds: %s", error)
            return RetryDecision.default()

    def _decided(self, context: Context) -> RetryDecision:
        values: Mapping[str, Any] = context
        store, task = values["task_state_store"], values["ti"].task
        pointer = Pointer.from_json(store.get(POINTER_KEY))
        if pointer is None:
            return RetryDecision.default()  # it failed before it knew its job
        state = CheckpointHook(task.ckpt_conn_id, root=pointer.root).client(pointer.job_id).look()
        failures = Failures.from_json(store.get(KEY)).after(pointer.job_id, JobProgress.of(state))
        store.set(KEY, failures.to_json())
        where = f"checkpoint {state.last_completed}" if state.last_completed else "its beginning"
        if failures.without_progress > self.patience:
            times = f"{failures.without_progress} failures in a row"
            return RetryDecision.fail(f"job {pointer.job_id} got no further than {where}, {times}")
        return RetryDecision.retry(reason=f"job {pointer.job_id} goes on from {where}")


@dataclass(frozen=True)
class Failures:
    """What the task state store remembers. ``progress``: at the last failure; ``without_progress``: failures in a row
    at which the job was no further than at the one before, the first of them included."""

    job_id: str = ""
    progress: JobProgress = JobProgress(0, 0, 0)  # noqa: RUF009 - a frozen value
    without_progress: int = 0

    def after(self, job_id: str, progress: JobProgress) -> Failures:
        """Behind one more failure. Another job (``on_clear="restart"``) begins with nothing."""
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
        """Without failures if the value is none of ours."""
        if not isinstance(value, Mapping):
            return cls()
        progress, count = JobProgress.from_json(value.get("progress")), value.get("without_progress")
        if progress is None or not isinstance(count, int) or not isinstance(value.get("job_id"), str):
            return cls()
        return cls(value["job_id"], progress, count)
