"""A driver that pretends to run on another host: ``python elsewhere.py <host name> <arguments of main>``.

Its successor finds a claim by an unreachable host, so only the fence protects the job (R8).
"""

from __future__ import annotations

import runpy
import socket
import sys

if __name__ == "__main__":
    host = sys.argv[1]
    socket.gethostname = lambda: host
    sys.argv[1:] = sys.argv[2:]
    runpy.run_module("airflow_provider_ckpt.spark.main", run_name="__main__", alter_sys=True)
