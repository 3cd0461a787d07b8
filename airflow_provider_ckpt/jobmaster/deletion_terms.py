"""Which jobs may be deleted, and what may be lost by it (R16)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ckpt.job import kinds
from airflow_provider_ckpt.jobmaster.errors import JobNotOverError, PersistedResultsError, UnreleasedOutputError
from airflow_provider_ckpt.jobmaster.persisted_results import persisted_operators
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import is_alive
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.words import ckpt_command, release_command

_ABANDONED = "If nobody runs it, or is going to, add --abandoned (in Python abandoned=True); else wait for its end"
_UNFINISHED = "Run it to its end. To lose that, add --unfinished (in Python unfinished=True)"


@dataclass(frozen=True)
class DeletionTerms:
    """What is agreed to beforehand; a job that is FINISHED, and keeps nothing for others, needs nothing of it.

    ``unfinished``: a job that STOPPED or FAILED, too; what the next run would have gone on with is lost.
    ``abandoned``: one that is RESTARTING, or whose driver was lost, too: nobody runs it, or is going to. One whose
    driver is seen alive is refused in any case.
    ``discard_unreleased``: also if completed checkpoints are not released; their rows are lost.
    ``keep_staged``: leave alone what the job has staged in the targets of its sinks.
    ``persisted``: also the results of a FINISHED job that it keeps for others.
    """

    unfinished: bool = False
    abandoned: bool = False
    discard_unreleased: bool = False
    keep_staged: bool = False
    persisted: bool = False

    def __post_init__(self) -> None:
        """Raises BadOptionError: the text "false", which a template has made, would say yes to a loss."""
        for name, value in vars(self).items():
            kinds.FLAG.read(value, name)

    def check(self, state: JobState, root: str) -> None:
        """Raises JobNotOverError, UnreleasedOutputError, PersistedResultsError. A deletion that has begun is not asked
        again. ``root``: for display."""
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
        if alive:  # also one that has told an end, and is leaving: it may still stage
            stop = ckpt_command("stop", state.job_id, root=root)
            self._refuse(state, "its driver lives", f"Stop the job (`{stop}`), or wait until the driver has left")
        if state.is_held and not self.abandoned:
            seen = (
                "is gone" if alive is False else f"on {state.worker.host or 'a host unknown'} cannot be seen from here"
            )
            self._refuse(state, f"its driver has told no end, and {seen}", _ABANDONED)
        if state.status is JobStatus.RESTARTING and not self.abandoned:
            self._refuse(state, "the next run is expected to go on with it", _ABANDONED)
        if not (self.unfinished or self.abandoned):
            self._refuse(state, "it has not FINISHED, and the next run would go on with what it has", _UNFINISHED)

    def _refuse(self, state: JobState, why: str, remedy: str) -> None:
        shown = state.status or "not RUNNING yet"
        raise JobNotOverError(job_id=state.job_id, status=shown, why=why, remedy=remedy)
