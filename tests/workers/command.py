"""The ``ckpt`` command of this checkout, changed by environment variables.

``CKPT_WORKERS_HOST``: pretend to run on another host that cannot be reached (R8). ``CKPT_WORKERS_OPEN_SECONDS``: take
so long to open each log, so that a test can kill a planner half-way.
"""

from __future__ import annotations

import os
import socket
import sys
import time

from airflow_provider_ckpt.cli import main
from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.subtasklog.log_state import LogState
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog


def opens_slowly(seconds: float) -> None:
    opened = SubtaskLog.open

    def slowly_opened(log: SubtaskLog, attempt: AttemptId, continues_at: int | None = None) -> LogState:
        time.sleep(seconds)
        return opened(log, attempt, continues_at)

    SubtaskLog.open = slowly_opened  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    if "CKPT_WORKERS_HOST" in os.environ:
        socket.gethostname = lambda: os.environ["CKPT_WORKERS_HOST"]
    if "CKPT_WORKERS_OPEN_SECONDS" in os.environ:
        opens_slowly(float(os.environ["CKPT_WORKERS_OPEN_SECONDS"]))
    sys.exit(main())
