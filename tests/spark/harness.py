"""Helpers that run whole jobs in this process: write input, send requests, read released rows."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import parquet

from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_request import REQUESTS
from airflow_provider_ckpt.sinks.file.manifests import read_manifests
from airflow_provider_ckpt.spark.job_run import execute
from airflow_provider_ckpt.spark.preparation.loaded_run import LoadedRun, RunRequest
from airflow_provider_ckpt.status.status_line import StatusLine
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.layout import subtask_log_path
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_state import Numbered
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.spark.faults import HookedStorage
from tests.support.frequent_housekeeping import frequent_housekeeping
from tests.support.waiting import wait_until

Line = dict[str, Any]
Rows = list[dict[str, Any]]


@dataclass
class Run:
    """The outcome of a run and its status lines."""

    status: str
    cause: str | None
    lines: list[Line] = field(default_factory=list)

    def of(self, kind: str) -> list[Line]:
        return [line for line in self.lines if line["kind"] == kind]

    @property
    def kinds(self) -> list[str]:
        return [line["kind"] for line in self.lines]


@dataclass
class World:
    """A folder with input data, a checkpoint root and outputs."""

    base: Path
    job_id: str = "job"
    reference: str = "tests:job"
    """Reference of the job's own file."""
    began: float = field(default_factory=lambda: time.time() - 3600)
    puts: int = 0

    @property
    def root(self) -> Path:
        return self.base / "root"

    @property
    def storage(self) -> Storage:
        return open_storage(self.root)

    def path(self, name: str) -> str:
        (self.base / name).mkdir(parents=True, exist_ok=True)
        return str(self.base / name)

    # ---- data

    def put(self, folder: str, name: str, rows: Sequence[Mapping[str, Any]], schema: pa.Schema | None = None) -> None:
        self.puts += 1
        write_rows(Path(self.path(folder)) / f"{name}.parquet", rows, self.began + self.puts, schema)

    def put_ids(self, folder: str, files: int, each: int, start: int = 0) -> set[int]:
        """Write ``files`` files of ``each`` rows {"id", "k"} and return the ids."""
        for number in range(files):
            first = start + number * each
            self.put(folder, f"{first:06d}", [{"id": i, "k": i % 3} for i in range(first, first + each)])
        return set(range(start, start + files * each))

    # ---- runs

    def options(self, **given: Any) -> RunOptions:
        values: dict[str, Any] = {
            "job": self.reference,
            "root": str(self.root),
            "job_id": self.job_id,
            "checkpoint_interval": 0.3,
            "checkpoint_timeout": 60,
            "overview_interval": 0,  # its thread would change the order of the storage's verbs
            "allow_code_from": [str(self.base)],
        }
        return RunOptions.from_json({**values, **given})

    def run(
        self,
        job: Job,
        on_line: Callable[[Line], None] = lambda line: None,
        storage: Storage | None = None,
        **given: Any,
    ) -> Run:
        """Run the job to its end. ``on_line`` is called in the driver's loop, for each status line."""
        options = self.options(**given)
        job.validate()
        run = Run("", None)

        def record_line(status_line: StatusLine) -> None:
            line = status_line.to_json()
            run.lines.append(line)
            on_line(line)

        root = storage or self.storage
        with frequent_housekeeping():
            request = RunRequest(options, Location(options.root), record_line)
            outcome = execute(LoadedRun(request, job, root, Journal(root, options.job_id)))
        run.status, run.cause = outcome.status, outcome.cause
        return run

    def stop_in_batch(
        self, job: Job, vertex: str, number: int = 2, when: Callable[[], bool] = lambda: True, **given: Any
    ) -> Run:
        """Stop the job with a savepoint while batch ``number`` of the vertex is paused.

        The savepoint is requested, taken and released during the pause. It covers the earlier batches, and no later
        batch is published. So the result does not depend on timing, and a source with more files than that is not at
        its end.

        ``when``: condition for requesting the stop; it is checked while the batch is paused.
        """
        batches: list[str] = []

        def hook(verb: str, path: str) -> None:
            if verb == "replace" and f"/{vertex}/0/prepared/" in path:
                batches.append(path)
                if len(batches) == number:
                    self._stop(when)
                elif len(batches) > number:
                    raise StorageTransientError(verb=verb, uri=path, reason="the job is stopped")

        return self.run(job, storage=HookedStorage(self.storage, hook), **given)

    def _stop(self, when: Callable[[], bool]) -> None:
        wait_until(lambda: self.state().status == "RUNNING" and when(), "a job that may be stopped")
        self.request("stop")
        wait_until(lambda: self.state().status != "RUNNING", "the stop")

    def request(self, kind: str) -> None:
        write_request(self.storage, self.job_id, REQUESTS[kind](epoch=self.state().epoch))

    def ask(self, kind: str, when: Callable[[], bool]) -> Callable[[Line], None]:
        """Write the request ``kind`` once, at the first line at which ``when`` is true."""
        asked: list[str] = []

        def ask_once(line: Line) -> None:
            if not asked and line["kind"] in ("running", "checkpoint", "released", "source_dropped") and when():
                asked.append(kind)
                self.request(kind)

        return ask_once

    def drain_at(self, rows: int, *outputs: str) -> Callable[[Line], None]:
        """Drain when each of the outputs has ``rows`` released rows."""
        return self.ask("drain", lambda: all(self.released_count(output) >= rows for output in outputs or ("out",)))

    # ---- evidence

    def state(self) -> JobState:
        return Journal(self.storage, self.job_id).replay()

    def late_rows(self) -> int:
        """Return how many rows the job has reported as late."""
        return sum(self.state().late_rows().values())

    def records(self, vertex: str, subtask: int = 0) -> list[Numbered]:
        log = SubtaskLog(self.storage, subtask_log_path(self.job_id, vertex, subtask))
        log.load()
        return log.records()

    def newest_batch(self, vertex: str, subtask: int = 0) -> int:
        """Return the newest batch in the log, or -1.

        Counting :meth:`records` does not work while a job runs, because its log is truncated.
        """
        last = SubtaskLog(self.storage, subtask_log_path(self.job_id, vertex, subtask)).load().last_batch
        return -1 if last is None else last.batch_id

    def read_up_to(self, vertex: str, source: str) -> int:
        """Return the file source's own batch number in the last completed checkpoint, or -1 if nothing was read."""
        from airflow_provider_ckpt.sparkfiles.seen_files import log_offset

        state = self.state()
        last = state.checkpoints.get(state.last_completed)
        if last is None:
            return -1
        return log_offset(last.subtasks[SubtaskId(f"{vertex}/0")].offsets.get(source))

    def released_count(self, output: str = "out") -> int:
        return sum(manifest.rows for manifest in read_manifests(self.path(output)))

    def released(self, output: str = "out", up_to: int | None = None) -> Rows:
        rows: Rows = []
        for manifest in read_manifests(self.path(output)):
            if up_to is None or manifest.checkpoint <= up_to:
                for file in manifest.files:
                    rows += read_rows(Path(self.path(output)) / unquote(file.path))
        return rows

    def released_ids(self, output: str = "out", up_to: int | None = None) -> list[int]:
        return sorted(row["id"] for row in self.released(output, up_to))

    def checkpoints_released(self, output: str = "out") -> list[int]:
        return [manifest.checkpoint for manifest in read_manifests(self.path(output))]

    def everything_under_root(self) -> list[str]:
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*")) if self.root.exists() else []


