"""A replacement for Airflow's task process: it starts a command as a child and waits for it."""

from __future__ import annotations

import subprocess
import sys

if __name__ == "__main__":
    sys.exit(subprocess.run(sys.argv[1:], check=False).returncode)
