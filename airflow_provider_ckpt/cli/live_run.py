"""The terminal of ``ckpt run``: status lines with their times, and below these lines the progress of the job."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from airflow_provider_ckpt.cli import overview_page, quantities
from airflow_provider_ckpt.concurrency import answer_within
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.printable import one_line
from airflow_provider_ckpt.status.job_overview import JobOverview, read_overview
from airflow_provider_ckpt.status.status_line import StatusLine
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage

REFRESHES = 4
"""Refreshes of the terminal in a second."""
LEAST_POLL = 1.0
"""Minimum seconds between two reads of the job's overview."""
LAST_READ = 10.0
"""Maximum seconds for which the end of a run waits for the overview of the summary."""


class LiveRun:
    """The output of one run in a terminal."""

    def __init__(self, console: Console, spark_log: str) -> None:
        self._console, self._began, self._spark_log = console, time.time(), spark_log
        self._overview: JobOverview | None = None
        self._phase = "starting Spark"
        self._is_over = threading.Event()
        self._live = Live(
            console=console, get_renderable=self._page, refresh_per_second=REFRESHES, transient=True, screen=False
        )

    @contextmanager
    def shown(self) -> Iterator[LiveRun]:
        """Show the progress during the block, and a summary of the run after it."""
        self._console.print(Text(f"{_now()}  Spark's own log: {self._spark_log} (-v shows it here)", style="dim"))
        try:
            with self._live:
                yield self
        finally:
            self._is_over.set()
            for line in summary(self._overview, self._began):
                self._console.print(Text(line))

    def watch(self, options: RunOptions, location: Location) -> None:
        """Start a thread that reads the job's overview at an interval, until :meth:`close`."""
        threading.Thread(target=self._follow, args=(options, location), name="ckpt-terminal", daemon=True).start()

    def print_line(self, line: StatusLine) -> None:
        """Print a status line above the progress, unless the line reports a failure (see ``print_failure``)."""
        self._phase = one_line(line.message)
        if not line.went_wrong:
            self._console.print(Text(f"{_now()}  {one_line(line.message)}"))

    def close(self, options: RunOptions, location: Location) -> None:
        """Stop the thread of :meth:`watch`, and read the last overview of the run for the summary."""
        self._is_over.set()
        answer_within(LAST_READ, lambda: self._read(options, location))

    def _follow(self, options: RunOptions, location: Location) -> None:
        while not self._is_over.wait(max(LEAST_POLL, options.overview_interval)):
            self._read(options, location)

    def _read(self, options: RunOptions, location: Location) -> None:
        try:
            overview = read_overview(open_storage(location), options.job_id)
        except Exception:  # the run itself reports a storage that fails
            return
        if overview is not None and overview.at >= self._began:
            self._overview = overview

    def _page(self) -> RenderableType:
        overview, now = self._overview, time.time()
        if overview is None:
            return Text(f"{self._phase} … {quantities.span(now - self._began)}", style="dim")
        return Group(Text(), overview_page.page(overview, now, checkpoints=1))


def summary(overview: JobOverview | None, began: float) -> Iterator[str]:
    """Yield the lines after a run: rows of each source and sink, time and checkpoints. No lines without an overview."""
    if overview is None:
        return
    read = [f"{one_line(source.uid)} {overview_page.progress(source) or 'nothing'}" for source in overview.sources]
    released = [f"{one_line(sink.uid)} {quantities.rows(dict(sink.counts)) or 'nothing'}" for sink in overview.sinks]
    failed = f", {overview.aborted_count} failed" if overview.aborted_count else ""
    yield f"  read       {'; '.join(read)}"
    yield f"  released   {'; '.join(released)} since the job began"
    checkpoints = f"{counted(overview.completed_count, 'checkpoint')} since the job began{failed}"
    yield f"  took       {quantities.span(time.time() - began)}; {checkpoints}"
    for problem in overview.problems:
        yield f"  {problem.severity:<9}  {one_line(problem.subject)} {one_line(problem.message)}"


@contextmanager
def spark_log() -> Iterator[str]:
    """Send file descriptor 2, to which Spark's JVM writes, to a new file, and yield its path.

    Python's own standard error stays on the terminal. Only the owner can read the file.
    """
    sys.stderr.flush()
    log, path = tempfile.mkstemp(prefix="ckpt-spark-", suffix=".log")
    terminal, stderr = os.dup(2), sys.stderr
    sys.stderr = os.fdopen(os.dup(terminal), "w", buffering=1)
    os.dup2(log, 2)
    os.close(log)
    try:
        yield path
    finally:
        sys.stderr.flush()
        sys.stderr = stderr
        os.dup2(terminal, 2)
        os.close(terminal)


def _now() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")
