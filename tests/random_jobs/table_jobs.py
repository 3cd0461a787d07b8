"""Random jobs with a table that others change, and with triggers, under faults of their storages."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.errors import InvalidInputError, TransientError
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.random_jobs.in_process import PATIENCE, Story
from tests.random_jobs.table_cases import TableCase, TableRun
from tests.random_jobs.table_targets import OLD, OTHERS, Pair, Target
from tests.spark.faults import Fault, FaultyStorage
from tests.spark.harness import Line, World

STORED = "id long, v long"
SHOWN = {
    "swallows": r"trigger",
    "keeps": r"trigger",
    "refuses": r"not today",
    "rule": r"\brule\b",
    "rename column": r"\bv\b",
    "drop column": r"\bv\b",
}
"""Trigger or change that stops a job -> pattern in the error."""
TRIES = 6
"""Most runs of a job, with those that are stopped by a trigger or a change."""


class Watched(WrappedStorage):
    """A storage that calls ``on_event``: "staged" after each prepared batch, "completed" after each checkpoint."""

    def __init__(self, inner: Storage, on_event: Callable[[str], None]) -> None:
        super().__init__(inner)
        self._on_event = on_event

    def replace(self, path: str, data: bytes) -> None:
        super().replace(path, data)
        if "/prepared/" in self.full_uri(path):
            self._on_event("staged")

    def create(self, path: str, data: bytes) -> None:
        super().create(path, data)
        if b'"CheckpointCompleted"' in data:
            self._on_event("completed")

    def _wrap(self, inner: Storage) -> Watched:
        return Watched(inner, self._on_event)


class TableJob:
    """A job with a table.

    Raises AssertionError unless each row is in the table once, or the job names the cause that stopped it.
    """

    def __init__(self, case: TableCase, target: Target, base: Path) -> None:
        self.case, self.target, self.world = case, target, World(base)
        self.story = Story()
        self.outcomes: list[str] = []
        self._events: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._there: list[Pair] | None = None
        """The rows that were in the table just before others changed it."""
        self._fed = 0

    def run(self) -> Story:
        self.target.make()
        for name in ("history", "live"):
            self.world.path(name)
        for number in range(self.case.files[0]):
            self._put(0, number)
        runs, stopped = [*self.case.runs], False
        for _ in range(TRIES):
            status, cause = self._attempt(runs[0], stopped)
            if status == "FINISHED":
                break
            stopped = status in ("FAILED", "REFUSED")
            if stopped:
                self._mend(str(cause))
            elif len(runs) > 1:
                runs.pop(0)
        assert status == "FINISHED", f"ended {status}: {cause}"
        self._check()
        return self.story

    def _put(self, source: int, number: int) -> None:
        rows = [{"id": row[0], "v": row[1]} for row in self.case.rows(source)[number]]
        self.world.put("live" if source else "history", f"{number:04d}", rows)

    # ---- one run

    def _attempt(self, run: TableRun, resumes: bool) -> tuple[str, str | None]:
        fault = Fault(run.fault, run.when, run.once)
        hung = threading.Timer(PATIENCE, self._give_up, (fault,))
        hung.start()
        storage = FaultyStorage(Watched(self.world.storage, self._on_event), fault)
        try:
            ended = self.world.run(
                self._job(), self._feed, storage, resume_failed=resumes and self.world.root.exists(), sink_timeout=20
            )
            status, cause = ended.status, ended.cause
        except InvalidInputError as error:
            status, cause = "REFUSED", str(error)
        except TransientError as error:
            _ended_by(fault, error)
            status, cause = "GONE", str(error)
        finally:
            hung.cancel()
        self.story.note(f"{run}: {status} {cause or ''} at verb {fault.verbs.count}")
        assert status != "RESTARTING" or fault.happened, f"ended RESTARTING without a fault: {cause}"
        return status, cause

    def _job(self) -> Job:
        job = Job("tables")
        for uid, bounded in (("history", True), ("live", False)):
            self._source(job, uid, bounded)

        @job.transform(inputs=["history", "live"])
        def rows(both: DataFrame) -> DataFrame:
            return both

        job.sink("table", rows, self.target.sink())
        job.sink("files", rows, FileSink(self.world.path("files")))
        return job

    def _source(self, job: Job, uid: str, bounded: bool) -> None:
        def read(reader: Any) -> DataFrame:
            return reader.schema(STORED).parquet(self.world.path(uid))  # type: ignore[no-any-return]

        job.source(uid=uid, bounded=bounded, max_files_per_trigger=1)(read)

    def _feed(self, line: Line) -> None:
        """Give the next live file at each status line. Request a drain when the second sink has released all rows."""
        if line["kind"] not in ("running", "checkpoint", "released"):
            return
        if self._fed < self.case.files[1]:
            self._put(1, self._fed)
            self._fed += 1
        elif self.world.released_count("files") >= sum(len(rows) for rows in self._all_files()):
            self.world.request("drain")

    def _all_files(self) -> list[list[tuple[int, int]]]:
        return [*self.case.rows(0), *self.case.rows(1)]

    @staticmethod
    def _give_up(fault: Fault) -> None:
        fault.at, fault.once = 0, False

    # ---- changes of others

    def _on_event(self, name: str) -> None:
        with self._lock:
            self._events[name] += 1
            if self._there is None and name == self.case.moment and self._events[name] >= self.case.number:
                self._there = self.target.change()
                had = "released rows" if any(row[0] >= 0 for row in self._there) else "none released"
                self.outcomes.append(f"{self.case.change}, {had}")
                self.story.note(f"{self.case.change}, after {name} {self._events[name]}, of {self._there}")

    def _mend(self, cause: str) -> None:
        """Remove the trigger or the change that the error names. It must name one."""
        stops: list[str] = [self.case.trigger] if self.case.trigger in SHOWN else []
        stops += [self.case.change] if self.case.change in SHOWN and self._there is not None else []
        named = [stop for stop in stops if re.search(SHOWN[stop], cause)]
        assert named, f"stopped without naming one of {stops}: {cause}"
        self.outcomes += [f"{trigger} reported" for trigger in named]
        if self.case.trigger in named:
            self.target.drop_trigger()
        if self.case.change in named:
            self.target.restore_column()

    # ---- the end

    def _check(self) -> None:
        self.target.restore_column()
        got, wanted = Counter(self.target.rows()), Counter(self.expected())
        lost, extra = wanted - got, got - wanted
        assert not lost | extra, f"lost {sorted(lost, key=str)[:5]}, too many {sorted(extra, key=str)[:5]}"
        must_stop = self.case.trigger in SHOWN
        assert not must_stop or f"{self.case.trigger} reported" in self.outcomes, (
            f"trigger {self.case.trigger} was not reported"
        )
        files = Counter((row["id"], row["v"]) for row in self.world.released("files"))
        assert files == Counter(row for rows in self._all_files() for row in rows), "the folder holds other rows"
        if self.case.trigger == "audits":
            self._check_audit()

    def expected(self) -> list[Pair]:
        rows: dict[int, int | None] = {row[0]: row[1] for rows in self._all_files() for row in rows}
        if self.case.mode != "replace":
            rows[OLD[0]] = OLD[1]
        if self._there is not None:
            self._apply(rows, dict(self._there))
        return list(rows.items())

    def _apply(self, rows: dict[int, int | None], existing: Mapping[int, int | None]) -> None:
        """Apply the change of others. ``existing``: the rows just before it."""
        if self.case.change == "insert row" and not (self.case.mode == "replace" and OLD[0] in existing):
            rows[OTHERS[0]] = OTHERS[1]
        if self.case.change == "delete row" and self.target.victim in existing:
            del rows[self.target.victim]
        if self.case.change == "drop column":
            for key in rows.keys() & existing.keys():  # a row that was upserted later has its value again
                rows[key] = None if rows[key] == existing[key] else rows[key]

    def _check_audit(self) -> None:
        """Check that the trigger saw each released row once. Of an upsert, only a row's newest value must be there."""
        seen = Counter(self.target.audited())
        rows: Counter[Pair] = Counter(row for rows in self._all_files() for row in rows)
        assert not seen - rows, f"the audit holds rows more than once: {sorted(seen - rows)[:5]}"
        must = rows
        if self.case.mode == "upsert":
            must = Counter({row[0]: row for rows in self._all_files() for row in rows}.values())
        assert not must - seen, f"the audit lacks rows: {sorted(must - seen)[:5]}"


def _ended_by(fault: Fault, error: Exception) -> None:
    assert fault.happened, f"failed without a fault: {type(error).__name__}: {error}"
