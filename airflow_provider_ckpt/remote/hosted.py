"""What a worker knows of the attempts that it runs: enough to tell another JobMaster."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.coordinator.reports import (
    Report,
    SourceAtEnd,
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskFailed,
    SubtaskPaused,
    SubtaskRunning,
)
from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.model.vertex_plan import VertexPlan

_STATES = (SubtaskRunning, SubtaskPaused, SubtaskAtEndOfData, SubtaskDone, SubtaskFailed)


@dataclass
class Hosted:
    """One attempt. ``state``: the last thing that it said of where it is; None: it has said nothing yet, or was told
    something since that it has not answered."""

    subtask: SubtaskId
    attempt: AttemptId
    is_opened: bool = False
    """And not told to begin again since: then the next one has still to say that it is there, or that it failed."""
    is_deployed: bool = False
    state: Report | None = None
    announced: dict[str, SourceAtEnd] = field(default_factory=dict)
    pausing_for: int = 0
    """The epoch of the JobMaster that has told it to stand still, last; 0: it was not."""
    resumes_with: VertexPlan | None = None
    """It is on its way to stand still for a JobMaster that is gone: with this plan it goes on then."""

    @property
    def is_over(self) -> bool:
        return isinstance(self.state, (SubtaskDone, SubtaskFailed))

    @property
    def is_running(self) -> bool:
        return isinstance(self.state, SubtaskRunning)

    @property
    def is_done(self) -> bool:
        return isinstance(self.state, SubtaskDone)

    def note(self, report: Report) -> None:
        if isinstance(report, _STATES):
            self.state = report
        elif isinstance(report, SourceAtEnd):
            self.announced[report.uid] = report
