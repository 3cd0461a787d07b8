"""Runs a driver as if it were on another host: ``python elsewhere.py <host name> <arguments of main>``.

Whoever takes over from it finds a claim by a host that is out of its reach, so only the fence holds it (R8).
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
