"""When a wait for a checkpoint is over. Pure; the sensor and its trigger ask the same question."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_ckpt.job.causes import cause_first

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState

Outcome = Literal["wait", "reached", "failed"]


@dataclass(frozen=True)
class Verdict:
    """``message`` says what was found; ``result`` is what the sensor returns (XCom)."""

    outcome: Outcome
    message: str
    result: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class CheckpointCondition:
    """Checkpoint ``checkpoint`` of the job, or a later one, is completed, and released unless ``released``
    is False. "final": the job is FINISHED and everything it completed is released (R16).

    A job that FAILED for good, STOPPED, or FINISHED with too few checkpoints will not get there by itself:
    that fails the wait, unless ``wait_for_restart`` says that somebody will run the job again.
    """

    job_id: str
    checkpoint: int | Literal["final"] = "final"
    released: bool = True
    wait_for_restart: bool = False

    def judge(self, state: JobState | None) -> Verdict:
        """``state`` is None while nothing is journaled for the job: it may still be going to start."""
        if state is not None and state.damage:
            return Verdict("failed", f"The journal of job {self.job_id} is damaged: {'; '.join(state.damage)}")
        if state is None or (state.status is None and not state.epoch):
            return Verdict("wait", f"Job {self.job_id} has not started yet")
        shown = (
            f"Job {self.job_id} is {state.status}: checkpoint {state.last_completed or 'none'} completed, "
            f"{state.last_released or 'none'} released"
        )
        if self._reached(state):
            return Verdict("reached", shown, self._result(state))
        if self._hopeless(state):
            cause = f" ({cause_first(state.cause)})" if state.cause else ""
            return Verdict("failed", f"{shown}{cause}. It is not going to reach {self._wanted()}")
        return Verdict("wait", f"{shown}. Waiting for {self._wanted()}")

    def _reached(self, state: JobState) -> bool:
        if self.checkpoint == "final":
            return state.status == "FINISHED" and not (self.released and self._unreleased(state))
        return (state.last_released if self.released else state.last_completed) >= self.checkpoint

    def _hopeless(self, state: JobState) -> bool:
        if self.wait_for_restart or state.status not in ("FINISHED", "STOPPED", "FAILED"):
            return False
        if not self._unreleased(state):
            return True
        # What is completed gets released, by whoever recovers: only what is not even completed is hopeless.
        completed = (
            state.status == "FINISHED" if self.checkpoint == "final" else (state.last_completed >= self.checkpoint)
        )
        return not completed

    @staticmethod
    def _unreleased(state: JobState) -> bool:
        return state.last_completed > state.last_released

    def _wanted(self) -> str:
        what = "the final checkpoint" if self.checkpoint == "final" else f"checkpoint {self.checkpoint}"
        return f"{what} ({'released' if self.released else 'completed'})"

    def _result(self, state: JobState) -> dict[str, Any]:
        return {
            "job_id": self.job_id,
            "status": state.status,
            "checkpoint": state.last_completed or None,
            "released": state.last_released or None,
        }
