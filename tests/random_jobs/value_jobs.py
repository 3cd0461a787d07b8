"""One random job in several shapes: cuts, ends of sources and restarts change no value, and lose or repeat no row."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.errors import InvalidInputError
from tests.random_jobs.in_process import PATIENCE, Story
from tests.random_jobs.invariants import finished_sources
from tests.random_jobs.value_cases import Row, Shape, ValueCase, file_name
from tests.random_jobs.value_types import Kind
from tests.spark.faults import Fault, FaultyStorage
from tests.spark.harness import Line, World

ZONE = "spark.sql.session.timeZone"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
DERIVED = (("us", Kind("BIGINT")), ("hour", Kind("STRING")), ("parsed", Kind("BIGINT")), ("file", Kind("STRING")))
"""Columns of the last transform. They depend on microseconds, on the session's zone, on both, and on the file."""
STEPS = ("running", "checkpoint", "released", "source_ended", "source_dropped")
Values = tuple[Any, ...]


class ShapedJob:
    """One shape of a job. Raises AssertionError unless every sink holds the values of the input's rows."""

    def __init__(self, spark: SparkSession, case: ValueCase, shape: Shape, base: Path) -> None:
        self.spark, self.case, self.shape, self.world = spark, case, shape, World(base)
        self.story = Story()
        self._fed = 0
        self._asked = False
        self._lines = 0

    def run(self) -> Story:
        for uid in ("history", "live"):
            self.world.path(uid)
        for number in range(self.case.files[0]):
            self._put("history", number)
        while self.shape.order == "late" and self._fed < self.case.files[1]:
            self._feed()
        stop, zone = self.shape.stop, self.case.zone
        if stop is not None:
            status = self._attempt(zone, stop)
            assert status in ("STOPPED", "FINISHED", "REFUSED"), status
            zone = self.case.later_zone
        if self.story.refused is None and self._attempt(zone, None) == "FINISHED":
            self._check()
        return self.story

    def _put(self, source: str, number: int) -> None:
        columns = self.case.live if source == "live" else self.case.history
        rows = self.case.rows(source)[number]
        stored = [{name: kind.stored(row[name.lower()]) for name, kind in columns} for row in rows]
        schema = pa.schema([pa.field(name, kind.arrow) for name, kind in columns])
        self.world.put(source, file_name(number).removesuffix(".parquet"), stored, schema)

    def _feed(self) -> None:
        self._put("live", self._fed)
        self._fed += 1

    # ---- one run

    def _attempt(self, zone: str, stop: int | None) -> str:
        fault = Fault()
        hung = threading.Timer(PATIENCE, self._give_up, (fault,))
        hung.start()
        self._asked, self._lines = False, 0
        try:
            with self._session(zone):
                run = self.world.run(self._job(), self._hear(stop), FaultyStorage(self.world.storage, fault))
        except InvalidInputError as error:
            return self._refused(error)
        finally:
            hung.cancel()
        assert not fault.happened, f"a run hung ({self.shape})"
        self.story.note(f"{self.shape}: {run.status} {run.cause or ''}")
        assert run.status in ("FINISHED", "STOPPED"), f"{self.shape} ended {run.status}: {run.cause}"
        return run.status

    def _refused(self, error: InvalidInputError) -> str:
        assert not self.world.root.exists(), f"refused in mid-life: {error}"
        self.story.refused = type(error).__name__
        self.story.note(f"refused: {type(error).__name__}: {error}")
        return "REFUSED"

    @contextmanager
    def _session(self, zone: str) -> Iterator[None]:
        settings = {ZONE: zone, **dict(self.case.conf)}
        before = {key: str(self.spark.conf.get(key)) for key in settings}
        try:
            for key, value in settings.items():
                self.spark.conf.set(key, value)
            yield
        finally:
            for key, value in before.items():
                self.spark.conf.set(key, value)

    def _hear(self, stop: int | None) -> Callable[[Line], None]:
        def hear(line: Line) -> None:
            if line["kind"] not in STEPS or self._asked:
                return
            self._lines += 1
            if stop is not None and self._lines >= stop:
                self._ask("stop")
            elif self._fed < self.case.files[1]:
                if self.shape.order != "early" or "history" in finished_sources(self.world.state()):
                    self._feed()
            elif self._lines > 2 and self._all_released():
                self._ask("drain")

        return hear

    def _ask(self, kind: str) -> None:
        self._asked = True
        self.world.request(kind)

    def _all_released(self) -> bool:
        rows = sum(self.case.files) * self.case.each
        return all(self.world.released_count(uid) >= rows for uid in self._sinks())

    @staticmethod
    def _give_up(fault: Fault) -> None:
        fault.at, fault.once = 0, False

    # ---- the job

    def _job(self) -> Job:
        job = Job("values")
        self._source(job, "history", self.case.history, bounded=True, chain=not self.shape.apart)
        self._source(job, "live", self.case.live, bounded=False, chain=True)
        inputs = ["live", "history"] if self.case.live_first else ["history", "live"]
        if self.shape.cut or self.shape.consumer:

            @job.transform(uid="united", inputs=inputs)
            def united(rows: DataFrame) -> DataFrame:
                return rows

            inputs = ["united"]

        @job.transform(uid="derived", inputs=inputs)
        def derived(rows: DataFrame) -> DataFrame:
            return with_derived(rows, names_files=self.case.names_files)

        @job.transform(uid="copied", inputs=inputs if self.shape.consumer else ["derived"])
        def copied(rows: DataFrame) -> DataFrame:
            return rows.where("id >= 0")

        job.sink("out", "derived" if self.shape.consumer else "copied", FileSink(self.world.path("out")))
        if self.shape.cut:
            job.sink("raw", "united", FileSink(self.world.path("raw")))
        if self.shape.consumer:
            job.sink("copy", "copied", FileSink(self.world.path("copy")))
        return job

    def _source(self, job: Job, uid: str, columns: tuple[tuple[str, Kind], ...], *, bounded: bool, chain: bool) -> None:
        ddl = ", ".join(f"{name} {kind.ddl}" for name, kind in columns)

        def read(reader: Any) -> DataFrame:
            return reader.schema(ddl).parquet(self.world.path(uid))  # type: ignore[no-any-return]

        job.source(uid=uid, bounded=bounded, chain=chain, max_files_per_trigger=1)(read)

    def _sinks(self) -> list[str]:
        return ["out", *(["raw"] if self.shape.cut else []), *(["copy"] if self.shape.consumer else [])]

    # ---- the end

    def _check(self) -> None:
        for uid in self._sinks():
            columns = [(name.lower(), kind) for name, kind in self.case.history]
            wanted = Counter(map(self._wanted(columns, derived=uid == "out"), self._rows()))
            if uid == "out":
                columns += DERIVED
            got = Counter(_plain(columns, row) for row in self.world.released(uid))
            if self.case.conf:  # the setting counts for files of sinks, and must not count for result partitions
                wanted, got = (Counter(map(_in_millis, rows.elements())) for rows in (wanted, got))
            lost, extra = wanted - got, got - wanted
            where = f"{self.shape}, sink {uid}"
            assert not lost | extra, f"{where}: {_differences(columns, list(lost), list(extra))}"

    def _rows(self) -> list[Row]:
        return [row for uid in ("history", "live") for rows in self.case.rows(uid) for row in rows]

    def _wanted(self, columns: list[tuple[str, Kind]], *, derived: bool) -> Callable[[Row], Values]:
        zone = ZoneInfo(self.case.zone)

        def values(row: Row) -> Values:
            plain = tuple(kind.plain(row[name]) for name, kind in columns)
            if not derived:
                return plain
            at = row["at"]
            local = at.astimezone(zone).strftime("%m-%d %H")
            parsed = datetime.strptime(row["text"], "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=zone)
            file = row["file"] if self.case.names_files else None
            return (*plain, _micros(at), local, _micros(parsed), file)

        return values


def with_derived(rows: DataFrame, *, names_files: bool = False) -> DataFrame:
    file = F.input_file_name() if names_files else F.lit(None).cast("string")
    return rows.select(
        "*",
        F.unix_micros("at").alias("us"),
        F.date_format("at", "MM-dd HH").alias("hour"),
        F.unix_micros(F.to_timestamp("text")).alias("parsed"),
        F.regexp_extract(file, "[^/]+/[^/]+$", 0).alias("file"),
    )


def _micros(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)


def _in_millis(value: Any) -> Any:
    """Cut instants to milliseconds, also inside other values."""
    if isinstance(value, (tuple, frozenset)):
        return type(value)(map(_in_millis, value))
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.replace(microsecond=value.microsecond // 1000 * 1000)
    return value


def _plain(columns: list[tuple[str, Kind]], row: Row) -> Values:
    fields = {name.lower(): value for name, value in row.items()}
    assert len(fields) == len(row) == len(columns), f"other columns: {sorted(row)}"
    return tuple(kind.plain(fields[name]) for name, kind in columns)


def _differences(columns: list[tuple[str, Kind]], lost: list[Values], extra: list[Values]) -> str:
    """Return the first values that differ, by column; or the ids of lost and repeated rows."""
    here = {row[0]: row for row in extra}
    problems = []
    for row in sorted(lost, key=lambda pair: pair[0])[:3]:
        other = here.get(row[0])
        if other is None:
            problems.append(f"row {row[0]} is lost")
            continue
        for (name, kind), before, after in zip(columns, row, other, strict=True):
            if before != after:
                problems.append(f"row {row[0]}, {name} {kind.ddl}: {after!r} instead of {before!r}")
    return "; ".join(problems) or f"rows {sorted(here)[:5]} are there too often"
