"""A driver's status lines: ``CKPT {json}`` on its standard output, one line each. Written and read here only."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from airflow_provider_ckpt.job.causes import users_frames

_MARK = "CKPT "
# A progress bar on standard error may stand in front, and log4j has no say in what comes between.
_START = re.compile(r"(?:^|(?<=\s))CKPT (?=\{)")


class LineKind(str, Enum):
    """What this version tells of. A driver of a later one may know more kinds."""

    STARTED = "started"
    RESUMED = "resumed"
    ANEW = "anew"
    PREPARED = "prepared"
    WAITING = "waiting"
    RUNNING = "running"
    CHECKPOINT = "checkpoint"
    RELEASED = "released"
    ABORTED = "aborted"
    SOURCE_ENDED = "source_ended"
    SOURCE_DROPPED = "source_dropped"
    OPERATOR_FINISHED = "operator_finished"
    SUBTASK_FAILED = "subtask_failed"
    SUBTASK_RESTARTING = "subtask_restarting"
    RESCALED = "rescaled"
    RECONFIGURED = "reconfigured"
    RECONCILED = "reconciled"
    LATE_FILES = "late_files"
    CHANGED_FILES = "changed_files"
    WARNING = "warning"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    REFUSED = "refused"
    FENCED = "fenced"

    __str__ = str.__str__


NO_MASTER = "no_master"
"""Key of what :attr:`StatusLine.lacks_master` tells."""
RUN_OVER = "run_over"
"""Key of what :attr:`StatusLine.run_is_over` tells."""
TRACES = "traces"
"""Key of what :attr:`StatusLine.traces` returns."""
_WENT_WRONG = (LineKind.FAILED, LineKind.REFUSED, LineKind.FENCED)
_FREQUENT = (LineKind.CHECKPOINT, LineKind.RELEASED, LineKind.ABORTED)


@dataclass(frozen=True)
class StatusLine:
    """``kind``: a :class:`LineKind`, or what a later version calls something. ``message``: one sentence for a person.
    ``data``: whatever else the line says, by name."""

    kind: str
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_quiet(self) -> bool:
        """For programs only: no person is shown it."""
        return self.data.get("quiet") is True

    @property
    def is_frequent(self) -> bool:
        """Comes with every checkpoint, for as long as the job runs."""
        return self.kind in _FREQUENT

    @property
    def went_wrong(self) -> bool:
        """The last line of a run that did not end as it was meant to, which says why."""
        return self.kind in _WENT_WRONG

    @property
    def lacks_master(self) -> bool:
        """The last line of a worker that leaves because no JobMaster gives a sign of life (W7)."""
        return self.data.get(NO_MASTER) is True

    @property
    def run_is_over(self) -> bool:
        """The last line of a worker with nothing to blame on it: the run has failed as a whole, and the next one goes
        on."""
        return self.data.get(RUN_OVER) is True

    @property
    def traceback(self) -> str | None:
        """Of the user's own code, if it was that."""
        found = self.data.get("traceback")
        return found if isinstance(found, str) and found else None

    @property
    def frames(self) -> str:
        """The frames of the user's own files in the traceback, with line breaks. The message names the exception."""
        return users_frames(self.traceback or "")

    @property
    def traces(self) -> str | None:
        """Path of the file with whole stack traces, on the driver's host. The last line of a failed run has it."""
        found = self.data.get(TRACES)
        return found if isinstance(found, str) and found else None

    def to_json(self) -> dict[str, Any]:
        return {"kind": str(self.kind), "message": self.message, **self.data}

    def dumps(self) -> str:
        """As JSON text without a line break, in ASCII: whatever it holds, and whatever encoding the output has."""
        return json.dumps(self.to_json(), default=str)

    def redacted(self, redact: Callable[[str], str]) -> StatusLine:
        """With every text in it as ``redact`` gives it; names and kinds are no secrets."""
        return replace(self, message=redact(self.message), data=_each_text(self.data, redact))


def format_line(line: StatusLine) -> str:
    return _MARK + line.dumps()


def print_line(line: StatusLine) -> None:
    """Flushed: whoever follows a long job through a pipe wants to see it now. In one piece: a worker that stands by
    says in another thread that it is warm."""
    print(f"{format_line(line)}\n", end="", flush=True)


def parse_line(text: str) -> StatusLine | None:
    """None if the line is none of the driver's: somebody else's output is never taken for a status."""
    if f"{_MARK}{{" not in text:
        return None
    for start in _START.finditer(text):
        try:
            data = json.loads(text[start.end() :])
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict) and isinstance(kind := data.pop("kind", None), str):
            return StatusLine(kind, str(data.pop("message", kind)), data)
    return None


def _each_text(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {name: _each_text(each, redact) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_each_text(each, redact) for each in value]
    return value
