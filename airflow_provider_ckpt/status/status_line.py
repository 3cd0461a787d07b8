"""The status lines of a driver: ``CKPT <token> {json}`` on its standard output. Only this module writes and reads them.

A driver's output also contains rows that Spark quotes in an error, and output of the user's code. The hook that submits
a driver therefore puts a random token into the driver's environment, and accepts only lines with that token. The token
does not protect against the job's own code, which runs in the driver's process. A driver without a supervisor has no
token, and its lines are ``CKPT {json}``. A reader accepts a line only if each known field has its type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from airflow_provider_ckpt.job.error_cause import users_frames
from airflow_provider_ckpt.printable import each_text, printable

TOKEN_VARIABLE = "CKPT_STATUS_TOKEN"
"""Environment variable with a driver's token. Spark hides settings with such a name in its UI and its event log."""
_STATUS_LIKE = re.compile(r"(?:^|\s)CKPT (?:\S+ )?\{")
_IDENTITIES = frozenset({"job_id", "application_id", "status", "driver_before", "finished_operators", "subtasks"})
"""Fields that are never redacted. Their values are names, which are not secret even if a secret has the same text."""


class LineKind(str, Enum):
    """The kinds of status lines that this version writes. Drivers of later versions may write further kinds."""

    STARTED = "started"
    RESUMED = "resumed"
    FROM_SCRATCH = "from_scratch"
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
"""Key of the field that :attr:`StatusLine.lacks_master` reads."""
RUN_OVER = "run_over"
"""Key of the field that :attr:`StatusLine.run_is_over` reads."""
TRACES = "traces"
"""Key of the field that :attr:`StatusLine.traces` reads."""
_WENT_WRONG = (LineKind.FAILED, LineKind.REFUSED, LineKind.FENCED)
_FREQUENT = (LineKind.CHECKPOINT, LineKind.RELEASED, LineKind.ABORTED)


@dataclass(frozen=True)
class StatusLine:
    """One status line.

    Attributes:
        kind: a :class:`LineKind`, or a kind of a later version.
        message: one sentence for users.
        data: name → value of all other fields.
    """

    kind: str
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_quiet(self) -> bool:
        """True if the line is for programs only and not shown to users."""
        return self.data.get("quiet") is True

    @property
    def is_frequent(self) -> bool:
        """True if every checkpoint writes lines of this kind."""
        return self.kind in _FREQUENT

    @property
    def went_wrong(self) -> bool:
        """True if this is the last line of a failed run. Its message has the cause."""
        return self.kind in _WENT_WRONG

    @property
    def lacks_master(self) -> bool:
        """True if this is the last line of a worker that exits because no JobMaster is alive (W7)."""
        return self.data.get(NO_MASTER) is True

    @property
    def run_is_over(self) -> bool:
        """True if this is the last line of a worker that did not fail itself, although the job's run has failed."""
        return self.data.get(RUN_OVER) is True

    @property
    def traceback(self) -> str | None:
        """The traceback of the user's own code; None if other code failed."""
        traceback = self.data.get("traceback")
        return traceback if isinstance(traceback, str) and traceback else None

    @property
    def frames(self) -> str:
        """The frames of the user's own files in :attr:`traceback`, with line breaks, without the exception.

        "" without frames.
        """
        return users_frames(self.traceback or "")

    @property
    def traces(self) -> str | None:
        """The path of the file with full stack traces on the driver's host. Only a failed run's last line has it."""
        path = self.data.get(TRACES)
        return path if isinstance(path, str) and path else None

    def to_json(self) -> dict[str, Any]:
        return {"kind": str(self.kind), "message": self.message, **self.data}

    def dumps(self) -> str:
        """Return the line as ASCII JSON without a line break, which is valid in every encoding of the output."""
        return json.dumps(self.to_json(), default=str)

    def redacted(self, redact: Callable[[str], str]) -> StatusLine:
        """Return the line with ``redact`` applied to its texts. Names, kinds, ids and counts are no secrets."""
        texts = {name: value for name, value in self.data.items() if name not in _IDENTITIES}
        data = {**self.data, **each_text(texts, redact, keys=False)}
        return replace(self, message=redact(self.message), data=data)


