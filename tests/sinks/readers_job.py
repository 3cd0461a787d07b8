"""A job with a folder of each format. Its releases wait while the file ``hold`` is there."""

from __future__ import annotations

import os
from pathlib import Path

from airflow_provider_ckpt import FileSink, Job

BASE = Path(os.environ["READERS_BASE"])
FOLDERS = {"parquet": "parquet", "csv": "csv", "json": "json", "orc": "orc", "parted": "parquet"}
job = Job("readers")


@job.source
def live(read):  # type: ignore[no-untyped-def]
    return read.schema("id LONG, day STRING").json(str(BASE / "in"))


def may_release(_) -> bool:  # type: ignore[no-untyped-def]
    return not (BASE / "hold").exists()


for name, form in FOLDERS.items():
    options = {"header": True} if form == "csv" else {}
    partitions = ["day"] if name == "parted" else []
    sink = FileSink(str(BASE / name), format=form, options=options, partition_by=partitions)  # type: ignore[arg-type]
    job.sink(name, live, sink, gate=may_release)