def write_rows(
    path: Path, rows: Sequence[Mapping[str, Any]], modified: float | None = None, schema: pa.Schema | None = None
) -> None:
    """Write the rows to a file that appears under its name at once, as a streaming reader needs it.

    Spark reads files in the order of their modification times. Files of the same millisecond have no order.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    parquet.write_table(table, hidden, coerce_timestamps="us", allow_truncated_timestamps=True)
    if modified is not None:
        os.utime(hidden, (modified, modified))
    hidden.rename(path)


def read_rows(path: Path) -> Rows:
    rows: Rows = parquet.ParquetFile(path).read().to_pylist()
    return rows


def ids(rows: Iterable[Mapping[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows)


def put_history_and_live(world: World) -> list[int]:
    return sorted(world.put_ids("history", 2, 2) | world.put_ids("live", 2, 2, 1000))


def check_finished(world: World, expected: list[int]) -> None:
    assert world.released_ids("out") == expected
    if (world.base / "raw").exists():
        assert world.released_ids("raw") == [number for number in expected if number < 1000]
    state = world.state()
    assert (state.status, state.last_released) == ("FINISHED", state.last_completed)


def stop_on_another_host(world: World, job: Job, stop: Callable[[Line], None]) -> None:
    with mock.patch.object(socket, "gethostname", return_value="worker-7"):  # this live process must not be found
        assert world.run(job, stop).status == "STOPPED"
