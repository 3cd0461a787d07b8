"""Stands for Airflow's task process: starts a command, its child, and waits for it."""

from __future__ import annotations

import subprocess
import sys

if __name__ == "__main__":
    sys.exit(subprocess.run(sys.argv[1:], check=False).returncode)
