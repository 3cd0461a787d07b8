"""One ``ckpt run`` in a process of its own, with its status lines. Benches of whole jobs share this."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.one_run import CONF

Line = Mapping[str, Any]


class CkptRun:
    """A run of a job with a checkpoint each second.

    Args:
        reference: of the job, ``file.py:job``.
        work: a folder. The job's root is ``ckpt`` in it.
        environ: environment variables for the job's file.

    Attributes:
        lines: the lines of ``--json``, each with the time ``at`` which it came.
    """

    def __init__(self, reference: str, work: Path, environ: Mapping[str, str], conf: Mapping[str, str]) -> None:
        self.lines: list[Line] = []
        self._log = work / "stderr"
        command = [
            sys.executable,
            "-c",
            "from airflow_provider_ckpt.cli import main; raise SystemExit(main())",
            "run",
            reference,
        ]
        command += ["--root", str(work / "ckpt"), "--checkpoint-interval", "1s", "--json", "--every-checkpoint"]
        for key, value in {**CONF, **conf}.items():
            command += ["--conf", f"{key}={value}"]
        self._errors = open(self._log, "w")  # noqa: SIM115 - closed in stop()
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append({**json.loads(line), "at": time.time()})

    def wait_for(self, is_it: Callable[[Line], bool]) -> Line:
        """Wait for the first line that matches, and return it."""
        while True:
            for line in list(self.lines):
                if is_it(line):
                    return line
            if self.process.poll() is not None:
                raise SystemExit(f"the run ended:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
        self._reader.join(5)
        self._errors.close()
