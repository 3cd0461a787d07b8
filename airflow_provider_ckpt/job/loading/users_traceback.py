"""The user's frames in the traceback of a job that cannot be loaded."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from airflow_provider_ckpt.job.errors import JobNotFoundError, JobReferenceError

_OURS = str(Path(__file__).parent.parent)


def users_traceback(error: JobReferenceError) -> str | None:
    """Return the traceback of the error's cause from the user's first frame on.

    None if the error has no cause, or if a file, module or attribute was not found before user code ran.
    """
    cause = error.__cause__
    users = None if cause is None else _users_part(cause.__traceback__)
    if cause is None or (users is None and isinstance(error, JobNotFoundError)):
        return None
    return "".join(traceback.format_exception(type(cause), cause, users))


def _users_part(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the user's first frame on. None if no frame is the user's."""
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if not filename.startswith((_OURS, "<frozen ")) and "importlib" not in filename:
            return trace
        trace = trace.tb_next
    return None
