"""The output of the command line for an error: the problem, the next step, and any traceback in the user's code."""

from __future__ import annotations

import sys

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.errors import JobReferenceError
from airflow_provider_ckpt.job.loading.users_traceback import users_traceback
from airflow_provider_ckpt.printable import printable
from airflow_provider_ckpt.storage.redaction import redact_text


def print_refusal(error: CkptError) -> None:
    traceback = users_traceback(error) if isinstance(error, JobReferenceError) else None
    print(printable(traceback or ""), end="", file=sys.stderr)
    print(f"ckpt: error: {redact_text(str(error))}", file=sys.stderr)
