"""How an error is shown: what is wrong and what to do, and the user's own traceback if it is their code."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import TracebackType

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.errors import JobReferenceError

_OURS = str(Path(__file__).parent.parent)


def print_refusal(error: CkptError) -> None:
    if isinstance(error, JobReferenceError) and error.__cause__ is not None:
        cause = error.__cause__
        lines = traceback.format_exception(type(cause), cause, _users_part(cause.__traceback__))
        print("".join(lines), end="", file=sys.stderr)
    print(f"ckpt: error: {error}", file=sys.stderr)


def _users_part(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the user's first frame on: how we came to import their file is no news to them."""
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if not filename.startswith((_OURS, "<frozen ")) and "importlib" not in filename:
            return trace
        trace = trace.tb_next
    return None
