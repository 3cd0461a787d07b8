"""A job with history and a live feed, and two sinks.

``CKPT_CHAOS_CHAIN=0`` gives history its own query. ``CKPT_CHAOS_LIVE=history`` has both read one folder.
"""

from __future__ import annotations

import os
import time

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import LongType

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.sinks.file.manifest_log import Manifest, ManifestLog

BASE = os.environ["CKPT_CHAOS_BASE"]
ROW_SECONDS = float(os.environ.get("CKPT_CHAOS_ROW_SECONDS", "0.001"))
RELEASE_SECONDS = float(os.environ.get("CKPT_CHAOS_RELEASE_SECONDS", "0"))
CHAIN = os.environ.get("CKPT_CHAOS_CHAIN", "1") == "1"
LIVE = os.environ.get("CKPT_CHAOS_LIVE", "live")

job = Job("mixed")


def releases_slowly() -> None:
    """Delay the manifest after the files are moved, so that a test can kill the driver in between."""
    append = ManifestLog.append

    def slowly_appended(log: ManifestLog, manifest: Manifest) -> bool:
        time.sleep(RELEASE_SECONDS)
        return append(log, manifest)

    ManifestLog.append = slowly_appended  # type: ignore[assignment,method-assign]


if RELEASE_SECONDS:
    releases_slowly()


@F.udf(LongType())
def slowly(number: int) -> int:
    """Double the number slowly, so that kills fall into running batches."""
    time.sleep(ROW_SECONDS)
    return number * 2


@job.source(bounded=True, max_files_per_trigger=1, chain=CHAIN)
def history(read: DataStreamReader) -> DataFrame:
    return read.schema("id long, k long").parquet(f"{BASE}/history")


@job.source(max_files_per_trigger=10, after=history if LIVE == "history" else None)
def live(read: DataStreamReader) -> DataFrame:
    return read.schema("id long, k long").parquet(f"{BASE}/{LIVE}")


@job.transform(inputs=[history, live])
def doubled(rows: DataFrame) -> DataFrame:
    return rows.withColumn("twice", slowly("id"))


job.sink("out", doubled, FileSink(f"{BASE}/out"))
job.sink("copy", doubled, FileSink(f"{BASE}/copy", format="json"))
