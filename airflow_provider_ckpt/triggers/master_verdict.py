"""The end of a JobMaster in a triggerer, for the task that waits for the JobMaster."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.job.error_cause import cause_first
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.remote.timing import SILENCE
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.status.status_line import LineKind, StatusLine

if TYPE_CHECKING:
    from airflow_provider_ckpt.journal.state import JobState


@dataclass(frozen=True)
class MasterVerdict:
    """End of a JobMaster. ``code`` names an :class:`ExitCode`. ``abandoned`` is why the run was abandoned, or None."""

    code: str
    kind: str
    message: str
    abandoned: str | None = None

    @classmethod
    def of(cls, code: ExitCode, last: StatusLine | None, abandoned: str | None) -> MasterVerdict:
        line = last or StatusLine(code.line_kind, f"the JobMaster has ended without a status line ({code.name})")
        return cls(code.name, str(line.kind), line.message, abandoned)

    @classmethod
    def of_error(cls, error: Exception) -> MasterVerdict:
        code = ExitCode.of_error(error)
        return cls(code.name, str(code.line_kind), str(error))

    @classmethod
    def of_state(cls, state: JobState) -> MasterVerdict:
        """Return the verdict on a job whose deployment is over."""
        status = state.status or JobStatus.RESTARTING
        code = ExitCode.of_run(status)
        kind = LineKind.FINISHED if code is ExitCode.FINISHED else LineKind.FAILED
        return cls(code.name, str(kind), f"the job is {status}: {cause_first(state.cause or 'no cause was given')}")

    @classmethod
    def from_json(cls, event: Mapping[str, Any]) -> MasterVerdict:
        return cls(event["code"], event["kind"], event["message"], event.get("abandoned"))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def redacted(self, redact: Callable[[str], str]) -> MasterVerdict:
        abandoned = None if self.abandoned is None else redact(self.abandoned)
        return replace(self, message=redact(self.message), abandoned=abandoned)

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode[self.code]

    @property
    def line(self) -> StatusLine:
        return StatusLine(self.kind, self.message)

    @property
    def is_fenced(self) -> bool:
        return self.exit_code is ExitCode.FENCED and self.kind == LineKind.FENCED


class MasterRestartPolicy:
    """Policy that restarts a failing JobMaster until ``limit`` seconds pass without another completed checkpoint.

    Workers continue for the same time without a JobMaster.
    """

    def __init__(self, limit: float = SILENCE, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._clock = limit, clock
        self._since: float | None = None
        self._completed = -1

    def may_restart(self, verdict: MasterVerdict, state: JobState | None) -> bool:
        """Return True if the JobMaster may restart. A run that ended or was abandoned must not be restarted.

        ``state`` is None if the journal cannot be read.
        """
        if verdict.exit_code is not ExitCode.FAILED or verdict.abandoned is not None:
            return False
        if state is not None and not state.deployment:
            return False
        now = self._clock()
        if state is not None and state.last_completed > self._completed:
            self._completed, self._since = state.last_completed, now
        self._since = now if self._since is None else self._since
        return now - self._since < self._limit
