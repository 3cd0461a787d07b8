"""One JVM for many pytest runs, as spark-submit gives one to a driver: each makes, and stops, a Spark of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

_LAUNCH = """
import sys
from pyspark.java_gateway import launch_gateway
parameters = launch_gateway().gateway_parameters
print(parameters.port, parameters.auth_token, flush=True)
sys.stdin.read()
"""


class WarmJvm:
    """A JVM for several test runs. Call :meth:`restart` after a run that was killed.

    ``folder``: Python workers that Spark starts import from here.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._gateway = ""

    def __enter__(self) -> WarmJvm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def env(self) -> Mapping[str, str]:
        """Return the environment that :mod:`tests.mutants.record` reads. Start the JVM if none runs."""
        if self._process is None:
            self._start()
        return {"CKPT_MUTANTS_GATEWAY": self._gateway}

    def restart(self) -> None:
        self.stop()

    def stop(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()  # the launcher ends, and the JVM with it
            self._process.wait(60)
            self._process = None

    def _start(self) -> None:
        env = {**os.environ, "PYTHONPATH": str(self._folder), "SPARK_LOCAL_IP": "127.0.0.1"}
        self._folder.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            cwd=self._folder,
            text=True,
        )
        assert self._process.stdout is not None
        self._gateway = self._process.stdout.readline().strip()
        assert self._gateway, "no JVM could be started"
