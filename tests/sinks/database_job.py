"""Job in its own process, with a table and a folder as sinks."""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from airflow_provider_ckpt.sinks.file.manifests import read_manifests
from tests.support.processes import Process

TEXT = """
from airflow_provider_ckpt import FileSink, Job, PostgresSink, SqlSink
from pyspark.sql import functions as F

job = Job("orders")


@job.source(bounded={bounded})
def orders(read):
    schema = "id int, at timestamp, tags array<string>, raw binary, nested struct<n: int>"
    return read.schema(schema).parquet({source!r})


@job.transform(orders)
def known(rows):
    return rows.withColumn("city", F.concat(F.lit("city "), "id"))


job.sink("files", known, FileSink({folder!r}))
job.sink("table", known, {sink})
"""
ODD = ["a,\"'", None]
SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("raw", pa.binary()),
        ("nested", pa.struct([("n", pa.int32())])),
    ]
)


class DatabaseJob(ABC):
    """Job "orders" in ``folder``, which holds its input, root, output and event logs.

    ``password``: the password of the database.
    """

    def __init__(self, folder: Path, password: str) -> None:
        self.folder, self.password, self.runs = folder, password, 0
        self.events = folder / "events"
        for name in ("source", "events", "root", "out"):
            (folder / name).mkdir()

    @property
    @abstractmethod
    def uri(self) -> str:
        """Return the connection URI as Airflow writes it."""

    @abstractmethod
    def sink(self, **given: object) -> str:
        """Return the Python text of the table's sink with these options."""

    @abstractmethod
    def ids(self) -> list[int]:
        """Return the ids of the table's rows, in order."""

    def put(self, number: int) -> None:
        """Write an input file with the rows 10 n to 10 n + 9."""
        rows = [
            {
                "id": row_id,
                "at": 1_700_000_000_000_000 + row_id,
                "tags": ODD,
                "raw": b"\x00\\",
                "nested": {"n": row_id},
            }
            for row_id in range(10 * number, 10 * number + 10)
        ]
        path = self.folder / "source" / f"{number}.parquet"
        parquet.write_table(pa.Table.from_pylist(rows, SCHEMA), path.with_suffix(".tmp"))
        path.with_suffix(".tmp").rename(path)

    def write(self, *, bounded: bool = True, **given: object) -> None:
        """Write the job's file. ``given``: options of the table's sink."""
        source, folder = str(self.folder / "source"), str(self.folder / "out")
        text = TEXT.format(bounded=bounded, source=source, folder=folder, sink=self.sink(**given))
        (self.folder / "job.py").write_text(text)

    def start(self, **more: object) -> Process:
        """Start a driver. ``more``: further run options."""
        self.runs += 1
        conf = {
            "spark.master": "local[2]",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self.events.as_uri(),
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "Europe/Berlin",
        }
        options = {
            "job": f"{self.folder / 'job.py'}:job",
            "root": str(self.folder / "root"),
            "job_id": "orders",
            "checkpoint_interval": 1,
            "conf": conf,
            **more,
        }
        command = [sys.executable, "-m", "airflow_provider_ckpt.spark.main", "--options", json.dumps(options)]
        connection = {"AIRFLOW_CONN_SHOP_DB": self.uri}
        return Process(command, self.folder / f"run-{self.runs}.log", env=connection, cwd=self.folder)

    def file_rows(self) -> int:
        """Return the number of rows released to the folder."""
        return sum(manifest.rows for manifest in read_manifests(str(self.folder / "out")))

    def files_with_password(self) -> list[str]:
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        return [str(path) for path in files if self.password.encode() in path.read_bytes()]
