"""The condition for which a sensor or its trigger waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_ckpt.client.job_facts import has_ended, short_result
from airflow_provider_ckpt.job.error_cause import cause_first
from airflow_provider_ckpt.job.options.suggestions import did_you_mean, listed
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.source_times import MAX_WATERMARK
from airflow_provider_ckpt.printable import instant_text, one_line

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.events import CheckpointCompleted
    from airflow_provider_ckpt.journal.state import JobState

_TIMELESS = (
    "Its watermarks do not show up to when its results are complete: no source has one (@job.source), or a query joins "
    "streams, which emit a row only when its partner has come"
)
Outcome = Literal["wait", "reached", "failed"]


@dataclass(frozen=True)
class Verdict:
    """Outcome of one poll. ``message`` is one line for users. ``result`` is the sensor's result (XCom), or None."""

    outcome: Outcome
    message: str
    result: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", one_line(self.message))  # because it quotes the journal

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class CheckpointCondition:
    """Condition of a wait. All fields that are set must hold. Only released checkpoints count if ``released`` is True.

    * ``checkpoint``: this or a later checkpoint is reached. "final": the job is FINISHED. ``JobPoll`` replaces
      "next" by a number.
    * ``since`` (epoch seconds): a checkpoint was triggered at this time or later, by the clock of the driver's host.
    * ``finished``: the operator with this uid has finished in a checkpoint, so that no part of it runs again.
    * ``watermark`` (epoch seconds): a checkpoint covers all windows that end at this event time or earlier.

    A job that FAILED for good, or FINISHED without reaching the condition, fails the wait. With ``wait_for_restart``
    the wait continues, because a user will run the job again. A deleted job never runs again, but its progress in the
    journal counts. A STOPPED job does not fail the wait, because Airflow may retry its task in a moment.
    """

    job_id: str
    checkpoint: int | Literal["final", "next"] | None = "final"
    released: bool = True
    wait_for_restart: bool = False
    since: float | None = None
    finished: str | None = None
    watermark: float | None = None

    def judge(self, state: JobState | None) -> Verdict:
        """Return the verdict: "reached", "failed" if the condition can no longer hold, else "wait".

        ``state`` is None if the job has no journal.
        """
        if state is not None and state.damage:
            return Verdict("failed", f"The journal of job {self.job_id} is damaged: {'; '.join(state.damage)}")
        if state is None or (state.status is None and not state.epoch):
            return Verdict("wait", f"Job {self.job_id} has not started yet")
        shown = self._shown(state)
        if self._reached(state):
            return Verdict("reached", shown, short_result(state))
        if (operators := self._unknown_operator(state)) is not None:
            hint = did_you_mean(self.finished or "", operators)
            return Verdict(
                "failed", f"{shown}. It has no operator {self.finished!r}.{hint} It has: {listed(operators)}"
            )
        if self._is_timeless(state):
            return Verdict("failed", f"{shown}. {_TIMELESS}")
        if self._is_out_of_reach(state):
            return Verdict("failed", f"{shown}. It will not reach {self.wanted()}")
        return Verdict("wait", f"{shown}. Waiting for {self.wanted()}")

    def wanted(self) -> str:
        parts = [f"checkpoint {self.checkpoint}"] if isinstance(self.checkpoint, int) else []
        parts += ["the final checkpoint"] if self.checkpoint == "final" else []
        if self.since is not None:
            parts.append(f"a checkpoint triggered at {instant_text(self.since)} or later")
        if self.finished is not None:
            parts.append(f"the end of operator {self.finished}")
        if self.watermark is not None:
            parts.append(f"the watermark {instant_text(self.watermark)}")
        return f"{' and '.join(parts)} ({'released' if self.released else 'completed'})"

    def _shown(self, state: JobState) -> str:
        status = state.status or "not RUNNING yet"
        cause = f" ({cause_first(state.cause)})" if state.cause else ""
        watermark = "" if self.watermark is None else f", watermark {self._shown_watermark(state)}"
        return (
            f"Job {self.job_id} is {status}{cause}: checkpoint {state.last_completed or 'none'} completed, "
            f"{state.last_released or 'none'} released{watermark}"
        )

    def _shown_watermark(self, state: JobState) -> str:
        watermark = self._watermark(state)
        if watermark is None:
            return "none yet"
        return "at its end" if watermark == MAX_WATERMARK else instant_text(watermark / 1000)

    def _reached(self, state: JobState) -> bool:
        if self.checkpoint == "final" and (not state.has_finished or (self.released and state.has_unreleased)):
            return False
        if isinstance(self.checkpoint, int) and self._newest(state) < self.checkpoint:
            return False
        if self.since is not None and not any(
            completed.triggered_at >= self.since for completed in self._counted(state)
        ):
            return False
        if self.finished is not None and not self._has_finished(state, self.finished):
            return False
        return self.watermark is None or self._has_passed(state, self.watermark)

    def _newest(self, state: JobState) -> int:
        return state.last_released if self.released else state.last_completed

    def _counted(self, state: JobState) -> Iterator[CheckpointCompleted]:
        """Return the checkpoints in the journal that are released (or completed, if ``released`` is False)."""
        return (completed for number, completed in state.checkpoints.items() if number <= self._newest(state))

    def _has_finished(self, state: JobState, uid: str) -> bool:
        """Return True if an operator has finished, by the job's end or by a checkpoint after the last restore."""
        if uid not in state.finished_operators():
            return False
        if not self.released or (state.status is JobStatus.FINISHED and not state.has_unreleased):
            return True
        later = (completed for completed in self._counted(state) if completed.checkpoint >= state.restored)
        return any(completed.operators.get(uid) == "finished" for completed in later)

    def _has_passed(self, state: JobState, instant: float) -> bool:
        """Return True if event time has reached ``instant`` (epoch seconds), or if the job has FINISHED."""
        if state.has_finished and not (self.released and state.has_unreleased):
            return True
        watermark = self._watermark(state)
        return watermark is not None and watermark >= instant * 1000

    def _watermark(self, state: JobState) -> int | None:
        """Return the watermark (ms) of the newest counted checkpoint since the last restore. None without any."""
        later = [completed.checkpoint for completed in self._counted(state) if completed.checkpoint >= state.restored]
        return state.watermark(max(later)) if later else None

    def _is_timeless(self, state: JobState) -> bool:
        """Return True if the wait is for a watermark, and the job's current plan has no event time."""
        return self.watermark is not None and not (self.wait_for_restart or state.plan is None or state.has_event_time)

    def _unknown_operator(self, state: JobState) -> list[str] | None:
        """Return the job's operators if the awaited operator is none of them, and no restart may add it. Else None."""
        if self.finished is None or self.wait_for_restart:
            return None
        operators = sorted(set(state.graph().operators))
        return operators if operators and self.finished not in operators else None

    def _is_out_of_reach(self, state: JobState) -> bool:
        """Return True if the job will not reach the condition by itself.

        Completed checkpoints of a FINISHED job count, because they are or will be released. A FAILED job has no driver
        that would release them.
        """
        if state.deletion is not None:  # a deleted job never runs again
            return True
        if self.wait_for_restart or not has_ended(state) or state.status is JobStatus.STOPPED:
            return False
        if state.status is JobStatus.FAILED or not state.has_unreleased:
            return True
        return not replace(self, released=False)._reached(state)
