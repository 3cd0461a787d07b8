"""The state of one attempt in a worker, complete enough to report it to the next JobMaster."""

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
    """One attempt that this worker runs.

    ``state`` is the attempt's last reported state. It is None before the first report, and after a command that the
    attempt has not answered.
    """

    subtask: SubtaskId
    attempt: AttemptId
    is_opened: bool = False
    """True once the attempt has opened its log. A restart command resets it until the next attempt opens or fails."""
    is_deployed: bool = False
    state: Report | None = None
    announced: dict[str, SourceAtEnd] = field(default_factory=dict)
    pausing_for: int = 0
    """Epoch of the JobMaster that sent the last pause command; 0 if the attempt need not pause."""
    resumes_with: VertexPlan | None = None
    """The plan to resume with as soon as the attempt has paused, because the JobMaster that paused it is gone."""

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
