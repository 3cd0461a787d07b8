"""How far a job is, as far as a retry does not do it again."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState


@dataclass(frozen=True)
class JobProgress:
    """Numbers that only rise while the job is the same one: after ``restore``, or begun anew, they may be lower."""

    batches: int
    """Micro-batches that the last completed checkpoint covers, of all subtasks together. Its number says nothing: a job
    that fails at the same row again and again completes checkpoints on its way there."""
    finished: int
    """Sources and subtasks that ended: in batch mode, which takes one checkpoint at its end, these tell."""
    splits: int
    """Of sources with splits, those that are done."""

    @classmethod
    def of(cls, state: JobState) -> JobProgress:
        covered = sum(0 if one.batch_id is None else one.batch_id + 1 for one in state.covering().values())
        ended = sum(map(len, state.ended.values())) + len(state.end_of_data) + len(state.finished)
        return cls(covered, ended, sum(one.done for one in state.split_progress()))

    @classmethod
    def from_json(cls, value: Any) -> JobProgress | None:
        """None for what is no progress: anybody can edit the task state store in the UI."""
        if not isinstance(value, list) or len(value) != len(fields(cls)):
            return None
        return cls(*value) if all(isinstance(number, int) for number in value) else None

    def to_json(self) -> list[int]:
        return [self.batches, self.finished, self.splits]

    def is_beyond(self, before: JobProgress) -> bool:
        return any(now > then for now, then in zip(self.to_json(), before.to_json(), strict=True))
