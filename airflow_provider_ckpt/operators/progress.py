"""The progress of a job that a retry does not repeat."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState


@dataclass(frozen=True)
class JobProgress:
    """Counts that only rise while the job is the same. They may fall after a restore to an earlier checkpoint or a
    restart from scratch."""

    batches: int
    """Micro-batches that the last completed checkpoint covers, of all subtasks together. The number of checkpoints does
    not count, because a job that fails at the same row again and again completes some each time."""
    finished: int
    """Sources and subtasks that ended. A job in batch mode takes one checkpoint at its end, so only these show its
    progress."""
    splits: int
    """Splits that are done, of all sources with splits."""

    @classmethod
    def of(cls, state: JobState) -> JobProgress:
        covered = sum(0 if one.batch_id is None else one.batch_id + 1 for one in state.covering().values())
        ended = sum(map(len, state.ended.values())) + len(state.end_of_data) + len(state.finished)
        return cls(covered, ended, sum(one.done for one in state.split_progress()))

    @classmethod
    def from_json(cls, value: Any) -> JobProgress | None:
        """Return the progress, or None for any other value, because a user can edit the task state store in the UI."""
        if not isinstance(value, list) or len(value) != len(fields(cls)):
            return None
        return cls(*value) if all(isinstance(number, int) for number in value) else None

    def to_json(self) -> list[int]:
        return [self.batches, self.finished, self.splits]

    def is_beyond(self, before: JobProgress) -> bool:
        return any(now > then for now, then in zip(self.to_json(), before.to_json(), strict=True))
