"""Rules on which jobs may be deleted and which losses a user accepts by it (R16)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.job import kinds
from airflow_provider_ckpt.jobmaster.errors import JobNotOverError, PersistedResultsError, UnreleasedOutputError
from airflow_provider_ckpt.jobmaster.persisted_results import persisted_operators
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import is_alive
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.words import ckpt_command, release_command

_ABANDONED = "If no process runs it or will run it, add --abandoned (in Python abandoned=True); else wait for its end"
_UNFINISHED = "Run it to its end. To lose that, add --unfinished (in Python unfinished=True)"


@dataclass(frozen=True)
class DeletionTerms:
    """The losses that a user accepts before a deletion. A FINISHED job that keeps no results for other jobs needs none.

    Args:
        unfinished: Also delete a job that is STOPPED or FAILED. The work that the next run would have resumed is lost.
        abandoned: Also delete a job that is RESTARTING or whose driver was lost. The user states that no process runs
            it or will run it. A job whose driver is seen alive is always refused.
        discard_unreleased: Also delete a job with completed checkpoints that are not released. Their rows are lost.
        keep_staged: Leave the staged output in the targets of the sinks.
        persisted: Also delete results that a FINISHED job keeps for other jobs.
    """

    unfinished: bool = False
    abandoned: bool = False
    discard_unreleased: bool = False
    keep_staged: bool = False
    persisted: bool = False

    def __post_init__(self) -> None:
        """Refuse values that are not booleans, because the text "false" from a template would count as true and accept
        a loss.

        Raises BadOptionError.
        """
        for name, value in vars(self).items():
            kinds.FLAG.read(value, name)

    def check(self, state: JobState, root: str) -> None:
        """Refuse the deletion of a job that these terms do not cover. A deletion that has begun is not checked again.

        Args:
            root: URI of the root, for error messages.

        Raises JobNotOverError, UnreleasedOutputError or PersistedResultsError.
        """
        if state.deletion is not None:
            return
        if state.status is not JobStatus.FINISHED:
            self._check_unfinished(state, root)
        if state.has_unreleased and not self.discard_unreleased:
            raise UnreleasedOutputError(
                job_id=state.job_id,
                status=state.status,
                completed=state.last_completed,
                released=f"up to {state.last_released}" if state.last_released else "none",
                release=release_command(state.job_id, root),
            )
        kept = persisted_operators(state)
        if state.status is JobStatus.FINISHED and kept and not self.persisted:
            raise PersistedResultsError(job_id=state.job_id, operators=", ".join(kept))

    def _check_unfinished(self, state: JobState, root: str) -> None:
        alive = is_alive(state.worker)
        if alive:  # even a driver that has reported its end may still stage while it leaves
            stop = ckpt_command("stop", state.job_id, root=root)
            self._refuse(state, "its driver lives", f"Stop the job (`{stop}`), or wait until the driver has left")
        if state.is_held and not self.abandoned:
            seen = (
                "is gone" if alive is False else f"on {state.worker.host or 'a host unknown'} cannot be seen from here"
            )
            self._refuse(state, f"its driver has reported no end, and {seen}", _ABANDONED)
        if state.status is JobStatus.RESTARTING and not self.abandoned:
            self._refuse(state, "the next run is expected to resume it", _ABANDONED)
        if not (self.unfinished or self.abandoned):
            self._refuse(state, "it has not FINISHED, and the next run would resume it", _UNFINISHED)

    def _refuse(self, state: JobState, why: str, remedy: str) -> None:
        shown = state.status or "not RUNNING yet"
        raise JobNotOverError(job_id=state.job_id, status=shown, why=why, remedy=remedy)
