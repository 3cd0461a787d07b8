"""``ckpt``, as this checkout has it; with ``CKPT_WORKERS_HOST`` as if on another host, which nobody reaches (R8)."""

from __future__ import annotations

import os
import socket
import sys

from airflow_provider_ckpt.cli import main

if __name__ == "__main__":
    if "CKPT_WORKERS_HOST" in os.environ:
        socket.gethostname = lambda: os.environ["CKPT_WORKERS_HOST"]
    sys.exit(main())
