"""Released rows, compared with the same functions run as one plain Spark batch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_ckpt import read_persisted
from airflow_provider_ckpt.sinks.file.manifests import Manifest, read_manifests
from tests.random_jobs.between import Between, Values, between
from tests.random_jobs.build import plain_frames
from tests.random_jobs.definition import Definition, SinkDef
from tests.random_jobs.lateness import path_to
from tests.spark.harness import World, read_rows


class Expected:
    """The expected rows by sink, computed once for a job. With late rows: bounds of the output."""

    def __init__(self, spark: SparkSession, definition: Definition, base: Path) -> None:
        self._spark = spark
        frames = plain_frames(spark, definition, base / "all")
        self._rows = {sink.uid: _collected(frames[sink.input]) for sink in definition.sinks}
        capped = plain_frames(spark, definition, base / "all", with_limits=True)
        self._counts = {sink.uid: capped[sink.input].count() for sink in definition.sinks if sink.lineage == "limited"}
        paths = {sink: path_to(definition, sink) for sink in definition.sinks}
        self._between: Mapping[str, Between] = {
            sink.uid: between(spark, definition, sink, path, base) for sink, path in paths.items() if path is not None
        }

        self._kept = {uid: _collected(frames[uid]) for uid in definition.kept}

    def check_kept(self, world: World) -> None:
        """Check that the kept results are complete. Raises AssertionError."""
        for uid, rows in self._kept.items():
            got = Counter(_collected(read_persisted(self._spark.read, world.root, world.job_id, uid)))
            assert got == Counter(rows), f"{uid} keeps {sum(got.values())} rows, {len(rows)} expected"

    def rows(self, sink: SinkDef) -> Counter[Values]:
        return Counter(self._rows[sink.uid])

    def check(self, sink: SinkDef, released: list[Values], *, late_rows: int) -> None:
        """Check the released rows.

        ``late_rows``: how many the job has reported. Without any, every row counts. Raises AssertionError that names
        lost and surplus rows.
        """
        if late_rows and sink.uid in self._between:
            self._between[sink.uid].check(sink, released)
            return
        wanted, got = Counter(self._rows[sink.uid]), Counter(released)
        if sink.lineage == "last":
            _check_last(sink, self._rows[sink.uid], released)
            return
        extra = got - wanted
        assert not extra, f"{sink.uid}: {sum(extra.values())} rows too many, such as {_some(extra)}"
        if sink.lineage == "limited":
            count = self._counts[sink.uid]
            assert len(released) == count, f"{sink.uid}: {len(released)} rows instead of {count} behind a limit"
            return
        lost = wanted - got
        assert not lost, f"{sink.uid}: {sum(lost.values())} of {sum(wanted.values())} rows lost, such as {_some(lost)}"


def _collected(frame: DataFrame) -> list[Values]:
    return [tuple(row) for row in frame.select("id", "k", "v", F.unix_millis("ts")).collect()]


def _check_last(sink: SinkDef, wanted: list[Values], released: list[Values]) -> None:
    truth, got = {row[0]: row for row in wanted}, {row[0]: row for row in released}
    wrong = [key for key in truth.keys() | got.keys() if truth.get(key) != got.get(key)]
    differences = [f"released {got.get(key)}, expected {truth.get(key)}" for key in sorted(wrong)[:5]]
    assert not wrong, f"{sink.uid}: {len(wrong)} of {len(truth)} keys are wrong, such as {differences}"


def _some(rows: Iterable[Values]) -> list[Values]:
    return sorted(rows)[:5]


# ---- released rows


def manifests(base: Path, sink: SinkDef, job_id: str = "job") -> list[Manifest]:
    return read_manifests(str(base / sink.place), job_id, sink.uid)


def released(base: Path, sink: SinkDef, job_id: str = "job") -> list[Values]:
    """Return the released rows in the order of checkpoints, batches and files."""
    return [row for rows in released_by_checkpoint(base, sink, job_id).values() for row in rows]


def released_by_checkpoint(base: Path, sink: SinkDef, job_id: str = "job") -> dict[int, list[Values]]:
    """Return checkpoint -> released rows, ascending; each in the order of batches and files."""
    return {
        manifest.checkpoint: [_values(row) for file in manifest.files for row in _read(base / sink.place, file.path)]
        for manifest in manifests(base, sink, job_id)
    }


def _read(folder: Path, name: str) -> list[dict[str, Any]]:
    path = folder / name
    rows = (
        read_rows(path) if path.suffix == ".parquet" else [json.loads(line) for line in path.read_text().splitlines()]
    )
    for part in name.split("/")[:-1]:
        column, _, value = part.partition("=")
        rows = [{**row, column: int(unquote(value))} for row in rows]
    return rows


def _values(row: Mapping[str, Any]) -> Values:
    return (int(row["id"]), int(row["k"]), int(row["v"]), _millis(row["ts"]))


def _millis(value: datetime | str) -> int:
    """Return the milliseconds of a time from Parquet (UTC without a zone) or JSON (text in milliseconds)."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value.replace("Z", "+00:00"))
    if value.tzinfo is None:
        value = value.replace(tzinfo=timezone.utc)
    return round(value.replace(microsecond=0).timestamp()) * 1000 + value.microsecond // 1000
