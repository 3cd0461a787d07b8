"""Standalone Spark cluster on this machine: a master and workers, each a process, from pyspark's wheel alone."""

from __future__ import annotations

import re
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import pyspark

from tests.support.processes import Process, send
from tests.support.waiting import wait_until

SPARK_HOME = Path(next(iter(pyspark.__path__)))
ONE_EXECUTOR = {
    "spark.driver.host": "127.0.0.1",
    "spark.cores.max": "1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.pyspark.python": sys.executable,
}
"""Conf of an application with one executor of one core."""
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


class Standalone:
    """Context of a running cluster. ``folder``: for logs and the workers' scratch files. ``cores``: of each worker."""

    def __init__(self, folder: Path, workers: int = 2, cores: int = 1) -> None:
        self._folder, self._count, self._cores = folder, workers, cores
        self._stack = ExitStack()
        self.workers: list[Process] = []
        self.url = ""

    def __enter__(self) -> Standalone:
        try:
            master = self._start("master", _MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            self.url = _said(master, r"Starting Spark master at (spark://\S+)")
            for number in range(self._count):
                self.workers.append(self._worker(number))
            for worker in self.workers:
                _said(worker, r"(Successfully registered with master)")
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def _worker(self, number: int) -> Process:
        scratch = str(self._folder / f"work-{number}")
        where = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--work-dir", scratch)
        size = ("--cores", str(self._cores), "--memory", f"{self._cores}g")
        return self._start(f"worker-{number}", _WORKER, *where, *size, self.url)

    def _start(self, name: str, *arguments: str) -> Process:
        command = [str(SPARK_HOME / "bin" / "spark-class"), *arguments]
        environ = {"SPARK_HOME": str(SPARK_HOME), "SPARK_DAEMON_MEMORY": "256m", "PYTHONPATH": ""}
        return self._stack.enter_context(Process(command, self._folder / f"{name}.log", env=environ))

    def executors(self) -> list[int]:
        """Return the process ids of the running executors."""
        return [
            pid
            for worker in self.workers
            for pid in worker.jvms()
            if b"CoarseGrainedExecutorBackend" in _command_line(pid)
        ]

    def kill_an_executor(self) -> int:
        pid = wait_until(self.executors, "an executor")[0]
        send(pid, signal.SIGKILL)
        return pid


def _said(process: Process, pattern: str) -> str:
    def look() -> re.Match[str] | None:
        assert process.exit_code is None, process.tail()
        return re.search(pattern, process.text())

    matches = wait_until(look, lambda: f"{pattern}\n{process.tail()}")
    assert matches is not None
    return matches[1]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