def take_token(environ: MutableMapping[str, str]) -> str:
    """Remove the driver's token from ``environ``, so that child processes lack it, and return it; "" without one."""
    return environ.pop(TOKEN_VARIABLE, "")


def format_line(line: StatusLine, token: str = "") -> str:
    return f"{_mark(token)}{line.dumps()}"


def print_line(line: StatusLine, token: str = "") -> None:
    """Print and flush the line in one piece, because a worker on standby also prints from another thread."""
    print(f"{format_line(line, token)}\n", end="", flush=True)


def parse_line(text: str, token: str = "") -> StatusLine | None:
    """Return the status line of a driver with this token; None if the text is something else."""
    return _parsed(text, token)[0]


class StatusReader:
    """The reader of a driver's output.

    Args:
        warn: called once, about the first line that looks like a status line but is not accepted.
        redact: returns a text without secrets.
    """

    def __init__(self, token: str, warn: Callable[[str], object], redact: Callable[[str], str] = str) -> None:
        self._token, self._warn, self._redact = token, warn, redact
        self._has_warned = False

    def read(self, text: str) -> StatusLine | None:
        """Return a status line of the driver; None if the text is other output."""
        line, problem = _parsed(text, self._token)
        if line is not None:
            try:
                return line.redacted(lambda part: printable(self._redact(part)))
            except RecursionError:
                problem = "its data are nested too deep"
        if problem is None and _STATUS_LIKE.search(text):
            problem = "it lacks the token of this submission, so the driver did not print it"
        if problem is not None and not self._has_warned:
            self._has_warned = True
            self._warn(f"A line of the driver's output looks like a status line and is ignored: {problem}")
        return None


def _mark(token: str) -> str:
    return f"CKPT {token} " if token else "CKPT "


def _parsed(text: str, token: str) -> tuple[StatusLine | None, str | None]:
    """Return (status line, None), or (None, the problem with it).

    Both are None if the text does not contain ``CKPT`` with the token.
    """
    mark = f"{_mark(token)}{{"
    problem = None
    start = text.find(mark)
    while start >= 0:
        # Text without a line break, such as a progress bar, may precede the mark. A token makes the mark certain.
        if token or start == 0 or text[start - 1].isspace():
            line, problem = _of_json(text[start + len(mark) - 1 :])
            if line is not None:
                return line, None
        start = text.find(mark, start + 1)
    return None, problem


def _of_json(text: str) -> tuple[StatusLine | None, str | None]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None, "it is no JSON object"
    if not isinstance(kind := data.pop("kind", None), str):
        return None, "it has no kind"
    if (wrong := wrong_field(data)) is not None:
        return None, f"it has a value of another type: {wrong}"
    message = data.pop("message", None)
    return StatusLine(kind, kind if message is None else message, data), None


_LARGEST = 2**63


def wrong_field(data: Mapping[str, Any]) -> str | None:
    """Return the first field with a value of a wrong type, as "checkpoint (str)"; None if all types are correct."""
    for name, fits in _FIELDS.items():
        if name in data and data[name] is not None and not fits(data[name]):
            return f"{name} ({type(data[name]).__name__})"
    return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _are_texts_by_name(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value.values()))


_TEXTS = ("message", "job_id", "application_id", "status", "spark_ui", "traceback", "traces", "driver_before")
_COUNTS = ("epoch", "checkpoint", "released", "late_rows", "changed_files", "unfit_rows", "malformed_rows")
_SWITCHES = ("quiet", "no_master", "run_over", "terminal")
_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(_TEXTS, _is_text),
    **dict.fromkeys(_COUNTS, _is_count),
    **dict.fromkeys(_SWITCHES, _is_switch),
    "finished_operators": _are_texts,
    "recovery": _are_texts,
    "outputs": _are_texts_by_name,
}
