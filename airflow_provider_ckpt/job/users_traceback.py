"""What is shown of the error that a user's file raised."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from airflow_provider_ckpt.job.errors import JobNotFoundError, JobReferenceError

_OURS = str(Path(__file__).parent.parent)


def users_traceback(error: JobReferenceError) -> str | None:
    """The user's own traceback of what the error came from; None if no code of theirs has run."""
    cause = error.__cause__
    users = None if cause is None else _users_part(cause.__traceback__)
    if cause is None or (users is None and isinstance(error, JobNotFoundError)):
        return None
    return "".join(traceback.format_exception(type(cause), cause, users))


def _users_part(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the user's first frame on: how we came to import their file is no news to them."""
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if not filename.startswith((_OURS, "<frozen ")) and "importlib" not in filename:
            return trace
        trace = trace.tb_next
    return None
